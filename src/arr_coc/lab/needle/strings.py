"""Strings as tensors of character identifiers, so that a whole batch of questions is written at once.

A string is (…, L) int64 with 0 as padding, which may stand anywhere: `join` closes the gaps.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from ...alphabet import IDS, PADDING, string_table

DIGIT_ZERO = IDS["0"]


def choose(strings: Sequence[str], index: torch.Tensor) -> torch.Tensor:
    """(…,) indices → (…, L) strings."""
    return string_table(tuple(strings), index.device)[index]


def literal(text: str, like: torch.Tensor) -> torch.Tensor:
    """One constant string for every entry of `like` (…, anything): (…, len(text))."""
    row = string_table((text,), like.device)[0]
    return row.expand(*like.shape[:-1], len(row))


def join(pieces: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Concatenate along the last dimension, close the gaps and pad or cut to `length`."""
    text = torch.cat(list(pieces), dim=-1)
    order = (text == PADDING).to(torch.uint8).argsort(dim=-1, stable=True)
    text = text.gather(-1, order)
    missing = length - text.shape[-1]
    return torch.nn.functional.pad(text, (0, missing)) if missing > 0 else text[..., :length]


def fill(templates: Sequence[str], index: torch.Tensor, values: Sequence[torch.Tensor], length: int) -> torch.Tensor:
    """Write values into one of the templates: (…,) indices, values of (…, L_i) → (…, length).

    Every template holds the places {0}, {1}, … in this order, one per value.
    """
    parts = [_split(template, len(values)) for template in templates]
    pieces: list[torch.Tensor] = []
    for place in range(len(values) + 1):
        pieces.append(choose([part[place] for part in parts], index))
        if place < len(values):
            pieces.append(values[place])
    return join(pieces, length)


def _split(template: str, number: int) -> list[str]:
    parts = []
    for place in range(number):
        before, template = template.split(f"{{{place}}}")
        parts.append(before)
    return [*parts, template]


def digits(value: torch.Tensor, number: int, *, leading_zeros: bool = False) -> torch.Tensor:
    """(…,) whole numbers → (…, number) strings; without leading zeros unless asked."""
    powers = torch.tensor([10**place for place in range(number - 1, -1, -1)], device=value.device)
    quotient = torch.div(value[..., None], powers, rounding_mode="floor")
    text = DIGIT_ZERO + quotient % 10
    if leading_zeros:
        return text
    # The last digit always stands, so that zero is written "0".
    keep = (quotient > 0) | (powers == 1)
    return text * keep


def money(cents: torch.Tensor, sign: str = "$", number: int = 6) -> torch.Tensor:
    """(…,) cents → strings like $23.40."""
    whole = digits(torch.div(cents, 100, rounding_mode="floor"), number - 2)
    part = digits(cents % 100, 2, leading_zeros=True)
    ends = cents[..., None]
    return torch.cat([literal(sign, ends), whole, literal(".", ends), part], dim=-1)


def upper(text: torch.Tensor) -> torch.Tensor:
    """Capital letters for small ones."""
    small = (text >= IDS["a"]) & (text <= IDS["z"])
    return torch.where(small, text - (IDS["a"] - IDS["A"]), text)


def capitalise(text: torch.Tensor) -> torch.Tensor:
    """A capital for the first letter of a left-justified string."""
    return torch.cat([upper(text[..., :1]), text[..., 1:]], dim=-1)
