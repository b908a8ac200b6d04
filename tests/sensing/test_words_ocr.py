"""Words by OCR: what is written is found where it stands, once for every picture."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from arr_coc.core.errors import InputError
from arr_coc.pictures import ocr

installed = pytest.mark.skipif(ocr.ocr_missing() is not None, reason="RapidOCR is not installed")


def small_page():
    image = Image.new("RGB", (320, 120), "white")
    pen = ImageDraw.Draw(image)
    font = ImageFont.load_default(22)
    pen.text((20, 20), "Total amount", "black", font)
    pen.text((200, 70), "48.50", "black", font)
    return np.asarray(image)


@installed
def test_words_stand_where_they_are_written_and_are_read_once(tmp_path, monkeypatch):
    pixels, said = small_page(), []
    words = ocr.ocr_words(pixels, cache=tmp_path, say=said.append)
    assert words.texts == ("Total", "amount", "48.50")
    assert words.lines[0] == words.lines[1] != words.lines[2]
    dark = pixels.min(-1) < 128
    x0, y0, x1, y1 = (words.boxes[2] * [320, 120, 320, 120]).astype(int)
    assert dark[y0 : y1 + 1, x0 : x1 + 1].sum() > 0.97 * dark[60:].sum()

    def nobody():
        raise AssertionError("the page was read before")

    monkeypatch.setattr(ocr, "ocr_engine", nobody)
    again = ocr.ocr_words(pixels, cache=tmp_path, say=said.append)
    assert again.texts == words.texts
    np.testing.assert_array_equal(again.boxes, words.boxes)
    assert len(said) == 1
    with pytest.raises(AssertionError):
        ocr.ocr_words(pixels[:, ::-1], cache=tmp_path)


@installed
def test_blank_paper_has_no_words_and_a_broken_memory_is_read_anew(tmp_path):
    blank = np.full((64, 64, 3), 255, np.uint8)
    (tmp_path / f"{ocr.page_key(blank)}.json").write_text('{"texts": ["half')
    assert len(ocr.ocr_words(blank, cache=tmp_path)) == 0


def test_a_memory_that_cannot_be_written_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("")
    ocr._remember(tmp_path / "file" / "a.json", {"texts": [], "boxes": [], "lines": []})
    assert ocr._remembered(tmp_path / "file" / "a.json") is None


def test_without_the_extra_one_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(ocr, "find_spec", lambda name: None)
    ocr.ocr_engine.cache_clear()
    with pytest.raises(InputError, match=r"arr-coc\[ocr\].*--no-deps rapidocr"):
        ocr.ocr_engine()
