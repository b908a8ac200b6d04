"""Buttons that judge the very answer that is shown, into the owner's record; without one there are none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from arr_coc.answering.feedback import Feedback, entries_of, name_of
from PIL import Image
from tiny_weights import tiny_weights

from arr_coc.app.microscope.ask_tab import judge_answer, show_answer, show_full
from arr_coc.app.microscope.desk import Desk
from arr_coc.app.microscope.linking import PageState
from arr_coc.core.errors import InputError
from arr_coc_lab.train.own_data import read_own

MODEL_NAME, QUERY = "mini", "What is red?"


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tiny_weights(tmp_path_factory.mktemp("weights")) / MODEL_NAME)


@pytest.fixture
def recording(weights: str, tmp_path: Path) -> Iterator[tuple[Desk, str, PageState]]:
    desk = Desk((weights,), options={"record": Feedback(tmp_path / "feedback.jsonl")})
    (desk.folder / "upload").mkdir()
    path = str(desk.folder / "upload" / "a.png")
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (64, 96, 3), dtype=np.uint8)).save(path)
    yield desk, path, PageState(picture="upload", q=QUERY, model=weights)
    desk.close()


def test_the_answer_that_is_shown_is_judged_whoever_asked_since(
    recording: tuple[Desk, str, PageState], tmp_path: Path
) -> None:
    desk, path, state = recording
    mine = show_answer(desk, path, state, 3)
    assert show_full(desk, path, state, mine.kept)
    other = show_answer(desk, path, state, 3)
    assert [entry["id"] for entry in entries_of(tmp_path / "feedback.jsonl")] == [
        name_of(mine.kept),
        name_of(other.kept),
    ]
    assert "Judged better" in judge_answer(desk, mine, "better", "0.1, 0.2, 0.5, 0.6", " 12.50 ")
    judge_answer(desk, other, "right", "left over from before")
    *_, better, right = entries_of(tmp_path / "feedback.jsonl")
    assert (better["judges"], better["boxes"], better["right_answer"]) == (
        name_of(mine.kept), [[0.1, 0.2, 0.5, 0.6]], "12.50",
    )  # fmt: skip
    assert right == {"judges": name_of(other.kept), "judged": "right"}
    first = read_own(tmp_path / "feedback.jsonl", say=lambda line: None).records[0]
    assert first.boxes.tolist() == [[0.1, 0.2, 0.5, 0.6]]


def test_what_cannot_be_judged_is_a_sentence(recording: tuple[Desk, str, PageState]) -> None:
    desk, path, state = recording
    with pytest.raises(InputError, match="ask first"):
        judge_answer(desk, None, "right")
    shown = show_answer(desk, path, state, 3)
    for place in ("", "1,2", "a,b,c,d", "0.5,0,0.2,1"):
        with pytest.raises(InputError, match="place"):
            judge_answer(desk, shown, "better", place)


def buttons(desk: Any) -> set[str]:
    from arr_coc.app.microscope import build_app

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("GRADIO_TEMP_DIR", "")  # gradio has one for the process: other pages' stays theirs
        blocks = build_app(desk).application.routes[-1].app.get_blocks()  # type: ignore[attr-defined]
    return {one["props"].get("elem_id") for one in blocks.config["components"]} & {
        "judge-right", "judge-wrong", "judge-better",
    }  # fmt: skip


def test_there_are_buttons_only_where_a_record_is_kept(recording: tuple[Desk, str, PageState], weights: str) -> None:
    pytest.importorskip("gradio")
    assert len(buttons(recording[0])) == 3
    silent = Desk((weights,))
    try:
        assert not buttons(silent)
        with pytest.raises(InputError, match="no recorded answer"):
            judge_answer(silent, None, "right")
    finally:
        silent.close()
