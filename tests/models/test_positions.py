"""Positions of leaves against transformers' own positions, and against the mean of what they cover."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.vision_utils import get_vision_interpolation_indices_and_weights, get_vision_position_ids

from arr_coc import InputError
from arr_coc.realizing.positions import language_positions, position_taps, prompt_positions, vision_positions


def all_leaves(rows: int, cols: int) -> torch.Tensor:
    y, x = torch.meshgrid(torch.arange(rows), torch.arange(cols), indexing="ij")
    return torch.stack([y, x, torch.zeros_like(y)], -1).view(-1, 3)


@settings(max_examples=20, deadline=None)
@given(rows=st.integers(1, 12), cols=st.integers(1, 12), side=st.integers(2, 48))
def test_level_zero_has_the_positions_and_taps_of_the_stock_tower(rows: int, cols: int, side: int) -> None:
    grid = torch.tensor([[1, rows * 2, cols * 2]])
    positions = vision_positions(all_leaves(rows, cols)).view(-1, 2)
    assert torch.equal(positions, get_vision_position_ids(grid, 2).float())
    indices, weights = position_taps(positions, grid[0, 1:], side)
    expected = get_vision_interpolation_indices_and_weights(
        grid, side, mode="bilinear", align_corners=True, spatial_merge_size=2
    )
    torch.testing.assert_close(weights, expected[1], atol=1e-6, rtol=0)
    # Where a weight is zero the tap does not matter; everywhere else it must be the same.
    assert torch.equal(indices[weights > 1e-6], expected[0][weights > 1e-6])


@settings(max_examples=25, deadline=None)
@given(row=st.integers(0, 3), col=st.integers(0, 3), level=st.integers(0, 3))
def test_a_coarse_leaf_lies_at_the_mean_of_what_it_covers(row: int, col: int, level: int) -> None:
    side = 1 << level
    leaf = torch.tensor([row * side, col * side, level])
    y, x = torch.meshgrid(torch.arange(side * 2), torch.arange(side * 2), indexing="ij")
    covered = torch.stack([y + row * side * 2, x + col * side * 2], -1).float()
    quarters = covered.view(2, side, 2, side, 2).mean((1, 3)).view(4, 2)
    torch.testing.assert_close(vision_positions(leaf), quarters)
    cells = covered.view(side, 2, side, 2, 2).float()[:, 0, :, 0].reshape(-1, 2) / 2
    torch.testing.assert_close(
        language_positions(leaf, torch.tensor([99, 99])), torch.cat([torch.zeros(1), cells.mean(0)])
    )


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_a_prompt_has_the_positions_of_a_stock_model(data: st.DataObject) -> None:
    """Level 0 everywhere, random prompts, left or right padding: the slow loop of transformers is the other route."""
    from types import SimpleNamespace

    from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLModel

    image = 7
    rows, grids = [], []
    for _ in range(data.draw(st.integers(1, 3), label="batch")):
        ids = [1] * data.draw(st.integers(1, 4))
        for _ in range(data.draw(st.integers(0, 3))):
            grid = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 5)))
            grids.append(grid)
            ids += [image] * (grid[0] * grid[1]) + [1] * data.draw(st.integers(1, 4))
        rows.append(ids)
    if not grids:
        return
    length, left = max(map(len, rows)), data.draw(st.booleans())
    ids, mask = torch.zeros(len(rows), length, dtype=torch.long), torch.zeros(len(rows), length, dtype=torch.long)
    for number, row in enumerate(rows):
        place = slice(length - len(row), None) if left else slice(0, len(row))
        ids[number, place], mask[number, place] = torch.tensor(row), 1
    stock: Any = SimpleNamespace(config=SimpleNamespace(vision_config=SimpleNamespace(spatial_merge_size=2)))
    stock.get_vision_position_ids = lambda *a, **k: Qwen3VLModel.get_vision_position_ids(stock, *a, **k)
    thw = torch.tensor([[1, 2 * y, 2 * x] for y, x in grids])
    rope_index: Any = Qwen3VLModel.get_rope_index
    expected, deltas = rope_index(stock, ids, (ids == image).int(), thw, attention_mask=mask)

    counts = torch.tensor([y * x for y, x in grids])
    offsets = torch.cat([language_positions(all_leaves(*grid), torch.tensor(grid)) for grid in grids], 1)
    spans = torch.tensor([max(grid) for grid in grids])
    positions, following = prompt_positions(ids == image, counts, spans, offsets, mask)
    assert torch.equal(positions[1:], expected.float())
    assert torch.equal(following, mask.sum(1) + deltas[:, 0])
    steps = positions[0].diff(dim=1)[(mask[:, 1:] & mask[:, :-1]).bool()]
    assert (steps == 1).all(), "row 0 must have no gap"


def test_a_picture_without_tokens_is_refused() -> None:
    ids = torch.tensor([[1, 7, 1]])
    with pytest.raises(InputError, match="at least one token"):
        prompt_positions(ids == 7, torch.tensor([1, 0]), torch.tensor([4, 4]), torch.zeros(3, 1), torch.ones_like(ids))
