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
from arr_coc.realizing.tokens.merge import (
    Members,
    centrality,
    members_of_allocations,
    plan_average,
    plan_members,
    plan_pick,
    plan_selection,
)


def tree(rows: int, cols: int, keep: float, seed: int = 0) -> Allocation:
    relevance = np.random.default_rng(seed).random((rows, cols), dtype=np.float32)
    floor = -(-rows // 8) * -(-cols // 8)
    return allocate(relevance, max(floor, int(rows * cols * keep)), image_size=(rows * 8, cols * 8), cell=8)


def slots_by_hand(allocation: Allocation) -> np.ndarray:
    rows, cols = allocation.grid
    slots = np.full((rows, cols), -1)
    leaves = list(enumerate(allocation.leaf_cells()))
    for number, (row, col, level) in sorted(leaves, key=lambda leaf: -leaf[1][2]):  # the finer is painted over
        slots[row : row + (1 << level), col : col + (1 << level)] = number
    return slots.ravel()


def members_of_slots(slots: torch.Tensor) -> Members:
    """slots (N,): the one slot of every token, -1 for a token that is not seen."""
    tokens = torch.nonzero(slots >= 0).flatten()
    return Members(tokens, slots[tokens], len(slots))


def seen_slots(allocations: list[Allocation]) -> np.ndarray:
    return members_of_allocations(allocations).seen().numpy()


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


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 19), st.integers(3, 19), st.floats(0.05, 1.0), st.integers(0, 5))
def test_picking_never_takes_a_token_twice(rows: int, cols: int, keep: float, seed: int):
    allocation = tree(rows, cols, keep, seed)
    scores = torch.rand(rows * cols, generator=torch.Generator().manual_seed(seed))
    plan = plan_members(members_of_allocations([allocation]), "pick", scores=scores)
    assert len(set(plan.members.tolist())) == plan.count == allocation.tokens


@settings(max_examples=30, deadline=None)
@given(st.integers(3, 19), st.integers(3, 19), st.floats(0.05, 1.0), st.integers(0, 5))
def test_slots_of_leaves_agree_with_painting_them(rows: int, cols: int, keep: float, seed: int):
    allocation = tree(rows, cols, keep, seed)
    slots = seen_slots([allocation])
    assert np.array_equal(slots, slots_by_hand(allocation))
    assert len(np.unique(slots[slots >= 0])) == allocation.tokens


def test_slots_of_several_pictures_never_meet():
    allocations = [tree(8, 6, 0.3, 1), tree(5, 9, 0.5, 2), tree(4, 4, 0.25, 3)]
    slots = seen_slots(allocations)
    parts = np.split(slots, np.cumsum([48, 45])[:2])
    assert [len(np.unique(part)) for part in parts] == [a.tokens for a in allocations]
    assert len(np.unique(slots)) == sum(a.tokens for a in allocations)
    for part, allocation in zip(parts, allocations, strict=True):
        one = seen_slots([allocation])
        assert np.array_equal(np.unique(one, return_inverse=True)[1], np.unique(part, return_inverse=True)[1])
    assert len(seen_slots([])) == 0


def test_sparse_leaves_drop_the_rest_and_the_finer_region_has_the_cell():
    relevance = np.zeros((6, 6), np.float32)
    relevance[2, 3] = relevance[5, 5] = 1
    slots = seen_slots([allocate(relevance, 2, image_size=(48, 48), cell=8, strategy="top_k")])
    assert np.flatnonzero(slots >= 0).tolist() == [15, 35]
    overlapping = Allocation(
        boxes=np.array([[0, 0, 8, 8], [0, 0, 32, 32]]),
        levels=np.array([0, 2]),
        counts=np.ones(2),
        scores=np.ones(2),
        height=48,
        width=48,
        budget=2,
        full=36,
        strategy="test",
        sparse=True,
        cell=8,
    )
    slots = seen_slots([overlapping]).reshape(6, 6)
    assert slots[0, 0] == 0
    assert (slots[:4, :4].ravel()[1:] == 1).all()
    assert (slots[4:] == -1).all()


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
    slots = seen_slots([region]).reshape(10, 10)
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


