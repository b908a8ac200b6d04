"""What splitting a node gains, and what a set of splits leaves: the quadtree's arithmetic, for numpy and torch alike.

Sums over 2×2 children are written out, so that both libraries add in the same order and agree to the last bit: where
two nodes gain almost the same, the last bit decides which of them is split.
"""

from __future__ import annotations

from typing import Literal

import numpy as np

from .. import arrays
from ..arrays import Array
from ..errors import InputError
from .tree import Tree

Criterion = Literal["mass", "variance", "peak"]


def split_gains(relevance: Array, tree: Tree, criterion: Criterion = "mass") -> Array:
    """(B, rows, cols) → (B, M): what splitting each node gains.

    mass: the relevance inside the node. variance: the squared deviations inside it, so that flat ground, relevant or
    not, stays coarse. peak: the largest relevance inside it, so that one hot cell outweighs a warm field.
    """
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
    elif criterion in ("mass", "peak"):
        for _ in range(tree.levels):
            cells = pool(cells, "sum" if criterion == "mass" else "max")
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


def leaf_marks(selected: Array, tree: Tree) -> Array:
    """(B, M) bool splits → (B, rows, cols) int8: 1 + the level where a leaf has its first cell, 0 elsewhere."""
    library = arrays.namespace(selected)
    batch = len(selected)
    marks = arrays.zeros((batch, tree.rows, tree.cols), library.int8, selected)
    exists = arrays.zeros((batch, *tree.shape(tree.levels)), library.bool, selected) == 0
    for level in range(tree.levels, 0, -1):
        split = selected[:, tree.nodes(level)].reshape(batch, *tree.shape(level)) & exists
        leaf = exists & ~split
        marks[:, :: 1 << level, :: 1 << level] += leaf.view(library.int8) * (level + 1)
        exists = arrays.doubled(split, *tree.shape(level - 1))
    marks += exists.view(library.int8)
    return marks


def leaf_scores(relevance: Array, row: Array, col: Array, level: Array, tree: Tree) -> Array:
    """(B, rows, cols) relevance and the leaves (B, N) → (B, N) mean relevance of each leaf."""
    library = arrays.namespace(relevance)
    total = arrays.float32(relevance)
    sums = [total.reshape(len(total), -1)]
    for _ in range(tree.levels):
        total = pool(total, "sum")
        sums.append(total.reshape(len(total), -1))
    start, width = np.cumsum([0, *(part.shape[1] for part in sums[:-1])]), [tree.shape(n)[1] for n in range(len(sums))]
    starts, widths = (arrays.like(np.array(values), row)[level] for values in (start, width))
    place = starts + (row >> level) * widths + (col >> level)
    # Cells of a leaf that lie in the picture: fewer than its square only at the right and bottom edge.
    side = 1 << level
    tall, wide = (tree.rows - row).clip(max=side), (tree.cols - col).clip(max=side)
    return arrays.take_along(library.concatenate(sums, axis=1), place) / arrays.float32(tall * wide)
