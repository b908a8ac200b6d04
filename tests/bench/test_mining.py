"""One's own hardest cases: what is seen least comes first, with its picture."""

from __future__ import annotations

import json

import numpy as np
import pytest
from arr_coc_lab.bench.mining import hardest
from PIL import Image

from arr_coc.app.cli import main
from arr_coc_lab.train.own_data import read_own


@pytest.fixture
def folder(tmp_path):
    """A bright disc: the easy question's box is there, the hard one's in an empty corner."""
    pixels = np.full((256, 256, 3), 90, np.uint8)
    pixels[:128, :128] = np.random.default_rng(0).integers(0, 255, (128, 128, 3))
    Image.fromarray(pixels).save(tmp_path / "a.png")
    easy = {"image": "a.png", "query": "Where is the noise?", "answer": "1", "boxes": [[0.05, 0.05, 0.2, 0.2]]}
    hard = {**easy, "query": "Where is nothing?", "answer": "2", "boxes": [[0.8, 0.8, 0.95, 0.95]]}
    (tmp_path / "records.jsonl").write_text("\n".join(map(json.dumps, (easy, hard, easy))))
    return tmp_path


def test_what_is_seen_least_is_hardest(folder):
    records = read_own(folder).records
    cases = hardest(records, 2, keep=1 / 4, relevance="detail")
    assert [case.record.line for case in cases] == [2, 1]
    assert cases[0].seen == 0.0
    assert cases[1].seen is not None
    assert cases[1].seen >= 0.4


def test_the_command_leaves_a_page_and_records_that_can_be_learned_from(folder, tmp_path, capsys):
    out = tmp_path / "hard"
    with pytest.raises(SystemExit) as ended:
        main(["mine", "--data", str(folder), "--relevance", "detail", "--keep", "1/4", "--n", "1", "--out", str(out)])
    assert ended.value.code == 0
    assert "Where is nothing?" in capsys.readouterr().out
    document = json.loads((out / "hardest.json").read_text())
    assert [case["line"] for case in document["cases"]] == [2]
    assert read_own(out / "hardest.jsonl").records[0].query == "Where is nothing?"
    page = (out / "index.html").read_text()
    assert "001.png" in page
    assert Image.open(out / "001.png").width == 1120


def test_a_model_that_answers_wrong_is_harder_than_one_that_is_right(folder, capsys):
    with pytest.raises(SystemExit) as ended:
        main(["mine", "--data", str(folder), "--relevance", "detail", "--ask", "--json"])
    assert ended.value.code == 0
    cases = json.loads(capsys.readouterr().out)["cases"]
    assert [case["right"] for case in cases] == sorted(case["right"] for case in cases)
    assert all("said" in case for case in cases)


@pytest.mark.parametrize("wrong", [["--n", "0"], ["--keep", "2"], ["--keep", "x"], ["--relevance", "scorr"]])
def test_wrong_arguments_exit_with_two(folder, wrong):
    with pytest.raises(SystemExit) as ended:
        main(["mine", "--data", str(folder), *wrong])
    assert ended.value.code == 2
