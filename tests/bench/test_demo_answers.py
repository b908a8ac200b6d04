"""`arr-coc demo answers`: really asked, and wrong answers are shown as wrong."""

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
from arr_coc_lab.cli import demo_answers
from arr_coc_lab.cli.answer_sheet import RIGHT, WRONG, AnswerPanel, answer_sheet
from arr_coc_lab.worlds import needle


def test_examples_are_asked_in_the_order_of_their_file():
    posed = list(demo_answers.examples(2))
    assert [one.name for one in posed[:3]] == ["receipt.answer.1", "receipt.answer.2", "chart.answer.1"]
    assert len(posed) == 8
    listed = json.loads((demo_answers.EXAMPLES / "questions.json").read_text())
    assert [(one.query, one.truth) for one in posed[:2]] == [
        (entry["query"], entry["answer"]) for entry in listed["receipt.png"][:2]
    ]
    assert list(demo_answers.examples(0)) == []


def test_fresh_pictures_are_picture_0_of_every_familys_test_split():
    posed = list(demo_answers.fresh(3))
    assert [one.name for one in posed] == [f"{family}.answer" for family in needle.FAMILIES]
    batch = needle.render("cards", 1, demo_answers.SIZE, 3, "test")
    assert (posed[0].query, posed[0].truth) == (batch.questions[0], batch.answers[0])
    assert np.array_equal(np.asarray(posed[0].image), batch.pictures[0].permute(1, 2, 0).numpy())


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
    assert answer_sheet([right] * 5, "title").height > answer_sheet([right] * 4, "title").height
    with pytest.raises(InputError, match="at least one"):
        answer_sheet([], "title")


@needs_weights
def test_everything_is_asked_drawn_and_counted(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(demo_answers, "FAMILIES", ("cards", "scenes"))
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "answers", "--questions", "0", "--out", str(tmp_path), "--json"])
    assert stopped.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads((tmp_path / "answers.json").read_text())
    assert [one["picture"] for one in document["answers"]] == ["cards", "scenes"]
    assert document["right"] == sum(one["answer"] == one["truth"] for one in document["answers"])
    for one in document["answers"]:
        assert (one["tokens"], one["full"]) == (64, 256)
        assert 0 <= one["uncertainty"] <= 1
        with Image.open(one["file"]) as page:
            page.verify()
    with Image.open(document["page"]) as page:
        assert page.width == 1440
    demo_answers.print_answers(document, 1.0)
    printed = capsys.readouterr().out
    assert f"{document['right']} of 2 right" in printed
    assert printed.count("wrong") == sum(not one["right"] for one in document["answers"])


@pytest.mark.parametrize(("arguments", "word"), [(("--keep", "0"), "keep"), (("--questions", "-1"), "questions")])
def test_mistakes_get_one_line(capsys, arguments, word):
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "answers", *arguments])
    printed = capsys.readouterr()
    assert (stopped.value.code, printed.err.count("\n")) == (2, 1)
    assert word in printed.err


def test_a_gallery_tells_right_and_wrong_and_shows_every_picture(tmp_path):
    rows = []
    for name, right in (("cards.answer", True), ("forms.answer", False)):
        file = tmp_path / "drawn" / f"{name}.png"
        file.parent.mkdir(exist_ok=True)
        Image.new("RGB", (90, 60), "red").save(file)
        row = {"picture": name.split(".")[0], "query": "What?", "answer": "42", "truth": "43", "right": right}
        rows.append({**row, "tokens": 8, "full": 64, "uncertainty": 0.25, "file": str(file)})
    demo_answers.write_gallery({"answers": rows, "right": 1, "asked": 2}, tmp_path / "gallery.md")
    page = (tmp_path / "gallery.md").read_text()
    assert "| 1 | 1 |" in page, "so many right, so many wrong"
    assert "**42** (right), unsure 0.25, 8 of 64 tokens." in page
    assert "**42** (wrong: it is 43)" in page
    for name in ("cards.answer", "forms.answer"):
        assert f"gallery/{name}.webp" in page
        with Image.open(tmp_path / "gallery" / f"{name}.webp") as shown:
            assert shown.size == (960, 640)
