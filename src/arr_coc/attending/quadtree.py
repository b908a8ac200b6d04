"""Best-first quadtree: split where relevance gains most, until the budget is spent, exactly.

Every criterion here is monotone (a child never gains more than its parent), so "best first" needs no heap: sorting all
nodes by gain, parents before children on ties, gives the very order in which a heap would pop them. Gains and leaves
are computed where the map is, by numpy or torch; which nodes are split is decided in numpy.

Sums over 2×2 children are written out, so that both libraries add in the same order and agree to the last bit: where
two nodes gain almost the same, the last bit decides which of them is split.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
from .tree import Leaves, Tree, edge_bounds, edge_dependencies, reach_and_order

Criterion = Literal["mass", "variance", "peak"]


def quadtree(relevance: Array, tree: Tree, budget: int | Sequence[int], criterion: Criterion = "mass") -> Leaves:
    """(B, rows, cols) relevance of level-0 cells → the leaves of each picture's tree, on its budget."""
    if relevance.ndim != 3 or relevance.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"relevance must be (batch, {tree.rows}, {tree.cols}), got {tuple(relevance.shape)}")
    selected = select_splits(split_gains(relevance, tree, criterion), tree, budget)
    return gather_leaves(selected, relevance, tree)


def select_splits(gains: Array, tree: Tree, budget: int | Sequence[int]) -> Array:
    """(B, M) gains → (B, M) bool: which nodes are split so that each picture has exactly `tree.reach(budget)` leaves.

    Gains must be monotone: no child above its parent. Ties go to the coarser node, then to the earlier position.
    """
    plain = arrays.to_numpy(gains)
    budgets = [budget] * len(plain) if isinstance(budget, int) else list(budget)
    if len(budgets) != len(plain):
        raise InputError(f"got {len(budgets)} budgets for a batch of {len(plain)}; give one, or one for each picture")
    order = np.argsort(-plain, axis=1, kind="stable")
    selected = np.zeros(plain.shape, dtype=bool)
    for row, one in enumerate(budgets):
        count, choice = reach_and_order(tree, int(one))
        spend = count - tree.floor
        # Best first until the next split cannot be paid; costs are never negative, so the sum only grows.
        taken = np.cumsum(tree.costs[order[row]]) <= spend
        selected[row] = tree.costs == 0
        selected[row, order[row][taken]] = True
        if int(tree.costs[selected[row]].sum()) < spend:
            selected[row] = settle(order[row], taken, spend, tree, tree.edge_orders[choice])
    return arrays.like(selected, gains)


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


def gather_leaves(selected: Array, relevance: Array, tree: Tree) -> Leaves:
    """(B, M) bool splits → the leaves."""
    library, batch = arrays.namespace(selected), len(selected)
    names = leaf_names(selected, tree).reshape(batch, -1)
    begins = names > 0
    lengths = begins.sum(1)
    node = arrays.take(names, arrays.largest_first(begins * 1, int(lengths.max()))) - 1
    valid, node = node >= 0, node.clip(0)
    cells = library.where(valid[..., None], arrays.like(tree.nodes_table, selected)[node], -1)
    means = arrays.take(node_sums(relevance, tree), node) / arrays.like(tree.areas, selected)[node]
    return Leaves(cells, arrays.float32(library.where(valid, means, 0.0)), lengths)


def split_gains(relevance: Array, tree: Tree, criterion: Criterion = "mass") -> Array:
    """(B, rows, cols) → (B, M): what splitting each node gains.

    mass: the relevance inside the node. variance: the squared deviations inside it, so that flat ground, relevant or
    not, stays coarse. peak: the largest relevance inside it, so that one hot cell outweighs a warm field.
    """
    if criterion == "mass":
        return node_sums(relevance, tree)[:, : len(tree.costs)]
    library = arrays.namespace(relevance)
    cells = arrays.float32(relevance).clip(0)
    levels: list[Array] = []
    if criterion == "variance":
        count, total, square = library.ones_like(cells), cells, cells * cells
        within = library.zeros_like(cells)
        for _ in range(tree.levels):
            count, total, square = (pool(part, "sum") for part in (count, total, square))
            # Rounding must not put a child before its parent, hence the maximum with the children's own value.
            within = library.maximum(square - total * total / count, pool(within, "max"))
            levels.append(within)
    elif criterion == "peak":
        for _ in range(tree.levels):
            cells = pool(cells, "max")
            levels.append(cells)
    else:
        raise InputError(f"unknown split criterion {criterion!r}; choose mass, variance or peak")
    flat = [level.reshape(len(relevance), -1) for level in reversed(levels)]
    return library.concatenate(flat, axis=1) if flat else cells.reshape(len(relevance), -1)[:, :0]


def pool(grid: Array, how: Literal["sum", "max"]) -> Array:
    """(B, h, w) → (B, ⌈h/2⌉, ⌈w/2⌉). Padding is zero: nothing lies beyond the edge, and nothing here is negative."""
    grid = arrays.pad_end(grid, grid.shape[1] % 2, grid.shape[2] % 2)
    upper_left, upper_right = grid[:, ::2, ::2], grid[:, ::2, 1::2]
    lower_left, lower_right = grid[:, 1::2, ::2], grid[:, 1::2, 1::2]
    if how == "sum":
        return (upper_left + upper_right) + (lower_left + lower_right)
    larger = arrays.namespace(grid).maximum
    return larger(larger(upper_left, upper_right), larger(lower_left, lower_right))


def leaf_names(selected: Array, tree: Tree) -> Array:
    """(B, M) bool splits → (B, rows, cols) int64: 1 + the place in `tree.nodes_table` of the leaf that begins there.

    0 where none begins, so the non-zeros are the leaves in raster order.
    """
    batch = len(selected)
    names = arrays.zeros((batch, tree.rows, tree.cols), "int64", selected)
    exists = arrays.zeros((batch, *tree.shape(tree.levels)), "bool", selected) == 0
    for level in range(tree.levels, 0, -1):
        stride = 1 << level
        split = selected[:, tree.nodes(level)].reshape(batch, *tree.shape(level)) & exists
        # What exists and is not split is a leaf; exclusive or, because only what exists can be split.
        names[:, ::stride, ::stride] += (exists ^ split) * arrays.like(tree.names[level], selected)
        exists = arrays.doubled(split, *tree.shape(level - 1))
    names += exists * arrays.like(tree.names[0], selected)
    return names


def node_sums(relevance: Array, tree: Tree) -> Array:
    """(B, rows, cols) → (B, nodes): the relevance inside every node of `tree.nodes_table`, level 0 last."""
    cells = arrays.float32(relevance).clip(0)
    levels = [cells]
    for _ in range(tree.levels):
        levels.append(pool(levels[-1], "sum"))
    flat = [level.reshape(len(cells), -1) for level in reversed(levels)]
    return arrays.namespace(cells).concatenate(flat, axis=1)
