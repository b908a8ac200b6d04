"""The drawings show what was decided: blocks, borders, colours and numbers, on small hand-made allocations."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from arr_coc.attending import allocate
from arr_coc.draw import comparison, contact_sheet, difference_map, foveated, heat, homunculus, overlay
from arr_coc.draw.layout import Window, boxes_at, covered, fit, levels_at
from arr_coc.draw.legend import level_rows
from arr_coc.draw.lettering import letter_mask, shorten, text_width, wrap, write
from arr_coc.draw.palette import UNSEEN, difference_scale, level_colour, relevance_scale
from arr_coc.draw.panes import lens, mip, places_apart, places_of_interest
from arr_coc.errors import InputError
from arr_coc.pictures import Picture, load_picture
from arr_coc.values import Allocation, Relevance

GOLDEN = Path(__file__).parent / "golden"


def scene(height: int, width: int, seed: int = 0) -> np.ndarray:
    """(height, width, 3) uint8: smooth ground, a bright square, fine stripes; the same everywhere."""
    rng = np.random.default_rng(seed)
    ground = cv2.resize(
        rng.integers(40, 200, (6, 8, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_NEAREST
    )
    ground[height // 8 : height // 3, width // 8 : width // 3] = (240, 230, 90)
    ground[height // 2 :, width // 2 :: 4] //= 3
    return ground


def tree(height: int, width: int, *, cell: int = 32, corner: str = "left") -> Allocation:
    """A tiling of level-1 leaves with one of them split: the upper left one, or the upper right one."""
    rows, cols = -(-height // (2 * cell)), -(-width // (2 * cell))
    y, x = np.divmod(np.arange(rows * cols), cols)
    cells = np.stack([2 * y, 2 * x, np.ones_like(y)], axis=1)
    split = 0 if corner == "left" else cols - 1
    first = cells[split]
    fine = np.array([[first[0] + dy, first[1] + dx, 0] for dy in (0, 1) for dx in (0, 1)])
    fine = fine[(fine[:, 0] * cell < height) & (fine[:, 1] * cell < width)]
    cells = np.concatenate([fine, np.delete(cells, split, axis=0)])
    start = cells[:, :2] * cell
    stop = np.minimum(start + (cell << cells[:, 2:]), (height, width))
    return Allocation(
        boxes=np.concatenate([start, stop - start], axis=1),
        levels=cells[:, 2],
        counts=np.ones(len(cells)),
        scores=np.linspace(1, 0, len(cells)),
        height=height,
        width=width,
        budget=len(cells),
        full=-(-height // cell) * -(-width // cell),
        strategy="quadtree",
        cell=cell,
    )


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
    whole = Allocation(
        boxes=[[0, 0, 64, 96]],
        levels=[0],
        counts=[1],
        scores=[1],
        height=64,
        width=96,
        budget=6,
        full=6,
        strategy="full",
    )
    np.testing.assert_array_equal(foveated(pixels, whole), pixels)
    part = Allocation(
        boxes=[[0, 0, 32, 32]],
        levels=[0],
        counts=[1],
        scores=[1],
        height=64,
        width=96,
        budget=1,
        full=6,
        strategy="top_k",
        sparse=True,
    )
    seen = foveated(pixels, part)
    np.testing.assert_array_equal(seen[:32, :32], pixels[:32, :32])
    assert (seen[32:] == UNSEEN).all()


def test_a_reduced_picture_shows_nearly_the_same() -> None:
    pixels = cv2.GaussianBlur(scene(512, 768), (0, 0), 6)
    allocation = tree(512, 768)
    small = load_picture(pixels, longest_side=384)
    assert small.pixels.shape[:2] == (256, 384)
    from_small, from_large = (foveated(source, allocation, (256, 384)).astype(int) for source in (small, pixels))
    assert np.abs(from_small - from_large).mean() < 2


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


def test_mip_of_constant_colour_is_that_colour() -> None:
    for level in range(6):
        assert (mip(np.full((37, 53, 3), 77, dtype=np.uint8), level, (37, 53)) == 77).all()


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


def test_levels_on_the_display_match_the_map_of_cells() -> None:
    allocation = tree(256, 384)
    cells = allocation.level_map()
    np.testing.assert_array_equal(levels_at(allocation, (256, 384)), cells.repeat(32, 0).repeat(32, 1))
    np.testing.assert_array_equal(levels_at(allocation, (8, 12)), cells)
    window = Window(32, 32, 64, 64)
    np.testing.assert_array_equal(levels_at(allocation, (2, 2), window), cells[1:3, 1:3])


def test_where_regions_overlap_the_finer_one_is_seen() -> None:
    overlapping = Allocation(
        boxes=[[0, 0, 32, 32], [0, 0, 64, 64]],
        levels=[0, 1],
        counts=[1, 1],
        scores=[1, 1],
        height=64,
        width=64,
        budget=2,
        full=4,
        strategy="saccades",
        sparse=True,
    )
    np.testing.assert_array_equal(levels_at(overlapping, (2, 2)), [[0, 1], [1, 1]])


def test_boxes_still_touch_on_any_display() -> None:
    allocation = tree(257, 333)
    for size in ((100, 130), (31, 17), (514, 700)):
        assert (levels_at(allocation, size) >= 0).all()
        assert boxes_at(allocation, size).min() >= 0


# ---- leaves that lie on one another --------------------------------------------------------------------------------


def spotted(height: int = 256, width: int = 384) -> Allocation:
    """An overlay: coarse leaves everywhere, single cells on the middle of one of them, some between."""
    relevance = np.zeros((height // 32, width // 32), dtype=np.float32)
    relevance[3:5, 3:5] = relevance[6, 10] = 1
    return allocate(relevance, 16, image_size=(height, width))


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


def test_a_close_up_of_coarse_ground_shows_coarse_ground() -> None:
    picture, allocation = load_picture(scene(256, 384)), spotted()
    levels = allocation.level_map()
    for level, (y, x) in places_of_interest(picture, allocation).items():
        assert levels[int(y) // 32, int(x) // 32] == level
    # All of the coarse leaves' centres are hidden: a place beside them is shown.
    hidden = Allocation(
        boxes=[[0, 0, 128, 128], [64, 64, 32, 32]],
        levels=[2, 0],
        counts=[1, 1],
        scores=[0, 1],
        height=128,
        width=128,
        budget=2,
        full=16,
        strategy="overlay",
    )
    y, x = places_of_interest(load_picture(scene(128, 128)), hidden)[2]
    assert hidden.level_map()[int(y) // 32, int(x) // 32] == 2


def test_pages_of_overlays_are_drawn() -> None:
    pixels, allocation = scene(256, 384), spotted()
    assert homunculus(pixels, allocation, np.eye(8), "where?").width == 1280
    assert comparison(pixels, [allocation, tree(256, 384)], ["overlay", "quadtree"]).width == 1280


# ---- overlay, heat, difference ------------------------------------------------------------------------------------


def test_overlay_keeps_fine_ground_and_veils_coarse_ground() -> None:
    pixels = scene(256, 384)
    drawn = overlay(pixels, tree(256, 384))
    inside_fine, inside_coarse = (slice(8, 24), slice(8, 24)), (slice(140, 180), slice(140, 180))
    np.testing.assert_array_equal(drawn[inside_fine], pixels[inside_fine])
    assert np.abs(drawn[inside_coarse].astype(int) - pixels[inside_coarse]).mean() > 10
    outline = drawn[30, 62].astype(int)  # just inside the split leaf, where the level changes
    assert np.abs(outline - level_colour(0)).max() < 40


def test_heat_follows_the_scale_and_its_order() -> None:
    ramp = np.linspace(0, 1, 64, dtype=np.float32)[None].repeat(8, 0)
    drawn = heat(Relevance(ramp), (8, 64))
    np.testing.assert_array_equal(drawn[0, 0], relevance_scale()[0])
    np.testing.assert_array_equal(drawn[0, -1], relevance_scale()[255])
    brightness = drawn[0].astype(int) @ [299, 587, 114]
    assert (np.diff(brightness) >= 0).all()  # more relevance is never darker


def test_difference_is_orange_where_the_first_spends_more() -> None:
    first, second = tree(256, 384), tree(256, 384, corner="right")
    drawn = difference_map(first, second, (256, 384))
    orange, same, blue = drawn[16, 16].astype(int), drawn[200, 200].astype(int), drawn[16, 380].astype(int)
    np.testing.assert_array_equal(orange, difference_scale()[0])
    np.testing.assert_array_equal(blue, difference_scale()[255])
    assert same.min() > 200
    assert (difference_map(first, first, (64, 96)) == difference_map(second, second, (64, 96))).all()


def test_close_ups_go_where_the_levels_are() -> None:
    pixels = scene(256, 384)
    allocation = tree(256, 384)
    places = places_of_interest(load_picture(pixels), allocation)
    assert max(places[0]) < 64  # inside the split leaf
    given_pixels, seen = lens(load_picture(pixels), allocation, (32, 32), (64, 64), cells=2)
    np.testing.assert_array_equal(given_pixels, pixels[:64, :64])
    np.testing.assert_array_equal(seen, foveated(pixels, allocation)[:64, :64])
    here, there = places_apart(allocation, tree(256, 384, corner="right"))
    assert here[1] < 64
    assert there[1] > 320


def test_legend_counts_every_token_and_all_of_the_area() -> None:
    rows = level_rows(tree(250, 380))
    assert [row.level for row in rows] == [0, 1]
    assert sum(row.tokens for row in rows) == tree(250, 380).tokens
    assert sum(row.area for row in rows) == pytest.approx(1)
    assert rows[0].side == 32


# ---- lettering ------------------------------------------------------------------------------------------------------


def test_lettering_draws_any_script_and_fits_the_room() -> None:
    canvas = np.full((60, 300, 3), 255, dtype=np.uint8)
    assert write(canvas, "Größe (cm)? 番号", 5, 5, size=20) > 50
    assert canvas.min() < 80
    assert letter_mask("iiii", 20).shape[1] < letter_mask("WWWW", 20).shape[1]
    long = "What number is written on the small red sign beside the second door? " * 4
    lines = wrap(long, 400, 18, lines=3)
    assert len(lines) == 3
    assert all(text_width(line, 18) <= 400 for line in lines)
    assert lines[-1].endswith("…")
    assert " ".join(wrap("one two three", 400, 18)) == "one two three"
    unspaced = wrap("番号" * 60, 300, 18, lines=2)
    assert all(text_width(line, 18) <= 300 for line in unspaced)
    assert shorten("short", 400, 18) == "short"
    write(canvas, "cut off on both sides", -40, 50, size=20)  # must not raise


def test_the_typeface_of_older_opencv_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import arr_coc.draw.lettering as lettering

    monkeypatch.setattr(lettering, "_opencv_faces", lambda: None)
    letter_mask.cache_clear()
    try:
        assert letter_mask("Où × 32", 16).max() > 200
    finally:
        letter_mask.cache_clear()


# ---- whole pages ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("height", "width"), [(256, 384), (384, 256), (1, 1), (40, 1200), (900, 30)])
def test_homunculus_of_any_shape(height: int, width: int) -> None:
    pixels = scene(height, width) if min(height, width) > 8 else np.full((height, width, 3), 99, dtype=np.uint8)
    relevance = Relevance(np.random.default_rng(0).random((8, 8)).astype(np.float32))
    page = homunculus(pixels, tree(height, width), relevance, "What is it?", width=960)
    assert page.width == 960
    assert 300 < page.height < 3000
    packed = np.asarray(page).astype(np.uint32) @ np.array([65536, 256, 1], dtype=np.uint32)
    assert len(np.unique(packed)) > 20  # more than empty paper and one colour


def test_homunculus_reads_a_reduced_picture_and_refuses_another_one() -> None:
    reduced = load_picture(scene(512, 768), longest_side=200)
    assert isinstance(homunculus(reduced, tree(512, 768), None, "?"), Image.Image)
    with pytest.raises(InputError, match="for a picture of 768×512"):
        homunculus(scene(100, 100), tree(512, 768))


def test_comparison_and_contact_sheet() -> None:
    pixels = scene(256, 384)
    pair = [tree(256, 384), tree(256, 384, corner="right")]
    page = comparison(pixels, pair, ["the left sign", "the right sign"], width=960)
    swapped = comparison(pixels, pair[::-1], ["the left sign", "the right sign"], width=960)
    assert page.size == swapped.size
    assert page.tobytes() != swapped.tobytes()
    sheet = contact_sheet([pixels, page, pixels], ["a", "b", "c"], columns=2, width=640)
    assert sheet.width == 640
    with pytest.raises(InputError):
        contact_sheet([])


def test_drawing_twice_gives_the_same_picture() -> None:
    arguments = (scene(256, 384), tree(256, 384), Relevance(np.eye(8, dtype=np.float32)), "Which?")
    first, second = (hashlib.sha256(homunculus(*arguments).tobytes()).hexdigest() for _ in range(2))
    assert first == second


@pytest.mark.parametrize("kind", ["overlay", "foveated", "heat", "difference"])
def test_golden(kind: str) -> None:
    """Small pictures kept in the repository; a change of the drawing must be looked at and accepted.

    To accept: delete tests/draw/golden and run the tests once.
    """
    pixels, allocation = scene(192, 256), tree(192, 256, cell=16)
    ramp = np.linspace(0, 1, 12 * 16, dtype=np.float32).reshape(12, 16)
    drawn = {
        "overlay": lambda: overlay(pixels, allocation),
        "foveated": lambda: foveated(pixels, allocation),
        "heat": lambda: heat(ramp, (192, 256), pixels),
        "difference": lambda: difference_map(allocation, tree(192, 256, cell=16, corner="right"), (192, 256), pixels),
    }[kind]()
    path = GOLDEN / f"{kind}.png"
    if not path.exists():
        GOLDEN.mkdir(exist_ok=True)
        Image.fromarray(drawn).save(path, optimize=True)
        pytest.fail(f"{path.name} did not exist and was written; look at it and run again")
    with Image.open(path) as image:
        golden = np.asarray(image.convert("RGB")).astype(int)
    # Other processors round resampling differently by one; a moved line or a changed colour differs by far more.
    assert golden.shape == drawn.shape
    assert (np.abs(golden - drawn) > 3).mean() < 0.002


def test_fit_keeps_the_shape() -> None:
    assert fit(100, 200, 50, 50) == (25, 50)
    assert fit(1, 5000, 100, 100) == (1, 100)
    assert Picture(np.zeros((1, 1, 3), np.uint8), "x", 1, 1).size == (1, 1)


def test_a_patch_of_many_tokens_is_drawn_as_its_grid_and_at_its_own_resolution() -> None:
    noise = np.random.default_rng(0).integers(0, 256, (320, 640, 3), dtype=np.uint8)
    relevance = np.zeros((20, 40), dtype=np.float32)
    relevance[:, 30:] = 1
    allocation = allocate(relevance, 464, strategy="classic", cell=16)
    assert allocation.counts.tolist() == [64, 400]
    seen = foveated(noise, allocation)
    assert np.array_equal(seen[:, 320:], noise[:, 320:]), "400 tokens are the cells themselves"
    blocks = seen[:, :320].reshape(320, 320 * 3)
    assert len(np.unique(blocks[:5], axis=0)) == 2, "64 tokens: blocks of 2.5 pixels, two in five"
    lines = overlay(np.full_like(noise, 200), allocation)
    assert (lines[:, 320] != lines[:, 330]).any()
    assert homunculus(noise, allocation, relevance, "the right half").width == 1280
    assert [row.tokens for row in level_rows(allocation)] == [400, 64]


def test_a_scanpath_is_drawn_over_the_regions() -> None:
    relevance = np.zeros((16, 16), dtype=np.float32)
    relevance[2:4, 2:4], relevance[12:14, 11:13] = 1.0, 0.8
    allocation = allocate(relevance, 32, strategy="saccades", image_size=(512, 512))
    grey = np.full((512, 512, 3), 120, dtype=np.uint8)
    with_path = overlay(grey, allocation)
    without = overlay(grey, replace(allocation, scanpath=()))
    changed = (with_path != without).any(axis=2)
    for y, x in allocation.scanpath:
        assert changed[y, x]
    assert 0 < changed.mean() < 0.1
