"""One budget for a clip: exact, capped, spent where ground is new."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from clip_scenes import scene
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc import InputError
from arr_coc.attending import build_tree, quadtree
from arr_coc.video import grow_forest, watch
from arr_coc.video.answering import group_allocations
from arr_coc.video.forest import clip_tree, demand_of


@settings(max_examples=40, deadline=None)
@given(
    st.integers(1, 13), st.integers(1, 13), st.integers(1, 5), st.floats(0, 1), st.floats(0.2, 1), st.integers(0, 99)
)
def test_totals_are_exact_and_caps_hold(
    rows: int, cols: int, frames: int, share: float, most: float, seed: int
) -> None:
    full = rows * cols
    total = max(frames, round(share * frames * full))
    tree = clip_tree((rows * 32, cols * 32), frames, total)
    cap = max(tree.floor, round(most * full))
    demand = torch.rand(2, frames, rows, cols, generator=torch.Generator().manual_seed(seed)) ** 4
    forest = grow_forest(demand, tree, total, cap)
    assert torch.equal(forest.leaves(tree).lengths, forest.counts.flatten())
    assert int(forest.counts.max()) <= cap
    spent = forest.counts.sum(1)
    assert bool((spent <= total).all())
    if total <= frames * cap:
        # A split costs at most 3: more than 2 tokens are left only where no frame may take another split.
        room = (forest.counts + 3 <= cap).any(1)
        assert bool(((total - spent <= 2) | ~room).all())


def test_one_frame_is_the_plain_quadtree() -> None:
    tree = build_tree(16, 16, 3)
    relevance = torch.rand(3, 16, 16, generator=torch.Generator().manual_seed(1))
    leaves = grow_forest(relevance[:, None], tree, 64).leaves(tree)
    assert torch.equal(leaves.cells, quadtree(relevance, tree, 64).cells)


def test_new_ground_is_worth_more_than_repeated_ground() -> None:
    tree = build_tree(16, 16, 3)
    relevance = torch.rand(1, 4, 16, 16, generator=torch.Generator().manual_seed(2))
    same = torch.ones(1, 4, 16, 16)
    same[:, 0] = same[:, 2] = 0  # the clip's first frame, and a cut
    counts = grow_forest(demand_of(relevance, same), tree, 120).counts[0]
    assert counts[1] == counts[3] == tree.floor
    assert counts[0] > 40
    assert counts[2] > 40


def test_repeated_frames_may_cost_a_single_token() -> None:
    """Half of a small budget would otherwise go to frames that show nothing new."""
    tree = clip_tree((512, 512), 8, 51)
    relevance = torch.rand(1, 8, 16, 16, generator=torch.Generator().manual_seed(2)) ** 8
    same = torch.ones(1, 8, 16, 16)
    same[:, 0] = 0
    forest = grow_forest(demand_of(relevance, same), tree, 51)
    counts = forest.counts[0].tolist()
    assert counts[0] == 43
    assert counts[1:] == [1] * 7


def test_what_cannot_be_shared_is_said_in_a_line() -> None:
    with pytest.raises(InputError, match="less than one"):
        clip_tree((256, 256), 10, 9)
    with pytest.raises(InputError, match="do not reach"):
        grow_forest(torch.rand(1, 4, 16, 16), build_tree(16, 16, 3), 15)


def test_watch_shares_a_clips_budget() -> None:
    frames = scene(1, 4) + scene(2, 4)
    watched = watch(frames, "What number is on the red card?", budget=41)
    assert watched.tokens == 41  # 8 floors of 1, and 11 splits
    assert watched.cuts == [4]
    tokens = [frame.tokens for frame in watched.frames]
    assert min(tokens[0], tokens[4]) > 3 * max(tokens[1:4] + tokens[5:])
    assert watched.clearest() in (0, 4)
    inside = watched.coherence["inside"]
    assert inside is not None
    assert inside > 0.8
    # Mips in time: the mean over two frames and two by two places.
    fine, coarse = watched.mips(2)
    assert coarse.shape == (4, 2, 64, 64)
    assert torch.allclose(coarse[0, :, 0, 0], fine[:2, :, :2, :2].mean((0, 2, 3)), atol=1e-6)
    capped = watch(frames, "What number is on the red card?", budget=41, cap=10)
    assert max(frame.tokens for frame in capped.frames) <= 10
    assert capped.tokens == 41
    # In groups of two frames, as the released Qwen3-VL take them, the total is kept as well.
    groups = group_allocations(watched, 2)
    assert len(groups) == 4
    assert sum(one.tokens for one in groups) == 40  # 4 floors, and 12 splits


def test_watch_says_what_is_wrong() -> None:
    frames = scene(1, 2)
    with pytest.raises(InputError, match="no frame"):
        watch([], "a card")
    with pytest.raises(InputError, match="does not fit"):
        watch(frames, "a card", budget=1)
    with pytest.raises(InputError, match="frames of one size"):
        watch([frames[0], np.ascontiguousarray(frames[1][:128])], "a card")
