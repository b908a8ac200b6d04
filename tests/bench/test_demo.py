"""`arr-coc demo`: really asked, and wrong answers are shown as wrong."""

from __future__ import annotations

import json

import pytest
from PIL import Image
from tiny_weights import needs_weights

from arr_coc.app.cli import main
from arr_coc_lab.cli import demo
from arr_coc_lab.worlds import needle


def test_examples_come_in_the_order_of_their_file_and_a_fresh_picture_of_every_family():
    posed = list(demo.pose(3))
    assert [one.name for one in posed[:3]] == ["receipt.answer.1", "receipt.answer.2", "chart.answer.1"]
    listed = json.loads((posed[0].image.parent / "questions.json").read_text())
    entries = [(entry["query"], entry["answer"]) for entry in listed["receipt.png"][:2]]
    assert [(one.query, one.truth) for one in posed[:2]] == entries
    fresh = posed[8:]
    assert [one.name for one in fresh] == [f"{family}.answer" for family in needle.FAMILIES]
    batch = needle.render("cards", 1, demo.SIZE, 3, "test")
    assert (fresh[0].query, fresh[0].truth) == (batch.questions[0], batch.answers[0])


@needs_weights
def test_everything_is_asked_drawn_and_counted(tmp_path, capsys, monkeypatch):
    posed = list(demo.pose(3))[:2]
    monkeypatch.setattr(demo, "pose", lambda seed: posed)
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


@pytest.mark.parametrize(("arguments", "word"), [(("--keep", "0"), "budget")])
def test_mistakes_get_one_line(capsys, arguments, word):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", *arguments])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.err.count("\n")) == (2, 1)
    assert word in printed.err
