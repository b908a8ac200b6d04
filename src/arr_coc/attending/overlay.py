"""`overlay`: coarse leaves that cover the picture, and finer ones of any level on top, chosen by their gain per token.

Leaves may overlap; each place is seen by the finest leaf over it. So one more fine cell costs one token (a tiling pays
three for every split), and every budget from 1 to full is met exactly. The leaves are chosen by a sort, not a loop:

1. first the overview, the finest uniform tiling that costs at most a quarter of the budget (`overview_of`);
2. then all finer nodes by the gain of a token: for a single cell its own relevance; for a coarser leaf `COARSE_GAIN`
   times its mean relevance or its parent's, whichever is less, because it is for wide relevance and not for the edge of
   a small spot. Cells that stand out come before the leaves around them; flat areas are refined level by level.

A leaf that is wholly covered by finer ones costs nothing, and if only one of its quarters is still visible it becomes
that quarter. So the tokens of a set of nodes are the rank of their indicator functions: the longest prefix of the order
whose rank is within the budget has exactly the budget's rank, and with the full budget only cells are left. More
relevance never removes a leaf from a place: raising a cell moves it forward at least as far as any leaf around it, and
among leaves of level 1 and above the coarser come first. But a leaf that had become its one visible quarter may become
whole again, if its neighbours, which rise with the mean around them, took the token of another quarter.

Written once for numpy (one picture, no torch) and torch (batches, any device).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.values import COARSEST_LEVEL
from .tree import Leaves, Tree, build_tree, gather_nodes, node_sums, pool

# The overview may cost the budget divided by this. Chosen on validation pictures, as is
# COARSE_GAIN: lab/LOG.md has the numbers.
OVERVIEW_SHARE = 4
# Gain of a leaf of 2×2 cells or more, as a factor of its mean relevance. Above 1, so that only a cell that stands out,
# and not mere noise, comes before the leaf around it.
COARSE_GAIN = 4 / 3


class Overview(NamedTuple):
    """The overview of a picture. level: the coarsest level of its leaves. always: whether its tiling is always used."""

    level: int
    always: bool


@lru_cache(maxsize=4096)
def overview_of(rows: int, cols: int, budget: int, levels: int | None = None) -> Overview:
    """Choose the overview of a grid for a budget: the finest tiling of at most a quarter of it.

    levels: the coarsest level allowed. If no tiling is small enough, there is none, and relevance alone decides.
    """
    tree = build_tree(rows, cols, COARSEST_LEVEL if levels is None else levels)
    for level in range(1, tree.levels + 1):
        if math.prod(tree.shape(level)) <= budget // OVERVIEW_SHARE:
            return Overview(level, True)
    return Overview(tree.levels, False)


def overlay(
    relevance: Array, budgets: Sequence[int], *, levels: int | None = None, scored: Array | None = None
) -> Leaves:
    """Choose leaves for relevance (B, rows, cols) of level-0 cells, numpy or torch, exactly on each picture's budget.

    budgets: one for each picture, 1 to full. levels: the coarsest level allowed. scored: (B, rows, cols), the map whose
    means become the scores of leaves, if it is not the one that decides.
    """
    rows, cols = relevance.shape[1:]
    views = [overview_of(rows, cols, budget, levels) for budget in budgets]
    tree = build_tree(rows, cols, max(view.level for view in views))
    sums = node_sums(relevance, tree)
    wanted = node_order(node_gains(sums, tree), tree, views)
    chosen = visible_leaves(wanted, tree, budgets)
    return gather_nodes(chosen, sums if scored is None else node_sums(scored, tree), tree, budgets)


def token_gains(relevance: Array) -> Array:
    """Return (B, full) the gain of each further token for relevance (B, rows, cols); gains never rise.

    Without an overview, which depends on a budget, so that tokens of different pictures can be compared.
    """
    library, (batch, rows, cols) = arrays.namespace(relevance), relevance.shape
    tree = build_tree(rows, cols, COARSEST_LEVEL)
    gains = node_gains(node_sums(relevance, tree), tree)
    order = node_order(gains, tree, [Overview(tree.levels, False)] * batch)
    cost, _, _ = _costs(order, tree)
    # A node adds a token or replaces one that it hides. Keep those that add one, in order.
    adds = library.concatenate([cost[:, :1], cost[:, 1:] - cost[:, :-1]], axis=1)
    return arrays.take(arrays.take(gains, order), arrays.largest_first(adds, tree.full))


def node_gains(sums: Array, tree: Tree) -> Array:
    """Compute the gain of a token (B, nodes) from the relevance inside every node (B, nodes).

    No leaf of level 1 or above gains less than those inside it, so it comes before them.
    """
    library = arrays.namespace(sums)
    means = sums / arrays.like(tree.areas, sums) * COARSE_GAIN
    gains = [_grid(sums, tree, 0)]
    for level in range(1, tree.levels + 1):
        own = _grid(means, tree, level)
        if level < tree.levels:
            own = library.minimum(own, arrays.doubled(_grid(means, tree, level + 1), *tree.shape(level)))
        gains.append(own if level == 1 else library.maximum(own, pool(gains[-1], "max")))
    # Adding 0.0 removes negative zeros, which would sort differently.
    return library.concatenate([grid.reshape(len(sums), -1) for grid in reversed(gains)], axis=1) + 0.0


def node_order(gains: Array, tree: Tree, views: Sequence[Overview]) -> Array:
    """Sort nodes by gain: (B, nodes) → (B, nodes) int64.

    Among equals coarser nodes come first, then `tree.fair_order`.
    """
    library = arrays.namespace(gains)
    level = arrays.like(tree.nodes_table[:, 2].copy(), gains)
    top = arrays.like(np.array([[view.level] for view in views]), gains)
    laid = arrays.like(np.array([[view.level if view.always else -1] for view in views]), gains)
    # Nodes coarser than the overview are wholly covered by it.
    gains = library.where(level == laid, library.inf, library.where(level > top, -1.0, gains))
    fair = arrays.like(tree.fair_order, gains)
    return fair[arrays.largest_first(gains[:, fair], gains.shape[1])]


def visible_leaves(order: Array, tree: Tree, budgets: Sequence[int]) -> Array:
    """Return (B, nodes) bool: the visible leaves of the longest prefix of the order (B, nodes) within the budget."""
    library, batch = arrays.namespace(order), len(order)
    cost, time, covered = _costs(order, tree)
    allowed = arrays.like(np.array(budgets)[:, None], order)
    taken = (cost <= allowed).sum(1)[:, None]
    present, leaves = time < taken, []
    moved = _grid(present, tree, tree.levels) & False
    for level in range(tree.levels, 0, -1):
        here = _grid(present, tree, level) | moved
        bare = covered[level - 1] >= taken[:, :, None]
        quarters = pool(bare * 1, "sum")
        leaves.append((here & (quarters > 1)).reshape(batch, -1))
        # Visible in one quarter only: use that quarter, for the same token.
        moved = arrays.doubled(here & (quarters == 1), *tree.shape(level - 1)) & bare
    leaves.append((_grid(present, tree, 0) | moved).reshape(batch, -1))
    return library.concatenate(leaves, axis=1)


def _costs(order: Array, tree: Tree) -> tuple[Array, Array, list[Array]]:
    """Return for an order (B, nodes): the visible tokens after each of its nodes (B, nodes); the place of each node in
    it (B, nodes); and by level (B, rows, cols) when a node's area is covered, by itself or by nodes inside it."""
    library, (batch, number) = arrays.namespace(order), order.shape
    time = arrays.ranks(order)
    # When a node is wholly covered by nodes inside it; from then on it is not visible.
    covered = [_grid(time, tree, 0)]
    hidden = []
    for level in range(1, tree.levels + 1):
        inside = pool(covered[-1], "max")
        hidden.append(inside)
        covered.append(library.minimum(_grid(time, tree, level), inside))
    never = library.zeros_like(covered[0]) + number
    ends = library.concatenate([grid.reshape(batch, -1) for grid in (*hidden[::-1], never)], axis=1)
    seen = time < ends
    # Every node adds one token and hides at most one other, so the cost never falls and rises by at most one.
    cost = arrays.take(seen, order).cumsum(1) - arrays.marked(library.where(seen, ends, number), number).cumsum(1)
    return cost, time, covered


