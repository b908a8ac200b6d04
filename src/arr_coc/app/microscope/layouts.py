"""The inputs of each tab and what happens when they change; what is shown is made in the tab's own file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...balancing.explain import POLES
from ...lab.needle.families import FAMILIES
from .ask_tab import show_answer, show_full
from .compare_tab import OFFERED, show_comparison
from .exports import Shown
from .kit import MEMORY_SECONDS, MODEL, PRIVATE, QUICK, Page, Sheet, gradio, in_a_sentence, only_uploads, tokens_of
from .linking import PageState
from .numbers_tab import show_numbers
from .passes_tab import show_passes
from .textures_tab import LEVELS, show_textures
from .video_tab import draw_example, show_clip, show_frame, watch_clip
from .ways_tab import show_balance, show_ways

LIVE: dict[str, Any] = {"show_progress": "hidden", "trigger_mode": "always_last", **QUICK, **PRIVATE}
RUN_BY_ITSELF = "() => window.arrCoc.run(true)"


def ask(page: Page) -> None:
    sheet = Sheet(page, "ask")
    sheet.exports()

    def answer(*common: Any) -> tuple[Any, ...]:
        state = page.state("ask", common)
        return *sheet.filled(lambda: show_answer(page.desk, common[0], state, tokens_of(common))), ""

    def against_full(shown: Shown | None, *common: Any) -> str:
        if shown is None:
            return ""
        state = page.state("ask", common)
        html, trouble = in_a_sentence(lambda: show_full(page.desk, common[0], state, shown.kept))
        return html or trouble

    asked = sheet.run.click(
        answer, page.common, [*sheet.outputs, sheet.below], show_progress="minimal", api_name="ask", **MODEL
    )
    asked.then(against_full, [sheet.shown, *page.common], [sheet.below], show_progress="minimal", **MODEL, **PRIVATE)


def ways(page: Page) -> None:
    gr = gradio()
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
    sheet = Sheet(page, "ways")
    three = gr.HTML(elem_id="ways-three", padding=False)
    sheet.exports()

    def state(values: tuple[Any, ...]) -> PageState:
        common, tensions = values[: len(page.common)], values[len(page.common) :]
        return page.state("ways", common, **dict(zip(keys, map(float, tensions), strict=True)))

    def everything(*values: Any) -> tuple[Any, ...]:
        def make() -> tuple[str, Shown]:
            return show_ways(page.desk, values[0], state(values), tokens_of(values))

        found, trouble = in_a_sentence(make)
        if found is None:
            return trouble, "", None, gr.skip(), ""
        html, shown = found
        return shown.html, shown.lines, shown, shown.link, html

    def balance(*values: Any) -> tuple[Any, ...]:
        return sheet.filled(lambda: show_balance(page.desk, values[0], state(values), tokens_of(values)))

    inputs = [*page.common, *sliders]
    sheet.run.click(everything, inputs, [*sheet.outputs, three], show_progress="minimal", **QUICK, **PRIVATE)
    for slider in sliders:
        slider.input(balance, inputs, sheet.outputs, **LIVE)
    reset.click(lambda: [getattr(default, key) for key in keys], None, sliders, **LIVE).then(
        None, None, None, js=RUN_BY_ITSELF
    )


def textures(page: Page) -> None:
    gr = gradio()
    with gr.Row():
        layout = gr.Radio(["mvp13", "full40"], value="mvp13", label="Layout", elem_id="layout", min_width=180)
        level = gr.Slider(0, LEVELS - 1, 0, step=1, label="Mip level (0 is finest)", elem_id="level", min_width=180)
    page.settings |= {"layout": layout, "level": level}
    sheet = Sheet(page, "textures")
    sheet.exports()

    def sense(*values: Any) -> tuple[Any, ...]:
        *common, name, number = values
        state = page.state("textures", common, layout=name, level=int(number))
        return sheet.filled(lambda: show_textures(page.desk, common[0], state))

    inputs = [*page.common, layout, level]
    sheet.run.click(sense, inputs, sheet.outputs, show_progress="minimal", **QUICK, **PRIVATE)
    for control in (layout, level):
        control.input(sense, inputs, sheet.outputs, **LIVE)


def compare(page: Page) -> None:
    gr = gradio()
    with gr.Row():
        by = gr.Radio(["strategies", "questions"], value="strategies", label="Compare two", elem_id="by", min_width=200)
        relevance = gr.Radio(
            ["look", "scorer"], value="look", label="Relevance", elem_id="relevance", min_width=180,
            info="look: three ways, no weights. scorer: learned.",
        )  # fmt: skip
    with gr.Row():
        first = gr.Dropdown(list(OFFERED), value="quadtree", label="Left strategy", elem_id="first", min_width=150)
        second = gr.Dropdown(list(OFFERED), value="uniform", label="Right strategy", elem_id="second", min_width=150)
        other = gr.Textbox(
            label="Right question", elem_id="other-question", max_length=400, min_width=220, visible=False
        )
    page.settings |= {"by": by, "first": first, "second": second, "q2": other, "relevance": relevance}
    sheet = Sheet(page, "compare")
    sheet.exports()

    def beside(*values: Any) -> tuple[Any, ...]:
        *common, how, left, right, query, source = values
        settings = {"by": how, "first": left, "second": right, "q2": (query or "").strip(), "relevance": source}
        state = page.state("compare", common, **settings)
        return sheet.filled(lambda: show_comparison(page.desk, common[0], state, tokens_of(common)))

    inputs = [*page.common, by, first, second, other, relevance]
    sheet.run.click(beside, inputs, sheet.outputs, show_progress="minimal", **QUICK, **PRIVATE)
    by.change(
        lambda how: (gr.Textbox(visible=how == "questions"), gr.Dropdown(visible=how == "strategies")),
        [by],
        [other, second],
        **LIVE,
    )
    for control in (by, first, second, relevance):
        control.input(beside, inputs, sheet.outputs, **LIVE)
    other.submit(beside, inputs, sheet.outputs, **LIVE)


def passes(page: Page) -> None:
    gr = gradio()
    gr.HTML(
        '<p class="note">Esper looks, answers, and looks again where it pays. The budget is for all passes together; '
        "set how many there may be on the left.</p>",
        padding=False,
    )
    sheet = Sheet(page, "passes")
    sheet.exports()

    def again(*common: Any) -> tuple[Any, ...]:
        state = page.state("passes", common)
        return sheet.filled(lambda: show_passes(page.desk, common[0], state, tokens_of(common)))

    sheet.run.click(again, page.common, sheet.outputs, show_progress="minimal", **MODEL, **PRIVATE)


def video(page: Page) -> None:
    gr = gradio()
    with gr.Row():
        with gr.Column(min_width=280):
            clip = only_uploads(gr.File(label="Clip", file_types=["video"], height=120, elem_id="clip"))
            with gr.Row():
                family = gr.Dropdown(list(FAMILIES), value="cards", label="Or draw one", min_width=110)
                seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=80)
            draw = gr.Button("Draw an example clip", size="sm", elem_id="draw-clip")
        with gr.Column(min_width=280):
            query = gr.Textbox(label="Question", elem_id="clip-question", max_length=400)
            keep = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens of the clip", elem_id="clip-share")
            go = gr.Button("Watch", variant="primary", elem_id="watch")
    page.settings |= {"family": family, "seed": seed}
    truth, held = gr.State(None), gr.State(None, time_to_live=MEMORY_SECONDS)
    trouble = gr.HTML(padding=False, elem_id="video-trouble")
    film = gr.HTML(padding=False, elem_id="film")
    scrubber = gr.Slider(0, 1, 0, step=1, label="Frame", elem_id="scrubber", visible=False)
    sheet = Sheet(page, "video")
    sheet.exports()

    def example(name: str, number: float) -> tuple[Any, ...]:
        found, words = in_a_sentence(lambda: draw_example(page.desk, name, int(number or 0)))
        return (*found, "") if found is not None else (gr.skip(), gr.skip(), None, words)

    def watched(path: str | None, words: str, share: float, known: str | None, progress: Any) -> tuple[Any, ...]:
        model = page.desk.models[0]
        found, complaint = in_a_sentence(
            lambda: watch_clip(page.desk, path, (words or "").strip(), float(share) / 100, model, progress)
        )
        if found is None:
            return None, "", gr.Slider(visible=False), complaint
        last = len(found.watched.frames) - 1
        return found, show_clip(found, known), gr.Slider(maximum=max(last, 1), value=0, visible=last > 0), ""

    def frame(found: Any, number: float, words: str, share: float, name: str, start: float) -> tuple[Any, ...]:
        if found is None:
            return "", "", None, gr.skip()
        state = PageState(tab="video", family=name, seed=int(start or 0))
        return sheet.filled(lambda: show_frame(found, int(number), state, words, float(share) / 100))

    # A default of this kind is how Gradio hands over its progress bar.
    watched.__defaults__ = (gr.Progress(),)
    draw.click(example, [family, seed], [clip, query, truth, trouble], show_progress="minimal", **QUICK, **PRIVATE)
    clip.upload(lambda: None, None, [truth], **LIVE)
    scrubbed = [held, scrubber, query, keep, family, seed]
    done = gr.on(
        [go.click, query.submit],
        watched,
        [clip, query, keep, truth],
        [held, film, scrubber, trouble],
        show_progress="minimal",
        **MODEL,
        **PRIVATE,
    )
    done.then(frame, scrubbed, sheet.outputs, **LIVE)
    scrubber.input(frame, scrubbed, sheet.outputs, **LIVE)


def numbers(page: Page) -> None:
    sheet = Sheet(page, "numbers")
    sheet.exports()

    def measured() -> tuple[Any, ...]:
        return sheet.filled(lambda: show_numbers(page.desk, PageState(tab="numbers")))

    sheet.run.click(measured, None, sheet.outputs, show_progress="minimal", **QUICK, **PRIVATE)


# key of the link → what the tab is called, and what builds it
TABS: dict[str, tuple[str, Callable[[Page], None]]] = {
    "ask": ("Ask", ask),
    "ways": ("Three ways", ways),
    "textures": ("Textures", textures),
    "compare": ("Compare", compare),
    "passes": ("Passes", passes),
    "video": ("Video", video),
    "numbers": ("Numbers", numbers),
}
