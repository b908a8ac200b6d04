"""The tab Compare: two strategies or two questions at the same number of tokens, side by side, and their difference."""

from __future__ import annotations

import gradio as gr

from ...attending.strategies import strategy_names
from ...core.compare import compare
from ...draw import difference_map, foveated, overlay
from ...options import Options
from . import kit
from .desk import Desk
from .kit import Figure, PageState, figures, notes, shown_pixels, shown_size

SIDE = 480
# Not offered: classic needs 64 tokens and a large picture, full needs all of them, oracle needs true boxes, clusters
# needs labels.
OFFERED = tuple(name for name in strategy_names() if name not in ("classic", "full", "oracle", "clusters"))


def show_comparison(desk: Desk, path: str | None, state: PageState) -> str:
    """Look twice at one picture with the same number of tokens, and show both and their difference."""
    prepared, sides = desk.prepared(path), [(state.q, state.first), (state.q2 or state.q, state.second)]
    picture = prepared.picture
    looks = [
        prepared.look(query, Options(budget=state.budget, strategy=name, relevance="auto")) for query, name in sides
    ]
    first, second = (look.allocation for look in looks)
    result = compare(first, second)
    size = shown_size(picture.size, SIDE)
    pixels = shown_pixels(picture.pixels, size)
    panes, seen = [], []
    for one, (query, name), side in zip((first, second), sides, ("Left", "Right"), strict=True):
        panes.append(Figure(overlay(pixels, one), f"{side}: {name}, {query}", f"{one.tokens} of {one.full} tokens"))
        seen.append(Figure(foveated(picture, one, size), f"{side}: what the model sees"))
    words = "Orange: more detail on the left. Blue: more on the right."
    difference = Figure(difference_map(first, second, size, pixels), "Where they differ", words)
    moved, same = f"tokens moved: {result.moved:.0f}", f"in the same places: {100 * result.overlap:.0f} %"
    distances = notes([moved, same, f"similarity: {result.similarity:.2f}"])
    beside = f'<div class="beside">{figures([difference], "one")}<div>{distances}</div></div>'
    said = notes([note for look in looks for note in look.notes])
    return figures([*panes, *seen], "pairs") + beside + said


def compare_tab(page: kit.MicroscopePage) -> None:
    with gr.Row():
        first = gr.Dropdown(list(OFFERED), value="quadtree", label="Left strategy", elem_id="first", min_width=150)
        second = gr.Dropdown(list(OFFERED), value="uniform", label="Right strategy", elem_id="second", min_width=150)
    other = gr.Textbox(
        label="Right question", elem_id="other-question", max_length=kit.LONGEST_QUERY, placeholder="the same"
    )
    controls = {"first": first, "second": second, "q2": other}
    kit.tab_view(page, "compare", lambda path, state: show_comparison(page.desk, path, state), controls)
    for control in (first, second):
        control.input(None, None, None, js=kit.RUN_BY_ITSELF)
    other.submit(None, None, None, js=kit.RUN)
