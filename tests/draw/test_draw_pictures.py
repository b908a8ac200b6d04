"""The drawings show what was decided: blocks, borders, colours and numbers, on small hand-made allocations."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from drawn_scenes import scene, spotted, tree
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.core.values import Allocation
from arr_coc.draw import difference_map, foveated, overlay
from arr_coc.draw.layout import UNSEEN, covered, difference_scale, level_rows

# ---- the true foveated picture -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(128, 192), (130, 77), (33, 1), (64, 64)])
def test_foveated_is_the_mean_of_each_block(height: int, width: int) -> None:
    """Against the plain definition: a loop over leaves, padding by replication, means of blocks."""
    pixels = np.random.default_rng(1).integers(0, 256, (height, width, 3), dtype=np.uint8)
    allocation = tree(height, width)
    padded = np.pad(pixels, ((0, 64), (0, 64), (0, 0)), mode="edge").astype(np.float64)
    expected = np.empty((height, width, 3))
    for y, x, tall, wide, level, _, _ in allocation.regions:
        block = 1 << level
        side = allocation.cell << level
        leaf = padded[y : y + side, x : x + side].reshape(side // block, block, side // block, block, 3).mean((1, 3))
        leaf = leaf.repeat(block, 0).repeat(block, 1)
        expected[y : y + tall, x : x + wide] = leaf[:tall, :wide]
    assert np.abs(foveated(pixels, allocation) - expected).max() <= 0.75  # rounding to whole numbers, no more


def test_level_zero_everywhere_changes_nothing_and_uncovered_ground_is_dark() -> None:
    pixels = scene(64, 96)
    one = {"levels": [0], "counts": [1], "scores": [1], "height": 64, "width": 96, "full": 6}
    whole = Allocation(boxes=[[0, 0, 64, 96]], budget=6, strategy="full", **one)
    np.testing.assert_array_equal(foveated(pixels, whole), pixels)
    part = Allocation(boxes=[[0, 0, 32, 32]], budget=1, strategy="top_k", sparse=True, **one)
    seen = foveated(pixels, part)
    np.testing.assert_array_equal(seen[:32, :32], pixels[:32, :32])
    assert (seen[32:] == UNSEEN).all()


def test_a_resizing_backbone_is_shown_at_its_own_resolution() -> None:
    pixels = scene(200, 300)
    allocation = tree(64, 96)
    resized = Allocation(
        boxes=np.rint(allocation.boxes * (200 / 64)),
        levels=allocation.levels,
        counts=allocation.counts,
        scores=allocation.scores,
        height=200,
        width=300,
        budget=9,
        full=6,
        strategy="quadtree",
        canvas=(64, 96),
    )
    seen = foveated(pixels, resized)
    assert seen.shape == (64, 96, 3)
    np.testing.assert_array_equal(seen[:32, :32], cv2.resize(pixels, (96, 64), interpolation=cv2.INTER_AREA)[:32, :32])


# ---- geometry --------------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(*[st.integers(-3, 20)] * 4), max_size=12), st.integers(1, 17), st.integers(1, 17))
def test_covered_agrees_with_painting_one_box_after_the_other(
    corners: list[tuple[int, int, int, int]], height: int, width: int
) -> None:
    boxes = np.array([(min(a, c), min(b, d), max(a, c), max(b, d)) for a, b, c, d in corners], dtype=int)
    boxes = boxes.reshape(-1, 4)
    expected = np.zeros((height, width), dtype=bool)
    for top, left, bottom, right in boxes:
        expected[max(top, 0) : max(bottom, 0), max(left, 0) : max(right, 0)] = True
    np.testing.assert_array_equal(covered(boxes, (height, width)), expected)


# ---- leaves that lie on one another --------------------------------------------------------------------------------


def test_what_lies_on_top_is_what_the_model_is_shown_to_see() -> None:
    pixels, allocation = scene(256, 384), spotted()
    assert len(set(allocation.levels.tolist())) > 1
    assert allocation.boxes[:, 2:].prod(1).sum() > 256 * 384, "some ground is covered twice"
    expected = np.zeros((256, 384, 3))
    for y, x, tall, wide, level, _, _ in sorted(allocation.regions, key=lambda region: -region.level):
        block = 1 << level
        leaf = pixels[y : y + tall, x : x + wide].astype(np.float64)
        leaf = (
            leaf.reshape(tall // block, block, wide // block, block, 3).mean((1, 3)).repeat(block, 0).repeat(block, 1)
        )
        expected[y : y + tall, x : x + wide] = leaf
    assert np.abs(foveated(pixels, allocation) - expected).max() <= 0.75
    drawn = overlay(pixels, allocation)
    np.testing.assert_array_equal(drawn[104:120, 104:120], pixels[104:120, 104:120])


def test_the_legend_counts_every_token_and_only_the_ground_that_is_seen() -> None:
    allocation = spotted()
    rows = level_rows(allocation)
    assert sum(row.tokens for row in rows) == allocation.tokens == 16
    assert sum(row.area for row in rows) == pytest.approx(1)
    assert rows[0].area == pytest.approx((allocation.level_map() == 0).mean())


# ---- overlay, heat, difference ------------------------------------------------------------------------------------


def test_difference_is_orange_where_the_first_spends_more() -> None:
    first, second = tree(256, 384), tree(256, 384, corner="right")
    drawn = difference_map(first, second, (256, 384))
    orange, same, blue = drawn[16, 16].astype(int), drawn[200, 200].astype(int), drawn[16, 380].astype(int)
    np.testing.assert_array_equal(orange, difference_scale()[0])
    np.testing.assert_array_equal(blue, difference_scale()[255])
    assert same.min() > 200
    assert (difference_map(first, first, (64, 96)) == difference_map(second, second, (64, 96))).all()
