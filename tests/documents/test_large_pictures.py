"""Very large pictures: coarse first, fine where it pays, and never decoded in full."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from arr_coc import InputError, look
from arr_coc.looking import FINE_SIDE, prepare
from arr_coc.pictures import load
from arr_coc.pictures.load import load_picture


def test_the_small_print_of_a_large_picture_is_read(tmp_path, monkeypatch):
    """Far too small for the first look, which sees a third of the pixels."""
    sheet = Image.new("RGB", (4400, 3000), "white")
    pen, letters = ImageDraw.Draw(sheet), ImageFont.load_default(22)
    names = ("pump", "motor", "valve", "filter", "boiler", "tank", "fan", "meter")
    places = [(300 + 1000 * (n % 4), 400 + 1700 * (n // 4)) for n in range(8)]
    for number, (place, name) in enumerate(zip(places, names, strict=True)):
        pen.text(place, f"{name} pressure: {number}45 bar", "black", letters)
    sheet.save(tmp_path / "plan.png")
    found = look(tmp_path / "plan.png", "What is the valve pressure?", budget=256)
    fine = found.level_map() == 0
    rows, cols = np.argwhere(fine).T
    x, y = places[names.index("valve")]
    near = (np.abs(rows * 32 - y) < 200) & (cols * 32 > x - 200) & (cols * 32 < x + 500)
    assert near.mean() > 0.3, "of 12 938 cells these are 100"
    assert fine[y // 32, (x + 200) // 32]
    assert any("8 lines" in note for note in found.notes)


def test_a_large_picture_is_held_small_and_read_again_where_it_pays(tmp_path):
    Image.new("L", (FINE_SIDE + 2000, 400), 255).save(tmp_path / "wide.png")
    prepared = prepare(tmp_path / "wide.png")
    assert max(prepared.picture.pixels.shape) == 1600
    assert max(prepared.fine().pixels.shape) == FINE_SIDE
    Image.new("L", (1000, 400), 255).save(tmp_path / "small.png")
    assert prepare(tmp_path / "small.png").fine is None


def test_a_program_that_switched_off_pillows_limit_keeps_ours(tmp_path, monkeypatch):
    """Many do so, to read large pictures at all."""
    Image.new("L", (13_400, 13_400), 200).save(tmp_path / "huge.jpg")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", None)
    with pytest.raises(InputError, match="too many pixels"):
        load_picture(tmp_path / "huge.jpg")


def test_a_tiff_beyond_the_limit_is_read_by_regions_or_told_in_one_line(tmp_path, monkeypatch):
    coarse = np.random.default_rng(3).integers(0, 255, (12, 16, 3), dtype=np.uint8)
    pixels = cv2.resize(coarse, (1600, 1200), interpolation=cv2.INTER_LINEAR)
    Image.fromarray(pixels).save(tmp_path / "strips.tif")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 500_000)
    with monkeypatch.context() as without:
        without.setattr(load, "find_spec", lambda name: None)
        for how in (load_picture, look):
            line = {"longest_side": 400} if how is load_picture else {"query": "what?", "budget": 9}
            with pytest.raises(InputError, match=r"^[^\n]*too many pixels[^\n]*pyvips\[binary\][^\n]*$"):
                how(tmp_path / "strips.tif", **line)
    pytest.importorskip("pyvips")
    expected = cv2.resize(pixels, (400, 300), interpolation=cv2.INTER_AREA)
    picture = load_picture(tmp_path / "strips.tif", longest_side=400)
    assert picture.size == (1200, 1600)
    assert np.abs(picture.pixels.astype(int) - expected).mean() <= 2
    assert look(tmp_path / "strips.tif", "what?", budget=9, relevance="detail").tokens == 9
    (tmp_path / "torn.tif").write_bytes((tmp_path / "strips.tif").read_bytes()[:5000])
    with pytest.raises(InputError, match=r"^[^\n]+$"):
        load_picture(tmp_path / "torn.tif", longest_side=400)
