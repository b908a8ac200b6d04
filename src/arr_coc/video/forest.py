"""One budget for a whole clip: the trees of all its frames are one forest, and splits go where they are worth most.

Frames are known beforehand here. What a split is worth is the demand beneath it: relevance, where the ground is new.
So a cut gets a full look, a still scene next to nothing after its first frame, and what is left over when everything
new was seen goes to the most relevant ground again. All clips of a batch at once, any device.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attending.gains import node_sums
from ..attending.quadtree import Leaves, gather_leaves
from ..attending.tree import DEFAULT_LEVELS, Tree, build_tree, grid_of
from ..errors import InputError
from ..values import DEFAULT_CELL

# What repeated ground still counts, so that a budget that cannot be spent on new ground is not wasted.
REPEATED = 0.02


class Forest(NamedTuple):
    """selected: (N, T, M) bool, which nodes are split. counts: (N, T) int64, tokens of each frame. demand: (N, T, rows,
    cols), what decided."""

    selected: Tensor
    counts: Tensor
    demand: Tensor

    def leaves(self, tree: Tree, relevance: Tensor | None = None) -> Leaves:
        """The leaves of all frames, (N · T, …), clip after clip; scored by `relevance`, by the demand unless given."""
        scores = self.demand if relevance is None else relevance
        return gather_leaves(self.selected.flatten(0, 1), scores.flatten(0, 1), tree)


def demand_of(relevance: Tensor, same_ground: Tensor, repeated: float = REPEATED) -> Tensor:
    """(N, T, rows, cols): relevance of ground that is new. same_ground: share of each cell that was there before."""
    return relevance * (repeated + (1 - repeated) * (1 - same_ground))


def deepest_tree(rows: int, cols: int) -> Tree:
    """A tree whose coarsest leaf is the whole frame.

    A picture is never seen that coarsely, but a frame whose ground was all shown before may cost a single token: with
    a floor of level 3 half of a small budget would go to repetition.
    """
    return build_tree(rows, cols, max(DEFAULT_LEVELS, math.ceil(math.log2(max(rows, cols, 1)))))


def clip_tree(size: tuple[int, int], frames: int, total: int, cell: int = DEFAULT_CELL) -> Tree:
    """The tree of every frame of a clip; one line where the total does not reach for all frames."""
    if total < frames:
        raise InputError(f"a total of {total} tokens is less than one for each of {frames} frames; give more")
    return deepest_tree(*grid_of(size, cell))


def grow_forest(demand: Tensor, tree: Tree, total: int, cap: int | None = None) -> Forest:
    """(N, T, rows, cols) demand → splits of all frames: `total` tokens for each clip, at most `cap` for each frame.

    The total is hit exactly where splits can hit it (within two tokens otherwise, never above); less only where the
    cap does not let it be spent.
    """
    number, frames = demand.shape[:2]
    cap = tree.full if cap is None else min(cap, tree.full)
    if total < tree.floor * frames or cap < tree.floor:
        raise InputError(
            f"{frames} frames of {tree.rows}×{tree.cols} cells need {tree.floor} tokens each at the least; a total of "
            f"{total} and a cap of {cap} do not reach; give more"
        )
    device, nodes = demand.device, len(tree.costs)
    costs = torch.from_numpy(tree.costs).to(device)
    gains = node_sums(demand.flatten(0, 1), tree)[:, :nodes].unflatten(0, (number, frames))
    # Within its frame: best first up to the cap.
    order = gains.argsort(dim=2, descending=True, stable=True)
    affordable = costs[order].cumsum(2) <= cap - tree.floor
    allowed = torch.zeros_like(affordable).scatter(2, order, affordable)
    # Over all frames of a clip: best first up to the total. What is not allowed costs nothing and is never taken.
    flat_gains = gains.masked_fill(~allowed, -math.inf).flatten(1)
    flat_costs = torch.where(allowed, costs, 0).flatten(1)
    order = flat_gains.argsort(dim=1, descending=True, stable=True)
    spend = total - tree.floor * frames
    taken = (flat_costs.gather(1, order).cumsum(1) <= spend) & allowed.flatten(1).gather(1, order)
    selected = torch.zeros_like(taken).scatter(1, order, taken).unflatten(1, (frames, nodes)) | (costs == 0)
    if tree.has_odd_edge:
        selected = _settle(selected, gains, costs, tree, spend, cap)
    return Forest(selected, tree.floor + (selected * costs).sum(2), demand)


def _settle(selected: Tensor, gains: Tensor, costs: Tensor, tree: Tree, spend: int, cap: int) -> Tensor:
    """One or two tokens may be left because the next split costs three: spend them on splits of one along an edge."""
    parents = torch.from_numpy(tree.parents).to(gains.device)
    for _ in range(2):
        counts = (selected * costs).sum(2)
        ready = F.pad(selected, (0, 1), value=True)[:, :, parents]  # the coarsest have no parent: -1 is the padding
        possible = ready & ~selected & (costs == 1) & (counts < cap - tree.floor)[..., None]
        short = counts.sum(1) < spend
        values, best = gains.masked_fill(~possible, -math.inf).flatten(1).max(1)
        take = short & values.isfinite()
        rows = torch.arange(len(selected), device=gains.device)[take]
        flat = selected.flatten(1).clone()
        flat[rows, best[take]] = True
        selected = flat.view_as(selected)
    return selected
