"""Drawn documents: the same for a seed, their answers where the records say, and the bench that counts them."""

from __future__ import annotations

import json

import pytest

from arr_coc.core.errors import InputError
from arr_coc.pictures.document import Document
from arr_coc_lab.bench.run import bench
from arr_coc_lab.worlds.pages.documents import KINDS, make_document, write_documents

pytest.importorskip("pypdfium2")


@pytest.mark.parametrize("index", range(len(KINDS)))
def test_documents_are_those_of_their_seed(index):
    first, again = make_document(3, index), make_document(3, index)
    assert first == again
    assert 2 <= len(first.sheets) <= 40
    assert first.questions
    assert all("page" not in question.text.lower() for question in first.questions)
    assert len(make_document(4, index, 7).sheets) == 7


def test_the_answers_stand_where_the_records_say(tmp_path):
    written = write_documents(tmp_path, 2, seed=9)
    records = [json.loads(line) for line in (tmp_path / "records.jsonl").read_text().splitlines()]
    assert written["questions"] == len(records) > 5
    for record in records[:12]:
        page = Document.of(tmp_path / record["file"]).pages[record["page"] - 1]
        x0, y0, x1, y1 = record["boxes"][0]
        inside = [
            text
            for text, (left, top, right, bottom) in zip(page.words.texts, page.words.boxes.tolist(), strict=True)
            if left >= x0 - 1e-3 and right <= x1 + 1e-3 and top >= y0 - 1e-3 and bottom <= y1 + 1e-3
        ]
        assert " ".join(inside).strip(":") == record["answer"]


def test_scans_have_no_words(tmp_path):
    write_documents(tmp_path, 1, seed=2, text=False)
    document = Document.of(next(tmp_path.glob("*.pdf")))
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
