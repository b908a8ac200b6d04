"""Merging without a model: what a plan makes of regions, and what applying it does to numbers."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.allocate import allocate
from arr_coc.core.values import Allocation
from arr_coc.realizing.merging import merge_plan


def tree(rows: int, cols: int, keep: float, seed: int = 0) -> Allocation:
    relevance = np.random.default_rng(seed).random((rows, cols), dtype=np.float32)
    floor = -(-rows // 8) * -(-cols // 8)
    return allocate(relevance, max(floor, int(rows * cols * keep)), image_size=(rows * 8, cols * 8), cell=8)


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 19), st.integers(3, 19), st.floats(0.05, 1.0), st.integers(0, 5))
def test_every_leaf_averages_all_of_its_ground_covered_or_not(rows: int, cols: int, keep: float, seed: int):
    allocation = tree(rows, cols, keep, seed)
    values = torch.rand(rows * cols, 3, generator=torch.Generator().manual_seed(seed))
    plan = merge_plan([allocation], torch.arange(rows * cols))
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
    plan = merge_plan([region], torch.arange(100))
    seen = np.zeros((10, 10), bool)
    seen.ravel()[plan.members.numpy()] = True
    assert seen[1 : 1 + height, 2 : 2 + width].all()
    assert seen.sum() == len(plan.members) == height * width
    # The grid of blocks wastes less than half of the tokens.
    assert min(tokens, height * width) / 2 <= plan.count <= tokens


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_keeping_everything_is_bit_exact_and_tokens_outside_of_grids_stay(dtype: torch.dtype):
    tokens = torch.randn(20, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    full = tree(4, 5, 1.0)
    assert torch.equal(merge_plan([full], torch.arange(20)).apply(tokens), tokens)
    cells = torch.cat([torch.arange(16), torch.full((4,), -1)])
    coarse = merge_plan([tree(4, 4, 0.01)], cells).apply(tokens)
    assert torch.equal(coarse[-4:], tokens[-4:])
    assert coarse.dtype == dtype
