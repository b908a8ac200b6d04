"""Benches in which a model reads pages and real pictures: the same questions every way, exact budgets, one file out."""

from __future__ import annotations

import json
from collections import defaultdict
from itertools import count

import pytest
import torch
from arr_coc_lab.bench.answers import AnswerStore
from arr_coc_lab.bench.vqa import BOXES, AskingStyle, Condition, box_map
from PIL import Image
from plain_pages import plain_pack
from tiny_weights import tiny_weights

from arr_coc import Eye
from arr_coc.app.cli import main
from arr_coc.core.alphabet import decode, text_row
from arr_coc.core.errors import InputError
from arr_coc_lab.bench import page_reading
from arr_coc_lab.bench.needle import Weights
from arr_coc_lab.bench.page_reading import (
    CELLS,
    CLOSER,
    answers_of,
    batches,
    book_of,
    closer,
    leaves_of,
    measure_pages,
    read_cell,
    table_of,
)
from arr_coc_lab.bench.real import READING, reading_questions, sureness_table
from arr_coc_lab.bench.run import bench
from arr_coc_lab.worlds.pages.pack import read_pack


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    return tiny_weights(tmp_path_factory.mktemp("weights"))


def test_pages_are_read_every_way_from_its_share_of_the_tokens(weights, tmp_path, monkeypatch):
    plain_pack(tmp_path / "val-00.bin", 2)
    book = book_of(str(tmp_path / "val-00.bin"), "cpu")
    shown = defaultdict(set)

    def watched(loaded, batch, leaves, aloud):
        shown[batch.grid].add(leaves.shape[1])
        return read_cell(loaded, batch, leaves, aloud)

    monkeypatch.setattr(page_reading, "read_cell", watched)
    saved = []
    found = measure_pages(Weights.load(weights), book, 3, advance=lambda done, so_far: saved.append((done, so_far())))
    assert sum(done for done, _ in saved) == 3
    assert saved[-1][1] == found, "a run that is stopped has what it read"
    assert saved[0][1]["n"] == saved[0][0]
    # Of 80 tokens: as it was drawn all of them and every share, larger only the shares.
    assert shown == {(8, 10): {80, 40, 20, 10, 5}, (12, 15): {40, 20, 10, 5}}
    assert found["n"] == 3
    assert len(found["rows"]) == len(CELLS)
    assert "All tokens" in table_of(found)
    assert [(row["way"], row["keep"], row["n"]) for row in found["calibration"]] == [
        ("full", 1.0, 3),
        ("scorer", 0.25, 3),
    ]
    batch = next(batches(book, None, 1))
    pages = read_pack([tmp_path / "val-00.bin"])
    asked = {decode(torch.tensor(text_row(question.answer, 40))) for page in pages for question in page.questions}
    assert {decode(row) for row in answers_of(batch)} <= asked
    scores = torch.rand(len(batch), 8, 10)
    for way, keep in CELLS:
        leaves = leaves_of(way, keep, batch, scores, torch.Generator().manual_seed(0))
        assert leaves.shape[1] == round(keep * 80)
    near = closer(batch)
    assert near.grid == (12, 15)
    larger = torch.rand(len(batch), *near.grid)
    assert leaves_of(CLOSER, 0.25, near, larger, torch.Generator(), full=80).shape[1] == 20, "as many tokens"
    again = torch.nn.functional.interpolate(near.pictures.float(), batch.size, mode="area")
    assert (again - batch.pictures).abs().mean() < 4, "the same page"
    fine = leaves_of("oracle", 0.25, batch, scores, torch.Generator())
    held = [batch.targets[0, 0, row, col] for row, col, level in fine[0].tolist() if level == 0]
    assert sum(held) == batch.targets[0, 0].sum(), "the oracle sees all that the question needs"


@pytest.fixture
def records(tmp_path):
    Image.new("RGB", (96, 64), "white").save(tmp_path / "a.png")
    rows = [
        {"image": "a.png", "query": "What is the total?", "answer": "12", "source": "forms"},
        {"image": "a.png", "query": "Where is the dog?", "answer": "dog", "source": "photos"},
        {"image": "a.png", "query": "Who signed?", "answer": "Ada", "source": "forms"},
        {"image": "a.png", "query": "Look.", "answer": "", "source": "photos"},
    ]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return tmp_path


