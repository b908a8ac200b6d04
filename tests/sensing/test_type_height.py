"""The heights of letters: known from words, sensed from pixels, none on photographs and flat ground."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from arr_coc.texture.type_height import letters_of

LINES = ("Invoice 4821 of March", "Total amount due", "Reference HX 20391", "Paid in full, thanks")


def sheet(em: int, size: tuple[int, int] = (480, 640), dark: bool = False) -> np.ndarray:
    ground, ink = ((20, 24, 40), (235, 235, 230)) if dark else ((250, 250, 246), (20, 20, 20))
    picture = Image.new("RGB", size[::-1], ground)
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(em)
    for number, line in enumerate(LINES):
        pen.text((12, 10 + number * round(1.6 * em)), line, ink, font)
    return np.asarray(picture)


def capital(em: int) -> int:
    _left, top, _right, bottom = ImageFont.load_default(em).getbbox("H")
    return int(bottom - top)


@pytest.mark.parametrize("em", [11, 14, 20, 32, 48])
@pytest.mark.parametrize("dark", [False, True])
def test_letters_are_as_tall_as_they_were_drawn(em, dark):
    found = letters_of(sheet(em, dark=dark))
    assert found.median() == pytest.approx(capital(em), rel=0.2)


def test_there_is_no_type_in_noise_on_flat_ground_and_in_soft_shapes():
    random = np.random.default_rng(3)
    noise = random.integers(0, 256, (300, 300, 3), dtype=np.uint8)
    soft = np.asarray(Image.fromarray(random.integers(0, 256, (40, 40, 3), dtype=np.uint8)).resize((400, 400)))
    for pixels in (noise, soft, np.full((64, 64, 3), 200, np.uint8), np.zeros((1, 1, 3), np.uint8)):
        found = letters_of(pixels)
        assert not found
        assert not found.map.any()
        assert found.median() == 0


def test_a_reduced_view_tells_the_heights_of_the_picture_as_given():
    pixels = sheet(28)
    whole = letters_of(pixels)
    half = np.asarray(Image.fromarray(pixels).resize((320, 240), Image.Resampling.BOX))
    seen = letters_of(half, size=pixels.shape[:2])
    assert seen.map.shape == whole.map.shape
    assert seen.median() == pytest.approx(whole.median(), rel=0.2)


@given(st.integers(1, 90), st.integers(1, 90), st.integers(0, 5))
@settings(max_examples=40, deadline=None)
def test_any_picture_gets_a_map_of_its_cells(height, width, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    found = letters_of(pixels)
    assert found.map.shape == (-(-height // 16), -(-width // 16))
    assert (found.map >= 0).all()
