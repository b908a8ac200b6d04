"""Documents: what they are made of, sizes without drawing, and one line for what cannot be read."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from small_pdf import small_pdf

from arr_coc import InputError, look
from arr_coc.pictures import document as documents
from arr_coc.pictures.document import Document, PdfPlace, document_of, load_page

pytest.importorskip("pypdfium2")


@pytest.fixture
def report(tmp_path: Path) -> Path:
    pages = tuple((f"72 700 Td (page{n} Total {n}0.50) Tj", "/Rotate 90" if n == 2 else "") for n in (1, 2, 3))
    return small_pdf(tmp_path / "report.pdf", pages)


def test_sizes_and_words_are_those_of_the_drawn_pages(report):
    document = Document.of(report)
    for page in document:
        picture, words = load_page(PdfPlace(report, page.number))
        assert page.size == picture.size
        assert np.array_equal(page.draw().pixels, picture.pixels)
        assert page.words.texts == words.texts
        np.testing.assert_array_equal(page.words.boxes, words.boxes)
        assert max(page.draw(300).pixels.shape) == 300
        assert page.draw(300).size == page.size
    assert document.texts == tuple(f"page{n} Total {n}0.50" for n in (1, 2, 3))
    assert [page.number for page in Document.of(report.read_bytes(), "2-3")] == [2, 3]


def test_a_folder_and_a_list_are_documents(tmp_path, report):
    Image.new("RGB", (60, 40)).save(tmp_path / "a.png")
    assert [page.name for page in Document.of(tmp_path)] == ["a.png", *(f"report-{n}" for n in (1, 2, 3))]
    mixed = Document.of([tmp_path / "a.png", np.zeros((50, 30, 3), np.uint8), report])
    assert [page.number for page in mixed] == [1, 2, 3, 4, 5]
    assert [page.size for page in mixed][:2] == [(40, 60), (50, 30)]
    assert document_of(tmp_path / "a.png") is None
    assert document_of(np.zeros((5, 5, 3), np.uint8)) is None


def test_a_photograph_on_its_side_is_as_high_as_it_is_shown(tmp_path):
    image, data = Image.new("RGB", (60, 40)), Image.Exif()
    data[0x0112] = 6
    image.save(tmp_path / "side.jpg", exif=data)
    page = Document.of([tmp_path / "side.jpg"]).pages[0]
    assert page.size == (60, 40) == page.draw().pixels.shape[:2]


def test_broken_members_are_noted_and_the_good_kept(tmp_path, report):
    (tmp_path / "broken.png").write_bytes(b"no picture")
    document = Document.of([report, tmp_path / "broken.png", tmp_path / "missing.png"])
    assert len(document) == 3
    assert len(document.notes) == 2
    assert all("\n" not in note for note in document.notes)
    found = look([report, tmp_path / "broken.png"], "What is the total of page2?", budget=30)
    assert any("broken.png" in note for note in found.notes)
    with pytest.raises(InputError, match=r"no page that can be read; left out: .*broken\.png"):
        Document.of([tmp_path / "broken.png"])


def test_all_pages_are_searched_and_too_many_scans_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(documents, "MOST_DRAWN", 2)
    pages = tuple((f"72 700 Td (page{n} Total {n}0.50) Tj", "") for n in range(105))
    large = small_pdf(tmp_path / "large.pdf", pages)
    found = look(large, "What is the total of page104?", budget=20)
    assert found.of_pages == 105
    assert max(found.pages, key=lambda page: page.tokens).number == 105
    scans = small_pdf(tmp_path / "scans.pdf", (("", ""),) * 3)
    with pytest.raises(InputError, match="3 pages without words"):
        Document.of(scans)


def test_what_cannot_be_a_document_is_one_line(tmp_path, report, monkeypatch):
    (tmp_path / "empty.pdf").write_bytes(report.read_bytes().replace(b"/Count 3", b"/Count 0").replace(b"[4 0", b"[ %"))
    (tmp_path / "torn.pdf").write_bytes(report.read_bytes()[:80])
    (tmp_path / "none").mkdir()
    monkeypatch.setattr(documents, "MOST_PAGES", 2)
    for source, pages, said in (
        (report, None, "3 pages, more than 2"),
        (report, "9", "page 9 is not in report.pdf"),
        (tmp_path / "torn.pdf", None, "torn.pdf"),
        (tmp_path / "empty.pdf", None, "empty.pdf"),
        (tmp_path / "none", None, "without pictures"),
        ([], None, "no page"),
    ):
        with pytest.raises(InputError, match=said) as caught:
            look(source, "What is the total?", budget=9, pages=pages)
        assert "\n" not in str(caught.value)
    with pytest.raises(InputError, match="one picture"):
        look(np.zeros((64, 64, 3), np.uint8), "what?", budget=9, pages=2)


def test_a_page_that_cannot_be_drawn_is_told_and_the_others_are_looked_at(report):
    document = Document.of(report)

    object.__setattr__(document.pages[1], "place", PdfPlace(report, 9))
    found = look(document, "What is the total?", budget=40, relevance="detail")
    assert found.tokens == 40
    assert found.pages[1].allocation is None
    assert "cannot be drawn" in found.pages[1].why


def test_who_takes_one_picture_says_that_there_are_more_pages(report):
    picture, words = load_page(report)
    assert picture.notes == ("page 1 of 3: the others are not looked at here",)
    assert words.texts[0] == "page1"
    Image.new("RGB", (60, 40)).save(report.with_suffix(".png"))
    report.with_suffix(".words.json").write_text('[["Total", [0, 0, 30, 10]]]')
    assert load_page(report.with_suffix(".png"))[1].texts == ("Total",)


def locked(path: Path, source: Path) -> Path:
    """The same PDF behind a password that nobody knows."""
    name, key = "00" * 16, "/O <" + "ab" * 32 + "> /U <" + "cd" * 32 + ">"
    entry = f"/ID [<{name}> <{name}>] /Encrypt << /Filter /Standard /V 1 /R 2 /P -4 {key} >>"
    path.write_bytes(source.read_bytes().replace(b"trailer << ", f"trailer << {entry} ".encode()))
    return path


def test_locked_empty_and_endless_pdfs_are_one_line_and_the_good_of_a_list_is_kept(tmp_path, report):
    secret, nothing = locked(tmp_path / "secret.pdf", report), tmp_path / "nothing.pdf"
    nothing.write_bytes(b"")
    endless = small_pdf(tmp_path / "endless.pdf")
    kids = b" ".join([b"4 0 R"] * 10_001)
    endless.write_bytes(endless.read_bytes().replace(b"[4 0 R] /Count 1", b"[" + kids + b"] /Count 10001"))
    for file, said in ((secret, "locked by a password"), (nothing, "empty"), (endless, "10001 pages, more than 10000")):
        with pytest.raises(InputError, match=said) as caught:
            look(file, "What is the total?", budget=9)
        assert "\n" not in str(caught.value)
    assert len(Document.of(endless, "9990-9999")) == 10
    found = look([secret, report, nothing], "What is the total of page2?", budget=30)
    assert [share.number for share in found.pages] == [1, 2, 3]
    assert [note.split(":")[0] for note in found.notes[:2]] == ["left out", "left out"]
    assert max(found.pages, key=lambda page: page.worth).number == 2


def test_a_page_that_the_pdf_has_lost_is_a_note(tmp_path, report):
    torn = tmp_path / "torn.pdf"
    torn.write_bytes(report.read_bytes().replace(b"6 0 obj\n<< /Type /Page", b"6 0 obj\n<< /Type /Xage"))
    found = look(torn, "What is the total of page3?", budget=30)
    assert [share.number for share in found.pages] == [1, 3]
    assert found.of_pages == 3
    assert found.notes[0].startswith("left out: page 2 of torn.pdf cannot be drawn")
    assert found.tokens == 30
