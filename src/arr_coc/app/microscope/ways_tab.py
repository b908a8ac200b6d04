"""Three ways: what can be read, what stands out, what the question couples to, and the tensions that balance them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from PIL import Image

from ...attending.allocate import allocate
from ...attending.frame import Frame
from ...balancing.explain import POLES, explain_tensions
from ...balancing.tension import balance, sharpen
from ...core.values import Allocation, Relevance
from ...draw import contact_sheet, foveated, heat, overlay
from ...looking import Look
from ...pictures.load import Picture
from . import kit
from .desk import Desk
from .linking import PageState
from .markup import Figure, budget, figures, notes, shown_pixels, shown_size

# Smaller than elsewhere: a map follows a slider, and every pixel of it is coloured, packed and sent.
WAY_SIDE, MAP_SIDE = 400, 480
WAYS = {
    "propositional": ("Propositional", "What is there to be read: local information."),
    "perspectival": ("Perspectival", "What stands out from here: saliency, less at the edge."),
    "participatory": ("Participatory", "What this question couples to."),
}


def looked(desk: Desk, path: str | None, query: str) -> Look:
    """The three maps of a picture and a question, kept so that a slider does not wait for them."""
    prepared = desk.prepared(path)
    return desk.remember(("ways", path, query), lambda: prepared.look(query, keep=1.0, relevance="look"))


def balanced(look: Look, state: PageState, tokens: int) -> tuple[Relevance, Allocation]:
    """The map under the chosen tensions, and the leaves it earns."""
    ways = look.relevance
    maps = (getattr(ways, name)[None] for name in WAYS)
    tuned = replace(ways, map=sharpen(np.asarray(balance(*maps, state.tensions))[0]), tensions=state.tensions)
    spend = min(tokens, Frame(look.picture.size).full)
    return tuned, allocate(tuned, spend, image_size=look.picture.size)


def show_ways(desk: Desk, path: str | None, state: PageState, tokens: int) -> tuple[str, kit.SheetContent]:
    """The three ways, which no slider moves, and the balanced map."""
    look = looked(desk, path, state.q)
    size = shown_size(look.picture.size, WAY_SIDE)
    pixels = shown_pixels(look.picture.pixels, size)
    panes = [
        Figure(heat(getattr(look.relevance, name), size, pixels), title, caption)
        for name, (title, caption) in WAYS.items()
    ]
    return figures(panes, "thirds") + notes(look.notes), show_balance(desk, path, state, tokens)


def show_balance(desk: Desk, path: str | None, state: PageState, tokens: int) -> kit.SheetContent:
    """What the tensions make of the three ways: quick enough to follow a slider."""
    look = looked(desk, path, state.q)
    relevance, allocation = balanced(look, state, tokens)
    panes = balance_figures(look.picture, relevance, allocation)
    words = "".join(f"<li>{sentence}</li>" for sentence in explain_tensions(state.tensions))
    html = figures(panes, "pairs") + f'<ul class="words">{words}</ul>' + budget(allocation)
    return kit.SheetContent(
        "three-ways",
        html,
        lambda: ways_page(look.picture, relevance, allocation),
        lambda: {"query": state.q, "tensions": state.tensions, **allocation.to_json()},
        ways_lines(state, allocation.budget, look.picture.name),
        state.link(),
        allocation,
    )


def balance_figures(picture: Picture, relevance: Relevance, allocation: Allocation) -> list[Figure]:
    size = shown_size(picture.size, MAP_SIDE)
    pixels = shown_pixels(picture.pixels, size)
    return [
        Figure(heat(relevance, size, pixels), "Balanced", "Relevance under these tensions."),
        Figure(overlay(pixels, allocation), "Where the tokens go", f"{allocation.tokens} tokens by this map."),
    ]


def ways_page(picture: Picture, relevance: Relevance, allocation: Allocation) -> Image.Image:
    """Everything on one sheet, for the PNG."""
    size = shown_size(picture.size)
    pixels = shown_pixels(picture.pixels, size)
    panes = [pixels, *(heat(getattr(relevance, name), size, pixels) for name in WAYS)]
    panes += [heat(relevance, size, pixels), overlay(pixels, allocation), foveated(picture, allocation, size)]
    captions = ["the picture", *WAYS, "balanced", "where the tokens go", "what the model sees"]
    return contact_sheet(panes, captions, shape=size[0] / size[1])


def ways_lines(state: PageState, tokens: int, file_name: str) -> str:
    imports, lines = kit.picture_lines(state.picture, file_name)
    imports += [
        "from arr_coc.attending.allocate import allocate",
        "from arr_coc.balancing.tension import balance, sharpen",
        "from arr_coc.looking import examine",
    ]
    lines += [
        f'look = examine(picture, {kit.literal(state.q)}, keep=1.0, relevance="look")',
        "ways = look.relevance.propositional, look.relevance.perspectival, look.relevance.participatory",
        f"tensions = {kit.literal(state.tensions)}",
        "relevance = sharpen(balance(*(way[None] for way in ways), tensions)[0])",
        f"allocation = allocate(relevance, {tokens}, image_size=look.picture.size)",
        "print(allocation.tokens, allocation.tokens_by_level())",
    ]
    return kit.program(imports, lines)


def ways_tab(page: kit.MicroscopePage) -> None:
    gr = kit.gradio()
    gr.HTML(
        '<p class="note">Three maps of the same picture, and three tensions that weigh them. Move a slider.</p>',
        padding=False,
    )
    default = PageState()
    keys = ("compress", "explore", "diversify")
    with gr.Row(elem_classes="tension-row"):
        sliders = []
        for key, (zero, one) in zip(keys, POLES.values(), strict=True):
            sliders.append(
                gr.Slider(
                    0,
                    1,
                    getattr(default, key),
                    step=0.01,
                    label=f"{zero[0]} ↔ {one[0]}",
                    info=f"0: {zero[1]}. 1: {one[1]}.",
                    elem_id=f"tension-{key}",
                    min_width=190,
                )
            )
    reset = gr.Button("Set the tensions back", size="sm", elem_id="tension-reset", variant="secondary")
    page.settings |= dict(zip(keys, sliders, strict=True))
    sheet = kit.TabSheet(page, "ways")
    three = gr.HTML(elem_id="ways-three", padding=False)
    sheet.exports()

    def state(values: tuple[Any, ...]) -> PageState:
        common, tensions = values[: len(page.common)], values[len(page.common) :]
        return page.state("ways", common, **dict(zip(keys, map(float, tensions), strict=True)))

    def everything(*values: Any) -> tuple[object, ...]:
        def make() -> tuple[str, kit.SheetContent]:
            return show_ways(page.desk, values[0], state(values), kit.tokens_of(values, page.desk))

        both, trouble = kit.in_a_sentence(make)
        if both is None:
            return trouble, "", None, gr.skip(), ""
        html, shown = both
        return shown.html, shown.lines, shown, shown.link, html

    def balance(*values: Any) -> tuple[object, ...]:
        return sheet.filled(lambda: show_balance(page.desk, values[0], state(values), kit.tokens_of(values, page.desk)))

    inputs = [*page.common, *sliders]
    sheet.runs(everything, inputs, [*sheet.outputs, three], **kit.QUICK, **kit.PRIVATE)
    for slider in sliders:
        slider.input(balance, inputs, sheet.outputs, **kit.LIVE)
    reset.click(lambda: [getattr(default, key) for key in keys], None, sliders, **kit.LIVE).then(
        None, None, None, js=kit.RUN_BY_ITSELF
    )
