"""Passes: Esper as a strip, one column for each look: where it went, what it explored, how sure it was."""

from __future__ import annotations

from html import escape

from ...core.errors import InputError
from ...core.values import JsonObject
from ...draw import foveated, heat, overlay
from ...looking import check_request
from . import kit
from .desk import Desk
from .linking import PageState
from .markup import Figure, budget, figures, meter, notes, shown_pixels, shown_size

PASS_SIDE = 360
# Of a strip with one pass there is nothing to see: the tab looks at least twice.
FEWEST_PASSES = 2


def show_passes(desk: Desk, path: str | None, state: PageState, tokens: int) -> kit.SheetContent:
    try:
        from ...answering.story import place_words
        from ...answering.story_drawing import mark_look, strip
    except ImportError as error:
        raise InputError(f"this installation cannot look again ({error}); install arr-coc again") from error

    check_request([state.q])
    picture = desk.prepared(path).picture
    passes = max(FEWEST_PASSES, state.passes)
    story = desk.esper(state.model).set_image(desk.whole(path)).examine(state.q, tokens, passes=passes)
    size = shown_size(picture.size, PASS_SIDE)
    pixels = shown_pixels(picture.pixels, size)
    columns = []
    for number, note in enumerate(story.passes, start=1):
        step = note.step
        where = place_words(story, note.point)
        panes = [
            Figure(foveated(picture, step.allocation, size), "What it sees by then"),
            Figure(mark_look(overlay(pixels, step.allocation), note, picture.size), "Where this look went", where),
            Figure(heat(note.steered / max(float(note.steered.max()), 1e-9), size, pixels), "What it followed"),
        ]
        if note.uncertainty_map is not None:
            panes.append(Figure(heat(note.uncertainty_map, size, pixels), "Unsure of this place"))
        unsure = step.uncertainty or 0.0
        new = "tokens" if number == 1 else "new tokens"
        columns.append(
            f'<section class="pass"><h3>Pass {number}</h3><p class="said">{escape(step.text) or "(nothing said)"}</p>'
            f"{meter(unsure, f'{unsure:.2f}', 'uncertainty')}"
            f'<p class="note">{step.tokens} {new}, {100 * step.exploration:.0f} % exploring, {note.mood}</p>'
            f"{figures(panes, 'one')}</section>"
        )
    answer = story.answer
    ended = f"sure enough, below {story.stop:g}" if story.converged else "all passes used"
    head = (
        f'<p class="summary"><b>{escape(answer.text) or "(nothing)"}</b> after {len(story.passes)} passes: {ended}. '
        f"{answer.tokens} of {answer.full} visual tokens, all passes counted.</p>"
    )
    html = f'{head}<div class="passes">{"".join(columns)}</div>{budget(answer.allocation)}{notes(answer.notes)}'

    def document() -> JsonObject:
        return {"model": state.model, **story.to_json()}

    lines = passes_lines(state, tokens, passes, picture.name)
    return kit.SheetContent("passes", html, lambda: strip(story), document, lines, state.link(), story)


def passes_lines(state: PageState, tokens: int, passes: int, file_name: str) -> str:
    imports, lines = kit.picture_lines(state.picture, file_name)
    imports += ["from arr_coc.answering.esper import Esper", "from arr_coc.answering.story_drawing import strip"]
    lines += [
        f"esper = Esper.from_pretrained({state.model!r}).set_image(picture)",
        f"story = esper.examine({kit.literal(state.q)}, budget={tokens}, passes={passes})",
        "for note in story.passes:",
        "    print(note.step.text, note.step.uncertainty, note.step.tokens, note.step.exploration)",
        "strip(story).save('passes.png')",
    ]
    return kit.program(imports, lines)


def passes_tab(page: kit.MicroscopePage) -> None:
    gr = kit.gradio()
    gr.HTML(
        '<p class="note">Esper looks, answers, and looks again where it pays. The budget is for all passes together; '
        "set how many there may be on the left.</p>",
        padding=False,
    )
    sheet = kit.TabSheet(page, "passes")
    sheet.exports()

    sheet.shows(lambda path, state, tokens: show_passes(page.desk, path, state, tokens()), {}, kit.MODEL)
