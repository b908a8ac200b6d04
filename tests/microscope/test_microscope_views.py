"""What tabs show: the answers of the library; and what visitors write is never markup."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from small_pdf import small_pdf

from arr_coc.app.microscope.ask_tab import show_answer
from arr_coc.app.microscope.compare_tab import OFFERED, show_comparison
from arr_coc.app.microscope.kit import PageState
from arr_coc.balancing.law import TENSION_NAMES
from arr_coc_lab.worlds.needle import render
from arr_coc_lab.worlds.needle.export import picture


@pytest.fixture
def drawn(desk):
    """A picture of Needle World as an upload, small and quick, and the state that asks about it; 40 tokens."""
    batch = render("cards", 1, (512, 512), 1, "test")
    path = desk.folder / "card" / "card.png"
    path.parent.mkdir(exist_ok=True)
    picture(batch, 0).save(path)
    return str(path), PageState(q=batch.questions[0], model="mini", keep=15.625)


@pytest.mark.parametrize("passes", [1, 2])
def test_ask_shows_the_answer_of_the_library(desk, drawn, passes):
    path, state = drawn
    # A sure answer needs no second pass, so the question of two is one that the picture does not answer.
    question = state.q if passes == 1 else "What is the name of the sleeping dog?"
    state = replace(state, q=question, passes=passes)
    shown, tensions = show_answer(desk, path, state)
    assert {*tensions} == {*TENSION_NAMES}
    assert "Who decided" in shown
    if passes == 1:
        alone = desk.eye("mini").set_image(path).ask(state.q, 40)
        assert tensions == alone.allocation.tensions
        assert f'id="answer">{alone.text or "(nothing)"}</p>' in shown
        assert f"{alone.tokens} of {alone.full} tokens" in shown
    else:
        assert shown.count('class="pass"') == passes


@pytest.mark.parametrize("passes", [1, 2])
def test_a_tension_that_is_moved_decides(desk, drawn, passes):
    path, state = drawn
    state = replace(state, passes=passes)
    first, usual = show_answer(desk, path, state)
    again = show_answer(desk, path, state, usual)[0]
    moved = {**usual, "compress_particularize": 0.001}
    other, stood = show_answer(desk, path, state, moved)
    assert figures_of(first) == figures_of(again), "a slider that stands where the decision stood changes nothing"
    assert figures_of(first)[0] != figures_of(other)[0], "where the tokens go"
    assert stood == pytest.approx(moved, abs=1e-5)


def figures_of(html: str) -> list[str]:
    return re.findall(r'src="([^"]+)"', html)


def test_the_cover_of_a_pdf_asks_about_all_of_its_pages(desk):
    from arr_coc.app.microscope.kit import MicroscopePage
    from arr_coc.app.microscope.page import open_pdf

    path = desk.folder / "report" / "three.pdf"
    path.parent.mkdir(exist_ok=True)
    small_pdf(path, tuple((f"72 700 Td (Total {name}: {n}7.50) Tj", "") for n, name in ((4, "cats"), (5, "dogs"))))
    cover, trouble = open_pdf(MicroscopePage(desk), str(path))
    assert not trouble
    assert desk.document(cover).name == "three.pdf"
    shown, _ = show_answer(desk, cover, PageState(q="What is the total of dogs?", model="mini"))
    assert "57.50" in shown
    assert "page 2 of 2 answers" in shown
    assert "All pages" in shown


@pytest.mark.parametrize("other", ["", "the red star on the left"])
def test_comparisons_are_at_equal_tokens(desk, drawn, other):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, q2=other))
    left, right = re.findall(r"<p>(\d+) of \d+ tokens</p>", shown)
    assert left == right
    assert int(left) <= 40


@pytest.mark.parametrize(("first", "second"), list(zip(OFFERED[::2], (*OFFERED[1::2], OFFERED[1]), strict=False)))
def test_every_offered_strategy_can_be_compared(desk, drawn, first, second):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, first=first, second=second))
    assert f"Left: {first}" in shown
    assert f"Right: {second}" in shown


def test_what_a_visitor_writes_is_never_markup(desk, drawn):
    path, state = drawn
    shown = show_comparison(desk, path, replace(state, q="<script>alert(1)</script>", q2='"><img src=x onerror=y>'))
    assert "<script>alert" not in shown
    assert "<img src=x" not in shown
    assert "&lt;script&gt;" in shown
