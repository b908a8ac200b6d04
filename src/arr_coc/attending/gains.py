"""What splitting a node gains, and what a set of splits leaves: the quadtree's arithmetic, for numpy and torch alike.

Sums over 2×2 children are written out, so that both libraries add in the same order and agree to the last bit: where
two nodes gain almost the same, the last bit decides which of them is split.
"""

from __future__ import annotations

from typing import Literal

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
from .tree import Tree

Criterion = Literal["mass", "variance", "peak"]


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
    """(B, M) bool splits → (B, rows, cols) int32: 1 + the place in `tree.nodes_table` of the leaf that begins there.

    0 where none begins, so the non-zeros are the leaves in raster order.
    """
    batch = len(selected)
    names = arrays.zeros((batch, tree.rows, tree.cols), "int32", selected)
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
