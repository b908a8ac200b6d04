"""Compare two allocations of one picture."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .errors import InputError, of_kind
from .values import Allocation


@dataclass(frozen=True)
class Comparison:
    """How two allocations of one picture differ. overlap: tokens that both spend in the same place over tokens that
    either spends there. moved: tokens to move, add or remove to turn one into the other. similarity: 1 − moved /
    tokens of the larger."""

    overlap: float
    moved: float
    similarity: float


def token_density(allocation: Allocation) -> np.ndarray:
    """Return tokens per level-0 cell, (rows, cols) float64, which sum to the allocation's tokens."""
    density = np.zeros(allocation.grid)
    owner, rows, cols = allocation.cells_under()
    share = allocation.counts / np.maximum(np.bincount(owner, minlength=len(allocation)), 1)
    np.add.at(density, (rows, cols), share[owner])
    return density


def compare(a: Allocation, b: Allocation) -> Comparison:
    """Compare two allocations of the same picture: `overlap` in [0, 1], `moved` tokens, `similarity`."""
    for one in (a, b):
        of_kind(one, Allocation, "what is compared")
    sizes = [f"{one.height}×{one.width} with grid {one.grid}" for one in (a, b)]
    if sizes[0] != sizes[1]:
        raise InputError(f"cannot compare allocations of different pictures: {sizes[0]} and {sizes[1]}")
    first, second = token_density(a), token_density(b)
    moved = float((np.abs(first - second).sum() + abs(a.tokens - b.tokens)) / 2)
    union = np.maximum(first, second).sum()
    overlap = float(np.minimum(first, second).sum() / union) if union else 1.0
    return Comparison(overlap=overlap, moved=moved, similarity=1.0 - moved / max(a.tokens, b.tokens, 1))
