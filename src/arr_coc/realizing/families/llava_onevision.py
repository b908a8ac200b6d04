"""LLaVA-OneVision: as LLaVA-NeXT, but a prompt with several pictures shows each as one view, and a very large grid is
shrunk by the stock packing to at most nine tiles' worth of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch

from ..base import Inputs
from .llava_next import LlavaNext

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class LlavaOnevision(LlavaNext):
    model_types: ClassVar[tuple[str, ...]] = ("llava_onevision",)
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "image_sizes", "batch_num_images")
    turn_start: ClassVar[str] = "<|im_start|>user"
    turn_ends: ClassVar[tuple[str, ...]] = ("<|im_end|>",)

    def tile_counts(self, model: PreTrainedModel, inputs: Inputs) -> list[int]:
        counts = super().tile_counts(model, inputs)
        per_prompt = inputs.get("batch_num_images")
        if per_prompt is None:
            return counts
        per_prompt = torch.as_tensor(per_prompt)
        alone = (per_prompt == 1).repeat_interleave(per_prompt).tolist()
        return [count if single else 1 for count, single in zip(counts, alone, strict=True)]

    def packing(self, model: PreTrainedModel, inputs: Inputs) -> dict[str, object]:
        return {"vision_aspect_ratio": inputs.get("vision_aspect_ratio") or model.config.vision_aspect_ratio}
