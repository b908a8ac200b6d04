"""What was asked and judged, in a file of the user's: whole lines, by any number of writers, and failures counted."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest
from PIL import Image

from arr_coc.answering.feedback import Feedback, entries_of, seen_boxes
from arr_coc.app.cli import main
from arr_coc.attending.allocate import allocate
from arr_coc.balancing.arousal import arousal_of
from arr_coc.core.errors import InputError
from arr_coc.core.values import Answer, Pass
from arr_coc.pictures.load import load_picture
from arr_coc_lab.train.own_data import read_own


@pytest.fixture
def asked(tmp_path):
    pixels = np.full((128, 128, 3), 200, np.uint8)
    Image.fromarray(pixels).save(tmp_path / "page.png")
    relevance = np.zeros((4, 4), np.float32)
    relevance[1, 2] = 1
    allocation = allocate(relevance, 5, image_size=(128, 128), strategy="overlay")
    answer = Answer("12.50", 0.2, (Pass(allocation, 5, text="12.50"),), full=16)
    return tmp_path, load_picture(tmp_path / "page.png"), answer


def test_a_judged_answer_is_a_record_to_learn_from(asked):
    folder, picture, answer = asked
    feedback = Feedback(folder / "feedback.jsonl")
    noted = feedback.noted(answer, "How much?", picture, place=folder / "page.png", model="mini")
    assert noted.notes[-1] == f"recorded as {feedback.last}"
    with pytest.raises(InputError, match="no record that can be used"):
        read_own(feedback.path, say=lambda line: None)
    feedback.judge("right")
    feedback.noted(answer, "When?", picture)  # from no file: a copy is kept beside the records
    feedback.judge("better", boxes=[[0.1, 0.2, 0.3, 0.4]], answer="3 May")
    feedback.noted(answer, "Who?", picture)
    feedback.judge("wrong")
    told: list[str] = []
    right, better = read_own(feedback.path, say=told.append).records
    assert right.boxes.tolist() == seen_boxes(answer.allocation)
    assert [0.5, 0.25, 0.75, 0.5] in right.boxes.tolist(), "the relevant cell was seen"
    assert (better.boxes.tolist(), better.answer) == ([[0.1, 0.2, 0.3, 0.4]], "3 May")
    assert np.array_equal(better.load().pixels, picture.pixels)
    assert "line 5: judged wrong" in told[1]


def test_a_later_judgement_takes_the_place_of_an_earlier(asked):
    folder, picture, answer = asked
    feedback = Feedback(folder / "feedback.jsonl")
    feedback.noted(answer, "How much?", picture)
    feedback.judge("wrong")
    feedback.judge("right")
    (record,) = read_own(feedback.path).records
    assert record.judged == "right"


def test_many_writers_leave_whole_lines(asked):
    folder, picture, answer = asked

    def write(number: int) -> None:
        feedback = Feedback(folder / "feedback.jsonl")
        for turn in range(20):
            feedback.noted(answer, f"{number} {turn} " + "x" * 500, picture, place=folder / "page.png")
            feedback.judge("right" if turn % 2 else "wrong")

    threads = [threading.Thread(target=write, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    lines = (folder / "feedback.jsonl").read_text().splitlines()
    assert len([json.loads(line) for line in lines]) == 6 * 20 * 2
    assert len({entry["id"] for entry in entries_of(folder / "feedback.jsonl") if "id" in entry}) == 120


def test_failures_of_late_are_counted_and_raise_arousal(asked):
    """Ten judgements at most; half a line, which another process is still writing, is left for the next time."""
    folder, picture, answer = asked
    feedback, other = Feedback(folder / "f.jsonl"), Feedback(folder / "f.jsonl")
    assert feedback.failures() == 0
    for judged, number in (("wrong", 1), ("wrong", 2), ("right", 2), *(("wrong", min(3 + n, 9)) for n in range(7))):
        other.noted(answer, "How much?", picture)
        other.judge(judged)
        assert feedback.failures() == number
    with (folder / "f.jsonl").open("a") as file:
        file.write('{"judges": "x", "judg')
        file.flush()
        assert feedback.failures() == 9
        file.write('ed": "wrong"}\n')
    assert feedback.failures() == 9, "the oldest of ten went"
    assert Feedback(folder / "f.jsonl").failures() == 9
    calm, alarmed = (float(arousal_of(0.2, 0.5, float(number))) for number in (0, 9))
    assert alarmed == pytest.approx(calm + 0.09)


def test_what_cannot_be_judged_is_one_line(asked):
    folder, picture, answer = asked
    feedback = Feedback(folder / "f.jsonl")
    with pytest.raises(InputError, match="holds no record"):
        feedback.judge("right")
    feedback.noted(answer, "How much?", picture)
    for wrong, words in (
        ({"judged": "fine"}, "choose from right, wrong, better"),
        ({"judged": "better"}, "a better place is"),
        ({"judged": "right", "boxes": [[0, 0, 1, 1]]}, "a better place is"),
        ({"judged": "better", "boxes": [[0.5, 0, 0.2, 1]]}, "a better place is"),
        ({"judged": "right", "record": "none"}, f"the last is {feedback.last}"),
    ):
        with pytest.raises(InputError, match=words):
            feedback.judge(**wrong)
    with pytest.raises(InputError, match=r"ends in \.jsonl"):
        Feedback(folder)
    assert Feedback.of(None) is None
    assert Feedback.of(feedback) is feedback


def test_the_whole_picture_seen_finely_says_nothing_about_where(asked):
    allocation = allocate(np.ones((4, 4), np.float32), 16, image_size=(128, 128), strategy="overlay")
    assert seen_boxes(allocation) == []


@pytest.mark.parametrize("memory", [True, False])
def test_an_eye_and_an_esper_record_one_line_an_answer_and_count_failures(asked, memory):
    """Failures raise the arousal of the passes, whichever way the model is read."""
    from arr_coc.answering.esper import Esper
    from arr_coc.answering.eye import Eye

    folder, picture, _ = asked
    eye = Eye.from_pretrained("mini", record=folder / "f.jsonl")
    assert eye.set_image(picture.pixels).ask("What is the total?", budget=5).notes[-1].startswith("recorded as ")
    "".join(eye.stream("What is the total?", budget=5))
    assert len(entries_of(folder / "f.jsonl")) == 2
    esper = Esper(eye).set_image(picture.pixels)
    if not memory:
        esper._pictured = None
    calm = esper.examine("What is the total?", 12, passes=2)
    assert len(entries_of(folder / "f.jsonl")) == 3, "passes are one answer"
    assert eye.record is not None
    for _ in range(10):
        eye.record.judge("wrong")
    alarmed = esper.examine("What is the total?", 12, passes=2)
    assert alarmed.passes[0].arousal == pytest.approx(calm.passes[0].arousal + 0.1)
    assert alarmed.answer.notes[-1].startswith("recorded as ")


def test_the_command_records_judges_and_looks_harder_after_failures(asked, capsys, monkeypatch):
    folder, *_ = asked
    file = str(folder / "feedback.jsonl")

    def run(*arguments: str) -> None:
        with pytest.raises(SystemExit) as ended:
            main(arguments)
        assert ended.value.code == 0, capsys.readouterr().err

    run("ask", str(folder / "page.png"), "What is the total?", "--record", file, "--quiet")
    run("judge", file, "wrong", "--answer", "3")
    run("judge", file, "better", "--place", "0.1,0.1,0.3,0.2")
    capsys.readouterr()
    run("ask", str(folder / "page.png"), "What is the total?", "--record", file, "--passes", "2", "--json")
    assert "recorded as" in json.loads(capsys.readouterr().out)["notes"][-1]
    entries = entries_of(folder / "feedback.jsonl")
    assert [("id" in entry, entry["judged"]) for entry in entries] == [
        (True, None),
        (False, "wrong"),
        (False, "better"),
        (True, None),
    ]
    assert entries[0]["image"] == str(folder / "page.png")
    for bad in (["judge", file, "better", "--place", "1,2"], ["judge", str(folder / "none.jsonl"), "right"]):
        with pytest.raises(SystemExit) as ended:
            main(bad)
        assert ended.value.code == 2
