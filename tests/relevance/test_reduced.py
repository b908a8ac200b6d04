"""The scorer reads one size of a picture on every device: not too many pixels, no letters that are too tall."""

from __future__ import annotations

from zlib import crc32

import numpy as np
import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from arr_coc.knowing.scorer.reduced import (
    MOST_PIXELS,
    TALL,
    WANTED,
    ReadingSizes,
    reading_size,
    reduced_batch,
    reduced_pixels,
    size_note,
)
from arr_coc.texture.type_height import letters_of


def sheet(em: int, size: tuple[int, int] = (700, 900)) -> np.ndarray:
    picture = Image.new("RGB", size[::-1], (250, 250, 246))
    pen, font = ImageDraw.Draw(picture), ImageFont.load_default(em)
    for number, line in enumerate(("Invoice 4821 of March", "Total amount due", "Reference HX 20391")):
        pen.text((12, 10 + number * round(1.6 * em)), line, (20, 20, 20), font)
    return np.asarray(picture)


def test_a_picture_of_the_right_size_is_left_alone():
    pixels = sheet(18)
    assert reduced_pixels(pixels) is pixels
    assert size_note(reading_size(pixels), pixels.shape[:2]) == ()


def test_tall_letters_are_reduced_to_what_is_found_and_it_is_told():
    pixels = sheet(64)
    height, width = reading_size(pixels)
    tall = letters_of(pixels).median()
    assert tall * height / pixels.shape[0] == pytest.approx(WANTED, rel=0.05)
    assert f"{width}×{height} pixels" in size_note((height, width), pixels.shape[:2])[0]


def test_a_large_picture_has_no_more_pixels_than_the_most():
    height, width = reading_size(np.zeros((2000, 1524, 3), np.uint8))
    assert height * width <= 1.01 * MOST_PIXELS


def test_both_ways_make_the_same_picture():
    pixels = sheet(64, (710, 930))
    size = reading_size(pixels)
    assert size != pixels.shape[:2]
    tensor = torch.from_numpy(pixels.copy()).permute(2, 0, 1)[None] / 255
    found = (reduced_batch(tensor, size)[0].permute(1, 2, 0).numpy() * 255).round().astype(int)
    assert np.abs(found - reduced_pixels(pixels).astype(int)).max() <= 1
    assert reduced_batch(tensor, pixels.shape[:2]) is tensor


@pytest.mark.parametrize(("em", "size"), [(14, (700, 900)), (30, (700, 900)), (64, (700, 900)), (90, (2100, 1700))])
def test_a_device_chooses_the_size_that_a_processor_chooses(em: int, size: tuple[int, int]):
    pages = [sheet(em, size), sheet(em + 9, size)]
    tensors = torch.from_numpy(np.stack(pages)).permute(0, 3, 1, 2)
    wanted = [reading_size(page) for page in pages]
    assert ReadingSizes(tensors).found() == ReadingSizes(tensors / 255).found() == wanted
    tall = [letters_of(page).median() for page in pages]
    assert [one != size for one in wanted] == [letters > TALL or max(size) > 2000 for letters in tall]


def test_letters_of_one_picture_are_sensed_once():
    pixels = sheet(30)
    assert letters_of(pixels) is letters_of(pixels.copy())
    assert letters_of(pixels, size=(1400, 1800)).median() == pytest.approx(2 * letters_of(pixels).median(), rel=0.05)


def with_checksum(pixels: np.ndarray, wanted: int) -> np.ndarray:
    """The same picture but for its last four bytes, which give it this CRC-32: each of their bits flips its own bits of
    the sum, so that the right ones are found by elimination."""
    made = pixels.copy()
    tail = made.reshape(-1)[-4:]
    tail[:] = 0
    start, flips = crc32(made), []
    for bit in range(32):
        tail[:] = np.frombuffer((1 << bit).to_bytes(4, "little"), np.uint8)
        flips.append((crc32(made) ^ start, 1 << bit))
    left, chosen = wanted ^ start, 0
    for place in range(32):
        pivot = next(one for one in flips if one[0] >> place & 1)
        flips = [(a ^ pivot[0], b ^ pivot[1]) if a >> place & 1 else (a, b) for a, b in flips]
        if left >> place & 1:
            left, chosen = left ^ pivot[0], chosen ^ pivot[1]
    tail[:] = np.frombuffer(chosen.to_bytes(4, "little"), np.uint8)
    return made


def test_another_picture_with_the_same_checksum_has_its_own_letters():
    pixels = sheet(30)
    forged = with_checksum(np.full_like(pixels, 250), crc32(pixels))
    assert crc32(forged) == crc32(pixels)
    assert letters_of(pixels).source == "sensed"
    assert letters_of(forged).source == "none"
