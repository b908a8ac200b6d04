"""`arr-coc demo look`: two questions, one budget, two different homunculi."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from arr_coc import Allocation, tokens_for
from arr_coc.app.cli import main
from arr_coc_lab.cli import demo


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Where the demonstration of one of its pictures lies, run when it is first asked for."""

    @cache
    def show_one(picture: str) -> Path:
        out = tmp_path_factory.mktemp("demo") / "new"
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(demo, "SHOWN", tuple(one for one in demo.SHOWN if one.picture == picture))
            with pytest.raises(SystemExit) as stopped:
                main(["demo", "look", "--out", str(out)])
        assert stopped.value.code == 0
        return out

    return show_one


def allocations(out: Path, picture: str) -> list[Allocation]:
    stem = Path(picture).stem
    return [Allocation.from_json((out / f"{stem}.allocation.{number}.json").read_text()) for number in (1, 2)]


def test_every_example_is_shown() -> None:
    assert {shown.picture for shown in demo.SHOWN} == {path.name for path in demo.EXAMPLES.glob("*.png")}


@pytest.mark.parametrize("example", demo.SHOWN, ids=lambda example: example.picture)
def test_the_budget_is_met_exactly(shown: Callable[[str], Path], example: demo.Shown) -> None:
    for allocation in allocations(shown(example.picture), example.picture):
        announced = tokens_for((allocation.height, allocation.width), example.budget)
        assert allocation.tokens == allocation.budget == announced == example.budget


@pytest.mark.parametrize("example", demo.SHOWN, ids=lambda example: example.picture)
def test_the_two_questions_look_in_different_places(shown: Callable[[str], Path], example: demo.Shown) -> None:
    out = shown(example.picture)
    first, second = (allocation.level_map() == 0 for allocation in allocations(out, example.picture))
    assert (first & second).sum() < 0.7 * min(first.sum(), second.sum())
    pages = [out / f"{Path(example.picture).stem}.homunculus.{number}.png" for number in (1, 2)]
    pixels = [np.asarray(Image.open(page)) for page in pages]
    assert (pixels[0] != pixels[1]).any(-1).mean() > 0.05
    assert Image.open(out / f"{Path(example.picture).stem}.comparison.png").width == 1280


@pytest.mark.parametrize(
    ("picture", "answer"), [("street.png", "COFFEE"), ("chart.png", "1865"), ("receipt.png", "07/16/2014")]
)
def test_what_is_asked_about_is_seen_in_full_by_the_first_question_only(
    shown: Callable[[str], Path], picture: str, answer: str
) -> None:
    questions = json.loads((demo.EXAMPLES / "questions.json").read_text())[picture]
    (box,) = (entry["boxes"][0] for entry in questions if entry["answer"] == answer)
    asked, other = (allocation.level_map() for allocation in allocations(shown(picture), picture))
    rows, cols = asked.shape
    top, left, bottom, right = box[1] * rows, box[0] * cols, box[3] * rows, box[2] * cols
    place = (slice(int(top), int(np.ceil(bottom))), slice(int(left), int(np.ceil(right))))
    assert asked[place].max() == 0
    assert other[place].mean() > 0.5


def test_json_is_all_that_is_printed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "SHOWN", demo.SHOWN[:1])
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "look", "--json", "--out", str(tmp_path)])
    assert stopped.value.code == 0
    document = json.loads(capsys.readouterr().out)
    assert [look["question"] for look in document["looks"]] == list(demo.SHOWN[0].questions)
    assert all(Path(name).exists() for look in document["looks"] for name in look["files"].values())
    assert document["comparisons"][0]["moved"] >= 9


def test_a_folder_that_cannot_be_written_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(demo, "SHOWN", demo.SHOWN[:1])
    (tmp_path / "taken").write_text("x")
    with pytest.raises(SystemExit) as stopped:
        main(["demo", "look", "--out", str(tmp_path / "taken")])
    assert stopped.value.code == 2
    assert capsys.readouterr().err.count("\n") == 1
