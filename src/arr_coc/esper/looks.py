"""Look, and look again: a tree that only grows, and the blocks of leaves that each look adds.

The first look is an ordinary tree. Every later one splits some of its leaves further and adds the new leaves as a block
of their own; what was seen stays as it is, so no leaf is ever encoded twice, and the coarse parent of a finer leaf
counts among the tokens (it was paid for). The finest leaves of all places are again an ordinary tree, and tile the
picture.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from .. import arrays
from ..attending.gains import leaf_names, node_sums
from ..attending.quadtree import select_splits
from ..attending.tree import Tree
from ..errors import InputError


@dataclass(frozen=True)
class Looks:
    """What B pictures have been looked at with, look by look.

    tree: the geometry of all of them. split: (B, M) bool, the nodes that are split by now. blocks: the leaves that each
    look added, (B, N, 3) int64 row, col, level in raster order; rows beyond a picture's own count are -1.
    """

    tree: Tree
    split: Tensor
    blocks: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.blocks)

    @property
    def counts(self) -> Tensor:
        """(B, looks) int64: tokens that each look added."""
        return torch.stack([(block[..., 2] >= 0).sum(1) for block in self.blocks], dim=1)

    def levels(self) -> Tensor:
        """(B, rows, cols) int64: the finest level at which each cell has been seen."""
        tree, batch = self.tree, len(self.split)
        result = self.split.new_full((batch, *tree.shape(tree.levels)), tree.levels, dtype=torch.int64)
        for level in range(tree.levels, 0, -1):
            split = self.split[:, tree.nodes(level)].view(batch, *tree.shape(level))
            result = torch.where(split & (result == level), level - 1, result)
            rows, cols = tree.shape(level - 1)
            result = result.repeat_interleave(2, 1).repeat_interleave(2, 2)[:, :rows, :cols]
        return result

    def finest(self) -> Tensor:
        """(B, N, 3) int64: the leaves of the tree as it is now, in raster order, -1 beyond a picture's own count."""
        return _compact(leaf_names(self.split, self.tree), self.tree)


def first_look(relevance: Tensor, tree: Tree, budget: int | Tensor) -> Looks:
    """(B, rows, cols) relevance → the ordinary tree of this budget, one number or (B,)."""
    _check(relevance, tree)
    split = select_splits(node_sums(relevance, tree)[:, : len(tree.costs)], tree, budget)
    return Looks(tree, split, (_compact(leaf_names(split, tree), tree),))


def look_again(looks: Looks, relevance: Tensor, budget: int | Tensor) -> Looks:
    """Split where (B, rows, cols) relevance is highest and adds at most `budget` new leaves, one number or (B,).

    Best first by the relevance inside a node, as in the first look. Splitting a leaf that has been seen adds all its
    children; splitting one of the new leaves adds one fewer, because that one need not be seen any more.
    """
    tree = looks.tree
    _check(relevance, tree)
    batch, device = len(relevance), relevance.device
    budgets = torch.as_tensor(budget, device=device).expand(batch)
    gains = node_sums(relevance, tree)[:, : len(tree.costs)]
    parents = arrays.like(tree.parents, gains)
    before = looks.split
    seen = _parent_is(before, parents) & ~before
    extra = arrays.like(tree.costs, gains)
    cost = torch.where(before, 0, extra + seen.long())
    # What is split already comes first and costs nothing; the rest by gain, parents before children on ties.
    order = gains.masked_fill(before, float("inf")).argsort(dim=1, descending=True, stable=True)
    taken = cost.gather(1, order).cumsum(1) <= budgets[:, None]
    split = torch.zeros_like(before).scatter(1, order, taken)
    split = _fill(split, cost, order, budgets, parents)
    # A corner with one child costs nothing to see more finely: it is always split, as in the first look.
    for _ in range(tree.levels if bool((extra == 0).any()) else 0):
        split = split | ((extra == 0) & _parent_is(split, parents))
    names = leaf_names(split, tree)
    added = torch.where(names == leaf_names(before, tree), 0, names)
    return replace(looks, split=split, blocks=(*looks.blocks, _compact(added, tree)))


def outdated(seen: Tensor, added: Tensor) -> Tensor:
    """Leaves (B, V, 3) and later ones (B, N, 3), -1 for padding → (B, V) bool: those that were split into later ones.

    A leaf that is split is seen more finely in all its parts, so one later leaf inside it is enough to tell.
    """
    level = seen[..., 2].clamp_min(0)[..., None]
    inside = [(seen[..., None, axis] >> level) == (added[:, None, :, axis] >> level) for axis in range(2)]
    both = (seen[..., 2] >= 0)[..., None] & (added[..., 2] >= 0)[:, None]
    return (inside[0] & inside[1] & both).any(-1)


def _fill(split: Tensor, cost: Tensor, order: Tensor, budgets: Tensor, parents: Tensor) -> Tensor:
    """One more split where a cheaper one still fits: the best whose parent is split."""
    left = budgets - (cost * split).sum(1)
    may = ~split & _parent_is(split, parents) & (cost <= left[:, None])
    in_order = may.gather(1, order)
    first = in_order & (in_order.cumsum(1) == 1)
    return split | torch.zeros_like(split).scatter(1, order, first)


def _parent_is(split: Tensor, parents: Tensor) -> Tensor:
    """(B, M) bool: nodes whose parent is split; the coarsest have none and always exist."""
    return torch.where(parents < 0, True, split[:, parents.clamp_min(0)])


def _compact(names: Tensor, tree: Tree) -> Tensor:
    """(B, rows, cols) names of leaves, 0 for none → (B, most, 3) leaves in raster order, -1 beyond the count."""
    flat = names.flatten(1).long()
    there = flat > 0
    most = int(there.sum(1).max())
    first = (~there).to(torch.int8).argsort(dim=1, stable=True)[:, :most]
    name = flat.gather(1, first)
    leaves = arrays.like(tree.nodes_table, name)[(name - 1).clamp_min(0)]
    return leaves.masked_fill(name[..., None] == 0, -1)


def _check(relevance: Tensor, tree: Tree) -> None:
    if relevance.ndim != 3 or relevance.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"relevance must be (batch, {tree.rows}, {tree.cols}), got {tuple(relevance.shape)}")
