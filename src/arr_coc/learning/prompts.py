"""Questions and answers as token tensors, batched, with one placeholder for every visual token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .mini_model import ASSISTANT, IMAGE, NEWLINE, TURN_END, TURN_START, USER, VISION_END, VISION_START


class Prompt(NamedTuple):
    """input_ids (B, L), padded with 0 on the right; answers (B, L) bool: the tokens that the model must say."""

    input_ids: Tensor
    answers: Tensor


def build_prompt(question_ids: Tensor, answer_ids: Tensor, visual_tokens: int) -> Prompt:
    """(B, Q) and (B, A) characters, 0 = padding → the whole chat in the layout of the chat template.

    Padding stands on the right, behind everything real, so causal attention needs no mask for it.
    """
    batch, device = len(question_ids), question_ids.device

    def constant(*tokens: int) -> Tensor:
        return torch.tensor(tokens, device=device).expand(batch, -1)

    head = torch.cat(
        [constant(TURN_START, USER, VISION_START), constant(IMAGE).expand(batch, visual_tokens), constant(VISION_END)],
        1,
    )
    end_of_answer = constant(TURN_END)
    middle = constant(TURN_END, NEWLINE, TURN_START, ASSISTANT)
    tail = torch.cat([question_ids, middle, answer_ids, end_of_answer], dim=1)
    said = torch.zeros_like(tail, dtype=torch.bool)
    said[:, question_ids.shape[1] + middle.shape[1] :] = True
    there = tail > 0
    order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(1).max())]
    tail, said = tail.gather(1, order), (said & there).gather(1, order)
    return Prompt(torch.cat([head, tail], dim=1), torch.cat([torch.zeros_like(head, dtype=torch.bool), said], dim=1))
