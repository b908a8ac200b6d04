"""`arr-coc demo`: really asked, and wrong answers are shown as wrong."""

from __future__ import annotations

import json

import numpy as np
import pytest
from PIL import Image
from tiny_weights import needs_weights

from arr_coc.app.cli import main
from arr_coc.core.errors import InputError
from arr_coc.core.values import Answer, Pass
from arr_coc.looking import look
from arr_coc.pictures.load import load_picture
from arr_coc_lab.cli import demo
from arr_coc_lab.cli.answer_sheet import RIGHT, WRONG, AnswerPanel, answer_sheet
from arr_coc_lab.worlds import needle


def test_examples_come_in_the_order_of_their_file_and_a_fresh_picture_of_every_family():
    posed = list(demo.examples(2))
    assert [one.name for one in posed[:3]] == ["receipt.answer.1", "receipt.answer.2", "chart.answer.1"]
    assert len(posed) == 8
    listed = json.loads((posed[0].image.parent / "questions.json").read_text())
    entries = [(entry["query"], entry["answer"]) for entry in listed["receipt.png"][:2]]
    assert [(one.query, one.truth) for one in posed[:2]] == entries
    assert list(demo.examples(0)) == []
    fresh = list(demo.fresh(3))
    assert [one.name for one in fresh] == [f"{family}.answer" for family in needle.FAMILIES]
    batch = needle.render("cards", 1, demo.SIZE, 3, "test")
    assert (fresh[0].query, fresh[0].truth) == (batch.questions[0], batch.answers[0])


def coloured(page: Image.Image, colour: tuple[int, int, int]) -> int:
    return int((np.abs(np.asarray(page).astype(int) - colour).sum(-1) < 30).sum())


def test_the_page_tells_right_from_wrong():
    picture = load_picture(np.full((128, 192, 3), 200, dtype=np.uint8))
    allocation = look(picture.pixels, "the red sign", budget=6)
    answer = Answer("42", 0.1, (Pass(allocation, 6),), {"answer": 0.1}, 24)
    right, wrong = (AnswerPanel(picture, "What number?", answer, truth) for truth in ("42", "43"))
    assert right.right
    assert not wrong.right
    pages = [answer_sheet([one], "title") for one in (right, wrong)]
    assert coloured(pages[0], RIGHT) > 20 > coloured(pages[0], WRONG)
    assert coloured(pages[1], WRONG) > 20 > coloured(pages[1], RIGHT)
    with pytest.raises(InputError, match="at least one"):
        answer_sheet([], "title")


@needs_weights
def test_everything_is_asked_drawn_and_counted(tmp_path, capsys, monkeypatch):
    posed = list(demo.examples(2))[:2]
    monkeypatch.setattr(demo, "examples", lambda number: posed)
    monkeypatch.setattr(demo, "fresh", lambda seed: [])
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "--out", str(tmp_path), "--json"])
    assert stopped.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "answers.json").read_text())
    assert [one["picture"] for one in document["answers"]] == ["receipt", "receipt"]
    assert document["right"] == sum(one["answer"] == one["truth"] for one in document["answers"])
    for file in (document["page"], *(one["file"] for one in document["answers"])):
        with Image.open(file) as page:
            page.verify()
    demo.print_answers(document)
    printed = capsys.readouterr().out
    assert f"{document['right']} of 2 right" in printed
    assert printed.count("wrong") == sum(not one["right"] for one in document["answers"])


@pytest.mark.parametrize(("arguments", "word"), [(("--keep", "0"), "budget"), (("--questions", "-1"), "questions")])
def test_mistakes_get_one_line(capsys, arguments, word):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", *arguments])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.err.count("\n")) == (2, 1)
    assert word in printed.err
