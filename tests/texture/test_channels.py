"""What the channels of a picture say: ranges for every size, blank ground, print, what stands out, and place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont

from arr_coc.texture.channels import CHANNELS, sense


def page(ink: int = 20, ground: int = 250) -> np.ndarray:
    """Print in the upper half."""
    image = Image.new("RGB", (320, 240), (ground,) * 3)
    draw = ImageDraw.Draw(image)
    for line in range(5):
        draw.text((20, 15 + 20 * line), "net price 42.90 total due", fill=(ink,) * 3, font=ImageFont.load_default(14))
    return np.asarray(image)


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 70), st.integers(1, 70), st.integers(0, 99))
def test_every_channel_is_in_range_for_every_size(height: int, width: int, seed: int):
    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    texture = sense(picture)
    assert set(texture.planes) == set(CHANNELS)
    for name in CHANNELS:
        assert texture[name].shape == (height, width)
        assert np.isfinite(texture[name]).all()
        assert texture[name].min() >= 0
        assert texture[name].max() <= 1 + 1e-6


def test_a_blank_picture_has_no_print_and_nothing_that_stands_out():
    texture = sense(np.full((64, 80, 3), 93, np.uint8))
    for name in ("saliency", "text_regions"):
        assert texture[name].max() < 1e-3, name


@pytest.mark.parametrize(("ink", "ground"), [(20, 250), (235, 30), (150, 235)])
def test_print_is_found_whatever_its_contrast(ink: int, ground: int):
    found = sense(page(ink, ground))["text_regions"]
    assert found[15:110, 20:200].mean() > 0.2
    assert found[150:].mean() < 0.02


def test_the_odd_one_out_stands_out():
    image = Image.new("RGB", (320, 240), (90, 90, 90))
    draw = ImageDraw.Draw(image)
    for row in range(4):
        for col in range(5):
            colour = (200, 60, 60) if (row, col) == (1, 3) else (60, 140, 60)
            draw.ellipse((20 + 60 * col, 15 + 58 * row, 60 + 60 * col, 50 + 58 * row), fill=colour)
    saliency = sense(np.asarray(image))["saliency"]
    row, col = np.unravel_index(int(saliency.argmax()), saliency.shape)
    assert 70 <= row <= 112
    assert 195 <= col <= 245
