"""Files of words and pages of PDFs, by `look` and by the command line."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image, ImageDraw
from small_pdf import small_pdf

import arr_coc as library
from arr_coc.pictures.document import PdfPlace

WORDS = [
    ("Total", (10, 20, 50, 34)),
    ("$48.50", (60, 20, 110, 34)),
    ("Date", (10, 150, 50, 164)),
    ("03/04/1997", (150, 150, 230, 164)),
]
TEXT = "72 700 Td (Invoice date: 03/04/1997) Tj 0 -300 Td (Total amount: $48.50) Tj"


def fine_share(allocation, box):
    """How much of a box (pixels) is seen at level 0."""
    seen = np.zeros((allocation.height, allocation.width), bool)
    for y, x, height, width in allocation.boxes[allocation.levels == 0]:
        seen[y : y + height, x : x + width] = True
    x0, y0, x1, y1 = box
    return seen[y0:y1, x0:x1].mean()


def test_the_same_picture_is_seen_where_its_words_answer():
    blank = np.full((192, 256, 3), 255, np.uint8)
    date = library.look(blank, "What is the date?", budget=9, words=WORDS)
    total = library.look(blank, "How much is the total?", budget=9, words=WORDS)
    assert fine_share(date, WORDS[3][1]) > 0.9 > fine_share(date, WORDS[1][1]) + 0.3
    assert fine_share(total, WORDS[1][1]) > 0.9
    assert date.tokens == total.tokens == 9


def test_words_from_a_file_on_the_command_line(arr_coc, photo, tmp_path):
    path = tmp_path / "words.json"
    path.write_text(json.dumps([[text, list(box)] for text, box in WORDS]))
    out = arr_coc(
        "look", photo, "What is the date?", "--set", f"words={path}", "--budget", 6, "--json", "--out", tmp_path
    )
    assert out.code == 0, out
    (look,) = json.loads(out.out)["looks"]
    assert look["tokens"] == 6
    assert any("words.json" in note for note in look["notes"])
    broken = arr_coc("look", photo, "what?", "--set", f"words={photo}", "--out", tmp_path)
    assert broken.code == 2
    assert len(broken.err.strip().splitlines()) == 1


def test_pages_of_a_pdf_on_the_command_line(arr_coc, tmp_path):
    pytest.importorskip("pypdfium2")
    path = small_pdf(
        tmp_path / "report.pdf", ((TEXT, ""), ("72 90 Td (Date: 05/06/2007) Tj", ""), ("72 700 Td (end) Tj", ""))
    )
    how = ("--json", "--out", tmp_path / "out", "--budget", "0.02")
    (every,) = json.loads(arr_coc("look", path, "What is the date?", "--pages", "all", *how).out)["looks"]
    assert [page["number"] for page in every["allocation"]["pages"]] == [1, 2, 3]
    assert "1997" in every["allocation"]["pages"][0]["why"]
    assert (tmp_path / "out" / "report.pages.png").exists()
    (second,) = json.loads(arr_coc("look", path, "What is the date?", "--pages", 2, *how).out)["looks"]
    assert "05/06/2007" in str(second["notes"])
    for wrong in (("--pages", 9), ("--pages", "x")):
        refused = arr_coc("look", path, "what?", *wrong, *how)
        assert refused.code == 2, wrong
        assert len(refused.err.strip().splitlines()) == 1


def test_pages_of_what_is_no_pdf(arr_coc, photo, tmp_path):
    outcome = arr_coc("look", photo, "what?", "--pages", 2, "--out", tmp_path)
    assert outcome.code == 2
    assert "PDF" in outcome.err


def test_a_page_in_python_and_the_path_of_a_pdf_agree(tmp_path):
    pytest.importorskip("pypdfium2")
    path = small_pdf(tmp_path / "report.pdf", ((TEXT, ""),))
    page = PdfPlace(path, 1)
    one, other = (
        library.look(path, "What is the invoice date?", budget=0.02),
        library.look(page, "What is the invoice date?", budget=0.02),
    )
    assert one == other
    words, picture = page.words(), page.draw()
    box = (words.boxes[words.texts.index("03/04/1997")] * np.array([picture.width, picture.height] * 2)).astype(int)
    assert fine_share(one, box) > 0.9


def test_no_ocr_leaves_a_page_to_the_scorer(arr_coc, tmp_path):
    picture = Image.new("RGB", (480, 400), "white")
    for row in range(12):
        ImageDraw.Draw(picture).text((20, 20 + 30 * row), f"Part {row} costs 1{row}.50 EUR", "black", font_size=16)
    picture.save(tmp_path / "page.png")
    how = ("look", tmp_path / "page.png", "What does part 3 cost?", "--json", "--out", tmp_path)
    (off,) = json.loads(arr_coc(*how, "--set", "ocr=false").out)["looks"]
    assert off["relevance"].startswith("relevance 'scorer'")
    assert not any("OCR" in note for note in off["notes"])
    (by_default,) = json.loads(arr_coc(*how).out)["looks"]
    assert any("OCR" in note for note in by_default["notes"])
