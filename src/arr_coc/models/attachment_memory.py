"""What a key-value cache holds: the short prompt that stands for the user's long one.

A second turn on the same cache brings the long chat again. What the cache has seen is replaced by what it really holds,
the rest is appended, with positions that go on where the first turn ended. Nothing is kept in the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from .base import Realized


@dataclass(frozen=True)
class CachedPrompt:
    """long: (B, L) the prompt as the user gave it. ids, mask: (B, L') what the cache was filled with. positions:
    (..., B, L') or None where the model counts by itself. next_position: (B,) of the first token after the prompt."""

    long: Tensor
    ids: Tensor
    mask: Tensor
    positions: Tensor | None
    next_position: Tensor | None

    @classmethod
    def of(cls, long: Tensor, realized: Realized) -> CachedPrompt:
        short = realized.inputs
        return cls(long, short["input_ids"], short["attention_mask"], short.get("position_ids"), realized.next_position)

    @property
    def length(self) -> int:
        return self.ids.shape[1]

    def positions_after(self, mask: Tensor, skipped: int = 0) -> Tensor | None:
        """Positions of tokens that follow the prompt. mask: (B, n), 0 for padding. skipped: tokens in between."""
        if self.positions is None:
            return None
        counted = ((mask.cumsum(1) - 1).clamp_min(0) + skipped).to(self.positions.dtype)
        return self._shift(counted.expand(*self.positions.shape[:-1], -1))

    def rest(self, input_ids: Tensor) -> Tensor:
        """The part of a longer chat that came after this prompt. input_ids: (B, L + n)."""
        length = self.long.shape[1]
        if input_ids.shape[0] != len(self.long) or not torch.equal(input_ids[:, :length], self.long):
            raise InputError(
                "past_key_values belongs to another prompt: pass the same chat with the new turn appended, or no cache"
            )
        return input_ids[:, length:]

    def extend(self, input_ids: Tensor, attention_mask: Tensor | None, later: Realized | None) -> CachedPrompt:
        """This prompt and what follows it in a longer chat. later: the rest, where it shows pictures of its own."""
        rest = self.rest(input_ids)
        rest_mask = torch.ones_like(rest) if attention_mask is None else attention_mask[:, self.long.shape[1] :]
        if later is None:
            positions, ids, mask = self.positions_after(rest_mask), rest, rest_mask
            last = None if self.next_position is None else self.next_position + rest_mask.sum(1)
        else:
            ids, mask = later.inputs["input_ids"], later.inputs["attention_mask"]
            positions = later.inputs.get("position_ids")
            if positions is not None and self.positions is not None:
                positions = self._shift(positions)
            last = (
                None
                if self.next_position is None or later.next_position is None
                else (self.next_position + later.next_position)
            )
        joined = None if self.positions is None or positions is None else torch.cat([self.positions, positions], -1)
        mask = torch.cat([self.mask, mask.to(self.mask.dtype)], 1)
        return CachedPrompt(input_ids, torch.cat([self.ids, ids], 1), mask, joined, last)

    def _shift(self, positions: Tensor) -> Tensor:
        """Positions of a prompt that was worked out on its own, moved behind this one."""
        text = self.mask.sum(1, keepdim=True).to(positions)
        rope = text if self.next_position is None else self.next_position[:, None].to(positions)
        if positions.ndim == 3 and len(positions) == 4:
            # Row 0 of four counts tokens; the others are where those tokens are.
            return positions + torch.stack([text, rope, rope, rope])
        return positions + rope

    def inputs(self) -> dict[str, Any]:
        result: dict[str, Any] = {"input_ids": self.ids, "attention_mask": self.mask}
        return result if self.positions is None else {**result, "position_ids": self.positions}


def show_long_prompt(kwargs: dict[str, Any], prompt: CachedPrompt) -> None:
    """The caller's own stopping criteria, logits processors and prefix function get the ids that the caller knows."""
    for name in ("stopping_criteria", "logits_processor"):
        given = kwargs.get(name)
        if given:
            kwargs[name] = type(given)(_LongPrompt(one, prompt) for one in given)
    allowed = kwargs.get("prefix_allowed_tokens_fn")
    if allowed is not None:

        def with_long(row: int, ids: Tensor) -> Any:
            return allowed(row, torch.cat([prompt.long[row].to(ids.device), ids[prompt.length :]]))

        kwargs["prefix_allowed_tokens_fn"] = with_long


class _LongPrompt:
    """Calls what it wraps with the prompt as the user gave it, and the answer so far."""

    def __init__(self, wrapped: Any, prompt: CachedPrompt) -> None:
        self.wrapped, self.prompt = wrapped, prompt

    def __call__(self, *args: Any, **how: Any) -> Any:
        # transformers reads the names of arguments off the signature and wants all beyond two of them.
        input_ids, *rest = args
        long = self.prompt.long.to(input_ids.device)
        # Beams and several answers to one prompt stand side by side.
        long = long.repeat_interleave(len(input_ids) // len(long), dim=0)
        return self.wrapped(torch.cat([long, input_ids[:, self.prompt.length :]], dim=1), *rest, **how)
