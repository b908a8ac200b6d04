"""Photographs and drawn pictures are told apart, and the sign is the right way round."""

from __future__ import annotations

from importlib.resources import files

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arr_coc.pictures.kind import PHOTOGRAPH, is_photograph, kind_features, photograph_odds
from arr_coc.pictures.load import load_picture


def clouds(height: int, width: int, seed: int) -> np.ndarray:
    """Soft structure of every size in every colour, as photographs have it."""
    cv2 = pytest.importorskip("cv2")
    generator = np.random.default_rng(seed)
    total = np.zeros((height, width, 3), np.float32)
    for side in (4, 12, 40, 120):
        coarse = generator.normal(0, 1, (side, side, 3)).astype(np.float32)
        total += cv2.resize(coarse, (width, height), interpolation=cv2.INTER_CUBIC) * 160 / side**0.5
    return np.clip(total + 128, 0, 255).astype(np.uint8)


def page(height: int, width: int, seed: int) -> np.ndarray:
    """Black strokes in rows on white."""
    generator = np.random.default_rng(seed)
    found = np.full((height, width, 3), 255, np.uint8)
    for top in range(20, height - 12, 22):
        ink = generator.random((10, width)) < 0.4
        found[top : top + 10][ink] = 0
    return found


@pytest.mark.parametrize("seed", range(4))
def test_clouds_are_photographs_and_rows_of_ink_are_not(seed):
    assert photograph_odds(clouds(300, 400, seed)) > PHOTOGRAPH
    assert photograph_odds(page(400, 300, seed)) < -1
    assert not is_photograph(page(400, 300, seed))
    assert is_photograph(clouds(300, 400, seed))


@pytest.mark.parametrize("name", ["chart", "form", "receipt", "street"])
def test_the_pictures_that_come_with_the_library_are_drawn(name):
    with files("arr_coc").joinpath(f"examples/{name}.png").open("rb") as file:
        pixels = load_picture(file.read()).pixels
    assert not is_photograph(pixels)


@given(st.integers(1, 40), st.integers(1, 40), st.integers(0, 5))
def test_any_size_gives_numbers(height, width, seed):
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    assert np.isfinite(kind_features(pixels)).all()
    assert np.isfinite(photograph_odds(pixels))
