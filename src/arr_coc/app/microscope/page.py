"""The page: a sidebar with picture, question and budget, one tab for each way of looking, and how it looks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from ... import __version__
from ...core.errors import InputError
from ...core.files import replacing
from ...draw import foveated
from ...pictures.document import Document
from ...pictures.pdf import is_pdf, pdf_pages
from . import kit
from .ask_tab import ask_tab, uniform_of
from .clips_tab import clips_tab
from .compare_tab import compare_tab
from .desk import Desk
from .kit import MicroscopePage, PageEvent, gradio
from .linking import LONGEST_QUERY, UPLOAD, example_questions, read_link
from .markup import Figure, figures, sentence, shown_size
from .worlds import families

if TYPE_CHECKING:
    from gradio import Blocks, Request, SelectData

# key of the link → what the tab is called, and what builds it
TABS = {"ask": ("Ask", ask_tab), "compare": ("Compare", compare_tab), "clips": ("Clips", clips_tab)}
ASSETS = Path(__file__).parent / "assets"
# Pages that are shown of one PDF, and the resolution of their thumbnails.
MOST_PAGES, THUMB_DPI = 24, 30
RUN_LATER = "() => setTimeout(() => window.arrCoc.run(true), 50)"
HEADER = (
    "<h1>ARR-COC microscope</h1><p>See what it sees: where a question spends a vision-language model's visual tokens. "
    f'<span class="note">arr-coc {__version__}, offline on this machine</span></p>'
)
FOOTER = (
    '<p class="note">Pictures you drop stay on the machine that serves this page and are removed an hour after their '
    "last use. One may have {most:.0f} megapixels. Keys: Ctrl+Enter asks, Esc cancels, 1 to 3 open the tabs, / goes to "
    "the question.</p>"
)
# The page's script says here what is under way, for how long, and how it ended.
STATUS = '<p id="working" role="status"><span id="doing"></span> <span id="clock" aria-hidden="true"></span></p>'


def build_page(desk: Desk) -> Blocks:
    """The whole page as Gradio blocks; `serving.build_app` puts it behind its limits."""
    gr, page = gradio(), MicroscopePage(desk)
    with gr.Blocks(
        analytics_enabled=False, title="ARR-COC microscope", fill_width=True, delete_cache=(600, 3600)
    ) as blocks:
        gr.HTML(HEADER, elem_id="header", padding=False)
        page.address = gr.Textbox(visible="hidden", elem_id="address")
        page.address.change(None, [page.address], None, js="(link) => window.arrCoc.keep(link)")
        with gr.Row(elem_id="workbench"):
            with gr.Column(elem_id="sidebar"):
                sidebar = Sidebar(page)
            with gr.Column(elem_id="views"):
                notice = gr.HTML(elem_id="notice", padding=False)
                with gr.Tabs(elem_id="tabs") as tabs:
                    for key, (label, build) in TABS.items():
                        with gr.Tab(label, id=key, elem_id=f"tab-{key}") as tab:
                            build(page)
                        tab.select(None, None, None, js=RUN_LATER)
        gr.HTML(FOOTER.format(most=desk.most_pixels / 1e6), elem_id="foot", padding=False)
        sidebar.wire(notice)
        set_by_link = [page.picture, page.source, page.question, page.share, page.model, page.passes]
        opened = blocks.load(
            opener(page),
            None,
            [*set_by_link, *sidebar.described, tabs, notice, *page.settings.values()],
            **kit.HIDDEN,
        )
        opened.then(None, None, None, js="() => window.arrCoc.open()")
    return blocks


class Sidebar:
    """Picture, question, budget, model and passes."""

    def __init__(self, page: MicroscopePage) -> None:
        gr, desk, drawable = gradio(), page.desk, families()
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
            self.examples = {
                name: gr.Button(
                    name.split(".")[0],
                    icon=str(desk.source(f"example:{name}").path),
                    size="sm",
                    elem_id=f"example-{name.split('.')[0]}",
                )
                for name in example_questions()
            }
        with gr.Accordion("Open a PDF", open=False, elem_id="pdf"):
            file = gr.File(label="PDF", file_types=[".pdf"], type="filepath", height=90, elem_id="pdf-file")
            page.pdf = kit.only_uploads(file)
            self.pdf_trouble = gr.HTML(elem_id="trouble-pdf", padding=False)
            self.pdf_pages = gr.Gallery(
                label="Pages: click one", columns=3, height=260, elem_id="pdf-pages", visible=False, buttons=[],
                allow_preview=False, interactive=False,
            )  # fmt: skip
        with gr.Accordion("Draw a new picture", open=False, elem_id="draw", visible=bool(drawable)):
            with gr.Row():
                self.family = gr.Dropdown(list(drawable), value="cards", label="Family", min_width=110)
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
        self.described = [page.tokens, self.readout, self.questions]

    def wire(self, notice: object) -> None:
        page = self.page
        outputs = [page.picture, page.source, page.question, notice]
        for name, button in self.examples.items():
            self.describe(button.click(partial(pick, page, f"example:{name}"), None, outputs, **kit.HIDDEN), kit.RUN)
        drawn = self.draw.click(
            lambda family, seed: pick(page, f"needle:{family}:{int(seed or 0)}"),
            [self.family, self.seed],
            outputs,
            **kit.QUICK,
        )
        self.describe(drawn, kit.RUN)
        for event in (page.picture.upload, page.picture.clear):
            # The count of tokens was that of the picture before: empty until this one is measured.
            self.describe(event(lambda: (UPLOAD, None), None, [page.source, page.tokens], **kit.HIDDEN))
        opened, picked = pdf_events(page)
        page.pdf.change(opened, [page.pdf], [self.pdf_pages, self.pdf_trouble], **kit.QUICK)
        shown = [page.picture, page.source, page.tokens, self.pdf_trouble]
        self.describe(self.pdf_pages.select(picked, [page.pdf], shown, **kit.QUICK))
        self.describe(page.model.change(lambda: None, None, [page.tokens], **kit.HIDDEN))
        self.questions.click(lambda sample: sample[0], [self.questions], [page.question], **kit.QUICK).then(
            None, None, None, js=kit.RUN
        )
        self.go.click(None, None, None, js=kit.RUN)
        self.cancel.click(None, None, None, cancels=page.running, js="() => window.arrCoc.done('Cancelled')")
        page.question.submit(None, None, None, js=kit.RUN)
        for moved, followed in ((page.share, page.tokens), (page.tokens, page.share)):
            given = [page.picture, moved, page.model]
            moved.input(follower(page, moved is page.share), given, [followed, self.readout], **kit.LIVE)
        page.share.release(None, None, None, js=kit.RUN_BY_ITSELF)
        page.tokens.submit(None, None, None, js=kit.RUN)

    def describe(self, event: PageEvent, run: str = kit.RUN_BY_ITSELF) -> None:
        """After a picture came or went: its budget, what uniform would look like, and questions about it."""
        page = self.page
        inputs = [page.picture, page.source, page.share, page.model]
        event.then(partial(describe, page), inputs, self.described, **kit.HIDDEN).then(None, None, None, js=run)


def pick(page: MicroscopePage, name: str) -> tuple[object, ...]:
    """A picture by its source, with its first question."""
    source, trouble = kit.in_a_sentence(lambda: page.desk.source(name))
    if source is None:
        return *(gradio().skip() for _ in range(3)), trouble
    return str(source.path), name, source.questions[0][0], ""


def pdf_events(page: MicroscopePage) -> tuple[Callable[..., tuple[object, ...]], Callable[..., tuple[object, ...]]]:
    """What happens when a PDF is opened, and when one of its pages is clicked."""
    gr, desk = gradio(), page.desk

    def drawn(path: str | None, number: int, dpi: int | None = None) -> str:
        """The file of one page, drawn beside the PDF."""
        file = desk.own_file(path, "PDF")
        made = file.with_name(f"{file.stem}-{number}{'' if dpi is None else '.thumb'}.png")
        if not made.is_file():
            (one,) = pdf_pages(file, number, **({} if dpi is None else {"dpi": dpi}))
            with replacing(made) as temporary:
                Image.fromarray(one.picture.pixels).save(temporary)
        return str(made)

    def thumbnails(path: str) -> list[tuple[str, str]]:
        file = desk.own_file(path, "PDF")
        if not is_pdf(file):
            raise InputError(f"{file.name} is no PDF; this page opens pictures and PDFs")
        numbers = [page.number for page in Document.of(file).pages[:MOST_PAGES]]
        return [(drawn(path, number, THUMB_DPI), f"page {number}") for number in numbers]

    def opened(path: str | None) -> tuple[object, ...]:
        found, trouble = kit.in_a_sentence(lambda: thumbnails(path) if path else [])
        return gr.Gallery(value=found or [], visible=bool(found)), trouble

    def picked(path: str | None, chosen: SelectData) -> tuple[object, ...]:
        made, trouble = kit.in_a_sentence(lambda: drawn(path, int(chosen.index) + 1))
        return (made, UPLOAD, None, trouble) if made else (gr.skip(), gr.skip(), gr.skip(), trouble)

    picked.__annotations__["chosen"] = gr.SelectData
    return opened, picked


def describe(page: MicroscopePage, path: str | None, source: str, share: float, model: str) -> tuple[object, ...]:
    """Tokens, a small picture of uniform at that cost, and the questions of a picture."""
    gr = gradio()
    questions = () if source in ("", UPLOAD) else page.desk.source(source).questions
    dataset = gr.Dataset(samples=[[query] for query, _ in questions], visible=bool(questions))
    if not path:
        return gr.skip(), "", dataset
    found, trouble = kit.in_a_sentence(lambda: readout(page.desk, path, share, None, model))
    return (gr.skip(), trouble, dataset) if found is None else (found[1], found[2], dataset)


def follower(page: MicroscopePage, by_share: bool) -> Callable[..., tuple[object, ...]]:
    """Per cent and tokens follow each other; the one that was moved decides."""
    skip = gradio().skip

    def follow(path: str | None, value: float | None, model: str) -> tuple[object, ...]:
        if not path or not value:
            return skip(), skip()
        given = (float(value), None) if by_share else (None, int(value))
        found, trouble = kit.in_a_sentence(lambda: readout(page.desk, path, *given, model))
        return (skip(), trouble) if found is None else (found[1] if by_share else found[0], found[2])

    return follow


def readout(desk: Desk, path: str, share: float | None, tokens: int | None, model: str) -> tuple[float, int, str]:
    """Per cent, tokens, and a small picture of what uniform of the same cost looks like."""
    picture, full = desk.prepared(path).picture, desk.full_tokens(path, model)
    if tokens is None:
        tokens = min(full, max(1, round((share or 25.0) * full / 100)))
    if tokens > full:
        raise InputError(
            f"{tokens} tokens are more than the {full} that all of this picture costs; give at most {full}"
        )
    caption = f"{tokens} of {full} tokens ({100 * tokens / full:.1f} %), spread evenly"
    even = foveated(picture, uniform_of(picture, tokens), shown_size(picture.size, 260))
    return round(100 * tokens / full, 4), tokens, figures([Figure(even, "Uniform of this cost", caption)], "one")


def opener(page: MicroscopePage) -> Callable[..., list[object]]:
    """Read the address that the page was opened with."""
    gr, desk = gradio(), page.desk

    def opened(request: Request) -> list[object]:
        state, complaints = read_link(dict(request.query_params))
        model = state.model if state.model in desk.models else desk.models[0]
        if state.model and state.model != model:
            complaints.append(f"The link's model is not offered here; {model} is used.")
        path = None
        if state.picture == UPLOAD:
            complaints.append("This link was made with a picture of its owner's: drop that picture here.")
        else:
            source, trouble = kit.in_a_sentence(lambda: desk.source(state.picture))
            path = None if source is None else str(source.path)
            complaints += [trouble] if trouble else []
        notice = "".join(sentence(one) for one in complaints)
        sidebar = [path, state.picture, state.q, state.keep, model, state.passes]
        described = describe(page, path, state.picture, state.keep, model)
        settings = [getattr(state, key) for key in page.settings]
        return [*sidebar, *described, gr.Tabs(selected=state.tab), notice, *settings]

    opened.__annotations__["request"] = gr.Request
    return opened


def theme() -> object:
    """Gradio's plainest theme, with typefaces that every machine has; the colours are in page.css."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]
    return gradio().themes.Base(primary_hue="sky", neutral_hue="stone", font=sans, font_mono=mono)


def stylesheet() -> str:
    return (ASSETS / "page.css").read_text(encoding="utf-8")


def head() -> str:
    """What goes into the page's head: both colour schemes, and the page's own script."""
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return f'<meta name="color-scheme" content="light dark">\n<script>\n{script}</script>\n'
