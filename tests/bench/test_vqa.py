"""`bench vqa` on drawn data of the shape of public sets, with `mini`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arr_coc_lab.bench.answers import AnswerStore
from arr_coc_lab.bench.vqa import (
    FULL,
    OURS,
    SMALLER,
    TASKS,
    AskingStyle,
    Condition,
    Question,
    answers_of,
    conditions_at,
    measure_vqa,
    question_of,
    questions_of,
    score_table,
    verdict,
    worst_of,
)

from arr_coc.app.cli import main
from arr_coc.core.errors import InputError

HERE = Path("set.parquet")
PICTURE = {"bytes": b"png", "path": None}
# A row of each public set, as it lies on the hub.
HUB: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "docvqa": (
        {"questionId": "337", "question": "what is the date?", "question_types": ["handwritten"], "image": PICTURE,
         "docId": 279, "answers": ["1/8/93", "January 8"], "data_split": "val"},
        ("1/8/93", "January 8"),
    ),
    "infovqa": ({"questionId": "98", "question": "How many?", "answers": ["4"], "image": PICTURE, "ocr": "x"}, ("4",)),
    "chartqa": ({"type": "human_test", "question": "How many bars?", "answer": "14", "image": PICTURE}, ("14",)),
    "chartqa, with a query": ({"image": PICTURE, "query": "How many?", "label": ["14"]}, ("14",)),
    "textvqa": (
        {"image_id": "003a", "question_id": 34602, "question": "what brand?", "image": PICTURE, "ocr_tokens": ["a"],
         "answers": ["nokia"] * 10},
        ("nokia",) * 10,
    ),
    "vqav2": (
        {"question_type": "what", "multiple_choice_answer": "down", "image_id": 1, "question_id": 2, "image": PICTURE,
         "answers": [{"answer": "down", "answer_confidence": "yes", "answer_id": n} for n in range(1, 11)],
         "question": "Where is he looking?"},
        ("down",) * 10,
    ),
    "vstar": (
        {"image": PICTURE, "text": "What colour?\n(A) red\n(B) blue\nAnswer with the option's letter from the given "
         "choices directly.", "category": "direct_attributes", "label": "B", "question_id": 0},
        ("B",),
    ),
    "needle": ({"id": "signs-1", "image": "img/1.png", "query": "What?", "answer": "37"}, ("37",)),
}  # fmt: skip


@pytest.mark.parametrize("name", HUB)
def test_rows_of_the_hub_are_understood(name: str) -> None:
    row, answers = HUB[name]
    question = question_of(row, HERE, 4)
    assert question.answers == answers
    assert question.image == (b"png" if name != "needle" else Path("img/1.png"))
    assert question.bare == {"vstar": "What colour?"}.get(name, question.text)
    assert TASKS[name.split(",")[0]].metric(answers[0], answers) == 1


def test_rows_that_cannot_be_asked_say_why() -> None:
    with pytest.raises(InputError, match="validation split"):
        question_of({"question": "what?", "image": PICTURE, "answers": None}, HERE, 0)
    with pytest.raises(InputError, match="row 3"):
        question_of({"question": "what?", "answers": ["x"]}, HERE, 2)
    assert answers_of(14) == ("14",)
    assert answers_of(None) == ()


@pytest.fixture(scope="module")
def signs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Needle World as the hub would have it: a parquet with pictures inside, ten of the same answer."""
    pa: Any = pytest.importorskip("pyarrow")
    parquet: Any = pytest.importorskip("pyarrow.parquet")
    from arr_coc_lab.worlds.needle.export import write_dataset

    folder = tmp_path_factory.mktemp("signs")
    rows = [
        {"question_id": number, "question": one["query"], "answers": [one["answer"]] * 10,
         "image": {"bytes": (folder / str(one["image"])).read_bytes(), "path": None}}
        for number, one in enumerate(write_dataset("signs", range(4), 3, folder, size=(256, 256), split="test"))
    ]  # fmt: skip
    parquet.write_table(pa.Table.from_pylist(rows), folder / "set.parquet", row_group_size=2)
    return folder


