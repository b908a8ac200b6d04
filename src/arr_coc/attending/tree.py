"""The quadtree: which nodes exist and what each split costs; and the best-first quadtree, which splits where relevance
gains most, until the budget is spent.

A picture of `rows` × `cols` level-0 cells is covered by nodes of side 2**level cells, which may reach beyond its right
and bottom edge; children wholly outside do not exist. So a split costs 3 tokens inside (4 children for 1), 1 along an
odd edge (2 for 1) and nothing in an odd corner (the finer leaf sees the same ground, so it is always taken).

Without an odd edge every map reaches the same count, floor + 3k. If the next split of 3 cannot be paid, one or two
tokens are left for splits along an odd edge, else they are not spent. (The overlay meets every budget exactly.)

Gains are monotone (a child never gains more than its parent), so "best first" needs no heap: sorting all nodes by gain,
parents before children on ties, gives the order in which a heap would pop them. Gains and leaves are computed where the
map is, by numpy or torch; splits are decided in numpy. Sums over 2×2 children are written out, so that both libraries
agree to the last bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal, NamedTuple

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError, percentage, share_of, whole

DEFAULT_LEVELS = 3
LARGEST_SIDE_IN_CELLS = 1 << 14


class Leaves(NamedTuple):
    """Leaves of a batch in raster order of their first cell, coarse before fine where they share it.

    cells: (B, N, 3) int64: row, col, level; rows beyond a picture's own count are -1. scores: (B, N) mean relevance.
    lengths: (B,) int64: leaves, and so tokens, of each picture. All three of numpy or of torch.
    """

    cells: Array
    scores: Array
    lengths: Array


@dataclass(frozen=True)
class Tree:
    """All nodes that can be split: levels `levels` … 1, coarse first, raster order within a level."""

    rows: int
    cols: int
    levels: int

    def shape(self, level: int) -> tuple[int, int]:
        """Return (rows, cols) of nodes at a level."""
        return -(-self.rows >> level), -(-self.cols >> level)

    @cached_property
    def floor(self) -> int:
        """Tokens of the coarsest tiling."""
        rows, cols = self.shape(self.levels)
        return rows * cols

    @property
    def full(self) -> int:
        return self.rows * self.cols

    @cached_property
    def offsets(self) -> dict[int, int]:
        """Where each level's nodes begin in the flat list; level 0 stands behind all that can be split."""
        result, start = {}, 0
        for level in range(self.levels, -1, -1):
            result[level] = start
            start += math.prod(self.shape(level))
        return result

    @cached_property
    def nodes_table(self) -> np.ndarray:
        """(nodes, 3) int64: row and col of the first cell, and the level, of every node; coarse first, level 0 last."""
        parts = []
        for level in range(self.levels, -1, -1):
            rows, cols = self.shape(level)
            row, col = np.meshgrid(np.arange(rows) << level, np.arange(cols) << level, indexing="ij")
            parts.append(np.stack([row, col, np.full_like(row, level)], axis=-1).reshape(-1, 3))
        return np.concatenate(parts)

    @cached_property
    def areas(self) -> np.ndarray:
        """(nodes,) float32: cells of each node that lie in the picture."""
        return node_sums(np.ones((1, self.rows, self.cols), np.float32), self)[0]

    @cached_property
    def costs(self) -> np.ndarray:
        """(M,) int64: tokens that splitting each node adds: 3, 1 or 0."""
        children = [pool(np.ones((1, *self.shape(level - 1)), np.int64), "sum") for level in range(self.levels, 0, -1)]
        return np.concatenate([np.zeros(0, np.int64), *(one.ravel() - 1 for one in children)])

    @cached_property
    def parents(self) -> np.ndarray:
        """(M,) int64: flat index of each node's parent; -1 for the coarsest."""
        row, col, level = self.nodes_table[: len(self.costs)].T
        start, wide = np.array([(self.offsets[one], self.shape(one)[1]) for one in range(self.levels + 1)]).T
        up = np.minimum(level + 1, self.levels)
        return np.where(level < self.levels, start[up] + (row >> up) * wide[up] + (col >> up), -1)

    @cached_property
    def fair_order(self) -> np.ndarray:
        """(nodes,) int64: all nodes, coarse first; within a level such that any beginning is spread over the picture.

        Parents are visited far apart (their interleaved coordinates with the bits reversed), the children of one
        parent one after another, so that one parent is complete before the next is begun.
        """
        row, col, level = self.nodes_table.T
        up = np.minimum(level + 1, self.levels)
        parent = np.stack([row >> up, col >> up])
        spread = np.zeros(len(level), dtype=np.int64)
        for _ in range(LARGEST_SIDE_IN_CELLS.bit_length()):
            spread = (spread << 2) | ((parent[0] & 1) << 1) | (parent[1] & 1)
            parent = parent >> 1
        return np.lexsort((np.arange(len(level)), spread, -level))

    @cached_property
    def raster_order(self) -> np.ndarray:
        """(nodes,) int64: all nodes in raster order of their first cell, coarse before fine where they share it."""
        row, col, level = self.nodes_table.T
        return np.lexsort((-level, col, row))

    @cached_property
    def has_odd_edge(self) -> bool:
        return bool((self.costs == 1).any())

    def nodes(self, level: int) -> slice:
        """Return the places of a level's nodes in the flat list."""
        return slice(self.offsets[level], self.offsets[level] + math.prod(self.shape(level)))

    def reach(self, budget: int) -> int:
        """Return the most tokens that an allocation of this budget has: without an odd edge, exactly its tokens."""
        if budget < self.floor:
            raise InputError(
                f"a budget of {budget} tokens cannot cover a grid of {self.rows}×{self.cols} cells at level "
                f"{self.levels}; the coarsest tiling needs {self.floor}"
            )
        spare = 0 if self.has_odd_edge else (budget - self.floor) % 3
        return min(budget - spare, self.full)


