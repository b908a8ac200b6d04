"""Pages of a PDF as pictures with their words (pypdfium2): the text layer gives words for nothing."""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..core.errors import InputError
from .load import MAX_PIXELS, Picture, load_picture
from .words import Words, make_words

if TYPE_CHECKING:
    import pypdfium2

# Dots an inch at which pages are drawn: 10-point type is then 20 pixels high, and A4 has 1 190 by 1 684 pixels.
DPI = 144
LARGEST_SIDE = 4096
WORD_GAP = 0.6  # of the type's size
# Where a PDF is: its path, or what stands in it.
PdfFile = str | os.PathLike[str] | bytes
PageList = int | str | Sequence[int] | None  # see `page_numbers`


class PdfPage(NamedTuple):
    """number: from 1. picture: as drawn. words: of the text layer; none where the page was scanned."""

    number: int
    picture: Picture
    words: Words


class PdfPlace(NamedTuple):
    """A page that is drawn when it is asked for. number: from 1."""

    path: PdfFile
    number: int

    @property
    def name(self) -> str:
        path = Path(pdf_name(self.path))
        return f"{path.stem}-{self.number}{path.suffix}"

    def draw(self, longest_side: int | None = None) -> Picture:
        """Its picture, drawn at a smaller scale where less is asked for."""
        with opened_pdf(self.path) as document, readable(self.number, pdf_name(self.path)):
            scale, size = drawn_size(*document.get_page_size(self.number - 1))
            scale *= 1.0 if longest_side is None else min(1.0, longest_side / max(size))
            page, picture = drawn_pdf_page(document, self.number, pdf_name(self.path), 72 * scale)
            page.close()
        return picture

    def words(self) -> Words:
        """The words of its text layer."""
        name = pdf_name(self.path)
        with opened_pdf(self.path) as document, readable(self.number, name):
            page = document[self.number - 1]
            words = page_words(page, f"the text layer of {name}, page {self.number}")
            page.close()
        return words


def load_page(source: object, *, longest_side: int | None = None) -> tuple[Picture, Words | None]:
    """Any picture, as `load_picture` takes it, and its words where they come with it: of a `PdfPlace`, or of the path
    of a PDF its first page, with a note where there are more."""
    pages = 1
    if isinstance(source, PdfPage):
        return load_picture(source.picture, longest_side=longest_side), source.words if len(source.words) else None
    if isinstance(source, str | os.PathLike) and is_pdf(source):
        with opened_pdf(source) as document:
            pages = len(document)
        source = PdfPlace(source, 1)
    if not isinstance(source, PdfPlace):
        return load_picture(source, longest_side=longest_side), None
    (page,) = pdf_pages(source.path, source.number)
    picture = load_picture(page.picture, longest_side=longest_side)
    if pages > 1:
        picture = replace(picture, notes=(f"page 1 of {pages}: the others are not looked at here",))
    return picture, page.words if len(page.words) else None


def is_pdf(source: object) -> bool:
    """Whether a source is the path of a PDF, by its first bytes; of any other kind: no."""
    return not isinstance(source, bytes) and b"%PDF-" in head_of(source, 1024)


def head_of(source: object, length: int) -> bytes:
    """The first bytes, of bytes or of the file at a path; none of any other kind, nor of what cannot be read."""
    if not isinstance(source, str | os.PathLike):
        return source[:length] if isinstance(source, bytes) else b""
    try:
        with open(source, "rb") as file:
            return file.read(length)
    except (OSError, ValueError):
        return b""


def page_numbers(pages: PageList, count: int, name: str) -> list[int]:
    """What was asked for ("all", 3, "3", "2-5,7", [1, 3], None: the first) → numbers from 1, in order, each once."""
    if pages is None:
        return [1]
    if isinstance(pages, str) and pages.strip().lower() == "all":
        return list(range(1, count + 1))
    found: list[int] = []
    several = isinstance(pages, Iterable) and not isinstance(pages, str | bytes)
    for part in pages.split(",") if isinstance(pages, str) else list(pages) if several else [pages]:
        span = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", str(part))
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        if not 1 <= first <= last <= count:
            whole = f"1 to {count}" if count > 1 else "1"
            raise InputError(f"page {str(part).strip()} is not in {name}; it has page {whole}")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def pdf_pages(path: PdfFile, pages: PageList = None, *, dpi: float = DPI) -> Iterator[PdfPage]:
    """Draw pages of a PDF one after another, each with the words of its text layer. pages: as for `page_numbers`."""
    if not 18 <= dpi <= 600:
        raise InputError(f"dpi {dpi} is not between 18 and 600; {DPI} suits most pages")
    name = pdf_name(path)
    with opened_pdf(path) as document:
        for number in page_numbers(pages, len(document), name):
            page, picture = drawn_pdf_page(document, number, name, dpi)
            with readable(number, name):
                words = page_words(page, f"the text layer of {name}, page {number}")
            page.close()
            yield PdfPage(number, picture, words)


def pdf_name(file: PdfFile) -> str:
    """What messages call it."""
    return "the PDF given" if isinstance(file, bytes) else Path(file).name


@contextmanager
def opened_pdf(path: PdfFile) -> Generator[pypdfium2.PdfDocument]:
    """A PDF while it is read, as pypdfium2 has it."""
    name = pdf_name(path)
    if find_spec("pypdfium2") is None:
        raise InputError(f"{name} is a PDF; reading it needs pypdfium2, install: pip install pypdfium2")
    pdfium = import_module("pypdfium2")
    if not isinstance(path, bytes) and not os.path.isfile(path):
        raise InputError(f"{path} does not exist; check the path")
    try:
        document = pdfium.PdfDocument(path if isinstance(path, bytes) else os.fspath(path))
    except pdfium.PdfiumError as error:
        what = "is locked by a password" if "assword" in str(error) else "is not a PDF that can be opened"
        raise InputError(f"{name} {what} ({error}); save it again") from error
    try:
        yield document
    finally:
        document.close()