def test_outputs_stand_in_the_order_of_their_mean_index():
    slots = torch.tensor([7, 3, 3, 7, 0, 7])  # means: slot 7 → 8/3, slot 3 → 1.5, slot 0 → 4
    plan = plan_average(members_of_slots(slots))
    assert plan.positions(torch.arange(6)[None]).tolist() == [pytest.approx([1.5, 8 / 3, 4.0])]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_keeping_everything_and_selecting_are_bit_exact(dtype: torch.dtype):
    tokens = torch.randn(20, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    assert torch.equal(plan_average(members_of_slots(torch.randperm(20))).apply(tokens), tokens)
    chosen = torch.tensor([1, 4, 9, 19])
    assert torch.equal(plan_selection(chosen, 20).apply(tokens), tokens[chosen])
    slots = torch.full((20,), -1)
    slots[chosen] = torch.tensor([3, 2, 1, 0])
    assert torch.equal(plan_average(members_of_slots(slots)).apply(tokens), tokens[chosen])


def test_planes_and_positions_go_by_the_same_plan():
    slots = torch.from_numpy(seen_slots([tree(8, 8, 0.4)]))
    planes = torch.randn(64, 3, 5)
    for plan in (
        plan_average(members_of_slots(slots)),
        plan_members(members_of_slots(slots), "pick", scores=torch.rand(64)),
    ):
        stacked = plan.apply(planes)
        assert torch.allclose(stacked[:, 1], plan.apply(planes[:, 1]), atol=1e-6)
        place = torch.stack([torch.arange(64) // 8, torch.arange(64) % 8])
        assert torch.allclose(plan.positions(place).float(), plan.apply(place.T.float()).T, atol=1e-6)


def test_whole_positions_stay_whole_and_others_become_float():
    assert (
        plan_average(members_of_slots(torch.tensor([0, 0, 0]))).positions(torch.tensor([[1, 2, 3]])).dtype
        == torch.int64
    )
    assert plan_average(members_of_slots(torch.tensor([0, 0]))).positions(torch.tensor([[1, 2]])).tolist() == [[1.5]]


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(-1, 4), st.integers(0, 3)), min_size=1, max_size=30))
def test_pick_takes_the_best_of_each_slot_and_the_first_of_equals(pairs: list[tuple[int, int]]):
    slots, scores = (torch.tensor(column) for column in zip(*pairs, strict=True))
    expected = sorted(
        max((i for i, s in enumerate(slots.tolist()) if s == slot), key=lambda i: (scores[i].item(), -i))
        for slot in set(slots.tolist()) - {-1}
    )
    assert plan_pick(slots, scores.float()).members.tolist() == expected


def test_pick_without_scores_takes_the_middle():
    slots = torch.zeros(9, dtype=torch.int64)
    places = torch.stack([torch.arange(9) // 3, torch.arange(9) % 3], dim=1)
    assert plan_members(members_of_slots(slots), "pick", places=places).members.tolist() == [4]
    assert centrality(slots, places).argmax() == 4
    with pytest.raises(InputError, match="needs a score or a place"):
        plan_members(members_of_slots(slots), "pick")


def test_gradients_flow_back_in_equal_shares():
    tokens = torch.ones(4, 2, requires_grad=True)
    plan_average(members_of_slots(torch.tensor([0, 0, 1, -1]))).apply(tokens).sum().backward()
    assert tokens.grad is not None
    assert tokens.grad[:, 0].tolist() == [0.5, 0.5, 1.0, 0.0]


def test_wrong_lengths_are_named():
    with pytest.raises(InputError, match="for 3 tokens, got 4"):
        plan_average(members_of_slots(torch.tensor([0, 1, 2]))).apply(torch.zeros(4, 2))
    with pytest.raises(InputError, match="one score per token"):
        plan_pick(torch.tensor([0, 1]), torch.zeros(3))
    with pytest.raises(InputError, match="NaN"):
        plan_pick(torch.tensor([0, 1]), torch.tensor([0.0, torch.nan]))
