"""One budget for a clip: exact, spent where ground is new."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from clip_scenes import scene
from hypothesis import given
from hypothesis import strategies as st

from arr_coc import InputError
from arr_coc.attending.overlay import overlay, token_gains
from arr_coc.options import Options
from arr_coc.video.answering import as_seen, group_allocations, side_by_side
from arr_coc.video.watching import grow_forest, share_tokens, watch


@pytest.mark.parametrize("scale", [0.5, 1, 1.5, 2])
def test_a_clip_seen_from_another_distance_costs_as_much(scale: float) -> None:
    frames = scene(1, 3, step=4)
    watched = watch(frames, "What number is on the red card?", budget=41, options=Options(scale=scale))
    side = 32 * round(8 * scale)
    assert watched.tokens == 41
    assert watched.full == 3 * 64
    assert {one.scale for one in watched.allocations} == {scale}
    assert {one.canvas or (one.height, one.width) for one in watched.allocations} == {(side, side)}
    assert [one.tokens for one in group_allocations(watched, 2)] != []
    assert {one.scale for one in group_allocations(watched, 2)} == {scale}
    # Resized for a sheet, the first frame keeps its leaves.
    first, sheet = watched.allocations[0], side_by_side(*zip(as_seen(frames[0], watched.allocations[0]), strict=True))
    assert sheet[1].canvas is None
    assert np.array_equal(sheet[1].leaf_cells(), first.leaf_cells())
    assert int((sheet[1].boxes[0, 2:] // (32 << sheet[1].levels[0])).prod()) == 1


def test_auto_enlarges_a_clip_whose_letters_are_small_and_by_default_none() -> None:
    page = np.full((256, 256, 3), 250, np.uint8)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due", "Reference HX 20391") * 3):
        cv2.putText(page, line, (8, 24 + 24 * number), cv2.FONT_HERSHEY_SIMPLEX, 0.3, (20, 20, 20))
    frames = [page, np.roll(page, 4, axis=0), np.roll(page, 8, axis=0)]
    plain, nearer = (
        watch(frames, "What is the total?", budget=60, options=Options(grip="mini", scale=scale))
        for scale in (None, "auto")
    )
    assert plain.distance.scale == 1
    assert nearer.distance.scale > 1.2
    assert nearer.tokens == plain.tokens == 60
    assert any("times as large" in note for note in nearer.notes)
    with pytest.raises(InputError, match="is not possible"):
        watch(frames, "What is the total?", options=Options(scale=0))


@given(st.integers(1, 13), st.integers(1, 13), st.integers(1, 5), st.floats(0, 1), st.integers(0, 99))
def test_totals_are_exact(rows: int, cols: int, frames: int, share: float, seed: int) -> None:
    total = max(frames, round(share * frames * rows * cols))
    demand = torch.rand(2, frames, rows, cols, generator=torch.Generator().manual_seed(seed)) ** 4
    counts = share_tokens(demand, total)
    assert torch.equal(grow_forest(demand, total).lengths, counts.flatten())
    assert int(counts.min()) >= 1
    assert counts.sum(1).tolist() == [total] * 2


@given(st.integers(1, 9), st.integers(1, 9), st.integers(0, 99))
def test_the_tokens_of_two_frames_are_those_that_gain_most(rows: int, cols: int, seed: int) -> None:
    """By trying all shares: no other two numbers of tokens gain more in sum."""
    demand = torch.rand(1, 2, rows, cols, generator=torch.Generator().manual_seed(seed)) ** 4
    full, gains = rows * cols, token_gains(demand[0])
    assert bool((gains.diff() <= 0).all()), "the next token never gains more"
    total = max(2, full)
    sums = {first: float(gains[0, :first].sum() + gains[1, : total - first].sum()) for first in range(1, total)}
    first = int(share_tokens(demand, total)[0, 0])
    assert sums[first] == pytest.approx(max(sums.values()), abs=1e-4)
    # And what is counted as a token's gain is what numpy's lane says.
    assert np.allclose(token_gains(demand[0].numpy()), gains, atol=1e-6)


def test_one_frame_is_the_plain_overlay() -> None:
    relevance = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1))
    leaves, plain = grow_forest(relevance[:, None], 64), overlay(relevance, [64] * 3)
    assert torch.equal(leaves.cells, plain.cells)
    assert torch.equal(leaves.scores, plain.scores)


def test_what_cannot_be_shared_is_said_in_a_line() -> None:
    with pytest.raises(InputError, match="less than one"):
        share_tokens(torch.rand(1, 4, 16, 16), 3)


def test_watch_shares_a_clips_budget() -> None:
    frames = scene(1, 4) + scene(2, 4)
    watched = watch(frames, "What number is on the red card?", budget=41)
    assert watched.tokens == 41
    assert watched.cuts == [4]
    tokens = [frame.tokens for frame in watched.frames]
    assert min(tokens[0], tokens[4]) > max(tokens[1:4] + tokens[5:])
    assert (tokens[0] + tokens[4]) / 2 > 1.3 * (sum(tokens) - tokens[0] - tokens[4]) / 6
    # In groups of two frames, as the released Qwen3-VL take them, the total is kept as well.
    groups = group_allocations(watched, 2)
    assert len(groups) == 4
    assert sum(one.tokens for one in groups) == 41


def test_watch_says_what_is_wrong() -> None:
    frames = scene(1, 2)
    with pytest.raises(InputError, match="no frame"):
        watch([], "a card")
    with pytest.raises(InputError, match="does not fit"):
        watch(frames, "a card", budget=1)
    with pytest.raises(InputError, match="frames of one size"):
        watch([frames[0], np.ascontiguousarray(frames[1][:128])], "a card")
