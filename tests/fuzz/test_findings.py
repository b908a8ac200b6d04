"""What the hunts found, kept: each of these was a traceback once. Others lie with the tests of their packages."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch_runs import written
from PIL import Image
from tiny_weights import tiny_weights

import arr_coc
from arr_coc.core.errors import LONGEST, InputError

PICTURE = np.full((64, 96, 3), 200, np.uint8)
MANY = np.zeros((3, 4), np.float32)


@pytest.fixture(scope="module")
def eye(tmp_path_factory: pytest.TempPathFactory) -> Any:
    folder = tiny_weights(tmp_path_factory.mktemp("weights"))
    return arr_coc.Eye.from_pretrained(str(folder / "mini")).set_image(PICTURE)


@pytest.mark.parametrize("value", [None, {}, 1e308, MANY, "x", range(3), int])
def test_things_that_are_no_allocations_and_no_models(value: Any) -> None:
    allocation = arr_coc.look(PICTURE, "red", 3)
    for a, b in ((value, allocation), (allocation, value)):
        with pytest.raises(InputError, match="Allocation"):
            arr_coc.compare(a, b)
    with pytest.raises(InputError, match="takes the attached model"):
        arr_coc.detach(value)


@pytest.mark.parametrize(
    ("call", "line"),
    [
        (lambda: arr_coc.pack(PICTURE, "red", [400], model="gpt-4o"), "pages share one budget"),
        (lambda: arr_coc.watch("nope.mp4", "red"), "frames must be pictures"),
        (lambda: arr_coc.watch(5, "red"), "frames must be pictures"),
        (lambda: arr_coc.watch([5], "red"), "no frame"),
        (lambda: arr_coc.relevance_source("mine")(5), "must be a function"),
        (lambda: replace(arr_coc.look(PICTURE, "red", 3), budget=0), "budget of 0"),
        (lambda: arr_coc.look(PICTURE, "red", "1/8"), "must be a whole number"),
    ],
)
def test_nothing_is_swallowed(call: Any, line: str) -> None:
    with pytest.raises(InputError, match=line):
        call()


@pytest.mark.parametrize("value", [[0.5], b"x", {}, MANY, None, 2.5, 0, -1, float("nan")])
def test_sizes_of_pictures(value: Any) -> None:
    with pytest.raises(InputError, match="max_pixels"):
        arr_coc.load_picture(PICTURE, max_pixels=value)
    if value is not None:
        with pytest.raises(InputError, match="longest_side"):
            arr_coc.load_picture(PICTURE, longest_side=value)


@pytest.mark.parametrize("name", [[1, 2], 2, 3 + 4j, (2.5, "x"), MANY, int, "", " ", "a\0b", None])
def test_names_of_models(name: Any) -> None:
    with pytest.raises(InputError, match="a model is named by"):
        arr_coc.Eye.from_pretrained(name)
    with pytest.raises(InputError, match="a model is named by"):
        arr_coc.ask(PICTURE, "red", 3, model=name)


@pytest.mark.parametrize(
    ("keyword", "value"),
    [
        *(("calibration", value) for value in (MANY, Path("x"), 0, float("nan"), "1", True)),
        *(("name", value) for value in (MANY, 3)),
    ],
)
def test_settings_of_an_eye(eye: Any, keyword: str, value: Any) -> None:
    with pytest.raises(InputError):
        arr_coc.Eye(eye.model, eye.processor, **{keyword: value})


@pytest.mark.parametrize("most", [None, MANY, "many", 0, -3, 2.5])
def test_lengths_of_answers(eye: Any, most: Any) -> None:
    with pytest.raises(InputError, match="max_new_tokens"):
        eye.ask("red", 3, options=arr_coc.Options(max_new_tokens=most))
    with pytest.raises(InputError, match="max_new_tokens"):
        list(eye.stream("red", 3, options=arr_coc.Options(max_new_tokens=most)))


@pytest.mark.parametrize("query", [Path("x"), (2.5, "x"), 3, MANY, None, {}, b"red", object()])
def test_questions(eye: Any, query: Any) -> None:
    for ask in (eye.ask, lambda *given: list(eye.stream(*given))):
        with pytest.raises(InputError):
            ask(query, 3)


@pytest.mark.parametrize("device", [[], MANY, 3 + 4j, "", "abacus", "A" * 5000])
def test_devices(device: Any) -> None:
    with pytest.raises(InputError, match="device"):
        arr_coc.ask(PICTURE, "red", 3, device=device)


def test_other_arguments() -> None:
    with pytest.raises(InputError, match="photos"):
        arr_coc.look(PICTURE, "red", 3, options=arr_coc.Options(photos=MANY))  # type: ignore[arg-type]
    for relevance in (0.3, None, "x", b"", {}, [(0.1, 0.2), "x"]):
        with pytest.raises(InputError):
            arr_coc.allocate(relevance, 3)  # type: ignore[arg-type]
    for size in (np.array(7), 7, "ab", None):
        with pytest.raises(InputError, match="image_size"):
            arr_coc.tokens_for(size)  # type: ignore[arg-type]
        if size is not None:
            with pytest.raises(InputError, match=r"height, width"):
                arr_coc.tokens_for((64, 96), canvas=size)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="is unknown"):
        arr_coc.look(PICTURE, "red", 3, relevance=int)
    with pytest.raises(InputError, match="unknown strategy"):
        arr_coc.ask(PICTURE, "red", 3, options=arr_coc.Options(strategy=MANY))  # type: ignore[arg-type]


def test_a_line_is_of_bearable_length_and_keeps_its_remedy() -> None:
    error = InputError("A" * 50_000 + " will not do;\ngive another")
    assert len(str(error)) <= LONGEST
    assert str(error).endswith("A will not do; give another")


@pytest.mark.parametrize("turns", [int, 3, {}, ["red"], "red"])
def test_turns_of_a_conversation(eye: Any, turns: Any) -> None:
    with pytest.raises(InputError, match="turns="):
        eye.chat(turns=turns)
    with pytest.raises(InputError, match="system"):
        eye.chat(system=MANY)


@pytest.mark.parametrize("side", ["height", "width"])
def test_an_allocation_of_a_picture_beyond_all_pictures(side: str) -> None:
    document = arr_coc.look(PICTURE, "red", 3, relevance="detail").to_json()
    document = json.loads(document) if isinstance(document, str) else document
    document["image"][side] = 1 << 31
    with pytest.raises(InputError, match="cells"):
        arr_coc.Allocation.from_json(document)


@pytest.mark.parametrize("value", [10**400, float("nan"), float("-inf"), "1", True, None])
def test_ways_and_tensions_that_are_no_numbers(value: object) -> None:
    document = arr_coc.look(PICTURE, "red", 3, relevance="look").to_json()
    for given in ({"ways": {"propositional": {"detail": value}}}, {"tensions": {"focus_diversify": value}}):
        with pytest.raises(InputError):
            arr_coc.Allocation.from_json({**document, **given})


def test_words_of_a_page_that_is_wider_than_any_number_of_single_precision(tmp_path: Path) -> None:
    word = "<span class='ocrx_word' title='bbox 5 5 90 40'>Total</span>"
    (tmp_path / "words.hocr").write_text(f"<div class='ocr_page' title='bbox 0 0 6{'0' * 150} 400'>{word}</div>")
    assert arr_coc.look(PICTURE, "the total", 3, words=tmp_path / "words.hocr").tokens == 3


def test_records_with_half_a_character_or_a_name_longer_than_any_file(tmp_path: Path) -> None:
    from arr_coc.app.batch.rows import Todo
    from arr_coc_lab.train.own_data import read_own

    Image.fromarray(PICTURE).save(tmp_path / "a.png")
    whole = {"image": "a.png", "query": "what?", "boxes": [[0.1, 0.1, 0.4, 0.4]]}
    wrong = [{**whole, "query": "\ud800"}, {**whole, "image": "A" * 5000}]
    (tmp_path / "records.jsonl").write_text("".join(json.dumps(one) + "\n" for one in (whole, *wrong)))
    found = read_own(tmp_path, say=lambda line: None)
    assert [record.line for record in found.records] == [1]
    assert [bad.line for bad in found.bad] == [2, 3]
    with pytest.raises(InputError):
        Todo("A" * 5000, ("what?",)).check()


def test_a_file_without_an_end(tmp_path: Path) -> None:
    endless = Path("/dev/zero")
    if not endless.exists():
        pytest.skip("no device without an end")
    with pytest.raises(InputError, match="larger than"):
        arr_coc.look(PICTURE, "red", 3, words=str(endless))


def test_rows_of_a_batch_whose_names_and_questions_are_no_text(tmp_path: Path) -> None:
    """A name of a file may hold any byte; JSON may hold half a character."""
    from arr_coc.app.batch.looker import Looker, LookerOptions
    from arr_coc.app.batch.rows import Store

    name = os.fsdecode(bytes(tmp_path) + b"/\xff.png")
    Image.fromarray(PICTURE).save(name)
    asked = [(name, "red"), (name, "\ud800")]
    store = Store(tmp_path / "out", {"budget": 4}, rows=1)
    looker = Looker(LookerOptions(options=arr_coc.Options(budget=4, relevance="look")))
    store.add([looker({"path": path, "query": query}) for path, query in asked])
    store.close()
    assert [(row["path"], row["query"]) for row in written(tmp_path / "out")] == asked
    assert len(Store(tmp_path / "out", {"budget": 4}).keys) == 2


def test_a_refusal_can_be_sent() -> None:
    pytest.importorskip("fastapi")
    from arr_coc.app.web import Refused

    assert b"?" in Refused.of(InputError("\ud800 is no model")).answer().body
    assert b"?" in Refused(400, "\ud800 is no model").answer().body


@pytest.mark.parametrize(
    "words",
    [
        "look LONG red",
        "look a.png red --set relevance=LONG",
        "ask LONG red",
        "ask a.png red --model LONG",
        "video LONG red",
    ],
)
def test_names_longer_than_any_file_s(tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str) -> None:
    from arr_coc.app.cli import main

    Image.fromarray(PICTURE).save(tmp_path / "a.png")
    given = words.replace("LONG", "A" * 5000).replace("a.png", str(tmp_path / "a.png")).split()
    with pytest.raises(SystemExit, match="2"):
        main(given)
    assert capsys.readouterr().err.startswith("arr-coc: ")


def test_a_question_with_half_a_character_is_answered(eye: Any) -> None:
    assert eye.set_image(PICTURE).ask("what is \udcff?", 3, options=arr_coc.Options(max_new_tokens=1)).tokens == 3
    assert arr_coc.ask(PICTURE, "what is \ud800?", 3, options=arr_coc.Options(max_new_tokens=1)).tokens == 3
