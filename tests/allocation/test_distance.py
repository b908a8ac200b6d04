"""From how far a picture is read: the grip of a model, the scale it leads to, and what stays as it was."""

from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

import arr_coc
from arr_coc.attending.distance import Distance, View, check_scale, choose_distance
from arr_coc.attending.frame import Frame
from arr_coc.attending.grip import Grip, as_grip
from arr_coc.core.errors import InputError
from arr_coc.core.folders import part_folder
from arr_coc.core.values import Allocation
from arr_coc.packing.prices.tables import tokens_for
from arr_coc.texture.type_height import letters_of
from arr_coc_lab.calibrate.gripping import best_of, largest_read, smoothed

MINI = Grip.known("mini")
# A model that reads few sizes, so that the rule has something to choose.
NARROW_HEIGHTS = (5.0, 6.0, 7.0, 8.0, 9.5, 11.0, 13.0, 16.0, 19.0, 23.0, 28.0, 36.0, 48.0, 96.0)
NARROW_ACCURACY = (0.35, 0.45, 0.55, 0.65, 0.85, 0.97, 1.0, 0.98, 0.94, 0.7, 0.4, 0.15, 0.03, 0.0)
NARROW = Grip(NARROW_HEIGHTS, NARROW_ACCURACY, *best_of(NARROW_HEIGHTS, NARROW_ACCURACY))
LINES = ("Invoice 4821 of March", "Total amount due", "Reference HX 20391", "Paid in full, thanks")


def sheet(em: int, size: tuple[int, int] = (640, 640)) -> np.ndarray:
    picture = Image.new("RGB", size[::-1], (250, 250, 246))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(em)
    for number, line in enumerate(LINES):
        pen.text((12, 10 + number * round(1.6 * em)), line, (20, 20, 20), font)
    return np.asarray(picture)


def chosen(pixels: np.ndarray, scale="auto", grip=NARROW, tokens: int = 50) -> Distance:
    frame = Frame(pixels.shape[:2])
    view = View(pixels.shape[:2], frame, lambda: letters_of(pixels), lambda times: frame, grip)
    return choose_distance(view, scale, np.ones((20, 20), np.float32), tokens)


def test_the_grip_of_mini_comes_with_it_and_peaks_inside_its_range():
    assert MINI.low < MINI.best < MINI.high
    share = MINI.reading([1, MINI.low, MINI.best, MINI.high, 300])
    assert share[0] < 0.1
    assert share[-1] < 0.7
    assert (share[1:4] > 0.93).all()


@pytest.mark.parametrize(("em", "low", "high"), [(8, 1.2, 3.0), (17, 1.0, 1.0), (64, 0.25, 0.6)])
def test_small_print_is_magnified_large_print_is_reduced_and_the_rest_is_left(em, low, high):
    found = chosen(sheet(em))
    assert low <= found.scale <= high
    if found.scale != 1:
        seen = letters_of(sheet(em)).median() * found.scale
        assert NARROW.reading(seen) > NARROW.reading(letters_of(sheet(em)).median())
        assert "times as large" in found.notes[0]


def test_a_picture_without_type_gets_what_it_always_got_to_the_leaf():
    soft = np.random.default_rng(1).integers(0, 256, (20, 20, 3), dtype=np.uint8)
    photo = np.asarray(Image.fromarray(soft).resize((640, 640), Image.Resampling.BICUBIC))
    assert chosen(photo).letters is None
    plain, asked = (
        arr_coc.look(photo, "the dog", 100, relevance="detail", options=arr_coc.Options(grip=grip))
        for grip in (None, "mini")
    )
    assert plain == asked


def test_without_a_grip_everything_is_as_it_was_and_auto_says_what_it_takes():
    assert chosen(sheet(8), None, None).letters is None
    found = chosen(sheet(8), "auto", None)
    assert any("not measured" in note for note in found.notes)


def test_everything_is_seen_where_everything_is_paid_for():
    assert chosen(sheet(8), tokens=400).letters is None


def test_one_picture_in_two_sizes_is_read_at_one():
    small, large = (letters_of(sheet(em)).median() * chosen(sheet(em), tokens=10).scale for em in (40, 80))
    assert small == pytest.approx(large, rel=0.35)


def test_a_number_fixes_the_scale_whatever_the_picture():
    for scale in (0.5, 1.5, "2"):
        assert chosen(sheet(16), check_scale(scale)).scale == float(scale)


@pytest.mark.parametrize("wrong", [0, -1, float("nan"), float("inf"), 1000, True, "near", [1]])
def test_a_scale_that_cannot_be_is_told_in_one_line(wrong):
    with pytest.raises(InputError, match=r"scale=.* is not possible; give auto") as told:
        arr_coc.look(sheet(16), "total?", 20, scale=wrong)
    assert "\n" not in str(told.value)


@given(
    st.integers(33, 400),
    st.integers(33, 400),
    st.integers(1, 60),
    st.sampled_from([0.25, 0.5, 0.7, 1.0, 1.4, 2.0, 4.0]),
)
@settings(max_examples=25, deadline=None)
def test_budgets_are_met_at_every_scale(height, width, budget, scale):
    pixels = np.full((height, width, 3), 255, np.uint8)
    found = arr_coc.look(pixels, "total?", budget, relevance="detail", scale=scale)
    assert found.tokens <= tokens_for((height, width), budget)
    if scale >= 1:
        assert found.tokens == tokens_for((height, width), budget)
    assert found.full == tokens_for((height, width))
    assert Allocation.from_json(found.to_json()) == found


# ---- the file --------------------------------------------------------------------------------------------------------


def test_a_curve_gives_its_best_height_and_its_range():
    heights = [5, 8, 13, 20, 32]
    accuracy = smoothed(heights, [2, 9, 10, 9, 1], [10] * 5)
    best, low, high = best_of(heights, accuracy.tolist())
    assert 8 < low < 13 < high < 20
    assert low < best < high
    assert largest_read([256, 512, 1024, 2048], [0.9, 1.0, 0.95, 0.3]) == 1024
    assert largest_read([512], [0.5]) == 512


def damaged(tmp_path, **changes):
    document = json.loads((part_folder("mini") / "grip.json").read_text()) | changes
    path = tmp_path / "grip.json"
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize(
    "changes",
    [
        {"kind": "glance"},
        {"schema": 9},
        {"heights": [1, 2]},
        {"heights": [5.0] * 15},
        {"accuracy": ["x"] * 15},
        {"accuracy": [0.0] * 15},
        {"range": [20, 5]},
        {"best": "tall"},
    ],
)
def test_a_damaged_grip_is_told_in_one_line(tmp_path, changes):
    with pytest.raises(InputError, match=r"is not the grip of a model .* run arr-coc calibrate") as told:
        Grip.load(damaged(tmp_path, **changes))
    assert "\n" not in str(told.value)


def test_what_is_no_json_and_the_grip_of_another_model_are_told(tmp_path):
    (tmp_path / "grip.json").write_text("{")
    with pytest.raises(InputError, match="is not the grip"):
        as_grip(tmp_path / "grip.json")
    damaged(tmp_path, model="other")
    with pytest.raises(InputError, match=r"is the grip of 'other', not of "):
        as_grip(str(tmp_path))
    with pytest.raises(InputError, match="was measured; run arr-coc calibrate"):
        as_grip("nobody/nothing")
    with pytest.raises(InputError, match="grip must be the name"):
        as_grip(3)
    assert as_grip(None) is None
    assert as_grip("mini") == MINI
