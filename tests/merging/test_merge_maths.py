"""Merging without a model: slots from regions, plans from slots, and what applying them does to numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation
from arr_coc.realizing.merging import Members, members_of_allocations, plan_average


def tree(rows: int, cols: int, keep: float, seed: int = 0) -> Allocation:
    relevance = np.random.default_rng(seed).random((rows, cols), dtype=np.float32)
    floor = -(-rows // 8) * -(-cols // 8)
    return allocate(relevance, max(floor, int(rows * cols * keep)), image_size=(rows * 8, cols * 8), cell=8)


def members_of_slots(slots: torch.Tensor) -> Members:
    """slots (N,): the one slot of every token, -1 for a token that is not seen."""
    tokens = torch.nonzero(slots >= 0).flatten()
    return Members(tokens, slots[tokens], len(slots))


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 19), st.integers(3, 19), st.floats(0.05, 1.0), st.integers(0, 5))
def test_every_leaf_averages_all_of_its_ground_covered_or_not(rows: int, cols: int, keep: float, seed: int):
    allocation = tree(rows, cols, keep, seed)
    values = torch.rand(rows * cols, 3, generator=torch.Generator().manual_seed(seed))
    plan = plan_average(members_of_allocations([allocation]))
    assert plan.count == allocation.tokens
    grid = values.view(rows, cols, 3)
    leaves = [(row, col, 1 << level) for row, col, level in allocation.leaf_cells().tolist()]
    means = torch.stack([grid[y : y + side, x : x + side].flatten(0, 1).mean(0) for y, x, side in leaves])
    merged = plan.apply(values)
    assert torch.allclose(merged.sort(0).values, means.sort(0).values, atol=1e-5)
    centres = plan.positions(torch.arange(rows * cols)[None].float())
    assert bool((centres.diff() >= 0).all()), "tokens stand in the order of their middles"


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 7), st.integers(1, 7), st.integers(1, 40))
def test_a_region_of_several_tokens_becomes_at_most_so_many_compact_blocks(height: int, width: int, tokens: int):
    region = Allocation(
        boxes=np.array([[8, 16, height * 8, width * 8]]),
        levels=np.array([0]),
        counts=np.array([tokens]),
        scores=np.ones(1),
        height=80,
        width=80,
        budget=tokens,
        full=100,
        strategy="test",
        sparse=True,
        cell=8,
    )
    members, slots = members_of_allocations([region]), np.full((10, 10), -1)
    slots.ravel()[members.tokens.numpy()] = members.slots.numpy()
    inside = slots[1 : 1 + height, 2 : 2 + width]
    found = len(np.unique(inside))
    assert (inside >= 0).all()
    assert (slots >= 0).sum() == height * width
    assert found <= tokens
    assert found >= min(tokens, height * width) / 2  # the grid of blocks wastes less than half of the tokens


def test_average_is_the_mean_of_each_slot_and_keeps_dtype():
    generator = torch.Generator().manual_seed(0)
    slots = torch.randint(-1, 5, (40,), generator=generator)
    tokens = torch.randn(40, 6, generator=generator)
    plan = plan_average(members_of_slots(slots))
    expected = [tokens[slots == slot].mean(0) for slot in range(5)]
    expected.sort(
        key=lambda mean: min(i for i, one in enumerate(plan.apply(tokens)) if torch.allclose(one, mean, atol=1e-6))
    )
    assert torch.allclose(plan.apply(tokens), torch.stack(expected), atol=1e-6)
    assert plan.apply(tokens.bfloat16()).dtype == torch.bfloat16
    assert torch.allclose(plan.apply(tokens.bfloat16()).float(), plan.apply(tokens), atol=2e-2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_keeping_everything_and_selecting_are_bit_exact(dtype: torch.dtype):
    tokens = torch.randn(20, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert torch.equal(plan_average(members_of_slots(torch.randperm(20))).apply(tokens), tokens)
    chosen = torch.tensor([1, 4, 9, 19])
    slots = torch.full((20,), -1)
    slots[chosen] = torch.tensor([3, 2, 1, 0])
    assert torch.equal(plan_average(members_of_slots(slots)).apply(tokens), tokens[chosen])


def test_wrong_lengths_are_named():
    with pytest.raises(InputError, match="for 3 tokens, got 4"):
        plan_average(members_of_slots(torch.tensor([0, 1, 2]))).apply(torch.zeros(4, 2))
