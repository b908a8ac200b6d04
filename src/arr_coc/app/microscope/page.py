"""The page: a sidebar with picture, question and budget, one tab for each way of looking, and how it all looks.

System typefaces, the colours of the drawings, and room to read at 390 pixels and at 1280.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from ... import __version__
from ...core.errors import InputError
from ...core.plugins import load_plugin, plugins
from ...draw import foveated
from . import kit
from .api_tab import api_tab
from .ask_tab import PastQuestion, ask_tab, uniform_of
from .compare_tab import compare_tab
from .desk import Desk
from .document_tab import document_tab
from .kit import MicroscopePage, PageEvent, gradio
from .linking import LONGEST_QUERY, UPLOAD, example_questions, read_link
from .markup import Figure, figures, sentence, shown_size
from .passes_tab import passes_tab
from .pdf_pages import PdfOpener, still_there
from .textures_tab import textures_tab
from .video_tab import video_tab
from .ways_tab import ways_tab
from .worlds import families

if TYPE_CHECKING:
    from gradio import Blocks, Request

# key of the link → what the tab is called, and what builds it
TABS: dict[str, tuple[str, Callable[[MicroscopePage], None]]] = {
    "ask": ("Ask", ask_tab),
    "ways": ("Three ways", ways_tab),
    "textures": ("Textures", textures_tab),
    "compare": ("Compare", compare_tab),
    "passes": ("Passes", passes_tab),
    "document": ("Document", document_tab),
    "video": ("Video", video_tab),
    "api": ("What the API will see", api_tab),
}


# A package adds a tab by an entry point of this group: the key of the link → the tab's label and what builds it.
GROUP = "arr_coc.microscope"


def build_page(desk: Desk) -> Blocks:
    """The whole page as Gradio blocks; `serving.build_app` puts it behind its limits."""
    gr = gradio()
    page = MicroscopePage(desk)
    others = {name: load_plugin(point) for name, point in plugins(GROUP).items()}
    with gr.Blocks(
        analytics_enabled=False, title="ARR-COC microscope", fill_width=True, delete_cache=(600, 3600)
    ) as blocks:
        gr.HTML(HEADER, elem_id="header", padding=False)
        page.address = gr.Textbox(visible="hidden", elem_id="address")
        page.own = gr.BrowserState("", storage_key="arr-coc-own-picture")
        page.address.change(None, [page.address], None, js="(link) => window.arrCoc.keep(link)")
        with gr.Row(elem_id="workbench"):
            with gr.Column(elem_id="sidebar"):
                sidebar = Sidebar(page)
            with gr.Column(elem_id="views"):
                notice = gr.HTML(elem_id="notice", padding=False)
                with gr.Tabs(elem_id="tabs") as tabs:
                    for key, (label, build) in {**TABS, **others}.items():
                        with gr.Tab(label, id=key, elem_id=f"tab-{key}") as tab:
                            build(page)
                        tab.select(None, None, None, js=RUN_LATER)
        gr.HTML(footer_words(desk), elem_id="foot", padding=False)
        sidebar.wire(notice)
        opened = blocks.load(
            _opener(page), [page.own], [*sidebar.opened, tabs, notice, *page.settings.values()], **kit.HIDDEN
        )
        opened.then(None, None, None, js="() => window.arrCoc.open()")
    return blocks


RUN_LATER = "() => setTimeout(() => window.arrCoc.run(true), 50)"
HEADER = (
    "<h1>ARR-COC microscope</h1><p>See what it sees: where a question spends a vision-language model's visual tokens. "
    f'<span class="note">arr-coc {__version__}, offline on this machine</span></p>'
)


def footer_words(desk: Desk) -> str:
    """What a visitor wants to know of the place: where his pictures go, how large they may be, which keys there are."""
    return (
        '<p class="note">Pictures you drop stay on the machine that serves this page and are removed an hour after '
        f"their last use. One may have {desk.most_pixels / 1e6:.0f} megapixels. Keys: Ctrl+Enter asks, Esc cancels, "
        "1 to 9 open the tabs, / goes to the question.</p>"
    )


# The page's script tells here that something is under way, for how long, and how it ended.
STATUS = '<p id="working" role="status"><span id="doing"></span> <span id="clock" aria-hidden="true"></span></p>'


class Sidebar:
    """Picture, question, budget, model and passes."""

    def __init__(self, page: MicroscopePage) -> None:
        gr, desk = gradio(), page.desk
        self.page = page
        page.source = gr.State(UPLOAD)
        page.picture = kit.only_uploads(
            gr.Image(
                label="Picture",
                type="filepath",
                sources=["upload", "clipboard"],
                height=230,
                elem_id="picture",
                buttons=[],
                image_mode=None,
                placeholder="Drop a picture here, paste one, or click to choose",
            )
        )
        with gr.Row(elem_classes="examples-row"):
            self.examples = [
                gr.Button(
                    name.split(".")[0],
                    icon=str(desk.source(f"example:{name}").path),
                    size="sm",
                    elem_id=f"example-{name.split('.')[0]}",
                )
                for name in example_questions()
            ]
        self.pdf = PdfOpener(page)
        with gr.Accordion("Draw a new picture", open=False, elem_id="draw"):
            gr.HTML('<p class="note">Needle World, held-out split: nobody has seen it, and the truth is known.</p>')
            with gr.Row():
                self.family = gr.Dropdown(list(families()), value="cards", label="Family", min_width=110)
                self.seed = gr.Number(0, label="Seed", precision=0, minimum=0, min_width=80)
            self.draw = gr.Button("Draw", size="sm", elem_id="draw-button")
        page.question = gr.Textbox(
            label="Question", lines=1, max_lines=4, max_length=LONGEST_QUERY, elem_id="question", submit_btn=False
        )
        self.questions = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            samples=[[query] for query, _ in next(iter(example_questions().values()))],
            label="Questions with known answers",
            elem_id="questions",
            samples_per_page=6,
        )
        with gr.Row(elem_id="going"):
            self.go = gr.Button("Ask", variant="primary", elem_id="go")
            self.cancel = gr.Button("Cancel", elem_id="cancel", min_width=90)
        gr.HTML(STATUS, elem_id="status", padding=False)
        page.share = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens", elem_id="share")
        page.tokens = gr.Number(64, label="Budget, tokens", precision=0, minimum=1, elem_id="tokens")
        page.passes = gr.Slider(1, 4, 1, step=1, label="Passes", elem_id="passes")
        page.model = gr.Dropdown(list(desk.models), value=desk.models[0], label="Model", elem_id="model")
        self.readout = gr.HTML(elem_id="readout", padding=False)
        page.history = gr.State([], time_to_live=kit.MEMORY_SECONDS)
        page.asked = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            samples=[],
            label="Asked before",
            elem_id="asked",
            type="index",
            samples_per_page=5,
            visible=False,
        )

    @property
    def opened(self) -> list[object]:
        """What a link sets here."""
        page = self.page
        described = [page.tokens, self.readout, self.questions]
        return [page.picture, page.source, page.question, page.share, page.model, page.passes, *described]

    def wire(self, notice: object) -> None:
        page = self.page
        self._notice = notice
        outputs = [page.picture, page.source, page.question, notice]
        for button, name in zip(self.examples, example_questions(), strict=True):
            picked = button.click(partial(_pick, page, f"example:{name}"), None, outputs, **kit.HIDDEN)
            self.describe(picked).then(None, None, None, js=kit.RUN)
        drawn = self.draw.click(
            lambda family, seed: _pick(page, f"needle:{family}:{int(seed or 0)}"),
            [self.family, self.seed],
            outputs,
            **kit.QUICK,
            **kit.PRIVATE,
        )
        self.describe(drawn).then(None, None, None, js=kit.RUN)
        for event in (page.picture.upload, page.picture.clear):
            # The count of tokens was that of the picture before: gone until this one is measured.
            changed = event(
                lambda path: (UPLOAD, path or "", None),
                [page.picture],
                [page.source, page.own, page.tokens],
                **kit.HIDDEN,
            )
            self.describe(changed).then(None, None, None, js=kit.RUN_BY_ITSELF)
        self.pdf.wire(lambda event: self.describe(event).then(None, None, None, js=kit.RUN_BY_ITSELF))
        self.describe(page.model.change(lambda: None, None, [page.tokens], **kit.HIDDEN))
        self.questions.click(
            lambda sample: sample[0], [self.questions], [page.question], **kit.QUICK, **kit.PRIVATE
        ).then(None, None, None, js=kit.RUN)
        self.go.click(None, None, None, js=kit.RUN)
        # Gradio stops what yields; what is inside one step of a model finishes unseen.
        self.cancel.click(None, None, None, cancels=page.running, js="() => window.arrCoc.done('Cancelled')")
        again = [*page.common, page.settings["scale"]]
        page.asked.click(_asked_again, [page.asked, page.history], again, **kit.HIDDEN).then(
            None, None, None, js="() => window.arrCoc.run(false, 'ask')"
        )
        page.question.submit(None, None, None, js=kit.RUN)
        budget = [page.picture, page.share, page.model]
        page.share.input(_budget(page, by_share=True), budget, [page.tokens, self.readout], **kit.LIVE)
        page.share.release(None, None, None, js=kit.RUN_BY_ITSELF)
        counted = [page.picture, page.tokens, page.model]
        page.tokens.input(_budget(page, by_share=False), counted, [page.share, self.readout], **kit.LIVE)
        page.tokens.submit(None, None, None, js=kit.RUN)

    def describe(self, event: PageEvent) -> PageEvent:
        """After a picture came or went: its budget, what uniform would look like, and questions about it."""
        page = self.page
        inputs = [page.picture, page.source, page.share, page.model]
        return event.then(_describer(page), inputs, [page.tokens, self.readout, self.questions], **kit.HIDDEN)


def _pick(page: MicroscopePage, name: str) -> tuple[object, ...]:
    """A picture by its source, with its first question."""
    gr = gradio()
    source, trouble = kit.in_a_sentence(lambda: page.desk.source(name))
    if source is None:
        return gr.skip(), gr.skip(), gr.skip(), trouble
    return str(source.path), name, source.questions[0][0], ""


def _asked_again(place: int, history: list[PastQuestion]) -> list[object]:
    """The inputs of an earlier question; its picture may be gone, and is then asked for."""
    path, *others = history[place].common
    return [path if isinstance(path, str) and Path(path).is_file() else None, *others]


def _describer(page: MicroscopePage) -> Callable[..., tuple[object, ...]]:
    gr = gradio()

    def describe(path: str | None, source: str, share: float, model: str) -> tuple[object, ...]:
        questions = () if source in ("", UPLOAD) else page.desk.source(source).questions
        dataset = gr.Dataset(samples=[[query] for query, _ in questions], visible=bool(questions))
        if not path:
            return gr.skip(), "", dataset
        budget, trouble = kit.in_a_sentence(lambda: readout(page.desk, path, share, None, model))
        return (gr.skip(), trouble, dataset) if budget is None else (budget[1], budget[2], dataset)

    return describe


def _budget(page: MicroscopePage, by_share: bool) -> Callable[..., tuple[object, ...]]:
    """Per cent and tokens follow each other; which one was moved decides."""
    gr = gradio()

    def follow(path: str | None, value: float | None, model: str) -> tuple[object, ...]:
        if not path or not value:
            return gr.skip(), gr.skip()
        given = (float(value), None) if by_share else (None, int(value))
        budget, trouble = kit.in_a_sentence(lambda: readout(page.desk, path, *given, model))
        if budget is None:
            return gr.skip(), trouble
        share, tokens, html = budget
        return (tokens if by_share else share), html

    return follow


def readout(desk: Desk, path: str, share: float | None, tokens: int | None, model: str) -> tuple[float, int, str]:
    """Per cent, tokens, and a small picture of what uniform of the same cost looks like."""
    picture = desk.prepared(path).picture
    full = desk.full_tokens(path, model)
    if tokens is None:
        tokens = min(full, max(1, round((share or 25.0) * full / 100)))
    if tokens > full:
        raise InputError(
            f"{tokens} tokens are more than the {full} that all of this picture costs; give at most {full}"
        )
    size = shown_size(picture.size, 260)
    even = uniform_of(picture, tokens)
    caption = f"{tokens} of {full} tokens ({100 * tokens / full:.1f} %), spread evenly"
    html = figures([Figure(foveated(picture, even, size), "Uniform of this cost", caption)], "one")
    return round(100 * tokens / full, 4), tokens, html


def _opener(page: MicroscopePage) -> Callable[..., list[object]]:
    """Read the address that the page was opened with."""
    gr, desk = gradio(), page.desk

    def opened(own: object, request: Request) -> list[object]:
        state, complaints = read_link(dict(request.query_params))
        model = state.model if state.model in desk.models else desk.models[0]
        if state.model and state.model != model:
            complaints.append(f"The link's model is not offered here; {model} is used.")
        path = None
        if state.picture == UPLOAD and (path := still_there(desk, own)) is None:
            complaints.append(
                "This link was made with a picture of its owner's: drop that picture here to see the same."
            )
        elif state.picture != UPLOAD:
            source, trouble = kit.in_a_sentence(lambda: desk.source(state.picture))
            path = None if source is None else str(source.path)
            complaints += [trouble] if trouble else []
        notice = "".join(sentence(one) for one in complaints)
        described = _describer(page)(path, state.picture, state.keep, model)
        sidebar = [path, state.picture, state.q, state.keep, model, state.passes, *described]
        settings = [getattr(state, key) for key in page.settings]
        return [*sidebar, gr.Tabs(selected=state.tab), notice, *settings]

    opened.__annotations__["request"] = gr.Request
    return opened


# ---- how it looks ---------------------------------------------------------------------------------------------------


ASSETS = Path(__file__).parent / "assets"
SANS = ("system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif")
MONO = ("ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace")


def theme() -> object:
    """Gradio's plainest theme, with typefaces that every machine has: none is fetched from anywhere."""
    import gradio

    blue = gradio.themes.Color(
        *("#eff6fb", "#dcebf6", "#b9d7ec", "#8bbcdd", "#559bc9", "#2f7fb5"),
        *("#1868a8", "#155688", "#134a73", "#123f60", "#0c2b43"),
        name="microscope",
    )
    plain = gradio.themes.Base(
        primary_hue=blue, secondary_hue=blue, neutral_hue="stone", font=list(SANS), font_mono=list(MONO)
    )
    return plain.set(
        body_background_fill="#faf9f6",
        body_background_fill_dark="#17181b",
        block_background_fill="#ffffff",
        block_background_fill_dark="#1f2125",
        block_border_color="#e4e1da",
        block_border_color_dark="#34373d",
        border_color_primary="#e4e1da",
        border_color_primary_dark="#34373d",
        input_background_fill="#ffffff",
        input_background_fill_dark="#17181b",
        body_text_color="#1c1e24",
        body_text_color_dark="#eceae5",
        body_text_color_subdued="#5d6068",
        body_text_color_subdued_dark="#a9abb2",
        button_primary_background_fill="#1868a8",
        button_primary_background_fill_hover="#134a73",
        button_primary_background_fill_dark="#2f7fb5",
        button_primary_text_color="#ffffff",
        block_title_text_weight="600",
        block_label_text_weight="600",
        block_radius="10px",
        input_radius="8px",
    )


def stylesheet() -> str:
    return (ASSETS / "page.css").read_text(encoding="utf-8")


def head() -> str:
    """What goes into the page's head: both colour schemes, and the page's own script."""
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return f'<meta name="color-scheme" content="light dark">\n<script>\n{script}</script>\n'
