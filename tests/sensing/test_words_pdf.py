"""Pages of a PDF: the picture, and words whose boxes lie where their ink is."""

from __future__ import annotations

import numpy as np
import pytest
from small_pdf import small_pdf

from arr_coc.core.errors import InputError
from arr_coc.pictures.document import Document, PdfPlace, is_pdf, page_numbers

pytest.importorskip("pypdfium2")


def ink_inside(picture, words):
    """The share of the page's dark pixels that lie in a word's box, a pixel around it."""
    dark = picture.pixels.min(-1) < 128
    covered = np.zeros_like(dark)
    for box in words.boxes:
        x0, y0, x1, y1 = box * [picture.width, picture.height, picture.width, picture.height]
        covered[max(0, int(y0) - 1) : int(y1) + 2, max(0, int(x0) - 1) : int(x1) + 2] = True
    return (dark & covered).sum() / dark.sum(), covered.mean()


@pytest.mark.parametrize(
    "more", ["", "/Rotate 90", "/Rotate 180", "/CropBox [50 600 400 760]", "/CropBox [50 600 400 760] /Rotate 270"]
)
def test_words_lie_on_their_ink_however_the_page_is_turned(tmp_path, more):
    text = "72 700 Td (Invoice date: 03/04/1997) Tj 0 -30 Td (Total) Tj"
    page = PdfPlace(small_pdf(tmp_path / "a.pdf", ((text, more),)), 1)
    picture, words = page.draw(), page.words()
    assert sorted(words.texts) == ["03/04/1997", "Invoice", "Total", "date:"]
    inked, ground = ink_inside(picture, words)
    assert inked > 0.99
    assert ground < 0.08
    assert words.size[0] / words.size[1] == pytest.approx(picture.height / picture.width, rel=0.01)


@pytest.mark.parametrize("text", ["", "72 700 Td ( ) Tj", "72 700 Td () Tj"])
def test_a_page_without_words_has_none(tmp_path, text):
    """As every scan is: a picture, and nothing to read."""
    page = PdfPlace(small_pdf(tmp_path / "a.pdf", ((text, ""),)), 1)
    assert len(page.words()) == 0
    assert page.draw().pixels.min() == 255


def test_columns_without_a_space_between_them_are_two_words(tmp_path):
    path = small_pdf(tmp_path / "a.pdf", (("72 700 Td (Total) Tj 200 0 Td (9.50) Tj", ""),))
    assert PdfPlace(path, 1).words().texts == ("Total", "9.50")


def test_pages_are_chosen_from_1(tmp_path):
    path = small_pdf(tmp_path / "a.pdf", tuple((f"72 700 Td (page{number}) Tj", "") for number in (1, 2, 3)))
    assert is_pdf(path)
    assert [page.words.texts for page in Document.of(path)] == [("page1",), ("page2",), ("page3",)]
    assert [page.number for page in Document.of(path, "2-3,1")] == [2, 3, 1]
    for wrong in (0, 4, "2-9", "x", "-1", 2.5, float("nan"), [2.5], [None], True):
        with pytest.raises(InputError, match=r"a\.pdf"):
            Document.of(path, wrong)
    assert page_numbers([1, 1, 2], 2, "a.pdf") == [1, 2]


def test_what_is_no_pdf_is_refused_with_one_line(tmp_path):
    whole = small_pdf(tmp_path / "a.pdf").read_bytes()
    (tmp_path / "b.pdf").write_bytes(whole[:60])
    (tmp_path / "c.pdf").write_bytes(b"")
    for name in ("b.pdf", "c.pdf", "missing.pdf"):
        with pytest.raises(InputError, match=name.removesuffix(".pdf")):
            PdfPlace(tmp_path / name, 1).draw()
    assert not is_pdf(tmp_path / "c.pdf")
    assert not is_pdf(tmp_path)
    assert not is_pdf(np.zeros((3, 3)))