@contextmanager
def readable(number: int, name: str) -> Generator[None]:
    """Refuse in one line what pypdfium2 cannot do with a page."""
    try:
        yield
    except import_module("pypdfium2").PdfiumError as error:
        raise InputError(f"page {number} of {name} cannot be drawn ({error})") from error


def drawn_size(width: float, height: float, dpi: float = DPI) -> tuple[float, tuple[int, int]]:
    """The scale at which a page of these points is drawn, and (height, width) of it in pixels; 0 where it cannot."""
    scale = min(dpi / 72, LARGEST_SIDE / max(width, height, 1e-3))
    if min(width, height) * scale < 1 or width * height * scale**2 > MAX_PIXELS:
        return 0.0, (0, 0)
    return scale, (math.ceil(height * scale), math.ceil(width * scale))


def drawn_pdf_page(pdf: pypdfium2.PdfDocument, number: int, name: str, dpi: float) -> tuple[pypdfium2.PdfPage, Picture]:
    """The page as pypdfium2 has it, to be closed by the caller, and its picture."""
    with readable(number, name):
        page = pdf[number - 1]
        width, height = page.get_size()
        scale, _ = drawn_size(width, height, dpi)
        if not scale:
            raise InputError(f"page {number} of {name} is {width:g} by {height:g} points and cannot be drawn")
        drawn = page.render(scale=scale, rev_byteorder=True, draw_annots=True).to_numpy()
    pixels = np.ascontiguousarray(drawn[..., :3] if drawn.ndim == 3 else np.repeat(drawn[..., None], 3, axis=2))
    rows, cols = pixels.shape[:2]
    return page, Picture(pixels, f"{Path(name).stem}-{number}", rows, cols)


def page_words(page: pypdfium2.PdfPage, source: str) -> Words:
    """The words of a page's text layer: letters between spaces, in the boxes of their characters."""
    raw, size = import_module("pypdfium2.raw"), (float(page.get_height()), float(page.get_width()))
    layer = page.get_textpage()
    try:
        count = max(0, layer.count_chars())
        letters = np.array([raw.FPDFText_GetUnicode(layer, place) for place in range(count)], dtype=np.int64)
        boxes = _char_boxes(raw, layer, count)
    finally:
        layer.close()
    corners = _on_screen(raw, page, boxes, size)
    inked = (letters > 32) & (letters != 0xA0) & (corners[:, 2:] > corners[:, :2]).any(1)
    # A word ends at a space, and where the next character stands apart: pdfium puts no space between columns.
    type_size = np.maximum((corners[:, 2:] - corners[:, :2]).max(1), 1e-6)
    apart = np.zeros(count)
    if count > 1:
        apart[1:] = np.maximum(corners[1:, :2] - corners[:-1, 2:], corners[:-1, :2] - corners[1:, 2:]).max(1)
    jump = apart > WORD_GAP * type_size
    begins = inked & (jump | ~np.r_[False, inked[:-1]]) if count else inked
    word = np.cumsum(begins)[inked] - 1
    number = int(begins.sum())
    if not number:  # a scan
        return make_words([], np.zeros((0, 4)), size=size, source=source)
    lows, highs = np.full((number, 2), np.inf), np.full((number, 2), -np.inf)
    np.minimum.at(lows, word, corners[inked, :2])
    np.maximum.at(highs, word, corners[inked, 2:])
    texts = [""] * number
    for place, letter in zip(word.tolist(), letters[inked].tolist(), strict=True):
        texts[place] += chr(letter) if letter < 0x110000 and not 0xD800 <= letter < 0xE000 else "�"
    return make_words(texts, np.concatenate([lows, highs], 1), size=size, source=source)


def _char_boxes(raw: ModuleType, layer: pypdfium2.PdfTextPage, count: int) -> np.ndarray:
    """(count, 4) left, bottom, right, top in the page's own coordinates: loose boxes, as high as their type."""
    boxes = np.zeros((count, 4))
    held = raw.FS_RECTF()
    for place in range(count):
        if raw.FPDFText_GetLooseCharBox(layer, place, ctypes.byref(held)):
            boxes[place] = held.left, held.bottom, held.right, held.top
    return boxes


def _on_screen(raw: ModuleType, page: pypdfium2.PdfPage, boxes: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Boxes of the page → x0, y0, x1, y1 from the upper left corner as drawn, cropped and rotated as the page is."""
    # The mapping is affine, so three points tell it; a large screen keeps its whole numbers exact enough.
    span = 1 << 20
    points = []
    for x, y in ((0.0, 0.0), (1000.0, 0.0), (0.0, 1000.0)):
        across, down = ctypes.c_int(), ctypes.c_int()
        raw.FPDF_PageToDevice(page, 0, 0, span, span, 0, x, y, ctypes.byref(across), ctypes.byref(down))
        points.append((across.value, down.value))
    origin, right, up = (np.array(point, dtype=np.float64) / span for point in points)
    axes = np.stack([right - origin, up - origin]) / 1000.0
    first, second = boxes[:, :2] @ axes + origin, boxes[:, 2:] @ axes + origin
    corners = np.concatenate([np.minimum(first, second), np.maximum(first, second)], axis=1)
    return corners * (size[1], size[0], size[1], size[0])
