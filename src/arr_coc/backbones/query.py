"""Find the question in a tokenised chat: the text of the last user turn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from .base import Backbone

if TYPE_CHECKING:
    from transformers import ProcessorMixin


def find_sequence(ids: Tensor, wanted: Sequence[int]) -> Tensor:
    """Where a run of tokens begins. ids: (B, L). Returns (B, L) bool."""
    found = torch.zeros_like(ids, dtype=torch.bool)
    if 0 < len(wanted) <= ids.shape[1]:
        windows = ids.unfold(1, len(wanted), 1)
        found[:, : windows.shape[1]] = (windows == torch.tensor(wanted, device=ids.device)).all(-1)
    return found


def last_turn(ids: Tensor, valid: Tensor, start: Sequence[int], ends: Sequence[Sequence[int]]) -> Tensor:
    """The tokens after the last `start` and before the first of the `ends` that follows it.

    ids: (B, L). valid: (B, L) bool. Returns (B, L) bool; a row without `start` counts as one turn.
    """
    place = torch.arange(ids.shape[1], device=ids.device)
    starts = find_sequence(ids, start) & valid
    opened = torch.where(starts.any(1), (starts * (place + 1)).amax(1) - 1 + len(start), 0)
    closing = torch.zeros_like(valid)
    for end in ends:
        closing |= find_sequence(ids, end)
    closing &= valid & (place >= opened[:, None])
    closed = torch.where(closing, place, ids.shape[1]).amin(1)
    return valid & (place >= opened[:, None]) & (place < closed[:, None])


def question_mask(backbone: Backbone, processor: ProcessorMixin, inputs: Mapping[str, Any]) -> Tensor:
    """(B, L) bool: the tokens of the last user turn that are words, not pictures or markers."""
    tokenizer = processor.tokenizer
    ids, mask = inputs["input_ids"], inputs.get("attention_mask")
    valid = torch.ones_like(ids, dtype=torch.bool) if mask is None else mask.bool()

    def encode(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False)

    turn = last_turn(ids, valid, encode(backbone.turn_start), [encode(end) for end in backbone.turn_ends])
    special = torch.tensor(sorted(tokenizer.all_special_ids), device=ids.device)
    return turn & ~torch.isin(ids, special)


def find_questions(backbone: Backbone, processor: ProcessorMixin, inputs: Mapping[str, Any]) -> list[str]:
    """The question of every row, as text."""
    mask = question_mask(backbone, processor, inputs)
    lengths = mask.sum(1).tolist()
    words = inputs["input_ids"][mask].split(lengths)
    return [text.strip() for text in processor.tokenizer.batch_decode(words, skip_special_tokens=True)]
