"""The quadtree against a heap, against brute force, and against its own promises."""

from __future__ import annotations

import heapq
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.attending.tree import build_tree, quadtree, select_splits, split_gains
from arr_coc.core.errors import InputError
from arr_coc.packing.prices.tables import tokens_for


def random_map(rows: int, cols: int, seed: int) -> torch.Tensor:
    """Most of it quiet, some of it loud: what relevance looks like."""
    return torch.rand(1, rows, cols, generator=torch.Generator().manual_seed(seed)) ** 4


def level_map(leaves, rows: int, cols: int) -> np.ndarray:
    covered, levels = np.zeros((rows, cols), int), np.zeros((rows, cols), int)
    for row, col, level in leaves.cells[0].tolist():
        side = 2**level
        covered[row : row + side, col : col + side] += 1
        levels[row : row + side, col : col + side] = level
    assert (covered == 1).all(), "leaves must tile the grid exactly"
    return levels


grids = st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(0, 4), st.integers(0, 10_000))


@settings(max_examples=60, deadline=None)
@given(grids, st.floats(0, 1))
def test_tiles_exactly_and_costs_what_was_announced(grid, share):
    rows, cols, levels, seed = grid
    tree = build_tree(rows, cols, levels)
    budget = round(tree.floor + share * (tree.full - tree.floor))
    leaves = quadtree(random_map(rows, cols, seed), tree, budget)
    level_map(leaves, rows, cols)
    assert budget - 2 <= int(leaves.lengths[0]) <= tree.reach(budget) <= budget
    if not tree.has_odd_edge or budget == tree.full:
        assert int(leaves.lengths[0]) == tree.reach(budget)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.integers(0, 10_000), st.floats(0, 1), st.data())
def test_more_relevance_never_means_less_detail(block_rows, block_cols, levels, seed, share, data):
    """On grids without an odd edge this holds to the letter."""
    rows, cols = block_rows << levels, block_cols << levels
    tree = build_tree(rows, cols, levels)
    budget = round(tree.floor + share * (tree.full - tree.floor))
    relevance = random_map(rows, cols, seed)
    row, col = data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, cols - 1))
    raised = relevance.clone()
    raised[0, row, col] += data.draw(st.floats(0.01, 3))
    before = level_map(quadtree(relevance, tree, budget), rows, cols)[row, col]
    after = level_map(quadtree(raised, tree, budget), rows, cols)[row, col]
    assert after <= before


def heap_leaves(gains: np.ndarray, tree, budget: int) -> set[int]:
    """Best first with a heap, the textbook way: pop the largest gain, split it while the budget lasts."""
    children = {}
    for node, parent in enumerate(tree.parents.tolist()):
        children.setdefault(parent, []).append(node)
    heap = [(-gains[node], node) for node in children[-1]]
    heapq.heapify(heap)
    spent, split = tree.floor, set()
    while heap:
        _, node = heapq.heappop(heap)
        if spent + tree.costs[node] > budget:
            break
        spent += tree.costs[node]
        split.add(node)
        for child in children.get(node, []):
            heapq.heappush(heap, (-gains[child], child))
    return split


@pytest.mark.parametrize(("rows", "cols", "levels"), [(8, 8, 3), (16, 8, 2), (16, 32, 3)])
def test_equals_a_heap(rows, cols, levels):
    tree = build_tree(rows, cols, levels)
    for seed in range(5):
        gains = split_gains(random_map(rows, cols, seed), tree)
        for budget in range(tree.floor, tree.full, 7):
            split = set(select_splits(gains, tree, budget)[0].nonzero()[:, 0].tolist())
            assert split == heap_leaves(gains[0].numpy(), tree, budget)


def every_tree(tree) -> list[frozenset[int]]:
    """All sets of splits that are trees: brute force."""
    children = {}
    for node, parent in enumerate(tree.parents.tolist()):
        children.setdefault(parent, []).append(node)

    def options(node: int) -> list[frozenset[int]]:
        below = [options(child) for child in children.get(node, [])]
        split = [frozenset({node}).union(*combination) for combination in product(*below)]
        return split if tree.costs[node] == 0 else [frozenset(), *split]

    return [frozenset().union(*combination) for combination in product(*map(options, children[-1]))]


