"""Look, and look again: leaves that are laid on top of those before, never one twice.

The first look is an overlay: an overview, and finer leaves on top of it. Every later one adds single cells at full
resolution where they were not seen before. What was seen stays in sight as it was, so no leaf is encoded twice and each
costs its one token.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ..allocation.overlay import overlay
from ..allocation.tree import Tree
from ..core.errors import InputError


@dataclass(frozen=True)
class Looks:
    """What B pictures have been looked at with, look by look.

    tree: the geometry of all of them. blocks: the leaves that each look added, (B, N, 3) int64 row, col, level in
    raster order; rows beyond a picture's own count are -1.
    """

    tree: Tree
    blocks: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def counts(self) -> Tensor:
        """(B, looks) int64: tokens that each look added."""
        return torch.stack([(block[..., 2] >= 0).sum(1) for block in self.blocks], dim=1)

    def levels(self) -> Tensor:
        """(B, rows, cols) int64: the finest level at which each cell has been seen, the coarsest where it was not."""
        tree, leaves = self.tree, torch.cat(self.blocks, 1)
        row, col, level = leaves.clamp_min(0).unbind(-1)
        result = leaves.new_full((len(leaves), tree.rows, tree.cols), tree.levels)
        for depth in range(tree.levels - 1, -1, -1):
            high, wide = tree.shape(depth)
            chosen = (level == depth) & (leaves[..., 2] >= 0)
            board = leaves.new_zeros(len(leaves), high * wide)
            board.scatter_add_(1, torch.where(chosen, (row >> depth) * wide + (col >> depth), 0), chosen.long())
            side = 1 << depth
            seen = board.view(-1, high, wide).repeat_interleave(side, 1).repeat_interleave(side, 2)
            result = torch.where(seen[:, : tree.rows, : tree.cols] > 0, depth, result)
        return result

    def leaves(self) -> Tensor:
        """(B, N, 3) int64: those of all looks, raster order, coarse before fine, -1 beyond a picture's own count."""
        return in_raster_order(torch.cat(self.blocks, 1), self.tree)


def first_look(relevance: Tensor, tree: Tree, budget: int | Tensor) -> Looks:
    """(B, rows, cols) relevance → the overlay of this budget, one number or (B,)."""
    _check(relevance, tree)
    budgets = torch.as_tensor(budget).expand(len(relevance)).tolist()
    return Looks(tree, (overlay(relevance, budgets, levels=tree.levels).cells,))


def look_again(looks: Looks, relevance: Tensor, budget: int | Tensor) -> Looks:
    """The cells where (B, rows, cols) relevance is highest among those not yet seen at full resolution, at most
    `budget` of them, one number or (B,)."""
    tree = looks.tree
    _check(relevance, tree)
    budgets = torch.as_tensor(budget, device=relevance.device).expand(len(relevance))
    unseen = (looks.levels() > 0).flatten(1)
    most = int(torch.minimum(budgets, unseen.sum(1)).max())
    wanted = relevance.flatten(1).masked_fill(~unseen, float("-inf"))
    best = wanted.argsort(dim=1, descending=True, stable=True)[:, :most]
    taken = unseen.gather(1, best) & (torch.arange(most, device=best.device) < budgets[:, None])
    cells = torch.stack([best // tree.cols, best % tree.cols, torch.zeros_like(best)], dim=-1)
    block = in_raster_order(cells.masked_fill(~taken[..., None], -1), tree)
    return replace(looks, blocks=(*looks.blocks, block))


def in_raster_order(leaves: Tensor, tree: Tree) -> Tensor:
    """Leaves (B, N, 3) sorted by row, column and then coarse before fine; padding goes to the end and is cut off."""
    row, col, level = leaves.unbind(-1)
    there = level >= 0
    key = (row * tree.cols + col) * (tree.levels + 1) + tree.levels - level
    order = key.masked_fill(~there, torch.iinfo(key.dtype).max).argsort(dim=1, stable=True)
    order = order[:, : int(there.sum(1).max())]
    return leaves.gather(1, order[..., None].expand(-1, -1, 3))


def _check(relevance: Tensor, tree: Tree) -> None:
    if relevance.ndim != 3 or relevance.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"relevance must be (batch, {tree.rows}, {tree.cols}), got {tuple(relevance.shape)}")
