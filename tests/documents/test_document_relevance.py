"""Between pages: words are found without drawing anything, together, and any source may be asked."""

from __future__ import annotations

import numpy as np
import pytest
from small_pdf import small_pdf

from arr_coc import InputError, look
from arr_coc import decide_document as relevances
from arr_coc.draw import document_sheet
from arr_coc.knowing.words.answer import answer_shares
from arr_coc.pictures.document import Document, DocumentPage
from arr_coc.pictures.words import make_words

pytest.importorskip("pypdfium2")
FILLER = "0 -20 Td (Subject to the terms of delivery) Tj 0 -20 Td (Name: Anna Berg) Tj"


@pytest.fixture
def long_report(tmp_path):
    lines = [f"72 700 Td (Chapter {n}) Tj {FILLER}" for n in range(1, 31)]
    lines[16] = "72 700 Td (Chapter 17) Tj 0 -20 Td (Warranty period:) Tj 150 0 Td (36 months) Tj"
    return small_pdf(tmp_path / "long.pdf", tuple((line, "") for line in lines))


def test_the_page_whose_words_answer_gets_the_tokens_and_nothing_is_drawn(long_report, monkeypatch):
    monkeypatch.setattr(DocumentPage, "draw", lambda *_: pytest.fail("a page was drawn"))
    found = look(long_report, "How long is the warranty period?", budget=200)
    assert found.tokens == 200
    assert found.ranked[0].number == 17
    assert "36" in found.pages[16].why or "months" in found.pages[16].why
    assert min(page.tokens for page in found.pages) == 1
    document = Document.of(long_report)
    box = document.pages[16].words.boxes[list(document.pages[16].words.texts).index("36")]
    page = found.pages[16].allocation
    rows, cols = page.grid
    assert page.level_map()[int(box[1] * rows), int(box[0] * cols)] == 0


def test_pages_are_judged_together():
    boxes = [[0, 0, 50, 10], [90, 0, 130, 10], [0, 30, 40, 40], [90, 30, 130, 40]]
    words = make_words(["Total", "48.50", "Date", "1997"], boxes, size=(200, 150))
    other = make_words(["nothing"], [[0, 0, 60, 10]], size=(100, 100))
    first, second, none = (
        answer_shares(one, "What is the total?") for one in (words, other, make_words([], np.zeros((0, 4))))
    )
    assert first.shape == (4, 2)
    assert second.shape == (1, 2)
    assert none.shape == (0, 2)
    assert first[1, 0] == first[:, 0].max() > second[0, 0]


def test_pages_without_words_are_asked_one_by_one_and_a_function_of_ones_own_decides():
    pages = [np.full((200, 160, 3), 255, np.uint8) for _ in range(5)]
    pages[3][40:80, 40:120] = 0

    def dark(picture, question):
        return (255 - picture.mean(2)) / 255

    found = look(pages, "the dark place", budget=60, relevance=dark)
    assert found.tokens == 60
    assert found.ranked[0].number == 4
    flat = look(pages, "anything", budget=60, relevance=[np.ones((2, 2))] * 5)
    assert sorted(page.tokens for page in flat.pages) == [12] * 5
    for wrong, said in (
        ("nonsense", "unknown"),
        (np.ones((2, 2)), "1 maps for 5 pages"),
        ([np.ones((2, 2))], "1 maps"),
    ):
        with pytest.raises(InputError, match=said):
            look(pages, "anything", budget=60, relevance=wrong)


def test_the_contact_sheet_shows_funded_pages_bright(long_report):
    found = look(long_report, "How long is the warranty period?", budget=200)
    document = Document.of(long_report)
    sheet = np.asarray(document_sheet(document, found, "How long is the warranty period?", width=900))
    assert sheet.shape[1] == 900
    warm = (np.abs(sheet.astype(int) - (255, 205, 70)).sum(2) < 60).sum()
    nothing = np.asarray(document_sheet(document, look(document, "x", budget=30, relevance=[None] * 30), width=900))
    assert warm > 1000
    assert not (np.abs(nothing.astype(int) - (255, 205, 70)).sum(2) < 60).any()
    with pytest.raises(InputError, match="another document"):
        document_sheet(Document.of(long_report, "1-3"), found)


@pytest.fixture(scope="module")
def scans(tmp_path_factory):
    """Four pages as pictures, of which the third is about Milford; all have a total."""
    names = ("Aldermoor", "Brackwell", "Milford", "Dunmere")
    pages = tuple((f"72 600 Td (Report of {name}) Tj 0 -60 Td (Total: {n}0.50) Tj", "") for n, name in enumerate(names))
    path = small_pdf(tmp_path_factory.mktemp("scans") / "report.pdf", pages)
    return Document.of([page.draw(1000).pixels[200:360, 60:380] for page in Document.of(path)])


def test_scanned_pages_are_read_and_searched(scans, monkeypatch):
    asked: list[int] = []
    drawn = relevances._by_picture
    monkeypatch.setattr(
        relevances, "_by_picture", lambda page, *how, **more: asked.append(page.number) or drawn(page, *how, **more)
    )
    found = look(scans, "What is the total of Milford?", budget=40)
    assert max(found.pages, key=lambda page: page.worth).number == 3
    assert found.tokens == 40
    assert 3 in asked
    assert len(asked) == relevances.ASKED < len(scans)
    assert any("4 scanned pages were read and searched, and the best 3" in note for note in found.notes)
    asked.clear()
    # Where no word tells the pages apart, and for a source by name, each page is looked at.
    look(scans, "zzz?", budget=40)
    look(scans, "What is the total of Milford?", budget=40, relevance="scorer")
    assert asked == [1, 2, 3, 4] * 2
