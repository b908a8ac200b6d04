"""The page: a sidebar with picture, question and budget, a tab for each task, and its style."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from pathlib import Path

import gradio as gr
from PIL import Image

from ... import __version__
from ...core.errors import InputError
from ...core.folders import replacing
from ...pictures.document import PdfPlace, is_pdf
from . import kit
from .ask_tab import ask_tab
from .clips_tab import clips_tab
from .compare_tab import compare_tab
from .desk import FIRST_PICTURE, FIRST_QUERY, Desk, example_questions
from .kit import MicroscopePage

# id of a tab → its label, and the function that builds it
TABS = {"ask": ("Ask", ask_tab), "compare": ("Compare", compare_tab), "clips": ("Clips", clips_tab)}
ASSETS = Path(__file__).parent / "assets"
RUN_LATER = "() => setTimeout(() => window.arrCoc.run(true), 50)"
HEADER = (
    "<h1>ARR-COC microscope</h1><p>See what it sees: where a question spends a vision-language model's visual tokens. "
    f'<span class="note">arr-coc {__version__}, offline on this machine</span></p>'
)
FOOTER = (
    '<p class="note">Pictures you drop stay on the machine that serves this page and are removed an hour after their '
    "last use. The limit is {most:.0f} megapixels. Keys: Ctrl+Enter asks, Esc cancels, 1 to 3 open the tabs, / goes to "
    "the question.</p>"
)
# The page's script shows here what is running, for how long, and how it ended.
STATUS = '<p id="working" role="status"><span id="doing"></span> <span id="clock" aria-hidden="true"></span></p>'


def build_page(desk: Desk) -> gr.Blocks:
    """Build the whole page as Gradio blocks; `serving.build_app` adds limits and access control."""
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
        opened = blocks.load(partial(opened_again, page), [sidebar.kept], sidebar.shown, **kit.HIDDEN)
        opened.then(None, None, None, js="() => window.arrCoc.open()")
    return blocks


class Sidebar:
    """Picture, question, budget, model and passes."""

    def __init__(self, page: MicroscopePage) -> None:
        desk, self.page = page.desk, page
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
        page.question = gr.Textbox(
            label="Question", lines=1, max_lines=4, max_length=kit.LONGEST_QUERY, elem_id="question", submit_btn=False
        )
        self.shown = [page.picture, page.question]
        self.kept = gr.BrowserState()  # picture and question, restored when the page is reloaded
        with gr.Row(elem_id="going"):
            self.go = gr.Button("Ask", variant="primary", elem_id="go")
            self.cancel = gr.Button("Cancel", elem_id="cancel", min_width=90)
        gr.HTML(STATUS, elem_id="status", padding=False)
        page.share = gr.Slider(1, 100, 25, step=0.5, label="Budget, % of all tokens", elem_id="share")
        page.passes = gr.Slider(1, 4, 1, step=1, label="Passes", elem_id="passes")
        page.model = gr.Dropdown(list(desk.models), value=desk.models[0], label="Model", elem_id="model")

    def wire(self) -> None:
        """Connect events to actions, once all components exist."""
        page = self.page
        for name, button in self.examples.items():
            button.click(partial(pick, page, name), None, self.shown, **kit.HIDDEN).then(None, None, None, js=kit.RUN)
        for event in (page.picture.upload, page.picture.clear):
            event(None, None, None, js=kit.RUN_BY_ITSELF)
        opened = page.pdf.change(partial(open_pdf, page), [page.pdf], [page.picture, self.pdf_trouble], **kit.QUICK)
        opened.then(None, None, None, js=kit.RUN_BY_ITSELF)
        keeping = [page.picture.change, page.question.submit, self.go.click]
        gr.on(keeping, lambda *values: values, self.shown, [self.kept], **kit.HIDDEN)
        self.go.click(None, None, None, js=kit.RUN)
        self.cancel.click(None, None, None, cancels=page.running, js="() => window.arrCoc.done('Cancelled')")
        page.question.submit(None, None, None, js=kit.RUN)
        page.share.release(None, None, None, js=kit.RUN_BY_ITSELF)


def pick(page: MicroscopePage, name: str, query: str = "") -> tuple[str, str]:
    """Return an example with a question, by default its first one."""
    return page.desk.example(name), query or example_questions()[name][0]


def opened_again(page: MicroscopePage, kept: list[str] | None) -> tuple[str, str]:
    """Return the picture and question that this browser had, if the file still exists; else the first example."""
    with suppress(InputError, TypeError, ValueError):
        path, query = kept or ("", "")
        if page.desk.own_file(path).is_file():
            return path, query
    return pick(page, FIRST_PICTURE, FIRST_QUERY)


def open_pdf(page: MicroscopePage, path: str | None) -> tuple[object, str]:
    """Show the first page of a PDF as the picture; questions are about all pages (`Desk.document`)."""

    def cover() -> str:
        file = page.desk.own_file(path, "PDF")
        if not is_pdf(file):
            raise InputError(f"{file.name} is not a PDF; this page opens pictures and PDFs")
        made = file.with_name(f"{file.name}.png")
        if not made.is_file():
            with replacing(made) as temporary:
                Image.fromarray(PdfPlace(file, 1).draw().pixels).save(temporary)
        return str(made)

    made, trouble = kit.in_a_sentence(cover) if path else (None, "")
    return made or gr.skip(), trouble


def looks() -> dict[str, object]:
    """Return the style of the page: Gradio's base theme with system typefaces; colours are in page.css."""
    sans = ["system-ui", "-apple-system", "Segoe UI", "Roboto", "DejaVu Sans", "sans-serif"]
    mono = ["ui-monospace", "SFMono-Regular", "Menlo", "Consolas", "DejaVu Sans Mono", "monospace"]
    script = (ASSETS / "page.js").read_text(encoding="utf-8")
    return {
        "theme": gr.themes.Base(primary_hue="sky", neutral_hue="stone", font=sans, font_mono=mono),
        "css": (ASSETS / "page.css").read_text(encoding="utf-8"),
        "head": f'<meta name="color-scheme" content="light dark">\n<script>\n{script}</script>\n',
    }
