"""Ask: the answer, how sure it is, where the tokens went and what each pass saw, on all pages of a document; and the
three ways of knowing with their tensions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from typing import Any

import gradio as gr
import numpy as np

from ...attending.allocate import allocate
from ...attending.frame import Frame
from ...balancing.tensions import DEFAULT_TENSIONS, TENSION_NAMES, balance, sharpen
from ...core.answer import Answer, is_unsure, sureness_words
from ...core.values import Allocation, Relevance
from ...draw import document_sheet, foveated, heat, overlay
from ...options import Options, check_question
from ...pictures.load import Picture
from ..cli.ask import pages_read
from . import kit
from .desk import Desk, true_answer
from .kit import Figure, PageState, budget, card, figures, meter, notes, shown_pixels, shown_size

# Sides of pictures in pixels: a pass; a way of knowing, which is drawn again as a slider moves.
PASS_SIDE, WAY_SIDE = 360, 400
WAYS = {
    "propositional": ("Propositional", "What is there to be read: local information."),
    "perspectival": ("Perspectival", "What stands out from here: saliency, less at the edge."),
    "participatory": ("Participatory", "What this question couples to."),
}
# What the tensions pull to.
POLES = (
    "0: what can be read. 1: what this question couples to.",
    "0: what stands out. 1: what does not, or was not examined yet.",
    "0: the score as it is. 1: being far from the places on top.",
)


# ---- the answer ------------------------------------------------------------------------------------------------------


def show_answer(desk: Desk, path: str | None, state: PageState) -> str:
    """Ask the chosen model, in one pass or several, and show what led to the answer."""
    from ...answering.esper import Esper

    check_question(state.q)
    picture, document, eye = desk.picture(path), desk.document(path), desk.eye(state.model)
    eye.set_image(document or picture)
    if state.passes > 1:
        answer = Esper(eye, "four_pass").set_image(document or picture).ask(state.q, state.budget, passes=state.passes)
    else:
        answer = eye.ask(state.q, state.budget)
    sheet = ""
    if document is not None and answer.pages:
        picture = document.pages[answer.pages[-1] - 1].draw()
        drawn = document_sheet(document, pages_read(document, answer), state.q)
        shown = Figure(np.asarray(drawn), "All pages", "Those with tokens stand out; the bar says how many.")
        sheet = figures([shown], "one")
    relevance = eye.scored(state.q) if eye.relevance in ("auto", "scorer") else None
    html = [
        answer_card(answer, true_answer(state.picture, state.q)),
        passes_strip(picture, answer) if len(answer.passes) > 1 and not answer.pages else "",
        sheet,
        figures(answer_figures(picture, answer.allocation, relevance), "pairs"),
        budget(answer.allocation),
        notes([*picture.notes, *answer.notes]),
    ]
    return "".join(html)


def answer_card(answer: Answer, truth: str | None) -> str:
    kind = sureness_words(answer.uncertainty).partition(",")[0]
    looks = f" in {len(answer.passes)} passes" if len(answer.passes) > 1 else ""
    cost = f"{answer.tokens} of {answer.full} tokens ({100 * answer.tokens / max(answer.full, 1):.1f} %){looks}"
    spent = f"{cost}, {1000 * sum(answer.seconds.values()):.0f} ms"
    unsure = "unsure: probably wrong" if is_unsure(answer.uncertainty) else kind
    return card(answer.text, answer.uncertainty, truth, spent, unsure)


def passes_strip(picture: Picture, answer: Answer) -> str:
    """One column for each look: what it saw by then, what it said, how unsure it was, how much it explored."""
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
    """Where the tokens go, what the model sees, and relevance."""
    size = shown_size(picture.size)
    pixels = shown_pixels(picture.pixels, size)
    boxes, regions = "Each box is one token; small boxes see detail.", "Every region at its own resolution."
    shown = [
        Figure(overlay(pixels, allocation), "Where the tokens go", boxes),
        Figure(foveated(picture, allocation, size), "What the model sees", regions),
    ]
    if relevance is not None:
        # By its own brightest place: a map whose values are all small would be a black pane.
        scaled = relevance.map / max(float(relevance.map.max()), 1e-6)
        needs = "Bright is where the question needs detail; the brightest place is its highest value."
        shown.append(Figure(heat(scaled, size, pixels), "Relevance", needs))
    return shown


# ---- three ways of knowing -------------------------------------------------------------------------------------------


def show_ways(desk: Desk, path: str | None, state: PageState, tensions: Sequence[float]) -> str:
    """The three maps of a picture and a question, and what the tensions make of them."""
    prepared, moved = desk.prepared(path), dict(zip(TENSION_NAMES, tensions, strict=True))
    look = desk.remember(("ways", path, state.q), lambda: prepared.look(state.q, Options(budget=1.0, relevance="look")))
    ways, picture = look.relevance, look.picture
    maps = (getattr(ways, name)[None] for name in WAYS)
    tuned = replace(ways, map=sharpen(np.asarray(balance(*maps, moved))[0]), tensions=moved)
    tokens = Options(budget=state.budget).tokens(Frame(picture.size).full)
    allocation = allocate(tuned, tokens, image_size=picture.size)
    size = shown_size(picture.size, WAY_SIDE)
    pixels = shown_pixels(picture.pixels, size)
    panes = [Figure(heat(getattr(ways, name), size, pixels), *words) for name, words in WAYS.items()]
    balanced = [
        Figure(heat(tuned, size, pixels), "Balanced", "Relevance under these tensions."),
        Figure(overlay(pixels, allocation), "Where the tokens go", f"{allocation.tokens} tokens by this map."),
    ]
    return f"{figures(panes, 'thirds')}{figures(balanced, 'pairs')}{notes(look.notes)}"


# ---- the tab ---------------------------------------------------------------------------------------------------------


def ask_tab(page: kit.MicroscopePage) -> None:
    kit.tab_view(page, "ask", lambda path, state: show_answer(page.desk, path, state), how=kit.MODEL)
    with gr.Accordion("Three ways of knowing, and their tensions", open=False, elem_id="ways"):
        ways_part(page)


def ways_part(page: kit.MicroscopePage) -> None:
    """The sliders of the tensions and the maps that follow them."""
    with gr.Row(elem_classes="tension-row"):
        sliders = [
            gr.Slider(
                0,
                1,
                DEFAULT_TENSIONS[name],
                step=0.01,
                label=name.replace("_", " ↔ "),
                info=means,
                elem_id=f"tension-{name}",
                min_width=190,
            )
            for name, means in zip(TENSION_NAMES, POLES, strict=True)
        ]
    show = gr.Button("Show the three ways", size="sm", elem_id="show-ways")
    view = gr.HTML(elem_id="view-ways", padding=False)

    def maps(*values: Any) -> str:
        common, moved = values[: len(page.common)], values[len(page.common) :]
        html, trouble = kit.in_a_sentence(lambda: show_ways(page.desk, common[0], page.state(common), moved))
        return html or trouble

    inputs = [*page.common, *sliders]
    show.click(maps, inputs, [view], show_progress="minimal", **kit.QUICK)
    for slider in sliders:
        slider.input(maps, inputs, [view], **kit.LIVE)
