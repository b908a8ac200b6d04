"""A prompt with blocks of visual tokens: the text before the picture, what each look added, the text after it.

    head │ first look │ second look │ … │ tail: the question, and where the answer begins

All blocks stand inside one picture: leaves keep their true places, and the text goes on where it would after the whole
picture, however few tokens it has. The blocks are in the order in which they were seen, so with causal attention what
was computed for the earlier ones holds when a later one is added.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from ..core.errors import InputError
from ..models.query import PLACE, tokenize_prompt
from ..models.tokens.positions import language_positions

IMAGE_TOKEN = "<|image_pad|>"  # of every Qwen3-VL


@dataclass(frozen=True)
class Prompts:
    """The text around the picture of B prompts. head: (B, H) int64. tail: (B, T) int64, padded on the right; there:
    (B, T) bool."""

    head: Tensor
    tail: Tensor
    there: Tensor

    @classmethod
    def of(cls, processor: Any, questions: Sequence[str], device: torch.device | str = "cpu") -> Prompts:
        """The chat of one picture and one question, in the template of a processor, or of a tokenizer alone."""
        token, tokenizer = getattr(processor, "image_token", IMAGE_TOKEN), getattr(processor, "tokenizer", processor)
        chat = processor.apply_chat_template(
            [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": PLACE}]}],
            add_generation_prompt=True,
            tokenize=False,
        )
        before, found, after = chat.partition(token)
        if not found or PLACE not in after:
            raise InputError("the chat template must show one picture, and the question after it")
        head = tokenizer([before], return_tensors="pt").input_ids
        tails = [torch.tensor(tokenize_prompt(tokenizer, after, question)).long() for question in questions]
        tail = torch.nn.utils.rnn.pad_sequence(tails, batch_first=True)
        lengths = torch.tensor([len(row) for row in tails])
        there = torch.arange(tail.shape[1]) < lengths[:, None]
        return cls(head.expand(len(tail), -1).to(device), tail.to(device), there.to(device))

    @classmethod
    def packed(cls, head: Sequence[int], opening: Sequence[int], questions: Tensor, closing: Sequence[int]) -> Prompts:
        """From question tokens (B, Q), 0 = padding: head │ picture │ opening, question, closing."""

        def constant(tokens: Sequence[int]) -> Tensor:
            return torch.tensor(tokens, device=questions.device).expand(len(questions), -1)

        tail = torch.cat([constant(opening), questions, constant(closing)], dim=1)
        there = tail > 0
        order = (~there).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(there.sum(1).max())]
        return cls(constant(head), tail.gather(1, order), there.gather(1, order))

    def __len__(self) -> int:
        return len(self.tail)

    def select(self, chosen: Tensor) -> Prompts:
        return Prompts(self.head[chosen], self.tail[chosen], self.there[chosen])


@dataclass(frozen=True)
class Row:
    """A stretch of B prompts. ids: (B, L) int64. there: (B, L) bool, False for padding. places: (3, B, L) float32, the
    positions of M-RoPE."""

    ids: Tensor
    there: Tensor
    places: Tensor

    def __add__(self, other: Row) -> Row:
        return Row(
            torch.cat([self.ids, other.ids], 1),
            torch.cat([self.there, other.there], 1),
            torch.cat([self.places, other.places], 2),
        )

    def positions(self, before: Tensor | int = 0) -> Tensor:
        """(4, B, L): the three places, and first a plain count of the tokens that are there; before: those already
        in the cache, (B,)."""
        start = before[:, None] if isinstance(before, Tensor) else before
        counting = (start + self.there.cumsum(1) - 1).clamp_min(0)
        return torch.cat([counting[None].to(self.places), self.places]).masked_fill(~self.there, 0)


def text_row(ids: Tensor, there: Tensor, start: Tensor | float) -> Row:
    """Text that begins at position `start`, one number or (B,)."""
    first = start[:, None] if isinstance(start, Tensor) else start
    places = (there.cumsum(1) - 1).clamp_min(0).float() + first
    return Row(ids, there, places.expand(3, -1, -1))


def leaf_row(leaves: Tensor, grid: tuple[int, int], start: float, image_token: int) -> Row:
    """A block of leaves (B, N, 3), -1 for padding, of a picture that begins at position `start`."""
    there = leaves[..., 2] >= 0
    places = start + language_positions(leaves.clamp_min(0), torch.tensor(grid, device=leaves.device))
    ids = torch.where(there, image_token, 0)
    return Row(ids, there, places)
