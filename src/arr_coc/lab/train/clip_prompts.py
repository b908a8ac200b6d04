"""Clips as token tensors: the stock video prompt, batched, with a different number of tokens in every frame.

For each frame its time in words (`<0.5 seconds>`, as the stock processor writes it), then its tokens between vision
tokens; the template's own vision tokens stand around it all. A clip read as one picture has the picture's prompt.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ...alphabet import IDS
from .mini_model import IMAGE, VIDEO, VISION_END, VISION_START
from .prompts import HEAD, Prompt, chat_tail

# The rate at which a clip of Needle World is taken to be filmed.
FRAMES_PER_SECOND = 4.0


def clip_seconds(frames: int, per_second: float = FRAMES_PER_SECOND) -> list[float]:
    return [number / per_second for number in range(frames)]


def time_words(seconds: float) -> list[int]:
    """Token identifiers of a time, as the stock processor writes it."""
    return [IDS[character] for character in f"<{seconds:.1f} seconds>"]


def build_clip_prompt(
    question_ids: Tensor, answer_ids: Tensor, counts: Tensor, seconds: Sequence[float] | None = None
) -> Prompt:
    """(N, Q) and (N, A) characters, counts (N, T) visual tokens of each frame → the whole chat of each clip.

    seconds: T times, for the video prompt; None for clips of one frame that are shown as pictures.
    """
    number, device, longest = len(counts), counts.device, int(counts.max())
    token = IMAGE if seconds is None else VIDEO
    # Every frame gets room for the longest run; what it does not use is 0 and falls out when the row is packed.
    runs = torch.where(torch.arange(longest, device=device) < counts[..., None], token, 0)

    def constant(*tokens: int) -> Tensor:
        return torch.tensor(tokens, device=device, dtype=torch.int64).expand(number, -1)

    if seconds is None:
        parts = [constant(*HEAD), runs[:, 0], constant(VISION_END)]
    else:
        parts = [constant(*HEAD)]
        for frame, time in enumerate(seconds):
            parts += [constant(*time_words(time), VISION_START), runs[:, frame], constant(VISION_END)]
        parts.append(constant(VISION_END))
    head = torch.cat(parts, dim=1)
    tail, said = chat_tail(question_ids, answer_ids)
    ids = torch.cat([head, tail.long()], dim=1)
    answers = torch.cat([torch.zeros_like(head, dtype=torch.bool), said], dim=1)
    there = ids > 0
    order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(1).max())]
    return Prompt(ids.gather(1, order), answers.gather(1, order))
