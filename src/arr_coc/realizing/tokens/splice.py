"""Shorten a prompt: give every picture's run of placeholders the length of its allocation.

Pure tensor functions over whole batches. A picture of `full` placeholders that is to have `kept` tokens keeps its first
`kept` placeholders: they are all the same token, so which ones stay makes no difference to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import torch
from torch import Tensor

Side = Literal["left", "right"]


def padding_side(attention_mask: Tensor) -> Side:
    """Where a batch is padded; left if nowhere, which is what generation wants. attention_mask: (B, L)."""
    return "right" if bool((attention_mask[:, -1] == 0).any()) else "left"


def pack(keep: Tensor, side: Side = "left") -> Tensor:
    """Positions that stay, packed to one side. keep: (B, L) bool. Returns (B, L') int64, -1 where padding is needed."""
    longest = int(keep.sum(1).max())
    # A stable sort by "stays" keeps the order of the prompt and moves everything else to the padded side.
    order = torch.sort(keep.to(torch.uint8), dim=1, stable=True, descending=side == "right").indices
    order = order[:, -longest:] if side == "left" else order[:, :longest]
    return torch.where(keep.gather(1, order), order, -1)


def take(values: Tensor, index: Tensor, fill: float = 0) -> Tensor:
    """Values of the long prompt at the positions of the short one.

    values: (..., B, L). index: (B, L') from `pack`. fill: what padding holds. Returns (..., B, L').
    """
    place = index.clamp_min(0).expand(*values.shape[:-2], *index.shape)
    return values.gather(-1, place).masked_fill(index < 0, fill)


def shorten(
    tensors: Mapping[str, Tensor | None], index: Tensor, fills: Mapping[str, float] | None = None
) -> dict[str, Tensor]:
    """`take` for several tensors at once; None is left out. fills: padding by name, 0 where not given."""
    fills = fills or {}
    return {name: take(values, index, fills.get(name, 0)) for name, values in tensors.items() if values is not None}
