"""Exports: the files hold what the page shows, and the Python lines make it again."""

from __future__ import annotations

import base64
import contextlib
import io
import json
from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np
import pytest
from PIL import Image
from tiny_weights import spoken

from arr_coc import look
from arr_coc.app.microscope.ask_tab import (
    REMEMBERED,
    PastQuestion,
    grip_figures,
    remembered,
    show_answer,
    tell_answer,
)
from arr_coc.app.microscope.compare_tab import OFFERED, show_comparison
from arr_coc.app.microscope.kit import json_file, lines_file, png_file
from arr_coc.app.microscope.linking import PageState, read_link
from arr_coc.app.microscope.passes_tab import show_passes
from arr_coc.app.microscope.textures_tab import show_textures
from arr_coc.app.microscope.ways_tab import show_balance, show_ways
from arr_coc.attending.grip import Grip
from arr_coc.core.errors import InputError
from arr_coc.core.folders import EXAMPLES
from arr_coc.core.values import Allocation, compare
from arr_coc.pictures.load import load_picture


@pytest.fixture
def drawn(desk):
    """A picture of Needle World, small and quick, and the state that names it."""
    name = "needle:cards:1"
    source = desk.source(name)
    return str(source.path), PageState(picture=name, q=source.questions[0][0], model="mini")


def run_lines(lines: str, folder, monkeypatch) -> tuple[dict, str]:
    """Run a program in `folder`: its names and what it printed."""
    monkeypatch.chdir(folder)
    names: dict = {}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(lines, "exported", "exec"), names)
    return names, printed.getvalue()


def opened(message: str) -> tuple[str, bytes]:
    document = json.loads(message)
    return document["name"], base64.b64decode(document["data"])


def test_ask_exports_what_it_shows(desk, drawn, tmp_path, monkeypatch):
    path, state = drawn
    shown = show_answer(desk, path, state, 40)
    names, printed = run_lines(shown.lines, tmp_path, monkeypatch)
    assert names["answer"].text == shown.kept.text
    assert names["allocation"] == shown.kept.allocation
    assert shown.kept.text in printed
    assert Image.open(tmp_path / "ask.png").size[0] == 1280
    name, data = opened(json_file(shown))
    assert name == "ask.json"
    assert Allocation.from_json(json.loads(data)) == shown.kept.allocation
    assert Image.open(io.BytesIO(opened(png_file(shown))[1])).width == 1280
    assert opened(lines_file(shown))[1].decode() == shown.lines


@pytest.mark.parametrize("passes", [1, 2])
def test_ask_from_another_distance_is_told_and_runs_again(desk, drawn, tmp_path, monkeypatch, passes):
    path, state = drawn
    state = replace(state, scale=0.5, passes=passes)
    shown = show_answer(desk, path, state, 16)
    assert shown.kept.allocation.scale == 0.5
    assert shown.kept.tokens == 16
    assert read_link(dict(parse_qsl(shown.link))) == (state, [])
    names, _ = run_lines(shown.lines, tmp_path, monkeypatch)
    assert names["allocation"] == shown.kept.allocation
    with pytest.raises(InputError, match="is not possible"):
        show_answer(desk, path, replace(state, scale=0.1), 16)


def test_the_grip_of_the_model_stands_beside_the_answer_where_there_are_letters():
    picture, blank = load_picture(EXAMPLES / "form.png"), load_picture(np.full((256, 256, 3), 250, np.uint8))
    grip = Grip.known("mini")
    (plain,), (nearer,) = (
        grip_figures(picture, look(picture, "What is the date?", 64, relevance="detail", scale=scale), grip)
        for scale in (1, 2)
    )
    assert (plain.pixels != nearer.pixels).any()
    heights = [int(one.caption.split(" as the model")[0].split()[-1]) for one in (plain, nearer)]
    assert heights[1] == pytest.approx(2 * heights[0], abs=1)
    laid = look(blank, "What is the date?", 16, relevance="detail")
    assert grip_figures(blank, laid, grip) == grip_figures(picture, laid, None) == []
    assert Grip.of(grip.to_json()) == grip


def test_ask_with_passes_and_the_strip_run_again(desk, drawn, tmp_path, monkeypatch):
    path, state = drawn
    shown = show_answer(desk, path, replace(state, passes=2), 60)
    names, _ = run_lines(shown.lines, tmp_path, monkeypatch)
    assert names["answer"].text == shown.kept.text
    strip = show_passes(desk, path, replace(state, passes=2), 60)
    names, printed = run_lines(strip.lines, tmp_path, monkeypatch)
    assert [note.step.text for note in names["story"].passes] == [note.step.text for note in strip.kept.passes]
    assert len(printed.splitlines()) == len(strip.kept.passes)
    assert json.loads(opened(json_file(strip))[1])["tokens"] == strip.kept.answer.tokens


