"""The overlay against a plain reference, and against its promises: exact, nothing wasted, never less for more."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.attending.overlay import COARSE_GAIN, OVERVIEW_SHARE, overlay
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.packing.prices.tables import tokens_for

Node = tuple[int, int, int]  # level, row, col in nodes of that level


def quiet_map(rows: int, cols: int, seed: int) -> np.ndarray:
    """Mostly quiet, some of it loud; in steps of 1/256, so that sums are exact in any order."""
    values = np.random.default_rng(seed).random((rows, cols)) ** 4
    return (np.round(values * 256) / 256).astype(np.float32)


class Plain:
    """The overlay as one would write it first: sets of cells, one node after the other."""

    def __init__(self, relevance: np.ndarray) -> None:
        self.relevance = relevance
        self.rows, self.cols = relevance.shape

    def shape(self, level: int) -> tuple[int, int]:
        return -(-self.rows // 2**level), -(-self.cols // 2**level)

    def cells(self, node: Node) -> frozenset[tuple[int, int]]:
        level, row, col = node
        across = range(col << level, min((col + 1) << level, self.cols))
        return frozenset(product(range(row << level, min((row + 1) << level, self.rows)), across))

    def overview(self, budget: int) -> tuple[int, bool]:
        level = 0
        while True:
            level += 1
            if np.prod(self.shape(level)) <= budget // OVERVIEW_SHARE:
                return level, True
            if np.prod(self.shape(level)) <= 1:
                return level if max(self.rows, self.cols) > 1 else 0, False

    def wanted(self, budget: int) -> list[Node]:
        top, always = self.overview(budget)
        nodes = [(level, *place) for level in range(top + 1) for place in product(*map(range, self.shape(level)))]

        def spread(node: Node) -> list[int]:
            up = 1 if node[0] < top else 0
            row, col = node[1] >> up, node[2] >> up
            return [bit for place in range(16) for bit in ((row >> place) & 1, (col >> place) & 1)]

        def mean(node: Node) -> np.float32:
            cells = self.cells(node)
            return np.float32(sum(float(self.relevance[cell]) for cell in cells)) / np.float32(len(cells))

        def gain(node: Node) -> float:
            level, row, col = node
            if level == 0:
                return float(mean(node))
            own = min(mean(node), mean((level + 1, row // 2, col // 2))) if level < top else mean(node)
            inside = [other for other in nodes if 0 < other[0] < level and self.cells(other) <= self.cells(node)]
            return max([float(own * np.float32(COARSE_GAIN)), *map(gain, inside)])

        gains = {node: gain(node) for node in nodes}

        def key(node: Node) -> tuple:
            return (not (always and node[0] == top), -gains[node], -node[0], spread(node), node[1:])

        return sorted(nodes, key=key)

    def visible(self, nodes: set[Node]) -> dict[Node, set[tuple[int, int]]]:
        """What is seen of each node: its cells that no finer one covers; nodes wholly hidden are left out."""
        seen: dict[Node, set[tuple[int, int]]] = {}
        taken: set[tuple[int, int]] = set()
        for node in sorted(nodes):  # fine before coarse
            rest = self.cells(node) - taken
            taken |= rest
            if rest:
                seen[node] = rest
        return seen

    def leaves(self, budget: int) -> list[list[int]]:
        taken: set[Node] = set()
        for node in self.wanted(budget):
            if len(self.visible(taken | {node})) > budget:
                break
            taken.add(node)
        found = []
        for (level, row, col), seen in self.visible(taken).items():
            while level and len({(y >> (level - 1), x >> (level - 1)) for y, x in seen}) == 1:
                level -= 1
                (row, col), *_ = {(y >> level, x >> level) for y, x in seen}
            found.append([row << level, col << level, level])
        return sorted(found, key=lambda leaf: (leaf[0], leaf[1], -leaf[2]))


grids = st.tuples(st.integers(1, 9), st.integers(1, 9), st.integers(0, 10_000))


@settings(max_examples=60, deadline=None)
@given(grids, st.floats(0, 1))
@example((8, 8, 3), 0.25)
@example((1, 9, 1), 0.5)
def test_numpy_torch_and_the_plain_reference_agree(grid, share):
    rows, cols, seed = grid
    relevance = quiet_map(rows, cols, seed)
    budget = max(1, round(share * rows * cols))
    expected = Plain(relevance).leaves(budget)
    in_numpy = overlay(relevance[None], [budget])
    assert in_numpy.cells[0].tolist() == expected
    in_torch = overlay(torch.from_numpy(relevance)[None], [budget])
    assert np.array_equal(in_torch.cells.numpy(), in_numpy.cells)
    assert np.array_equal(in_torch.scores.numpy(), in_numpy.scores)


@pytest.mark.parametrize("size", [(512, 512), (768, 1024), (40, 1600), (224, 160), (417, 929)])
def test_every_budget_from_one_to_full_is_met_exactly_and_no_token_is_wasted(size):
    full = tokens_for(size)
    relevance = quiet_map(12, 16, 5)
    for budget in sorted(
        {*range(1, 40), *range(40, full, 29), *range(max(1, full - 9), full + 1)} & {*range(full + 1)}
    ):
        allocation = allocate(relevance, budget, image_size=size)
        assert allocation.tokens == len(allocation) == tokens_for(size, budget) == budget
        assert np.array_equal(np.unique(allocation.leaf_map()[allocation.leaf_map() >= 0]), np.arange(budget))


@pytest.mark.parametrize("size", [(512, 512), (417, 929)])
def test_the_full_budget_is_the_full_picture_to_the_bit(size):
    relevance = quiet_map(9, 7, 1)
    own, full = (allocate(relevance, tokens_for(size), image_size=size, strategy=name) for name in ("overlay", "full"))
    for name in ("boxes", "levels", "counts", "scores"):
        assert np.array_equal(getattr(own, name), getattr(full, name))
    assert not own.sparse


def test_a_budget_above_the_full_count_means_all_of_it_and_says_so():
    allocation = allocate(np.ones((8, 8)), 9000)
    assert (allocation.tokens, allocation.budget) == (64, 64)
    assert "9000" in allocation.notes[0]
    assert Allocation.from_json(allocation.to_json()) == allocation
    assert not allocate(np.ones((8, 8)), 64).notes
    assert tokens_for((256, 256), 9000) == 64


def test_a_share_is_a_budget_too():
    assert tokens_for((256, 256), "25%") == allocate(np.eye(8), "25%").tokens == 16
    with pytest.raises(InputError, match="'0%' is not a percentage"):
        tokens_for((256, 256), "0%")
    with pytest.raises(InputError, match="a share such as 25%, or tokens of the 64"):
        tokens_for((256, 256), "16")


@settings(max_examples=100, deadline=None)
@given(grids, st.floats(0, 1), st.integers(0, 80), st.integers(1, 512))
@example((3, 7, 7), 0.4375, 0, 2)  # the leaf around it had become its quarter, and does no longer
def test_more_relevance_never_means_less_detail_but_where_a_leaf_had_shrunk(grid, share, place, more):
    rows, cols, seed = grid
    relevance = quiet_map(rows, cols, seed)
    budget = max(1, round(share * rows * cols))
    row, col = divmod(place % (rows * cols), cols)
    raised = relevance.copy()
    raised[row, col] += more / 256
    before, after = (allocate(one, budget).level_map() for one in (relevance, raised))
    had, has = before[row, col], after[row, col]
    assert has >= 0 or had < 0
    if has > had >= 0:
        side = 1 << has
        top, left = row // side * side, col // side * side
        assert (before[top : top + side, left : left + side] < has).all()


@pytest.mark.parametrize("level_of_flat", [0.0, 0.3, 1.0])
def test_where_nothing_stands_out_it_is_down_sampling(level_of_flat):
    flat = np.full((16, 16), level_of_flat, dtype=np.float32)
    for budget, level in ((1, 4), (4, 3), (16, 2), (64, 1), (256, 0)):
        assert set(allocate(flat, budget).levels.tolist()) == {level}
    for budget in range(4, 257):
        levels = allocate(flat, budget).level_map()
        assert levels.max() - levels.min() <= 1
    # What is left over is spent all over the picture, not in its first rows.
    finer = allocate(flat, 64 + 48).level_map() == 0
    quarters = finer.reshape(2, 8, 2, 8).sum((1, 3))
    assert (quarters == 16).all()


def test_what_stands_out_gets_single_cells_and_the_rest_an_overview():
    relevance = np.zeros((16, 16), dtype=np.float32)
    hot = [(2, 3), (2, 4), (9, 14), (15, 0)]
    for cell in hot:
        relevance[cell] = 1
    allocation = allocate(relevance, 8 + len(hot))
    levels = allocation.level_map()
    assert all(levels[cell] == 0 for cell in hot)
    assert not allocation.sparse
    assert allocation.tokens_by_level()[0] == len(hot), "one token for each, and none for their neighbours"


def test_a_batch_of_different_budgets_equals_one_by_one():
    maps = np.stack([quiet_map(24, 32, seed) for seed in range(4)])
    budgets = [3, 48, 400, 768]
    together = overlay(maps, budgets)
    for number, (one, budget) in enumerate(zip(maps, budgets, strict=True)):
        (cells,), (scores,), _ = overlay(one[None], [budget])
        assert np.array_equal(together.cells[number, :budget], cells)
        assert np.array_equal(together.scores[number, :budget], scores)


@pytest.mark.parametrize("strategy", ["random", "shuffled", "center", "oracle"])
def test_controls_are_made_by_the_allocator_that_they_control(strategy):
    relevance = quiet_map(16, 16, 2)
    more = {"boxes": [[0.1, 0.1, 0.3, 0.2]]} if strategy == "oracle" else {}
    overlaid = allocate(relevance, 50, strategy=strategy, strategy_options=more)
    assert overlaid.tokens == 50
    assert (4.0**overlaid.levels).sum() > 256, "leaves lie on one another"


def test_as_many_values_as_cells_are_one_for_each_cell():
    """Also where the last cells reach beyond the picture: stretched over it, a value would stray to its neighbour."""
    relevance = np.zeros((24, 32), np.float32)
    relevance[22, 30] = 1
    allocation = allocate(relevance, 8, image_size=(754, 1000))
    finest = allocation.leaf_cells()[allocation.scores.argmax()]
    assert finest.tolist() == [22, 30, 0]
    assert allocation.scores.max() == 1