@lru_cache(maxsize=256)
def build_tree(rows: int, cols: int, levels: int) -> Tree:
    """Return the tree over a grid, no deeper than one root over the whole grid."""
    if max(rows, cols) > LARGEST_SIDE_IN_CELLS:
        raise InputError(
            f"a grid of {rows}×{cols} cells is too large; the longest side may have {LARGEST_SIDE_IN_CELLS}"
        )
    return Tree(rows, cols, min(levels, math.ceil(math.log2(max(rows, cols)))))


def tree_for(rows: int, cols: int, budget: int, levels: int | None = None) -> Tree:
    """Return the tree of a grid: with `levels=None` levels 0 to 3, and coarser ones if the budget needs them."""
    tree = build_tree(rows, cols, DEFAULT_LEVELS if levels is None else whole(levels, "levels"))
    while levels is None and tree.floor > budget and tree.floor > 1:
        tree = build_tree(rows, cols, tree.levels + 1)
    return tree


def check_budget(budget: object, full: int) -> int:
    """Return a whole number of tokens, at least 1, of a number or a share such as "25%"; at most `full`."""
    if isinstance(budget, str) and budget.strip().endswith("%"):
        return share_of(full, percentage(budget, "budget"))
    return min(whole(budget, f"budget (a share such as 25%, or tokens of the {full} of this picture)", 1), full)


# ---- best first ------------------------------------------------------------------------------------------------------


def quadtree(relevance: Array, tree: Tree, budget: int | Sequence[int]) -> Leaves:
    """Convert (B, rows, cols) relevance of level-0 cells → the leaves of each picture's tree, on its budget."""
    selected = select_splits(split_gains(relevance, tree), tree, budget)
    return gather_leaves(selected, relevance, tree)


def select_splits(gains: Array, tree: Tree, budget: int | Sequence[int]) -> Array:
    """Convert (B, M) gains → (B, M) bool: which nodes are split so that each picture has at most its budget of leaves.

    Gains must be monotone: no child above its parent. Ties go to the coarser node, then to the earlier position.
    """
    plain = arrays.to_numpy(gains)
    budgets = [budget] * len(plain) if isinstance(budget, int) else list(budget)
    order = np.argsort(-plain, axis=1, kind="stable")
    selected = np.zeros(plain.shape, dtype=bool)
    for row, one in zip(range(len(plain)), budgets, strict=True):
        spend = tree.reach(int(one)) - tree.floor
        # Best first until the next split cannot be paid; costs are never negative, so the sum only grows.
        taken = np.cumsum(tree.costs[order[row]]) <= spend
        selected[row] = tree.costs == 0
        selected[row, order[row][taken]] = True
        if left := spend - int(tree.costs[selected[row]].sum()):
            later = order[row][~taken]
            _spend_rest(selected[row], later[tree.costs[later] == 1], left, tree)
    return arrays.like(selected, gains)