def test_three_ways_run_again_under_the_same_tensions(desk, drawn, tmp_path, monkeypatch):
    path, state = drawn
    state = replace(state, compress=0.9, explore=0.4)
    _, shown = show_ways(desk, path, state, 50)
    names, _ = run_lines(shown.lines, tmp_path, monkeypatch)
    assert names["allocation"] == shown.kept
    assert names["tensions"]["compress_particularize"] == 0.9
    other = show_balance(desk, path, replace(state, compress=0.0, explore=1.0), 50)
    assert other.kept != shown.kept, "tensions that differ must give maps that differ"


def test_textures_run_again(desk, drawn, tmp_path, monkeypatch):
    path, state = drawn
    shown = show_textures(desk, path, replace(state, layout="full40", level=3))
    _, printed = run_lines(shown.lines, tmp_path, monkeypatch)
    document = json.loads(opened(json_file(shown))[1])
    rows = [line.split() for line in printed.splitlines()]
    assert len(rows) == len(document["channels"]) == 40
    assert {name: float(low) for name, low, _ in rows} == pytest.approx(
        {name: entry["low"] for name, entry in document["channels"].items()}, abs=1e-6
    )
    assert all(name in shown.html for name in document["channels"])


@pytest.mark.parametrize("by", ["strategies", "questions"])
def test_comparisons_run_again_at_equal_tokens(desk, drawn, tmp_path, monkeypatch, by):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, by=by, q2="the red star on the left"), 61)
    names, _ = run_lines(shown.lines, tmp_path, monkeypatch)
    assert (names["first"], names["second"]) == shown.kept
    assert names["first"].tokens == names["second"].tokens <= 61
    document = json.loads(opened(json_file(shown))[1])
    assert document["comparison"]["moved"] == pytest.approx(compare(*shown.kept).moved)


@pytest.mark.parametrize(("first", "second"), list(zip(OFFERED[::2], (*OFFERED[1::2], OFFERED[1]), strict=False)))
def test_every_offered_strategy_can_be_compared(desk, drawn, first, second):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, first=first, second=second), 48)
    assert [allocation.strategy for allocation in shown.kept] == [first, second]
    assert max(allocation.tokens for allocation in shown.kept) <= 48


def test_an_uploaded_picture_is_named_by_its_file(desk, tmp_path, monkeypatch):
    pixels = np.random.default_rng(0).integers(0, 255, (96, 128, 3), dtype=np.uint8)
    path = desk.folder / "upload-test" / "mine.png"
    path.parent.mkdir(exist_ok=True)
    Image.fromarray(pixels).save(path)
    Image.fromarray(pixels).save(tmp_path / "mine.png")
    shown = show_balance(desk, str(path), PageState(picture="upload", q='a "quoted" question'), 6)
    names, _ = run_lines(shown.lines, tmp_path, monkeypatch)
    assert names["picture"] == "mine.png"
    assert names["allocation"] == shown.kept


def test_questions_of_a_session_are_remembered_once_and_not_without_end(desk, drawn):
    path, state = drawn
    shown = show_answer(desk, path, state, 20)
    asked: list[PastQuestion] = []
    for number in range(REMEMBERED + 5):
        common = (path, state.picture, f"question {number}", 20, 25, "mini", 1)
        asked = remembered(asked, shown, common)
    assert len(asked) == REMEMBERED
    assert asked[0].told == f"question {REMEMBERED + 4} → {shown.kept.text} (cards-1, 20 tokens)"
    again = remembered(asked, shown, asked[3].common)
    assert again[0].common == asked[3].common
    assert len(again) == REMEMBERED
    assert remembered(asked, None, asked[3].common) == asked, "what was called off is not remembered"


def test_an_answer_grows_into_the_one_that_is_shown_at_once(desk, drawn, monkeypatch):
    monkeypatch.setattr("arr_coc.app.microscope.ask_tab.SPOKEN_EVERY", 0.0)
    path, state = drawn
    parts, shown = spoken(tell_answer(desk, path, state, 40))
    assert len(parts) == len(shown.kept.text) > 0, "mini speaks in letters"
    assert all("being said" in part for part in parts)
    assert shown.kept.text in parts[-1]
    eye = desk.eye("mini").set_image(path)
    assert shown.kept.text == eye.ask(state.q, 40).text


def test_nothing_to_export_is_a_sentence():
    for make in (png_file, json_file, lines_file):
        with pytest.raises(InputError, match="nothing to export"):
            make(None)


def test_what_a_visitor_writes_is_never_markup(desk, drawn):
    path, state = drawn
    shown = show_comparison(
        desk, path, replace(state, by="questions", q="<script>alert(1)</script>", q2='"><img src=x onerror=y>'), 40
    )
    assert "<script>alert" not in shown.html
    assert "<img src=x" not in shown.html
    assert "&lt;script&gt;" in shown.html
