"""One picture in numpy is the batch in torch: the same leaves, the same scores, the same allocation."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.attending.tree import build_tree, quadtree
from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance


def random_map(rows: int, cols: int, seed: int, steps: int | None) -> np.ndarray:
    """Most of it quiet, some of it loud; `steps` rounds it to few values, so that gains tie."""
    values = np.random.default_rng(seed).random((rows, cols), dtype=np.float32) ** 4
    return values if steps is None else np.round(values * steps) / np.float32(steps)


@settings(max_examples=100, deadline=None)
@given(
    st.tuples(st.integers(1, 33), st.integers(1, 33), st.integers(0, 5), st.integers(0, 10_000)),
    st.floats(0, 1),
    st.sampled_from((None, 1, 4)),
)
def test_the_leaves_are_those_of_the_batched_tree(grid, share, steps):
    rows, cols, levels, seed = grid
    tree = build_tree(rows, cols, levels)
    budget = round(tree.floor + share * (tree.full - tree.floor))
    relevance = random_map(rows, cols, seed, steps)
    one = quadtree(relevance[None], tree, budget)
    batch = quadtree(torch.from_numpy(relevance)[None], tree, budget)
    assert np.array_equal(one.cells, batch.cells.numpy())
    assert np.array_equal(one.scores, batch.scores.numpy())


@pytest.mark.parametrize("grid", [(5, 13), (9, 6), (13, 11), (23, 23), (94, 125)])
def test_every_count_of_an_odd_grid_is_settled_alike(grid):
    """Odd grids are where best-first stops short and edges take what is left."""
    tree = build_tree(*grid, 3)
    step = max(1, (tree.full - tree.floor) // 150)
    for seed, budget in enumerate(range(tree.floor, tree.full + 1, step)):
        relevance = random_map(*grid, seed, (None, 2)[seed % 2])
        one = quadtree(relevance[None], tree, budget)
        assert np.array_equal(one.cells, quadtree(torch.from_numpy(relevance)[None], tree, budget).cells.numpy())


@settings(max_examples=60, deadline=None)
@given(
    st.tuples(st.integers(1, 700), st.integers(1, 700)),
    st.tuples(st.integers(1, 40), st.integers(1, 40)),
    st.floats(0.02, 1),
    st.integers(0, 999),
    st.sampled_from((None, (320, 448), (96, 64))),
    st.sampled_from((16, 28, 32)),
    st.sampled_from(("overlay", "quadtree")),
)
def test_an_array_and_a_tensor_give_one_allocation(image_size, shape, share, seed, canvas, cell, strategy):
    relevance = random_map(*shape, seed, None)
    height, width = canvas or image_size
    budget = max(1, round(share * -(-height // cell) * -(-width // cell)))
    how = {"image_size": image_size, "canvas": canvas, "cell": cell, "strategy": strategy}
    in_numpy = allocate(Relevance(relevance), budget, **how)
    in_torch = allocate(torch.from_numpy(relevance), budget, **how)
    assert np.array_equal(in_numpy.boxes, in_torch.boxes)
    assert np.array_equal(in_numpy.levels, in_torch.levels)
    np.testing.assert_allclose(in_numpy.scores, in_torch.scores, atol=1e-6)
    assert {**in_numpy.to_json(), "regions": None} == {**in_torch.to_json(), "regions": None}


def test_an_unknown_strategy_is_refused():
    with pytest.raises(InputError, match="strategy"):
        allocate(np.ones((4, 4)), 8, strategy="beauty")
