"""The page: a sidebar with picture, question and budget, one tab for each way of looking, and how it looks."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import gradio as gr
from PIL import Image

from ... import __version__
from ...core.errors import InputError
from ...core.folders import replacing
from ...pictures.document import Document, PdfPlace, is_pdf
from . import kit
from .ask_tab import ask_tab
from .clips_tab import clips_tab
from .compare_tab import compare_tab
from .desk import FIRST_PICTURE, FIRST_QUERY, UPLOAD, Desk, example_questions
from .kit import MicroscopePage

# id of a tab → what it is called, and what builds it
TABS = {"ask": ("Ask", ask_tab), "compare": ("Compare", compare_tab), "clips": ("Clips", clips_tab)}
ASSETS = Path(__file__).parent / "assets"
# Pages that are shown of one PDF, and the resolution of their thumbnails.
MOST_PAGES, THUMB_SIDE = 24, 352
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


def build_page(desk: Desk) -> gr.Blocks:
    """The whole page as Gradio blocks; `serving.build_app` puts it behind its limits."""
    page = MicroscopePage(desk)
    with gr.Blocks(
        analytics_enabled=False, title="ARR-COC microscope", fill_width=True, delete_cache=(600, 3600)
    ) as blocks:
        gr.HTML(HEADER, elem_id="header", padding=False)
        with gr.Row(elem_id="workbench"):
            with gr.Column(elem_id="sidebar"):
                sidebar = Sidebar(page)
            with gr.Column(elem_id="views"), gr.Tabs(elem_id="tabs"):
                for key, (label, build) in TABS.items():
                    with gr.Tab(label, id=key, elem_id=f"tab-{key}") as tab:
                        build(page)
                    tab.select(None, None, None, js=RUN_LATER)
        gr.HTML(FOOTER.format(most=desk.most_pixels / 1e6), elem_id="foot", padding=False)
        sidebar.wire()
        opened = blocks.load(partial(pick, page, FIRST_PICTURE, FIRST_QUERY), None, sidebar.shown, **kit.HIDDEN)
        opened.then(None, None, None, js="() => window.arrCoc.open()")
    return blocks


def known_questions(picture: str) -> gr.Dataset:
    """The questions with known answers about a picture; hidden where there are none."""
    asked = example_questions().get(picture, ())
    return gr.Dataset(samples=[[query] for query, _ in asked], visible=bool(asked))


class Sidebar:
    """Picture, question, budget, model and passes."""

    def __init__(self, page: MicroscopePage) -> None:
        desk, self.page = page.desk, page
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
                placeholder="Drop a picture or a PDF here, paste one, or click to choose",
            )
        )
        with gr.Row(elem_classes="examples-row"):
            self.examples = {
                name: gr.Button(
                    name.split(".")[0], icon=desk.example(name), size="sm", elem_id=f"example-{name.split('.')[0]}"
                )
                for name in example_questions()
            }
        with gr.Accordion("Open a PDF", open=False, elem_id="pdf"):
            file = gr.File(label="PDF", file_types=[".pdf"], type="filepath", height=90, elem_id="pdf-file")
            page.pdf = kit.only_uploads(file)
            self.pdf_trouble = gr.HTML(elem_id="trouble-pdf", padding=False)
            self.pdf_pages = gr.Gallery(
                label="Pages: click one",
                columns=3,
                height=260,
                elem_id="pdf-pages",
                visible=False,
                buttons=[],
                allow_preview=False,
                interactive=False,
            )
        page.question = gr.Textbox(
            label="Question", lines=1, max_lines=4, max_length=kit.LONGEST_QUERY, elem_id="question", submit_btn=False
        )
        self.questions = gr.Dataset(
            components=[gr.Textbox(visible=False)],
            samples=[[query] for query, _ in next(iter(example_questions().values()))],
            label="Questions with known answers",
            elem_id="questions",
            samples_per_page=6,
        )
        self.shown = [page.picture, page.source, page.question, self.questions]
        with gr.Row(elem_id="going"):
            self.go = gr.Button("Ask", variant="primary", elem_id="go")
            self.cancel = gr.Button("Cancel", elem_id="cancel", min_width=90)
        gr.HTML(STATUS, elem_id="status", padding=False)
        page.share = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens", elem_id="share")
        page.passes = gr.Slider(1, 4, 1, step=1, label="Passes", elem_id="passes")
        page.model = gr.Dropdown(list(desk.models), value=desk.models[0], label="Model", elem_id="model")

    def wire(self) -> None:
        """Say what follows from what; once everything is there."""
        page = self.page
        for name, button in self.examples.items():
            button.click(partial(pick, page, name), None, self.shown, **kit.HIDDEN).then(None, None, None, js=kit.RUN)
        for event in (page.picture.upload, page.picture.clear):
            own = event(lambda: (UPLOAD, known_questions(UPLOAD)), None, [page.source, self.questions], **kit.HIDDEN)
            own.then(None, None, None, js=kit.RUN_BY_ITSELF)
        opened, picked = pdf_events(page)
        outputs = [page.picture, page.source, self.questions, self.pdf_trouble]
        page.pdf.change(opened, [page.pdf], [self.pdf_pages, *outputs], **kit.QUICK)
        drawn = self.pdf_pages.select(picked, [page.pdf], outputs, **kit.QUICK)
        drawn.then(None, None, None, js=kit.RUN_BY_ITSELF)
        asked = self.questions.click(lambda sample: sample[0], [self.questions], [page.question], **kit.QUICK)
        asked.then(None, None, None, js=kit.RUN)
        self.go.click(None, None, None, js=kit.RUN)
        self.cancel.click(None, None, None, cancels=page.running, js="() => window.arrCoc.done('Cancelled')")
        page.question.submit(None, None, None, js=kit.RUN)
        page.share.release(None, None, None, js=kit.RUN_BY_ITSELF)


def pick(page: MicroscopePage, name: str, query: str = "") -> tuple[object, ...]:
    """An example with a question, its first where none is given."""
    return page.desk.example(name), name, query or example_questions()[name][0][0], known_questions(name)


def pdf_events(page: MicroscopePage) -> tuple[Callable[..., tuple[object, ...]], Callable[..., tuple[object, ...]]]:
    """What happens when a PDF is opened, and when one of its pages is clicked."""
    desk = page.desk

    def drawn(path: str | None, number: int, side: int | None = None, cover: bool = False) -> str:
        """The file of one page, drawn beside the PDF. cover: asked about it, all pages are meant (`Desk.document`)."""
        file = desk.own_file(path, "PDF")
        made = file.with_name(f"{file.stem}-{number}{'' if side is None else '.thumb'}.png")
        made = file.with_name(f"{file.name}.png") if cover else made
        if not made.is_file():
            with replacing(made) as temporary:
                Image.fromarray(PdfPlace(file, number).draw(side).pixels).save(temporary)
        return str(made)

    def thumbnails(path: str) -> list[tuple[str, str]]:
        file = desk.own_file(path, "PDF")
        if not is_pdf(file):
            raise InputError(f"{file.name} is no PDF; this page opens pictures and PDFs")
        numbers = [page.number for page in Document.of(file).pages[:MOST_PAGES]]
        return [(drawn(path, number, THUMB_SIDE), f"page {number}") for number in numbers]

    def opened(path: str | None) -> tuple[object, ...]:
        found, trouble = kit.in_a_sentence(lambda: thumbnails(path) if path else [])
        gallery = gr.Gallery(value=found or [], visible=bool(found))
        if not found:
            return gallery, gr.skip(), gr.skip(), gr.skip(), trouble
        return gallery, drawn(path, 1, cover=True), UPLOAD, known_questions(UPLOAD), ""

    def picked(path: str | None, chosen: gr.SelectData) -> tuple[object, ...]:
        made, trouble = kit.in_a_sentence(lambda: drawn(path, int(chosen.index) + 1))
        return (made, UPLOAD, known_questions(UPLOAD), "") if made else (gr.skip(), gr.skip(), gr.skip(), trouble)

    return opened, picked


def looks() -> dict[str, object]:
    """How the page looks: Gradio's plainest theme, with typefaces that every machine has; colours are in page.css."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return {
        "theme": gr.themes.Base(primary_hue="sky", neutral_hue="stone", font=sans, font_mono=mono),
        "css": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "head": f'<meta name="color-scheme" content="light dark">\n<script>\n{script}</script>\n',
    }