def bench(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stopped:
        main(["bench", "vqa", *map(str, arguments)])
    return int(stopped.value.code or 0)


def test_a_run_is_resumed_and_leaves_one_page(signs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    given = ("--data", signs / "set.parquet", "--task", "textvqa", "--out", out, "--json")
    assert bench(*given, "--limit", "1") == 0
    first = (out / "answers.jsonl").read_text()
    assert len(first.splitlines()) == 6
    (out / "answers.jsonl").write_text(first + '{"question": "torn')  # killed while it wrote
    assert bench(*given, "--limit", "2") == 0
    document = json.loads(capsys.readouterr().out.splitlines()[-1])
    lines = (out / "answers.jsonl").read_text().splitlines()
    assert lines[:6] == first.splitlines(), "what was answered is not asked again"
    assert len(lines) == 12
    rows = [json.loads(line) for line in lines]
    assert len({(row["question"], row["cell"]) for row in rows}) == 12
    full = {row["question"]: row["full"] for row in rows}
    for row in rows:
        budget = full[row["question"]] if row["cell"] == FULL else full[row["question"]] // 4
        assert row["tokens"] <= budget
        assert row["tokens"] == budget or row["cell"].startswith(SMALLER)
    assert [row["way"] for row in document["rows"]] == [cell.way for cell in conditions_at([0.25])]
    page = (out / "vqa.md").read_text()
    assert "| ours |" in page
    assert (out / "worst.png").exists() == bool(document["worst"])
    assert bench(*given, "--keeps", "1/4", "--relevance", "detail") == 2, "other settings are refused"
    assert "relevance auto" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "said"),
    [
        (("--task", "magic"), "magic"),
        (("--limit", "0"), "limit"),
        (("--keeps", "2"), "keeps"),
        (("--keeps", "1"), "below 1"),
        (("--strategy", "uniform"), "strategy"),
        (("--data", "nowhere.parquet"), "nowhere.parquet"),
        (("--relevance", "magic"), "magic"),
    ],
)
def test_what_cannot_be_is_told_in_a_line(
    signs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], more: tuple[str, ...], said: str
) -> None:
    assert bench("--data", signs / "set.parquet", "--task", "textvqa", "--out", tmp_path / "out", *more) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


def test_a_larger_limit_draws_the_same_and_more(signs: Path) -> None:
    few, more = ({one.name for one in questions_of(str(signs / "set.parquet"), n, 5)} for n in (2, 3))
    assert few < more
    assert len(more) == 3
    assert len(list(questions_of(str(signs / "set.parquet")))) == 4


def drawn(scores: dict[str, list[float]], path: Path) -> tuple[AnswerStore, list[str], list[Condition]]:
    """Answers as a run would leave them. scores: by way."""
    cells = [Condition(way, 1.0 if way == FULL else 0.25) for way in scores]
    answers = AnswerStore(path)
    for cell in cells:
        for number, score in enumerate(scores[cell.way]):
            row = {"question": str(number), "cell": cell.name, "score": score, "tokens": 16, "full": 64, "seconds": 1}
            answers.add({**row, "said": "x", "true": ["y"], "asked": "?"})
    return answers, [str(number) for number in range(len(scores[FULL]))], cells


def test_differences_are_paired_and_their_sign_is_ours_minus_theirs(tmp_path: Path) -> None:
    noise, jitter = np.random.default_rng(0).random((2, 60)) / [[4], [100]]
    scores = {FULL: noise + 0.7, OURS: noise + 0.6 + jitter - jitter.mean(), "uniform": noise + 0.3}
    answers, names, cells = drawn({way: values.tolist() for way, values in scores.items()}, tmp_path / "a.jsonl")
    rows = {row["way"]: row for row in score_table("t", answers, names, cells, {}).rows}
    ours: Any = rows["uniform"]["ours"]
    assert ours.value == pytest.approx(30)
    assert ours.low > 29.5, "paired: the noise of the pictures cancels"
    lost: Any = rows[OURS]["lost"]
    assert lost.value == pytest.approx(-10)
    assert verdict(answers, names, cells) == {"0.25": "holds"}
    answers, names, cells = drawn({FULL: [1] * 9, OURS: [0] * 9, "uniform": [1] * 9}, tmp_path / "b.jsonl")
    assert verdict(answers, names, cells) == {"0.25": "fails"}


def test_the_worst_are_those_that_lost_most(tmp_path: Path) -> None:
    scores = {FULL: [1.0, 1.0, 0.0, 0.5], OURS: [1.0, 0.0, 0.0, 0.2], "uniform": [0.0] * 4}
    answers, names, cells = drawn(scores, tmp_path / "a.jsonl")
    assert worst_of(answers, names, cells) == ["1", "3"]


def test_a_picture_that_cannot_be_used_is_left_out(tmp_path: Path, signs: Path) -> None:
    from arr_coc.answering.eye import Eye

    eye, answers = Eye.from_pretrained("mini"), AnswerStore(tmp_path / "a.jsonl")
    cells, asking = (
        [Condition(FULL, 1.0), Condition(OURS, 0.25), Condition("uniform", 0.25)],
        AskingStyle(TASKS["needle"], ""),
    )
    good = list(questions_of(str(signs / "set.parquet"), 2))
    names = measure_vqa(
        lambda: eye, iter([Question("bad", b"no picture", "what?", ("x",)), *good]), cells, asking, answers
    )
    table = score_table("t", answers, names, cells, {})
    assert table.facts["questions"] == "2, and 1 whose picture cannot be used"
    assert len(answers.rows) == 9
    # The same answers as one gets without the bench.
    alone = eye.set_image(good[0].image).ask(good[0].text, keep=0.25)
    assert answers.rows[good[0].name, "ours 0.25"]["said"] == alone.text
    with pytest.raises(InputError, match="same name"):
        measure_vqa(lambda: eye, iter([*good, good[0]]), cells, asking, answers)
