"""Lettering and whole pages: any script fits its room, any shape is drawn, and drawn twice alike."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from drawn_scenes import scene, tree
from PIL import Image

from arr_coc.attending.allocate import allocate
from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.draw import difference_map, foveated, heat, homunculus, overlay
from arr_coc.draw.layout import level_rows
from arr_coc.pictures.lettering import letter_mask, shorten, text_width, wrap, write
from arr_coc.pictures.load import load_picture

GOLDEN = Path(__file__).parent / "golden"


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
    half = "bad \udcff byte"  # as Python reads a byte of another encoding on the command line
    assert np.array_equal(letter_mask(half, 20), letter_mask("bad ? byte", 20))


def test_the_typeface_of_older_opencv_serves_too(monkeypatch: pytest.MonkeyPatch) -> None:
    import arr_coc.pictures.lettering as lettering

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
