"""PDFs on the page: a file is opened, its pages are shown small, and the one that is clicked becomes the picture."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image

from ...core.errors import InputError
from ...core.files import replacing
from ...pictures.pdf import is_pdf, pdf_pages, pdf_places
from .desk import Desk
from .kit import PRIVATE, QUICK, MicroscopePage, PageEvent, gradio, in_a_sentence, only_uploads
from .linking import UPLOAD

if TYPE_CHECKING:
    from gradio import SelectData

# Pages that are shown of one file, and the resolution of their thumbnails.
MOST_PAGES, THUMB_DPI = 24, 30
OTHERS = "this page opens pictures (PNG, JPEG, WebP, GIF, BMP, TIFF, SVG, HEIC) and PDFs; save it as one of them"


def thumbnails(desk: Desk, path: str | None) -> list[tuple[str, str]]:
    """(file, "page 3") of the first pages of a PDF that was uploaded."""
    file = desk.own_file(path)
    if not is_pdf(file):
        raise InputError(f"{file.name} is no PDF; {OTHERS}")
    places = pdf_places(file, "all")[:MOST_PAGES]
    made = []
    for page in pdf_pages(file, [place.number for place in places], dpi=THUMB_DPI):
        thumb = file.with_name(f"{file.stem}.thumb-{page.number}.png")
        with replacing(thumb) as temporary:
            Image.fromarray(page.picture.pixels).save(temporary)
        made.append((str(thumb), f"page {page.number}"))
    return made


def drawn_page(desk: Desk, path: str | None, number: int) -> str:
    """The picture of one page, drawn beside its file."""
    file = desk.own_file(path)
    drawn = file.with_name(f"{file.stem}-{number}.png")
    if not drawn.is_file():
        (page,) = pdf_pages(file, number)
        with replacing(drawn) as temporary:
            Image.fromarray(page.picture.pixels).save(temporary)
    return str(drawn)


class PdfOpener:
    """The place for a PDF in the sidebar."""

    def __init__(self, page: MicroscopePage) -> None:
        gr = gradio()
        self.page = page
        with gr.Accordion("Open a PDF", open=False, elem_id="pdf"):
            self.file = only_uploads(
                gr.File(label="PDF", file_types=[".pdf"], type="filepath", height=90, elem_id="pdf-file")
            )
            page.pdf = self.file
            self.trouble = gr.HTML(elem_id="trouble-pdf", padding=False)
            self.pages = gr.Gallery(
                label="Pages: click one", columns=3, height=260, elem_id="pdf-pages", visible=False, buttons=[],
                allow_preview=False, interactive=False,
            )  # fmt: skip

    def wire(self, changed: Callable[[PageEvent], object]) -> None:
        """changed: called with the event after which the picture is another."""
        gr, page = gradio(), self.page

        def opened(path: str | None) -> tuple[object, object]:
            if not path:
                return gr.Gallery(value=[], visible=False), ""
            found, trouble = in_a_sentence(lambda: thumbnails(page.desk, path))
            return gr.Gallery(value=found or [], visible=bool(found)), trouble

        def picked(path: str | None, chosen: SelectData) -> tuple[object, ...]:
            drawn, trouble = in_a_sentence(lambda: drawn_page(page.desk, path, int(chosen.index) + 1))
            return (drawn, UPLOAD, drawn, trouble) if drawn else (gr.skip(), gr.skip(), gr.skip(), trouble)

        picked.__annotations__["chosen"] = gr.SelectData
        self.file.change(opened, [self.file], [self.pages, self.trouble], **QUICK, **PRIVATE)
        outputs = [page.picture, page.source, page.own, self.trouble]
        changed(self.pages.select(picked, [self.file], outputs, **QUICK, **PRIVATE))


def still_there(desk: Desk, path: object) -> str | None:
    """The picture that a visitor had before the page was loaded again, where it is still kept."""
    if not isinstance(path, str) or not path:
        return None
    file = Path(path).resolve()
    return str(file) if file.is_relative_to(desk.folder.resolve()) and file.is_file() else None
