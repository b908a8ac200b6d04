"""Questions and answers as token tensors, batched, with one placeholder for every visual token."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS, lower_case

from ..worlds.constants import constant
from ..worlds.needle.content import string_table
from .mini_model import ASSISTANT, IMAGE, NEWLINE, TURN_END, TURN_START, USER, VISION_END, VISION_START

# What stands before the picture's tokens.
HEAD = (TURN_START, USER, VISION_START)
# What stands between the question and the answer.
TURN = (TURN_END, NEWLINE, TURN_START, ASSISTANT)
TURN_LENGTH = len(TURN)


# How people ask: as it was written, in small letters or in capitals, and with a word on how to answer.
SMALL, CAPITALS, ADDED = 0.12, 0.08, 0.12
ADDITIONS = (" Answer in one word.", " Answer briefly.", " Reply with the text only.", " Please.")


def reworded(question_ids: Tensor, answer_ids: Tensor, room: int, chance: Tensor, which: Tensor) -> Tensor:
    """(B, Q) characters, 0 = padding → (B, Q + 26): some in other letters, some with an addition behind them where
    `room` tokens of question and answer allow it. chance: (B, 3) in [0, 1), for small letters, capitals and additions;
    which: (B,) the addition."""
    device = question_ids.device
    small = lower_case(question_ids)
    capital = small - (IDS["a"] - IDS["A"]) * ((small >= IDS["a"]) & (small <= IDS["z"]))
    asked = torch.where(chance[:, :1] < SMALL, small, question_ids)
    asked = torch.where(chance[:, 1:2] < CAPITALS, capital, asked)
    table = string_table(ADDITIONS, device)
    length = (question_ids > 0).sum(1, keepdim=True) + (answer_ids > 0).sum(1, keepdim=True)
    fits = length + TURN_LENGTH + 1 + table.shape[1] <= room
    return torch.cat([asked, table[which] * (fits & (chance[:, 2:] < ADDED))], 1)


class Prompt(NamedTuple):
    """input_ids (B, L), padded with 0 on the right; answers (B, L) bool: the tokens that the model must say."""

    input_ids: Tensor
    answers: Tensor


def chat_tail(question_ids: Tensor, answer_ids: Tensor, length: int | None = None) -> tuple[Tensor, Tensor]:
    """What follows the picture: (B, Q) and (B, A) characters, 0 = padding → tokens (B, T) and which the model must say.

    Padding stands on the right, behind everything real, so causal attention needs no mask for it. With a fixed `length`
    the tokens are uint8, and the device need not be asked how long the longest is.
    """
    batch, device = len(question_ids), question_ids.device
    middle, end = (constant(tokens, device).expand(batch, -1) for tokens in (TURN, (TURN_END,)))
    tail = torch.cat([question_ids, middle, answer_ids, end], dim=1)
    said = torch.zeros_like(tail, dtype=torch.bool)
    said[:, question_ids.shape[1] + middle.shape[1] :] = True
    there = tail > 0
    order = (~there).to(torch.uint8).argsort(dim=1, stable=True)
    longest = int(there.sum(1).max()) if length is None else length
    tail, said = tail.gather(1, order)[:, :longest], (said & there).gather(1, order)[:, :longest]
    return (tail, said) if length is None else (tail.to(torch.uint8), said)


def build_prompt(question_ids: Tensor, answer_ids: Tensor, visual_tokens: int) -> Prompt:
    """(B, Q) and (B, A) characters, 0 = padding → the whole chat in the layout of the chat template."""
    batch, device = len(question_ids), question_ids.device
    head = torch.tensor([*HEAD, *[IMAGE] * visual_tokens, VISION_END], device=device).expand(batch, -1)
    tail, said = chat_tail(question_ids, answer_ids)
    return Prompt(torch.cat([head, tail], dim=1), torch.cat([torch.zeros_like(head, dtype=torch.bool), said], dim=1))
