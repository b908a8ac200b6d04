"""The tab Ask: the answer and its uncertainty, where the tokens went, what each pass saw, who decided, and a slider
for each tension of the decision; moving one asks again."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import gradio as gr
import numpy as np

from ...balancing.law import TENSION_NAMES, read_law
from ...balancing.tensions import DEFAULT_TENSIONS
from ...core.answer import Answer, is_unsure, sureness_words
from ...core.values import Allocation, Relevance
from ...draw import document_sheet, foveated, heat, overlay
from ...draw.layout import POLES
from ...options import Options, check_question
from ...pictures.load import Picture
from ..cli.ask import pages_read
from . import kit
from .desk import Desk
from .kit import Figure, PageState, budget, card, decided, figures, meter, notes, shown_pixels, shown_size

# The longer side of a pass, in pixels.
PASS_SIDE = 360
# What moving a tension does.
EFFECTS = (
    "0: tokens spread. 1: they gather where the question couples.",
    "0: what is known to matter. 1: what stands out, too.",
    "0: the best places. 1: places far from them, too.",
)


# ---- the answer ------------------------------------------------------------------------------------------------------


def show_answer(
    desk: Desk, path: str | None, state: PageState, tensions: Mapping[str, float] | None = None
) -> tuple[str, Mapping[str, float]]:
    """Ask the chosen model, in one pass or several; return what led to the answer, and where the tensions stood.

    tensions: hold them there, instead of where the law of balancing sets them.
    """
    from ...answering.esper import Esper

    check_question(state.q)
    picture, document, eye = desk.picture(path), desk.document(path), desk.eye(state.model)
    law = read_law(desk.options.balancing)
    how = Options(budget=state.budget, balancing=law if tensions is None else law.held(tensions))
    eye.set_image(document or picture)
    if state.passes > 1:
        answer = Esper(eye, "four_pass").set_image(document or picture).ask(state.q, options=how, passes=state.passes)
    else:
        answer = eye.ask(state.q, options=how)
    sheet = ""
    if document is not None and answer.pages:
        picture = document.pages[answer.pages[-1] - 1].draw()
        drawn = document_sheet(document, pages_read(document, answer), state.q)
        shown = Figure(np.asarray(drawn), "All pages", "Those with tokens stand out; the bar says how many.")
        sheet = figures([shown], "one")
    relevance = eye.scored(state.q) if eye.relevance in ("auto", "scorer") else None
    html = [
        answer_card(answer),
        passes_strip(picture, answer) if len(answer.passes) > 1 and not answer.pages else "",
        sheet,
        figures(answer_figures(picture, answer.allocation, relevance), "pairs"),
        budget(answer.allocation),
        decided(answer.allocation),
        notes([*picture.notes, *answer.notes]),
    ]
    return "".join(html), answer.allocation.tensions


def answer_card(answer: Answer) -> str:
    kind = sureness_words(answer.uncertainty).partition(",")[0]
    looks = f" in {len(answer.passes)} passes" if len(answer.passes) > 1 else ""
    cost = f"{answer.tokens} of {answer.full} tokens ({100 * answer.tokens / max(answer.full, 1):.1f} %){looks}"
    spent = f"{cost}, {1000 * sum(answer.seconds.values()):.0f} ms"
    unsure = "unsure: probably wrong" if is_unsure(answer.uncertainty) else kind
    return card(answer.text, answer.uncertainty, spent, unsure)


def passes_strip(picture: Picture, answer: Answer) -> str:
    """Draw one column for each pass: what it saw so far, its answer, its uncertainty, how much it explored."""
    size, columns = shown_size(picture.size, PASS_SIDE), []
    for number, step in enumerate(answer.passes, start=1):
        seen = Figure(foveated(picture, step.allocation, size), "What it sees by then")
        columns.append(
            f'<section class="pass"><h3>Pass {number}</h3><p class="said">{escape(step.text) or "(nothing said)"}</p>'
            f"{meter(step.uncertainty or 0.0)}"
            f'<p class="note">{step.tokens} tokens, {100 * step.exploration:.0f} % exploring</p>'
            f"{figures([seen], 'one')}</section>"
        )
    return f'<div class="passes">{"".join(columns)}</div>'


def answer_figures(picture: Picture, allocation: Allocation, relevance: Relevance | None) -> list[Figure]:
    """Draw where the tokens go, what the model sees, and the relevance."""
    size = shown_size(picture.size)
    pixels = shown_pixels(picture.pixels, size)
    boxes, regions = "Each box is one token; small boxes see detail.", "Every region at its own resolution."
    shown = [
        Figure(overlay(pixels, allocation), "Where the tokens go", boxes),
        Figure(foveated(picture, allocation, size), "What the model sees", regions),
    ]
    if relevance is not None:
        # Scaled to its brightest place, because a map of small values would be black.
        scaled = relevance.map / max(float(relevance.map.max()), 1e-6)
        needs = "Bright is where the question needs detail; the brightest place is its highest value."
        shown.append(Figure(heat(scaled, size, pixels), "Relevance", needs))
    return shown


# ---- the tab ---------------------------------------------------------------------------------------------------------


def ask_tab(page: kit.MicroscopePage) -> None:
    """Build the tab: the answer, and below it a slider for each tension, set to the value of the decision."""
    run = kit.run_button("ask")
    view = gr.HTML(elem_id="view-ask", padding=False)
    gr.HTML('<p class="label">Tensions of this answer; move one to ask again</p>', elem_id="tensions", padding=False)
    with gr.Row(elem_classes="tension-row"):
        sliders = [
            gr.Slider(
                0,
                1,
                DEFAULT_TENSIONS[name],
                step=0.01,
                label=" ↔ ".join(POLES[name]),
                info=effect,
                elem_id=f"tension-{name}",
                min_width=190,
            )
            for name, effect in zip(TENSION_NAMES, EFFECTS, strict=True)
        ]

    def asked(*common: Any) -> list[object]:
        shown = kit.in_a_sentence(lambda: show_answer(page.desk, common[0], page.state(common)))
        (html, stood), trouble = shown[0] or ("", {}), shown[1]
        return [html or trouble, *(round(stood[name], 2) if name in stood else gr.skip() for name in TENSION_NAMES)]

    def asked_again(*values: Any) -> str:
        common, moved = values[: len(page.common)], values[len(page.common) :]
        tensions = dict(zip(TENSION_NAMES, moved, strict=True))
        shown = kit.in_a_sentence(lambda: show_answer(page.desk, common[0], page.state(common), tensions)[0])
        return shown[0] or shown[1]

    page.runs(run.click(asked, page.common, [view, *sliders], api_name="ask", **kit.LAST, **kit.MODEL))
    for slider in sliders:
        again = slider.input(asked_again, [*page.common, *sliders], [view], js=kit.BEGIN, **kit.LAST, **kit.MODEL)
        page.runs(again)
