"""One's own records: what is read, what is told, and a split that shares no picture."""

from __future__ import annotations

import json
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.pictures.words import make_words
from arr_coc_lab.train.own_data import OwnRecord, file_of, found_places, read_own, split_by_picture, write_records


def picture(path, shade: int = 200, size=(96, 64)) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, (shade, 40, 90)).save(path)


GOOD = {"image": "img/a.png", "query": "What is the total?", "answer": "12.50", "boxes": [[0.1, 0.1, 0.4, 0.2]]}


def write(folder, *entries) -> None:
    picture(folder / "img" / "a.png")
    lines = [entry if isinstance(entry, str) else json.dumps(entry) for entry in entries]
    (folder / "records.jsonl").write_text("\n".join(lines), encoding="utf-8")


BAD = [
    ({**GOOD, "image": "img/none.png"}, "no picture img/none.png"),
    ({**GOOD, "image": "img/broken.png"}, "not a picture"),
    ({**GOOD, "image": 7}, "names no picture"),
    ({**GOOD, "query": "  "}, "question is empty"),
    ({**GOOD, "boxes": [[10, 20, 30, 40]]}, "outside the picture"),
    ({**GOOD, "boxes": [[0.1, 0.1, 0.1, 0.3]]}, "is empty"),
    ({**GOOD, "boxes": [[0.1, 0.2]]}, "four numbers"),
    ({**GOOD, "boxes": [[0, 0, 1, 1]]}, "one class only"),
    ({**GOOD, "boxes": []}, "no boxes"),
    ("{not json", "not JSON"),
    ("[1, 2]", "is an object"),
]


def test_every_bad_record_is_told_once_with_its_line_and_skipped(tmp_path):
    write(tmp_path, GOOD, "", *(entry for entry, _ in BAD), GOOD)
    (tmp_path / "img" / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nhalf")
    told: list[str] = []
    data = read_own(tmp_path, say=told.append)
    assert [record.line for record in data.records] == [1, len(BAD) + 3]
    assert f"{len(BAD)} of {len(BAD) + 2} records are skipped" in told[0]
    for number, (line, (_, words)) in enumerate(zip(told[1:], BAD, strict=True), 3):
        assert line.startswith(f"  line {number}: ")
        assert words in line


def test_many_bad_records_are_counted_not_listed(tmp_path):
    write(tmp_path, GOOD, *[{**GOOD, "query": ""}] * 50)
    told: list[str] = []
    read_own(tmp_path, say=told.append)
    assert len(told) == 22
    assert "30 more" in told[-1]


def test_no_usable_record_is_one_clear_line(tmp_path):
    write(tmp_path, {**GOOD, "query": ""})
    with pytest.raises(InputError, match="has no usable record \\(of 1\\)"):
        read_own(tmp_path, say=lambda line: None)
    for path, words in ((tmp_path / "none", "does not exist"), (tmp_path / "img" / "a.png", "neither .jsonl")):
        with pytest.raises(InputError, match=words):
            file_of(path)
    with pytest.raises(InputError, match="holds no records"):
        file_of(tmp_path / "img")


def test_a_parquet_file_with_the_pictures_inside_says_the_same(tmp_path):
    """Two routes: lines beside pictures, and one file that holds both."""
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    write(tmp_path, GOOD, {**GOOD, "query": "Who?"})
    raw = (tmp_path / "img" / "a.png").read_bytes()
    rows = [{**GOOD, "query": query, "image": {"bytes": raw, "path": None}} for query in (GOOD["query"], "Who?")]
    parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "all.parquet")
    lines, table = read_own(tmp_path).records, read_own(tmp_path / "all.parquet").records
    assert [(one.query, one.picture) for one in lines] == [(one.query, one.picture) for one in table]
    assert all(np.array_equal(one.boxes, two.boxes) for one, two in zip(lines, table, strict=True))
    assert np.array_equal(lines[0].pixels, table[0].pixels)
    write_records(tmp_path / "copy" / "held_out.jsonl", table)
    again = read_own(tmp_path / "copy" / "held_out.jsonl").records
    assert np.array_equal(again[0].pixels, lines[0].pixels)
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match="as parquet"):
        read_own(tmp_path / "torn.parquet")


def test_answers_found_among_the_words_become_boxes(tmp_path):
    words = [["Total:", [0.1, 0.1, 0.3, 0.2]], ["12.50", [0.4, 0.1, 0.6, 0.2]], ["EUR", [0.6, 0.1, 0.7, 0.2]]]
    plain = {name: value for name, value in GOOD.items() if name != "boxes"}
    write(tmp_path, {**plain, "words": words, "answer": "12.50 eur"}, {**plain, "words": words, "answer": "99"})
    told: list[str] = []
    (record,) = read_own(tmp_path, "words", say=told.append).records
    assert record.boxes == pytest.approx(np.array([[0.4, 0.1, 0.7, 0.2]]))
    assert "stands nowhere among its 3 words" in told[1]


def test_a_run_of_words_spells_an_answer_whatever_its_marks():
    boxes = [[0.1 * place, 0, 0.1 * place + 0.05, 0.1] for place in range(5)]
    words = make_words(["(Anna", "Berg)", "Anna", "B.", "12"], boxes)
    (place,) = found_places(words, "anna berg")
    assert place == pytest.approx([0, 0, 0.15, 0.1])
    assert len(found_places(words, "Anna")) == 2
    assert found_places(words, "1") == found_places(words, "...") == []


@given(st.lists(st.integers(0, 30), min_size=2, max_size=80).filter(lambda names: len(set(names)) > 1), st.integers())
def test_no_picture_is_on_both_sides_and_the_order_does_not_matter(names, seed):
    records = [OwnRecord(line, b"", "?", picture=f"{name:02d}") for line, name in enumerate(names)]
    learned, held = split_by_picture(records, 0.3, seed)
    assert not {one.picture for one in learned} & {one.picture for one in held}
    assert sorted(one.line for one in (*learned, *held)) == list(range(len(names)))
    assert learned
    assert held
    again = split_by_picture(records[::-1], 0.3, seed)
    assert {one.picture for one in again[1]} == {one.picture for one in held}
    with pytest.raises(InputError, match="cannot be split"):
        split_by_picture(records[:1])


def test_the_example_draws_records_that_can_be_learned_from(tmp_path):
    """Boxes hold the print of the answer; no question says a word that stands on the page."""
    path = Path(__file__).parents[2] / "examples" / "draw_invoices.py"
    example: Any = spec_from_file_location("draw_invoices", path)
    module: Any = module_from_spec(example)
    example.loader.exec_module(module)
    assert module.write_pages(4, 3, tmp_path) == 12
    records = read_own(tmp_path).records
    assert len(records) == 12
    for record in records:
        pixels = record.pixels
        x0, y0, x1, y1 = (record.boxes[0] * (512, 640, 512, 640)).round().astype(int)
        assert np.ptp(pixels[y0:y1, x0:x1]) > 100
        asked = {word.strip("?.").lower() for word in record.query.split()}
        assert not asked & {label.strip(".").lower() for label in module.FIELDS}
    module.write_pages(4, 3, tmp_path / "again")
    assert (tmp_path / "again" / "records.jsonl").read_bytes() == (tmp_path / "records.jsonl").read_bytes()
