"""What of this ground was shown before, and in what detail: the ledger behind "do not pay twice"."""

from __future__ import annotations

import numpy as np

from ..attending.frame import Frame, to_cells
from ..values import Allocation, token_density

# What the history of fixations keeps of itself from frame to frame.
FIXATION_MEMORY = 0.8
# Ground counts as shown where it was shown in this share of the detail that is wanted now: carried maps blur a little.
ENOUGH = 0.6


def detail_of(allocation: Allocation) -> np.ndarray:
    """(rows, cols) float32: 1 at level 0, a half at level 1, …; 0 where nothing looks."""
    levels = allocation.level_map()
    return np.where(levels < 0, 0.0, np.exp2(-levels.astype(np.float32))).astype(np.float32)


def cells_of(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(h, w) → (rows, cols) mean of each cell."""
    return to_cells(maps[None], Frame(grid, 1))[0]


def spread_over(cells: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """(rows, cols) → (h, w), each place with the value of the cell it lies in."""
    rows, cols = cells.shape
    at_row = np.minimum((np.arange(size[0]) + 0.5) * rows / size[0], rows - 1).astype(int)
    at_col = np.minimum((np.arange(size[1]) + 0.5) * cols / size[1], cols - 1).astype(int)
    return np.ascontiguousarray(cells[at_row[:, None], at_col[None, :]], dtype=np.float32)


def fresh_ground(standing: Allocation, shown: np.ndarray) -> float:
    """Share of the standing tokens that stand on ground not yet shown in that detail. shown: (rows, cols)."""
    density = token_density(standing)
    unmet = shown < ENOUGH * detail_of(standing)
    return float((density * unmet).sum() / density.sum())


def kept_share(earlier: Allocation, later: Allocation, same_ground: np.ndarray) -> float:
    """[0, 1]: how much of two allocations of one size is the same: as many tokens on the same places, and on the same
    ground there. same_ground: (rows, cols) share of each cell of the later frame that was there in the earlier one.

    Places alone would not do: after a cut, what matters often stands where something else stood before.
    """
    before, after = token_density(earlier), token_density(later)
    return float((np.minimum(before, after) * same_ground).sum() / max(float(before.sum()), float(after.sum())))


def fixated(history: np.ndarray, paid: Allocation) -> np.ndarray:
    """(h, w) in [0, 1]: the history of fixations after one more allocation; 1 where tokens went again and again."""
    density = token_density(paid)
    now = spread_over(density / max(float(density.max()), 1e-6), history.shape)
    return FIXATION_MEMORY * history + (1 - FIXATION_MEMORY) * now