def test_only_what_must_be_read_is_asked(records):
    assert [one.question.answers for one in reading_questions(records)] == [("12",), ("Ada",)]
    assert len(reading_questions(records, 1)) == 1
    with pytest.raises(InputError, match="text to be read"):
        reading_questions(records, sources=("photos",))


def test_bench_real_ask_writes_both_measures_and_goes_on(records, weights, tmp_path, capsys):
    command = ["bench", "real", "--data", str(records), "--ask", "--model", str(weights / "mini"), "--keeps", "1/2"]
    command += ["--out", str(tmp_path / "out"), "--json"]

    def run():
        with pytest.raises(SystemExit) as ended:
            main(command)
        assert not ended.value.code
        return capsys.readouterr().out

    first = run()
    tables = json.loads(first)["tables"]
    assert [table["title"] for table in tables] == [
        "forms: ANLS",
        "forms: exact match",
        "forms: exact match among the surest answers",
    ]
    assert {row["way"] for row in tables[0]["rows"]} == {
        "full",
        "ours",
        "uniform",
        "random",
        "shuffled",
    }
    answers = (tmp_path / "out" / "real_answers.jsonl").read_text()
    assert [table["rows"] for table in json.loads(run())["tables"]] == [table["rows"] for table in tables]
    assert (tmp_path / "out" / "real_answers.jsonl").read_text() == answers, "nothing is asked twice"


def test_true_boxes_are_a_way_where_all_records_have_them(records, weights):
    eye = Eye.from_pretrained(str(weights / "mini"), relevance="detail")
    (asked, _) = reading_questions(records)
    assert len(asked.question.boxes) == 0
    boxed = asked.question._replace(boxes=[(0.7, 0.6, 1.0, 1.0)])
    eye.set_image(boxed.image)
    answer = AskingStyle(READING, "").ask(eye, boxed, Condition(BOXES, 0.5), 3)
    fine = answer.allocation.boxes[answer.allocation.levels == 0]
    assert answer.tokens == 3
    assert [32, 64] in fine[:, :2].tolist()
    assert box_map((0, 0, 0.5, 0.25), (0.9, 0.9, 1, 1)).sum() == 16 * 32 + 7 * 7


def test_sureness_tells_how_many_of_the_surest_are_right():
    sure, right = [0.95, 0.92, 0.6, 0.3], [1, 1, 0, 0]
    rows = ({"score": is_right, "uncertainty": 1 - one} for one, is_right in zip(sure, right, strict=True))
    answers = AnswerStore(rows={(str(number), "full"): row for number, row in enumerate(rows)})
    (row,) = sureness_table("forms", answers, [*"0123"], [Condition("full", 1.0)], {}).to_json()["rows"]
    assert [row[key]["value"] for key in ("of_100", "of_75", "of_50", "of_25")] == pytest.approx(
        [50, 200 / 3, 100, 100]
    )
    assert (row["sure"]["value"], row["sure_n"]) == (100, 2)
    assert row["ece"]["value"] == pytest.approx(25 * (0.05 + 0.08 + 0.6 + 0.3))


def test_the_command_writes_while_it_reads_and_only_the_shares_that_were_asked(weights, tmp_path, monkeypatch):
    plain_pack(tmp_path / "val-00.bin", 2)
    written, clock = [], count(0, 61)  # more than a minute from one look at the clock to the next
    monkeypatch.setattr("arr_coc_lab.bench.run.monotonic", lambda: next(clock))
    monkeypatch.setattr("arr_coc_lab.bench.run.write_json", lambda path, found: written.append(found))
    bench("pages", pack=str(tmp_path / "val-00.bin"), n=3, keeps="1/8", weights=weights, out=tmp_path)
    assert len(written) > 1
    assert written[0]["n"] <= written[-1]["n"] == 3
    assert {row["keep"] for row in written[-1]["rows"]} == {1.0, 0.125}
