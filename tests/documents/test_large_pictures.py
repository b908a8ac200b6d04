"""Very large pictures: coarse first, fine where it pays, and never decoded in full."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from arr_coc import InputError, Relevance, look
from arr_coc.knowing import large
from arr_coc.knowing.large import FINE_SIDE, TileReader, read_tiles
from arr_coc.knowing.registry import find_source
from arr_coc.knowing.scene import Scene
from arr_coc.looking import prepare
from arr_coc.pictures import load
from arr_coc.pictures.load import load_picture


def test_parts_that_look_alike_are_told_apart_by_the_words_of_the_question(monkeypatch):
    side = 512
    monkeypatch.setattr(large, "TILE", side)
    sheet = Image.new("RGB", (2 * side, 2 * side), "white")
    pen, letters = ImageDraw.Draw(sheet), ImageFont.load_default(26)
    for number, name in enumerate(("pump", "motor", "valve", "filter")):
        down, across = divmod(number, 2)
        pen.text((across * side + 60, down * side + 200), f"{name} pressure: {number}45 bar", "black", letters)
    pixels = np.asarray(sheet)
    reader = TileReader(find_source("scorer").maps, Scene(pixels), "What is the valve pressure?")
    found = read_tiles(Relevance(np.zeros((8, 8), np.float32)), pixels, reader.score, reader.search, tiles=1)
    assert "the words of the question" in found.notes[-1]
    row, col = np.unravel_index(found.map.argmax(), found.map.shape)
    assert (row // (side // 32), col // (side // 32)) == (1, 0), "the part with the valve"
    assert found.map.max() > 0.5
    assert reader.search([pixels[:64, :64]] * 2) is None, "no word, no choice"


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
    rng = np.random.default_rng(3)
    pixels = rng.integers(0, 255, (1200, 1600, 3), dtype=np.uint8)
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
