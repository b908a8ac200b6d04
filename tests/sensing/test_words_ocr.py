"""Lines that are read: found where they stand, the relevant ones first, each once for every picture."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from PIL import Image, ImageDraw, ImageFont

from arr_coc import InputError, look
from arr_coc.core import folders
from arr_coc.pictures import ocr
from arr_coc.pictures.ocr import LineReader, ocr_words

ROWS = ("Total amount 48.50", "Invoice 2024-117", "Due 14 March 2025", "Thank you, Miller & Co.")


def page(rows=ROWS, size=24) -> np.ndarray:
    image = Image.new("RGB", (420, 40 + 60 * len(rows)), "white")
    pen = ImageDraw.Draw(image)
    for number, text in enumerate(rows):
        pen.text((20, 20 + 60 * number), text, "black", ImageFont.load_default(size))
    return np.asarray(image)


def letters(words) -> str:
    return " ".join(words.texts)


def test_words_stand_where_they_are_written():
    pixels = page()
    words = ocr_words(pixels)
    assert letters(words) == " ".join(ROWS)
    assert [int((words.lines == line).sum()) for line in range(4)] == [len(row.split()) for row in ROWS]
    face = ImageFont.load_default(24)
    begin, end = 20 + face.getlength("Total amount "), 20 + face.getlength(ROWS[0])
    x0, y0, x1, y1 = words.boxes[2] * [420, 280, 420, 280]
    assert [x0, x1] == pytest.approx([begin, end], abs=8), "48.50"
    assert y0 < 30 < 40 < y1 < 60
    assert words.by_ocr
    assert words.unread == 0


def test_only_lines_that_the_map_points_at_are_read_and_none_twice(monkeypatch):
    pixels, reads = page(size=25), []  # that no other test has read
    whole = LineReader.read

    def counted(self, pixels, quad):
        reads.append(float(quad[:, 1].mean()))
        return whole(self, pixels, quad)

    monkeypatch.setattr(LineReader, "read", counted)
    monkeypatch.setattr(LineReader, "find", _once(LineReader.find))
    at = np.zeros((4, 1))
    at[2] = 1
    first = ocr_words(pixels, at, 1)
    assert letters(first) == ROWS[2]
    assert first.unread == 3
    assert first.seconds > 0
    again = ocr_words(pixels, at, 1)
    assert letters(again) == ROWS[2]
    assert again.seconds == 0
    at[2], at[0] = 0, 1
    assert letters(ocr_words(pixels, at, 1)) == f"{ROWS[0]} {ROWS[2]}", "what was read before is still known"
    assert len(reads) == 2
    assert ocr_words(pixels).unread == 0
    assert len(reads) == 4


def _once(function):
    """Fail when lines of a picture are looked for a second time."""
    calls = []

    def find(self, pixels):
        calls.append(1)
        assert len(calls) == 1
        return function(self, pixels)

    return find


def test_turned_and_leaning_lines_are_read():
    pixels = page(("Batch number 8831",), 28)
    turned = np.ascontiguousarray(np.rot90(pixels, 3))  # from top to bottom
    assert letters(ocr_words(turned)) == "Batch number 8831"
    middle = (210.0, 50.0)
    leaning = cv2.warpAffine(pixels, cv2.getRotationMatrix2D(middle, 6, 1), (420, 100), borderValue=(255, 255, 255))
    assert letters(ocr_words(leaning)) == "Batch number 8831"


def test_a_huge_picture_is_read_part_by_part():
    large = np.full((3400, 420, 3), 255, np.uint8)
    large[2900:3180] = page()
    words = ocr_words(large)
    assert letters(words) == " ".join(ROWS)
    assert 2900 < words.boxes[0, 1] * 3400 < 2960


def test_blank_paper_has_no_words():
    assert len(ocr_words(np.full((64, 64, 3), 255, np.uint8))) == 0


def test_a_damaged_reader_is_a_note_and_never_a_refusal(tmp_path, monkeypatch):
    with pytest.raises(InputError, match="line reader"):
        LineReader(tmp_path)

    def damaged():
        return LineReader(tmp_path)

    monkeypatch.setattr(ocr, "line_reader", damaged)
    found = look(page(ROWS * 3), "What is the total amount?", 0.2)
    assert any("no words were read: the line reader" in note for note in found.notes)


def test_the_shipped_reader_is_whole():
    folders.verify(ocr.FOLDER)
    assert {"detect.onnx", "read.onnx", "model.safetensors", "config.json"} <= set(folders.read_manifest(ocr.FOLDER))
