"""Compare: two strategies or two questions at equal tokens, side by side, and where they differ."""

from __future__ import annotations

import gradio as gr

from ...attending.strategies import strategy_names
from ...core.compare import compare
from ...core.errors import InputError
from ...draw import difference_map, foveated, overlay
from ...options import Options, check_question
from . import kit
from .desk import Desk
from .kit import Figure, PageState, figures, notes, shown_pixels, shown_size

SIDE = 480
# Not offered: classic needs 64 tokens and a large picture, full needs all of them, oracle needs true boxes, clusters
# needs labels.
OFFERED = tuple(name for name in strategy_names() if name not in ("classic", "full", "oracle", "clusters"))


def sides_of(state: PageState) -> list[tuple[str, str]]:
    """(question, strategy) of the two sides."""
    if state.by == "questions":
        check_question(state.q)
        if not state.q2:
            raise InputError("the second question is empty; write what the first is to be compared with")
        return [(state.q, state.first), (state.q2, state.first)]
    for name in (state.first, state.second):
        if name not in OFFERED:
            raise InputError(f"strategy {name!r} cannot be compared at equal tokens; choose from {', '.join(OFFERED)}")
    return [(state.q, state.first), (state.q, state.second)]


def show_comparison(desk: Desk, path: str | None, state: PageState) -> str:
    """Look twice at one picture for the same number of tokens."""
    prepared, sides = desk.prepared(path), sides_of(state)
    picture = prepared.picture
    looks = [
        prepared.look(query, Options(budget=state.budget, strategy=name, relevance="auto")) for query, name in sides
    ]
    first, second = (look.allocation for look in looks)
    result = compare(first, second)
    titles = [query if state.by == "questions" else name for query, name in sides]
    size = shown_size(picture.size, SIDE)
    pixels = shown_pixels(picture.pixels, size)
    panes = [
        Figure(overlay(pixels, one), f"{side}: {title}", f"{one.tokens} of {one.full} tokens")
        for one, title, side in zip((first, second), titles, ("Left", "Right"), strict=True)
    ]
    panes += [
        Figure(foveated(picture, one, size), f"{side}: what the model sees")
        for one, side in zip((first, second), ("Left", "Right"), strict=True)
    ]
    words = "Orange: more detail on the left. Blue: more on the right."
    difference = Figure(difference_map(first, second, size, pixels), "Where they differ", words)
    distances = notes(
        [
            f"tokens moved: {result.moved:.0f}",
            f"in the same places: {100 * result.overlap:.0f} %",
            f"similarity: {result.similarity:.2f}",
        ]
    )
    beside = f'<div class="beside">{figures([difference], "one")}<div>{distances}</div></div>'
    said = notes([note for look in looks for note in look.notes])
    return figures(panes, "pairs") + beside + said


def compare_tab(page: kit.MicroscopePage) -> None:
    with gr.Row():
        by = gr.Radio(["strategies", "questions"], value="strategies", label="Compare two", elem_id="by", min_width=200)
        first = gr.Dropdown(list(OFFERED), value="quadtree", label="Left strategy", elem_id="first", min_width=150)
        second = gr.Dropdown(list(OFFERED), value="uniform", label="Right strategy", elem_id="second", min_width=150)
    other = gr.Textbox(label="Right question", elem_id="other-question", max_length=kit.LONGEST_QUERY, visible=False)
    controls = {"by": by, "first": first, "second": second, "q2": other}
    kit.tab_view(page, "compare", lambda path, state: show_comparison(page.desk, path, state), controls)
    for control in (by, first, second):
        control.input(None, None, None, js=kit.RUN_BY_ITSELF)
    other.submit(None, None, None, js=kit.RUN)
    by.change(
        lambda how: (gr.Textbox(visible=how == "questions"), gr.Dropdown(visible=how == "strategies")),
        [by],
        [other, second],
        **kit.LIVE,
    )