def _grid(values: Array, tree: Tree, level: int) -> Array:
    """Return the values (B, rows, cols) of one level from (B, nodes)."""
    return values[:, tree.nodes(level)].reshape(len(values), *tree.shape(level))


# ---- one budget over many pages --------------------------------------------------------------------------------------
# All tokens of all pages are sorted by gain, and the budget is spent on the first of them. So relevance decides between
# pages as it does inside one, and more belief in a page never reduces its tokens.


def page_gains(cells: np.ndarray | None, full: int, belief: float = 1.0) -> np.ndarray:
    """Return (full,) float64: the gain of each further token of a page, never rising.

    cells: (rows, cols) relevance; None if nothing on the page is known to be relevant. belief: the weight of the page.
    """
    if cells is None or not cells.any():
        return np.zeros(full)
    # Make the gains monotone in spite of rounding.
    return np.minimum.accumulate(token_gains(cells[None].astype(np.float32))[0].astype(np.float64)) * belief


def share_tokens(gains: Sequence[np.ndarray], budget: int, *, overview: bool = True) -> list[int]:
    """Share tokens between pages: exactly `budget` in all, or every token of every page if that is less.

    overview: whether every page gets a token, if these fit into a quarter of the budget. Among equal gains, such as
    those of blank areas, the page with the best first token comes first; equal pages take turns.

    Example:
        >>> share_tokens([np.array([4.0, 1.0, 0.0]), np.array([3.0, 2.0])], 3)
        [1, 2]
    """
    rank = np.concatenate([np.arange(len(one)) for one in gains])
    worth = np.concatenate([np.asarray(one, dtype=np.float64) for one in gains])
    page = np.repeat(np.arange(len(gains)), [len(one) for one in gains])
    if overview and len(gains) * OVERVIEW_SHARE <= budget:
        worth = np.where(rank == 0, np.inf, worth)
    best = np.array([float(one[0]) for one in gains])[page]
    order = np.lexsort((page, rank, -best, -worth))[:budget]
    return np.bincount(page[order], minlength=len(gains)).tolist()
