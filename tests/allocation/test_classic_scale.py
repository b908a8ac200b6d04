"""The classic scale: 64 to 400 tokens a patch, the total exact, relevance deciding, and seen by a model as it says."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.attending.leaves import leaves_of, token_boxes, token_grids, tokens_of
from arr_coc.core.compare import token_density
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc_lab.classic.scale import CLASSIC_TOKENS, Patches, ladder_tokens, mip_level


@settings(max_examples=60, deadline=None)
@given(
    st.integers(8, 64), st.integers(8, 64), st.floats(0, 1), st.integers(0, 999), st.sampled_from(["power", "sigmoid"])
)
def test_every_budget_is_spent_to_the_token(rows, cols, share, seed, curve):
    relevance = np.random.default_rng(seed).random((rows, cols)).astype(np.float32) ** 4
    budget = 64 + round(share * (rows * cols - 64))
    allocation = allocate(relevance, budget, strategy="classic", strategy_options={"curve": curve})
    assert allocation.tokens == budget
    patches = allocation.counts > 1
    assert set(allocation.counts[patches].tolist()) <= set(CLASSIC_TOKENS)
    assert (allocation.levels[~patches] == 0).all()
    assert len(tokens_of(allocation)) == budget
    assert token_density(allocation).sum() == pytest.approx(budget)
    assert allocation.sparse == (allocation.level_map() < 0).any()
    assert Allocation.from_json(allocation.to_json()) == allocation
    # Whole patches tile the grid: no cell is under two of them.
    assert token_boxes(allocation)[:, 2:].min() >= 1, "no token is finer than the picture"


def test_relevance_decides_when_the_budget_binds():
    relevance = np.full((60, 60), 0.1, dtype=np.float32)
    relevance[25:28, 45:50] = 1  # the last patch of the middle row
    relevance[5, 5] = 0.6
    for budget in (700, 1000, 1400, 2500):
        allocation = allocate(relevance, budget, strategy="classic")
        counts = allocation.counts[:9]
        assert counts[5] == counts.max() > counts.min()
        assert counts[0] >= counts[8]
    steep = allocate(relevance, 1400, strategy="classic", strategy_options={"steepness": 4.5}).counts[:9]
    flat = allocate(relevance, 1400, strategy="classic", strategy_options={"steepness": 0.5}).counts[:9]
    assert steep.max() - steep.min() >= flat.max() - flat.min()
    assert steep[5] == 400
    few = allocate(relevance, 130, strategy="classic")
    assert few.sparse
    assert few.level_map()[26, 46] >= 0
    assert "2 of 9 patches" in few.notes[0]


def test_the_ladder_takes_the_steps_in_proportion_to_their_worth():
    ladder = torch.tensor(CLASSIC_TOKENS).expand(3, -1)
    weights = torch.tensor([[0.9, 0.3, 0.001]])
    assert ladder_tokens(weights, ladder, torch.tensor([400 + 160 + 64])).tolist() == [[400, 160, 64]]
    assert ladder_tokens(weights, ladder, torch.tensor([3 * 64])).tolist() == [[64, 64, 64]]
    assert ladder_tokens(weights, ladder, torch.tensor([127])).tolist() == [[100, 0, 0]]
    assert ladder_tokens(weights, ladder, torch.tensor([1200])).tolist() == [[400, 400, 400]]


def test_a_patch_is_a_grid_of_tokens_over_its_cells():
    assert token_grids(np.array(CLASSIC_TOKENS), np.full((5, 2), 20)).tolist() == [
        [8, 8],
        [10, 10],
        [10, 16],
        [16, 16],
        [20, 20],
    ]
    assert token_grids(np.array([160]), np.array([[25, 15]])).tolist() == [[16, 10]]
    patches = Patches.of((64, 64))
    assert len(patches) == 9
    assert patches.extent.sum(0).tolist() == [64 * 3, 64 * 3]
    assert Patches.of((15, 15)).ladder.tolist() == [[64, 100, 100, 100, 100]], "no level finer than the cells"
    one = allocate(np.ones((20, 20)), 64, strategy="classic")
    boxes = tokens_of(one)
    assert np.unique(boxes[:, 2:]).tolist() == [2.5]
    assert boxes[0].tolist() == [0, 0, 2.5, 2.5]
    assert boxes[-1, :2].tolist() == [17.5, 17.5]
    full = allocate(np.ones((20, 20)), 400, strategy="classic")
    assert np.array_equal(leaves_of(full), leaves_of(allocate(np.ones((20, 20)), 400)))


def test_what_the_scale_cannot_serve_is_one_clear_line():
    for shape, budget, words in (((7, 40), 100, "8×8"), ((20, 20), 63, "starts at 64")):
        with pytest.raises(InputError, match=words):
            allocate(np.ones(shape), budget, strategy="classic")
    with pytest.raises(InputError, match="choose power, linear"):
        allocate(np.ones((20, 20)), 100, strategy="classic", strategy_options={"curve": "wild"})


def test_token_counts_have_their_mip_level():
    assert mip_level(torch.tensor([64, 99, 100, 199, 200, 299, 300, 400])).tolist() == [3, 3, 2, 2, 1, 1, 0, 0]