@pytest.mark.parametrize(("rows", "cols", "levels"), [(4, 4, 2), (4, 8, 2), (8, 8, 2)])
def test_no_tree_of_that_cost_gains_more(rows, cols, levels):
    """Proven against every tree there is (up to 17⁴ = 83 521 of them)."""
    tree = build_tree(rows, cols, levels)
    trees = every_tree(tree)
    matrix = np.zeros((len(trees), len(tree.costs)))
    for index, nodes in enumerate(trees):
        matrix[index, list(nodes)] = 1
    cost = matrix @ tree.costs + tree.floor
    for seed in range(3):
        gains = split_gains(random_map(rows, cols, seed), tree)
        value = matrix @ gains[0].double().numpy()
        for budget in range(tree.floor, tree.full + 1, 3):
            chosen = select_splits(gains, tree, budget)[0]
            got = float((gains[0].double() * chosen).sum())
            assert got == pytest.approx(value[cost <= budget].max(), rel=1e-6)


def test_at_an_odd_edge_one_or_two_spare_tokens_are_spent_where_the_edge_is_split():
    tree, relevance = build_tree(3, 7, 2), torch.arange(1.0, 22.0).view(1, 3, 7)
    counts = [int(quadtree(relevance, tree, budget).lengths[0]) for budget in range(tree.floor, tree.full + 1)]
    assert counts == sorted(counts)
    assert sum(count == budget for budget, count in enumerate(counts, tree.floor)) > len(counts) / 2
    assert len(set(counts)) > 1 + (tree.full - tree.floor) // 3


def test_a_batch_equals_its_pictures_one_by_one():
    maps = torch.cat([random_map(11, 17, seed) for seed in range(4)])
    tree = build_tree(11, 17, 3)
    budgets = [20, 60, 111, 150]
    together = quadtree(maps, tree, budgets)
    for index, budget in enumerate(budgets):
        alone = quadtree(maps[index : index + 1], tree, budget)
        length = int(alone.lengths[0])
        assert together.lengths[index] == length
        assert torch.equal(together.cells[index, :length], alone.cells[0])
        assert (together.cells[index, length:] == -1).all()


def test_leaves_come_in_raster_order_and_level_zero_everywhere_is_the_plain_grid():
    tree = build_tree(6, 5, 3)
    leaves = quadtree(torch.rand(1, 6, 5), tree, 30)
    assert leaves.cells[0].tolist() == [[row, col, 0] for row in range(6) for col in range(5)]
    some = quadtree(random_map(6, 5, 0), tree, 15).cells[0]
    assert (some[1:, 0] * 5 + some[1:, 1] > some[:-1, 0] * 5 + some[:-1, 1]).all()


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 8192), st.integers(1, 8192), st.floats(0.02, 1), st.integers(0, 99))
def test_any_picture_size_and_any_budget(height, width, share, seed):
    full = tokens_for((height, width))
    budget = max(1, round(full * share))
    relevance = random_map(16, 12, seed)
    allocation = allocate(relevance, budget, image_size=(height, width), strategy="quadtree")
    assert (
        allocation.tokens <= tokens_for((height, width), budget, strategy="quadtree") <= budget <= allocation.tokens + 2
    )
    assert allocation.full == full
    boxes = allocation.boxes
    assert (boxes[:, 2:] >= 1).all()
    assert int((boxes[:, 2].astype(np.int64) * boxes[:, 3]).sum()) == height * width
    assert (boxes[:, 0] + boxes[:, 2]).max() == height
    assert (boxes[:, 1] + boxes[:, 3]).max() == width


def test_a_budget_below_the_usual_floor_brings_coarser_levels():
    assert tokens_for((8192, 8192), 100, strategy="quadtree") <= 100
    for strategy in ("quadtree", "overlay"):
        assert allocate(np.ones((4, 4)), 100, image_size=(8192, 8192), strategy=strategy).levels.max() > 3


def test_the_canvas_decides_the_grid_and_the_picture_its_boxes():
    allocation = allocate(np.ones((3, 3)), 6, image_size=(90, 90), canvas=(96, 96), levels=2)
    assert allocation.grid == (3, 3)
    assert allocation.boxes[:, :2].max() <= 60
    assert (allocation.boxes[:, 0] + allocation.boxes[:, 2]).max() == 90


@pytest.mark.parametrize("budget", [0, -3, 2.5, "many", True, None, float("nan"), float("inf")])
def test_an_impossible_budget_is_refused_in_one_line(budget):
    with pytest.raises(InputError) as caught:
        allocate(np.ones((32, 32)), budget)
    assert "budget" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_bad_relevance_is_refused():
    for bad in (np.full((4, 4), np.nan), np.zeros((2, 2, 2, 2)), np.zeros((0, 4))):
        with pytest.raises(InputError, match="relevance"):
            allocate(bad, 4)
    with pytest.raises(InputError, match="takes one map, got 2"):
        allocate(np.ones((2, 8, 8)), 16)
