"""`quadtree` for one picture, in numpy: the same leaves, bit for bit, without importing torch.

Gains and leaves share their arithmetic with the batched form (`gains`); which nodes are split is decided here again,
for a single picture, because the batched form is all scatter and gather. A test holds the two equal.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..core.errors import InputError
from .gains import Criterion, leaf_names, node_sums, split_gains
from .tree import Tree, edge_bounds, edge_dependencies, reach_and_order


class PictureLeaves(NamedTuple):
    """Leaves of one picture in raster order of their first cell.

    cells: (N, 3) int64: row, col, level. scores: (N,) float32 mean relevance.
    """

    cells: np.ndarray
    scores: np.ndarray


def quadtree_numpy(relevance: np.ndarray, tree: Tree, budget: int, criterion: Criterion = "mass") -> PictureLeaves:
    """(rows, cols) relevance of level-0 cells → the leaves of the picture's tree, on its budget."""
    if relevance.shape != (tree.rows, tree.cols):
        raise InputError(f"relevance must be ({tree.rows}, {tree.cols}), got {relevance.shape}")
    selected = select_splits(split_gains(relevance[None], tree, criterion)[0], tree, budget)
    names = leaf_names(selected[None], tree)[0]
    node = names[names > 0] - 1
    scores = node_sums(relevance[None], tree)[0, node] / tree.areas[node]
    return PictureLeaves(tree.nodes_table[node], scores)


def select_splits(gains: np.ndarray, tree: Tree, budget: int) -> np.ndarray:
    """(M,) gains → (M,) bool: which nodes are split so that there are exactly `tree.reach(budget)` leaves.

    Gains must be monotone: no child above its parent. Ties go to the coarser node, then to the earlier position.
    """
    count, choice = reach_and_order(tree, budget)
    spend = count - tree.floor
    order = np.argsort(-gains, kind="stable")
    # Best first until the next split cannot be paid; costs are never negative, so the sum only grows.
    taken = np.cumsum(tree.costs[order]) <= spend
    selected = tree.costs == 0
    selected[order[taken]] = True
    if int(tree.costs[selected].sum()) < spend:
        return settle(order, taken, spend, tree, tree.edge_orders[choice])
    return selected


def settle(order: np.ndarray, taken: np.ndarray, spend: int, tree: Tree, canonical: np.ndarray) -> np.ndarray:
    """Hit the count exactly where best-first stopped one or two tokens short because only splits of 3 were next.

    The number of edge splits (cost 1) decides which counts are possible. So: keep relevance's order among edge splits,
    take the number of them nearest to what best-first took that lets splits of 3 fill the rest, and fill in order.
    Where relevance's order cannot hit the count, the canonical order can (that is how `reach` chose it).
    """
    by_relevance = order[tree.costs[order] == 1]
    wanted = int((taken & (tree.costs[order] == 1)).sum())
    selected = _fill(by_relevance, wanted, order, spend, tree)
    if selected is None:
        selected = _fill(canonical, wanted, order, spend, tree)
    if selected is None:
        raise AssertionError(f"no tree of {tree.rows}×{tree.cols} cells has {tree.floor + spend} leaves")
    return selected


def _fill(edge: np.ndarray, wanted: int, order: np.ndarray, spend: int, tree: Tree) -> np.ndarray | None:
    """The first few of the cost-1 nodes `edge`, their number nearest to `wanted`, and splits of 3 in `order` (M,).

    Returns the selection (M,), or None where no number of edge splits fits.
    """
    need, seed = edge_dependencies(tree, edge)
    interior = tree.costs == 3
    steps, forced, allowed = edge_bounds(tree, need, seed, len(edge))
    filling, left_over = np.divmod(spend - steps, 3)
    fits = (left_over == 0) & (filling >= forced) & (filling <= allowed)
    if not fits.any():
        return None
    distance = np.abs(steps - wanted) * 2 + (steps > wanted)
    number = int(np.where(fits, distance, np.iinfo(np.int64).max).argmin())
    must = interior & (seed < number)
    may = (interior & (need <= number) & ~must)[order]
    selected = must | (tree.costs == 0)
    selected[order[may][: int(filling[number]) - int(must.sum())]] = True
    selected[edge[:number]] = True
    return selected
