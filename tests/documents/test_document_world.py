"""Drawn documents: the same for a seed, their answers where the records say, and the bench that counts them."""

from __future__ import annotations

import pytest

from arr_coc.core.errors import InputError
from arr_coc.pictures.document import Document
from arr_coc_lab.bench.run import bench
from arr_coc_lab.worlds.office.export import write_document


def test_documents_are_those_of_their_seed_and_questions_name_a_page_by_its_head(tmp_path):
    first, again = (write_document(tmp_path / name, 3, 1, 7) for name in "ab")
    assert [one[:3] for one in first] == [one[:3] for one in again]
    document = Document.of(tmp_path / "a")
    assert len(document) == 7
    assert {one.page for one in first} <= {*range(1, 8)}
    heads = [" ".join(page.words.texts[:2]) for page in document]
    assert len(set(heads)) == 7
    for one in first:
        assert [place for place, head in enumerate(heads, 1) if head.lower() in one.text.lower()] == [one.page]


def test_the_answers_stand_where_the_questions_say(tmp_path):
    questions = write_document(tmp_path, 9, 0, 3)
    assert len(questions) > 5
    pages = Document.of(tmp_path).pages
    for asked in questions[:12]:
        page = pages[asked.page - 1]
        inside = [
            text
            for text, (left, top, right, bottom) in zip(page.words.texts, page.words.boxes.tolist(), strict=True)
            for x0, y0, x1, y1 in asked.boxes
            if left >= x0 - 1e-3 and right <= x1 + 1e-3 and top >= y0 - 1e-3 and bottom <= y1 + 1e-3
        ]
        assert " ".join(inside).strip(".,:;") == asked.answer.strip(".,:;")


def test_scans_have_no_words(tmp_path):
    write_document(tmp_path, 2, 0, 2, scanned=True)
    document = Document.of(tmp_path)
    assert not any(document.texts)
    assert document.pages[0].draw(200).pixels.std() > 5


def test_the_bench_finds_pages_and_compares(tmp_path):
    given = {"data": "documents:4", "limit": ("4",), "keeps": "64", "seed": 77}
    with pytest.raises(InputError, match="--seconds"):
        bench("real", **given, out=tmp_path, seconds=0.0)
    report = bench("real", **given, out=tmp_path)
    stopped = bench("real", **given, out=tmp_path, seconds=0.0)
    assert stopped.cells == report.cells, "what is there is shown"
    ours = report.cell("ours", 64.0, score="page")
    assert ours.estimate.value == 1
    assert report.cell("text search + uniform", 64.0, score="coverage").minus is not None
    assert report.cell("all tokens", score="coverage").estimate.value == 1
