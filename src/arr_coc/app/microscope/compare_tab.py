"""Compare: two strategies or two questions at equal tokens, side by side, and where they differ."""

from __future__ import annotations

from dataclasses import asdict

from ...attending.frame import Frame
from ...attending.strategies import strategy_names
from ...core.errors import InputError
from ...core.values import compare
from ...draw import comparison, difference_map, foveated, overlay
from ...knowing.registry import names_for
from ...looking import Look, check_request
from ...pictures.load import Picture
from . import kit
from .desk import Desk
from .linking import PageState
from .markup import Figure, figures, notes, shown_pixels, shown_size, table

SIDE = 480
# Not offered: the classic scale needs 64 tokens and a large picture, full needs all of them, the oracle true boxes.
OFFERED = tuple(name for name in strategy_names() if name not in ("classic", "full", "oracle"))


def pairs_of(state: PageState) -> list[tuple[str, str]]:
    """(question, strategy) of the two sides."""
    if state.by == "questions":
        check_request([state.q])
        if not state.q2.strip():
            raise InputError("the second question is empty; write what the first is to be compared with")
        return [(state.q, state.first), (state.q2, state.first)]
    for name in (state.first, state.second):
        if name not in OFFERED:
            raise InputError(f"strategy {name!r} cannot be compared at equal tokens; choose from {', '.join(OFFERED)}")
    return [(state.q, state.first), (state.q, state.second)]


def show_comparison(desk: Desk, path: str | None, state: PageState, tokens: int) -> kit.SheetContent:
    prepared = desk.prepared(path)
    picture = prepared.picture
    spend = min(tokens, Frame(picture.size).full)
    sides = pairs_of(state)
    looks = [prepared.look(query, spend, strategy=name, relevance=state.relevance) for query, name in sides]
    first, second = (look.allocation for look in looks)
    result = compare(first, second)
    titles = [query if state.by == "questions" else name for query, name in sides]
    rows = [
        {"what": "tokens, left", "value": f"{first.tokens} of {first.full}"},
        {"what": "tokens, right", "value": f"{second.tokens} of {second.full}"},
        {"what": "tokens moved", "value": f"{result.moved:.0f}"},
        {"what": "in the same places", "value": f"{100 * result.overlap:.0f} %"},
        {"what": "similarity", "value": f"{result.similarity:.2f}"},
    ]
    html = (
        figures(comparison_figures(picture, looks, titles), "pairs")
        + '<div class="beside">'
        + figures([difference_figure(picture, looks)], "one")
        + table({"what": "the two", "value": ""}, rows, "How far they are apart")
        + "</div>"
        + notes([note for look in looks for note in look.notes])
    )
    return kit.SheetContent(
        "compare",
        html,
        lambda: comparison(picture, [first, second], titles, "" if state.by == "questions" else state.q),
        lambda: {
            "titles": titles,
            "comparison": asdict(result),
            "first": first.to_json(),
            "second": second.to_json(),
        },
        compare_lines(state, spend, picture.name),
        state.link(),
        (first, second),
    )


def comparison_figures(picture: Picture, looks: list[Look], titles: list[str]) -> list[Figure]:
    size = shown_size(picture.size, SIDE)
    pixels = shown_pixels(picture.pixels, size)
    goes = [
        Figure(overlay(pixels, look.allocation), f"{side}: {title}", f"{look.allocation.tokens} tokens")
        for look, title, side in zip(looks, titles, ("Left", "Right"), strict=True)
    ]
    sees = [
        Figure(foveated(picture, look.allocation, size), f"{side}: what the model sees")
        for look, side in zip(looks, ("Left", "Right"), strict=True)
    ]
    return [*goes, *sees]


def difference_figure(picture: Picture, looks: list[Look]) -> Figure:
    size = shown_size(picture.size, SIDE)
    pixels = shown_pixels(picture.pixels, size)
    first, second = (look.allocation for look in looks)
    words = "Orange: more detail on the left. Blue: more on the right."
    return Figure(difference_map(first, second, size, pixels), "Where they differ", words)


def compare_lines(state: PageState, tokens: int, file_name: str) -> str:
    imports, lines = kit.picture_lines(state.picture, file_name)
    imports += [
        "from arr_coc.draw import comparison",
        "from arr_coc.looking import prepare",
        "from arr_coc.core.values import compare",
    ]
    lines += ["prepared = prepare(picture)"]
    for name, (query, strategy) in zip(("first", "second"), pairs_of(state), strict=True):
        how = f"budget={tokens}, strategy={strategy!r}"
        how += "" if state.relevance == "auto" else f", relevance={state.relevance!r}"
        lines.append(f"{name} = prepared.look({kit.literal(query)}, {how}).allocation")
    lines += [
        "print(compare(first, second))",
        "comparison(prepared.picture, [first, second], ['left', 'right']).save('compare.png')",
    ]
    return kit.program(imports, lines)


def compare_tab(page: kit.MicroscopePage) -> None:
    gr = kit.gradio()
    with gr.Row():
        by = gr.Radio(["strategies", "questions"], value="strategies", label="Compare two", elem_id="by", min_width=200)
        relevance = gr.Radio(
            ["auto", *names_for()], value="auto", label="Relevance", elem_id="relevance", min_width=180,
            info="look: three ways, no weights. scorer: learned. detail: whatever is asked.",
        )  # fmt: skip
    with gr.Row():
        first = gr.Dropdown(list(OFFERED), value="quadtree", label="Left strategy", elem_id="first", min_width=150)
        second = gr.Dropdown(list(OFFERED), value="uniform", label="Right strategy", elem_id="second", min_width=150)
        other = gr.Textbox(
            label="Right question", elem_id="other-question", max_length=400, min_width=220, visible=False
        )
    sheet = kit.TabSheet(page, "compare")
    sheet.exports()

    controls = {"by": by, "first": first, "second": second, "q2": other, "relevance": relevance}
    sheet.shows(lambda path, state, tokens: show_comparison(page.desk, path, state, tokens()), controls)
    by.change(
        lambda how: (gr.Textbox(visible=how == "questions"), gr.Dropdown(visible=how == "strategies")),
        [by],
        [other, second],
        **kit.LIVE,
    )