def _spend_rest(selected: np.ndarray, edge: np.ndarray, left: int, tree: Tree) -> None:
    """Take the first of the cost-1 nodes `edge` whose parents are split, at most `left` of them."""
    for node in edge.tolist():
        above = tree.parents[node]
        while above >= 0 and tree.costs[above] == 0:  # split wherever it exists
            above = tree.parents[above]
        if above < 0 or selected[above]:
            selected[node], left = True, left - 1
        if not left:
            return


def gather_leaves(selected: Array, relevance: Array, tree: Tree) -> Leaves:
    """Convert (B, M) bool splits → the leaves."""
    batch, leaves = len(selected), []
    exists = arrays.zeros((batch, *tree.shape(tree.levels)), "bool", selected) == 0
    for level in range(tree.levels, 0, -1):
        split = selected[:, tree.nodes(level)].reshape(batch, *tree.shape(level)) & exists
        leaves.append((exists ^ split).reshape(batch, -1))
        exists = arrays.doubled(split, *tree.shape(level - 1))
    chosen = arrays.namespace(selected).concatenate([*leaves, exists.reshape(batch, -1)], axis=1)
    return gather_nodes(chosen, node_sums(relevance, tree), tree, chosen.sum(1).tolist())


def split_gains(relevance: Array, tree: Tree) -> Array:
    """Convert (B, rows, cols) → (B, M): what splitting each node gains, the relevance inside it."""
    return node_sums(relevance, tree)[:, : len(tree.costs)]


def pool(grid: Array, how: Literal["sum", "max"]) -> Array:
    """Pool (B, h, w) → (B, ⌈h/2⌉, ⌈w/2⌉). Padding is zero: nothing lies beyond the edge; no value is negative."""
    grid = arrays.pad_end(grid, grid.shape[1] % 2, grid.shape[2] % 2)
    upper_left, upper_right = grid[:, ::2, ::2], grid[:, ::2, 1::2]
    lower_left, lower_right = grid[:, 1::2, ::2], grid[:, 1::2, 1::2]
    if how == "sum":
        return (upper_left + upper_right) + (lower_left + lower_right)
    larger = arrays.namespace(grid).maximum
    return larger(larger(upper_left, upper_right), larger(lower_left, lower_right))


def node_sums(relevance: Array, tree: Tree) -> Array:
    """Convert (B, rows, cols) → (B, nodes): the relevance inside every node of `tree.nodes_table`, level 0 last."""
    cells = arrays.float32(relevance).clip(0)
    levels = [cells]
    for _ in range(tree.levels):
        levels.append(pool(levels[-1], "sum"))
    flat = [level.reshape(len(cells), -1) for level in reversed(levels)]
    return arrays.namespace(cells).concatenate(flat, axis=1)


def gather_nodes(chosen: Array, sums: Array, tree: Tree, budgets: Sequence[int]) -> Leaves:
    """Convert (B, nodes) bool, as many true as each picture's budget → its leaves, raster order, coarse before fine."""
    library, longest = arrays.namespace(chosen), max(budgets)
    raster = arrays.like(tree.raster_order, chosen)
    in_order = chosen[:, raster]
    if min(budgets) == longest:
        place = library.where(in_order)[1].reshape(len(chosen), longest)
    else:
        place = arrays.largest_first(in_order * 1, longest)
    valid = arrays.take(in_order, place)
    node = raster[place]
    cells = library.where(valid[..., None], arrays.like(tree.nodes_table, chosen)[node], -1)
    scores = library.where(valid, arrays.take(sums, node) / arrays.like(tree.areas, chosen)[node], 0.0)
    return Leaves(cells, arrays.float32(scores), arrays.like(np.array(budgets), chosen))
