"""Qwen3-VL's video prompts, foveated frame by frame.

A video stands in the prompt as one run of placeholders for each group of frames (two, in the released models), each
between its own vision tokens and after its time in words. To the tower a group is a picture of its own; to the language
model it is one too, with text in between. So every group gets an `Allocation` like a picture, and only two things
differ from pictures: the frames of a group lie side by side in the channels of a patch, and the placeholders are video
tokens. `video_inputs` makes the stock prompt without torchvision, which the stock video processor needs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from .adapter import Qwen3VL

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Qwen3VLVideo(Qwen3VL):
    """Foveation of a prompt that shows videos: one allocation for each group of frames, in prompt order."""

    can_glance: ClassVar[bool] = False
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values_videos", "video_grid_thw")
    modality: ClassVar[str] = "video"
    # The frames of a group are channels here, so there is nothing left to repeat in time.
    temporal: ClassVar[int | None] = 1

    def image_token_id(self, model: PreTrainedModel) -> int:
        return int(model.config.video_token_id)


def video_backbone(model: PreTrainedModel) -> Qwen3VLVideo:
    """Return the adapter for prompts that show videos."""
    kind = getattr(getattr(model, "config", None), "model_type", None)
    if kind not in Qwen3VLVideo.model_types:
        raise InputError(
            f"videos in a prompt are foveated for Qwen3-VL only, not for {kind!r}; pass frames as pictures"
        )
    return Qwen3VLVideo()


def video_inputs(
    processor: Any,
    frames: np.ndarray | Tensor,
    seconds: Sequence[float],
    query: str,
    *,
    size: tuple[int, int] | None = None,
) -> dict[str, Tensor]:
    """Prepare one clip and one question like the stock processor, without torchvision.

    frames: (T, H, W, 3) uint8, already chosen. seconds: the time of each frame in the clip. size: (height, width) of
    the model's canvas; by default the frames' own, rounded to whole tokens. An odd last frame is repeated, as in the
    stock.
    """
    images = processor.image_processor
    patch, merge, temporal = images.patch_size, images.merge_size, images.temporal_patch_size
    groups = patch_groups(frames, images, size)
    rows, cols = groups.shape[-2] // patch, groups.shape[-1] // patch
    # In merge-block order: block row, row in it, y, block column, column in it, x.
    blocks = groups.unflatten(3, (-1, merge, patch)).unflatten(2, (-1, merge, patch)).permute(0, 2, 5, 3, 6, 1, 4, 7)
    content = [{"type": "video"}, {"type": "text", "text": query}]
    chat = [{"role": "user", "content": content}]
    text = processor.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    token = processor.video_token
    if text.count(token) != 1:
        raise InputError(
            "the chat template of this processor does not show a video once; it must write <|vision_start|>"
            f"{token}<|vision_end|> for a part of type 'video'"
        )
    start, end = (getattr(processor, f"vision_{edge}_token", None) or f"<|vision_{edge}|>" for edge in ("start", "end"))
    placeholders = f"{start}{token * (rows * cols // merge**2)}{end}"
    # What stands for the video token: each group's time in words, then its placeholders between vision tokens.
    shown = "".join(f"<{time:.1f} seconds>{placeholders}" for time in group_seconds(seconds, temporal))
    found = processor.tokenizer([text.replace(token, shown)], return_tensors="pt")
    ids = found["input_ids"]
    video = int(processor.tokenizer.convert_tokens_to_ids(token))
    return {
        "input_ids": ids,
        "attention_mask": found["attention_mask"],
        "mm_token_type_ids": (ids == video).int() * 2,
        "pixel_values_videos": blocks.reshape(len(groups) * rows * cols, -1),
        "video_grid_thw": torch.tensor([[len(groups), rows, cols]]),
    }


def patch_groups(frames: np.ndarray | Tensor, images: Any, size: tuple[int, int] | None = None) -> Tensor:
    """Resize and normalise (T, H, W, 3) uint8 → (groups, colours · frames of a group, height, width) float32."""
    clip = torch.as_tensor(frames)
    if clip.ndim != 4 or clip.shape[3] != 3 or clip.dtype != torch.uint8 or not clip.numel():
        raise InputError(f"frames must be (T, height, width, 3) uint8, got {clip.dtype} {tuple(clip.shape)}")
    cell = images.patch_size * images.merge_size
    height, width = size or tuple(max(cell, round(side / cell) * cell) for side in clip.shape[1:3])
    pixels = clip.permute(0, 3, 1, 2).float()
    if (height, width) != tuple(pixels.shape[2:]):
        pixels = torch.nn.functional.interpolate(pixels, (height, width), mode="bicubic", antialias=True)
        pixels = pixels.round().clamp(0, 255)
    mean, deviation = (torch.tensor(values).view(-1, 1, 1) for values in (images.image_mean, images.image_std))
    pixels = (pixels / 255 - mean) / deviation
    missing = -len(pixels) % images.temporal_patch_size
    pixels = torch.cat([pixels, pixels[-1:].expand(missing, -1, -1, -1)])
    # A patch holds its colours first and the frames of the group inside each.
    return pixels.unflatten(0, (-1, images.temporal_patch_size)).transpose(1, 2).flatten(1, 2)


def group_seconds(seconds: Sequence[float], temporal: int) -> list[float]:
    """Return the time of each group of frames, the middle of its first and last; a missing frame repeats the last."""
    times = [*map(float, seconds)]
    times += [times[-1]] * (-len(times) % temporal)
    return [(times[start] + times[start + temporal - 1]) / 2 for start in range(0, len(times), temporal)]
