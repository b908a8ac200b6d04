"""What of this ground was shown before, in what detail, and what a frame may therefore take of the budget.

Each frame pays for what is new in it: the whole cap after a cut, a single token where nothing changed. A total is never
exceeded: what the coming frames need at the least is kept back. (Where all frames are known beforehand, `forest` does
better: it spends the total exactly where it is worth most.)
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..attending.frame import Frame, to_cells
from ..attending.overlay import overlay, token_gains
from ..attending.tree import Leaves
from ..core.errors import InputError
from ..core.values import Allocation, token_density

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


@dataclass(frozen=True)
class Pace:
    """cap: tokens that one frame may cost. total: tokens of the whole clip, None for no end. frames: how many frames
    will come, where that is known; without it a total is used up by the frames that come
    first."""

    cap: int
    total: int | None = None
    frames: int | None = None

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise InputError(f"a frame needs at least 1 token, got a cap of {self.cap}")
        if self.frames is not None and self.frames < 1:
            raise InputError(f"a clip has at least 1 frame, got {self.frames}")
        if self.total is not None and self.total < (self.frames or 1):
            raise InputError(f"a total of {self.total} tokens is less than one for each of {self.frames or 1} frames")

    def allowance(self, frame: int, spent: int, fresh: float) -> int:
        """Tokens that frame `frame` (from 0) may cost; fresh: share of its relevant ground that is new, 0 to 1.

        Never below one unless the total is used up: then 0, and the frame cannot be shown.
        """
        wanted = 1 + round((self.cap - 1) * min(max(fresh, 0.0), 1.0))
        if self.total is None:
            return wanted
        left = self.total - spent
        if self.frames is not None:
            left -= max(0, self.frames - frame - 1)
        return max(0, min(wanted, left))


# ----------------------------------------------------------------------------------------------------------------------
# One budget for a whole clip: the tokens of all its frames in one order, each where it is worth most.
#
# Frames are known beforehand here. What a token is worth is the demand that it shows: relevance, where the ground is
# new. So a cut gets a full look, a still scene next to nothing after its first frame, and what is left over when
# everything new was seen goes to the most relevant ground again. All clips of a batch at once, any device.

# What repeated ground still counts, so that a budget that cannot be spent on new ground is not wasted.
REPEATED = 0.02


def demand_of(relevance: Tensor, same_ground: Tensor, repeated: float = REPEATED) -> Tensor:
    """(N, T, rows, cols): relevance of ground that is new. same_ground: share of each cell that was there before."""
    return relevance * (repeated + (1 - repeated) * (1 - same_ground))


def share_tokens(demand: Tensor, total: int, cap: int | None = None) -> Tensor:
    """(N, T, rows, cols) demand → (N, T) int64 tokens of each frame: `total` for each clip, at most `cap` for a frame.

    Every frame has one at the least. The total is met exactly; less only where the cap does not let it be spent.
    """
    number, frames, rows, cols = demand.shape
    cap = rows * cols if cap is None else min(cap, rows * cols)
    if total < frames or cap < 1:
        raise InputError(
            f"a total of {total} tokens and a cap of {cap} are less than one for each of {frames} frames; give more"
        )
    gains = token_gains(demand.flatten(0, 1)).unflatten(0, (number, frames))[..., :cap]
    gains[..., 0] = math.inf
    # Among equals the frames take turns: the first token of each, then the second.
    order = gains.transpose(1, 2).flatten(1).argsort(dim=1, descending=True, stable=True)[:, :total]
    counts = torch.zeros(number, frames, dtype=torch.int64, device=demand.device)
    return counts.scatter_add(1, order % frames, torch.ones_like(order))


def grow_forest(demand: Tensor, total: int, cap: int | None = None, relevance: Tensor | None = None) -> Leaves:
    """(N, T, rows, cols) demand → the leaves of all frames, (N · T, …), clip after clip: an overlay for each frame.

    total, cap: see `share_tokens`. The leaves are scored by `relevance`, by the demand unless given.
    """
    counts = share_tokens(demand, total, cap)
    scored = demand if relevance is None else relevance
    return overlay(demand.flatten(0, 1), counts.flatten().tolist(), scored=scored.flatten(0, 1))
