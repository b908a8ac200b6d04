"""What tabs show and export: the files hold what the page shows, and what visitors write is never markup."""

from __future__ import annotations

import base64
import io
import json
from dataclasses import replace
from urllib.parse import parse_qsl

import numpy as np
import pytest
from PIL import Image

from arr_coc import Allocation, InputError, compare, look
from arr_coc.app.microscope.ask_tab import show_answer, show_pages, show_ways
from arr_coc.app.microscope.compare_tab import OFFERED, show_comparison
from arr_coc.app.microscope.kit import PageState, exporter, read_link
from arr_coc_lab.worlds.needle import render
from arr_coc_lab.worlds.needle.export import picture


@pytest.fixture
def drawn(desk):
    """A picture of Needle World as an upload, small and quick, and the state that asks about it; 40 tokens."""
    batch = render("cards", 1, (512, 512), 1, "test")
    path = desk.folder / "card" / "card.png"
    path.parent.mkdir(exist_ok=True)
    picture(batch, 0).save(path)
    return str(path), PageState(picture="upload", q=batch.questions[0], model="mini", keep=15.625)


def exported(shown, kind: str) -> bytes:
    message, trouble = exporter(kind)(shown)
    assert trouble == ""
    document = json.loads(message)
    assert document["name"] == f"{shown.name}.{kind}"
    return base64.b64decode(document["data"])


@pytest.mark.parametrize("passes", [1, 2])
def test_ask_shows_and_exports_the_answer_of_the_library(desk, drawn, passes):
    path, state = drawn
    # A sure answer needs no second pass, so the question of two is one that the picture does not answer.
    question = state.q if passes == 1 else "What is the name of the sleeping dog?"
    state = replace(state, q=question, passes=passes)
    shown = show_answer(desk, path, state)
    document = json.loads(exported(shown, "json"))
    assert document["answer"]["tokens"] <= 40
    assert document["answer"]["text"] in shown.html
    if passes == 1:
        alone = desk.eye("mini").set_image(path).ask(state.q, 40)
        assert Allocation.from_json(document) == alone.allocation
        assert document["answer"]["text"] == alone.text
    else:
        assert shown.html.count('class="pass"') == len(document["answer"]["passes"]) == passes
    assert Image.open(io.BytesIO(exported(shown, "png"))).width == 1280
    assert read_link(dict(parse_qsl(shown.link))) == (state, [])


def test_the_three_ways_follow_the_tensions(desk, drawn):
    path, state = drawn
    html = [show_ways(desk, path, state, (compress, 0.15, 0.1)) for compress in (0.0, 0.9)]
    assert all(one.count("<figure>") == 5 for one in html)
    same, balanced = ([one.split("<figure>")[place] for one in html] for place in (1, 4))
    assert same[0] == same[1], "no tension moves a way itself"
    assert balanced[0] != balanced[1]


def test_all_pages_of_a_document_share_a_budget(desk):
    pytest.importorskip("pypdfium2", reason="pypdfium2 is not installed: pip install pypdfium2")
    path = desk.folder / "pdf" / "two.pdf"
    path.parent.mkdir(exist_ok=True)
    pages = [Image.fromarray(np.full((300, 200, 3), shade, np.uint8)) for shade in (200, 250)]
    pages[0].save(path, save_all=True, append_images=pages[1:])
    html = show_pages(desk, str(path), "What is the total?", 24)
    expected = look(path, "What is the total?", 24)
    assert f"{expected.tokens} of {expected.full} tokens on" in html
    for given, tokens, line in ((None, 24, "no PDF yet"), (str(path), 0, "at least 1")):
        with pytest.raises(InputError, match=line):
            show_pages(desk, given, "What is the total?", tokens)


@pytest.mark.parametrize("by", ["strategies", "questions"])
def test_comparisons_are_at_equal_tokens(desk, drawn, by):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, by=by, q2="the red star on the left"))
    document = json.loads(exported(shown, "json"))
    first, second = (Allocation.from_json(document[side]) for side in ("first", "second"))
    assert first.tokens == second.tokens <= 40
    assert document["comparison"]["moved"] == pytest.approx(compare(first, second).moved)


@pytest.mark.parametrize(("first", "second"), list(zip(OFFERED[::2], (*OFFERED[1::2], OFFERED[1]), strict=False)))
def test_every_offered_strategy_can_be_compared(desk, drawn, first, second):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, first=first, second=second))
    document = json.loads(exported(shown, "json"))
    assert document["titles"] == [first, second]


def test_nothing_to_export_is_a_sentence():
    message, trouble = exporter("png")(None)
    assert message == ""
    assert "nothing to export" in trouble


def test_what_a_visitor_writes_is_never_markup(desk, drawn):
    path, state = drawn
    shown = show_comparison(
        desk, path, replace(state, by="questions", q="<script>alert(1)</script>", q2='"><img src=x onerror=y>')
    )
    assert "<script>alert" not in shown.html
    assert "<img src=x" not in shown.html
    assert "&lt;script&gt;" in shown.html
