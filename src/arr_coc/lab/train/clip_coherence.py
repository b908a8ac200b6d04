"""How alike the allocations of neighbouring frames are, for whole batches of clips."""

from __future__ import annotations

import torch
from torch import Tensor

from ...attending.gains import node_sums
from ...attending.quadtree import select_splits
from ...attending.tree import Tree

# Share of a frame's tokens that a standing allocation has: what similarity compares.
STANDING = 1 / 8


def neighbour_similarity(relevance: Tensor, tree: Tree, keep: float, same_ground: Tensor | None = None) -> Tensor:
    """(N, T, rows, cols) → (N, T − 1): `shown.kept_share` of each frame's allocation and the next one's.

    same_ground: (N, T, rows, cols), what of each cell was there in the frame before. Without it, places alone are
    compared, whatever stands there: `values.compare(…).similarity`.
    """
    flat = relevance.flatten(0, 1)
    budget = max(tree.floor, round(keep * tree.full))
    selected = select_splits(node_sums(flat, tree)[:, : len(tree.costs)], tree, budget)
    density = cell_density(selected, tree).unflatten(0, relevance.shape[:2])
    both = torch.minimum(density[:, 1:], density[:, :-1])
    if same_ground is not None:
        both = both * same_ground[:, 1:]
    return both.sum((2, 3)) / density.sum((2, 3)).amax(1, keepdim=True)


def cell_density(selected: Tensor, tree: Tree) -> Tensor:
    """(B, M) splits → (B, rows, cols): tokens per level-0 cell; a leaf at the edge counts on the cells it has."""
    number, device = len(selected), selected.device
    areas = torch.from_numpy(tree.areas).to(device)
    density = torch.zeros(number, tree.rows, tree.cols, device=device)
    exists = torch.ones(number, *tree.shape(tree.levels), dtype=torch.bool, device=device)
    start = 0
    for level in range(tree.levels, -1, -1):
        rows, cols = tree.shape(level)
        area = areas[start : start + rows * cols].view(rows, cols)
        start += rows * cols
        split = torch.zeros_like(exists)
        if level:
            split = exists & selected[:, tree.nodes(level)].view(number, rows, cols)
        leaf = (exists & ~split) / area
        density += _spread(leaf, level)[:, : tree.rows, : tree.cols]
        if level:
            below = tree.shape(level - 1)
            exists = _spread(split, 1)[:, : below[0], : below[1]]
    return density


def _spread(grid: Tensor, level: int) -> Tensor:
    """Every node's value on all of its cells `level` steps below."""
    return grid.repeat_interleave(1 << level, 1).repeat_interleave(1 << level, 2)
