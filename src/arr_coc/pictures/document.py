"""`Document`: pages of a PDF, a folder or a list of pictures, each drawn when it is needed (PDFs by pypdfium2).

document = Document.of("report.pdf", pages="2-5")
document.pages[0].size            (height, width), without drawing it
document.texts                    plain text of every page with a text layer
document.pages[0].draw(800)       its picture, with the longer side at most 800 pixels
"""

from __future__ import annotations

import ctypes
import math
import os
import re
from collections.abc import Generator, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from itertools import groupby
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

from ..core.errors import InputError
from . import opening
from .load import MAX_PIXELS, Picture, load_picture, picture_size
from .opening import apart
from .words import Words, make_words, words_beside

if TYPE_CHECKING:
    import pypdfium2

# Maximum number of pages of a document, and of those without words, which must be drawn; more are refused before any
# work. Characters of a page to search, and pages to read at a time.
MOST_PAGES, MOST_DRAWN, MOST_CHARACTERS, AT_ONCE = 10_000, 2000, 100_000, 64
# Names of files to open in folders.
READABLE = re.compile(r".+\.(png|jpe?g|webp|gif|bmp|tiff?|ppm|pgm|jp2|avif|hei[cf]|pdf)", re.IGNORECASE)
# Resolution of drawn pages in dots an inch: 10-point type is 20 pixels high, and A4 has 1 190 by 1 684 pixels.
DPI = 144
LARGEST_SIDE = 4096
WORD_GAP = 0.6  # gap between words, as a share of the type size
# A PDF: its path or its bytes.
PdfFile = str | os.PathLike[str] | bytes
PageList = int | str | Sequence[int] | None  # see `page_numbers`


@dataclass(frozen=True, eq=False)
class DocumentPage:
    """One page. number: from 1, as in the file. name: for messages and captions. size: (height, width) in pixels when
    drawn in full. place: a `PdfPlace`, or a source that `load_picture` accepts."""

    number: int
    name: str
    size: tuple[int, int]
    place: object

    def draw(self, longest_side: int | None = None) -> Picture:
        """Draw the page, reduced to `longest_side` if given; sizes and boxes stay those of `size`."""
        draw = self.place.draw if isinstance(self.place, PdfPlace) else partial(load_picture, self.place)
        return replace(draw(longest_side=longest_side), name=self.name, height=self.size[0], width=self.size[1])

    # Not a `cached_property`: in Python 3.11 all objects of a class share its lock, so a slow page would block others.
    @property
    def words(self) -> Words | None:
        """Words of the page with their boxes; None if it brings none."""
        if "_words" not in vars(self):
            place = self.place
            vars(self)["_words"] = place.words() if isinstance(place, PdfPlace) else words_beside(place, self.size)
        return vars(self)["_words"] or None


@dataclass(frozen=True, eq=False)
class Document:
    """A document. pages: in order. name: of the file, or the number of pictures. notes: one line for each page that
    could not be read. of_pages: number of pages of the whole file."""

    pages: tuple[DocumentPage, ...]
    name: str
    notes: tuple[str, ...] = ()
    of_pages: int = 0

    @classmethod
    def of(cls, source: object, pages: PageList = None) -> Document:
        """Open a PDF (its path or bytes), a folder, a list of pictures, or one picture.

        Args:
            source: The file, folder, list or picture.
            pages: The pages to use, such as "2-5,7"; all by default.

        Returns:
            The document; no page is drawn yet.

        Example:
            >>> Document.of("report.pdf", "2-5")  # doctest: +SKIP
        """
        if is_pdf(source):
            found = _of_pdf(source, pages)
        else:
            found = _listed(source)
            found = found if pages is None else found.chosen(pages)
        if not found.pages:
            raise InputError(
                f"{found.name} has no page that can be read; {' '.join(found.notes[:1]) or 'give a picture or a PDF'}"
            )
        if len(found) > MOST_DRAWN and (blank := sum(not text.strip() for text in found.texts)) > MOST_DRAWN:
            raise InputError(f"{found.name} has {blank} pages without words, more than {MOST_DRAWN}; choose some")
        return found

    def chosen(self, pages: int | str | Sequence[int]) -> Document:
        """Return a document of some of the pages."""
        numbers = page_numbers(pages, self.of_pages, self.name)
        by_number = {page.number: page for page in self.pages}
        if absent := set(numbers) - by_number.keys():
            raise InputError(f"page {min(absent)} is not among the opened pages of {self.name}; choose another")
        return replace(self, pages=tuple(by_number[number] for number in numbers))

    def __len__(self) -> int:
        return len(self.pages)

    def __iter__(self) -> Iterator[DocumentPage]:
        return iter(self.pages)

    def __repr__(self) -> str:
        return f"Document({self.name}: {len(self)} pages)"

    @property
    def texts(self) -> tuple[str, ...]:
        """Text of each page, for searching; "" if it is not known."""
        if "_texts" not in vars(self):
            vars(self)["_texts"] = self._read_texts()
        return vars(self)["_texts"]

    def _read_texts(self) -> tuple[str, ...]:
        texts: list[str] = []
        for _, several in groupby(self.pages, lambda page: getattr(page.place, "path", None)):
            pages = list(several)
            places = [page.place for page in pages if isinstance(page.place, PdfPlace)]
            if not places:
                texts += [" ".join(page.words.texts) if page.words is not None else "" for page in pages]
            for first in range(0, len(places), AT_ONCE):
                texts += _texts_of(places[first : first + AT_ONCE])
        return tuple(text[:MOST_CHARACTERS] for text in texts)


def document_of(source: object, pages: PageList = None) -> Document | None:
    """Open a list, a folder or a PDF as a document; return None for one picture."""
    if isinstance(source, Document | list | tuple) or _is_folder(source) or is_pdf(source):
        return Document.of(source, pages)
    if pages is not None:
        raise InputError(f"pages={pages!r} applies to documents, and this is one picture; leave it out")
    return None


def _is_folder(source: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)


def _listed(source: object) -> Document:
    """Open all pages of a source."""
    if isinstance(source, Document):
        return source
    if isinstance(source, list | tuple):
        return _gathered(source, "the list")
    if _is_folder(source):
        return _gathered(files_in(Path(source)), Path(source).name or str(source))
    if is_pdf(source):
        return _of_pdf(source, None)
    name = Path(source).name if isinstance(source, str | os.PathLike) else "picture"
    name = source.name if isinstance(source, Picture) else name
    return Document((DocumentPage(1, name, _size_of(source), source),), name, of_pages=1)


def files_in(folder: Path) -> list[Path]:
    """List the pictures and PDFs of a folder by name, without hidden files, which a killed process may have left."""
    shown = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    found = sorted(entry for entry in shown if READABLE.fullmatch(entry.name) and entry.is_file())
    if not found:
        raise InputError(f"{folder} is a folder without pictures; give one with PNG, JPEG, WebP or PDF files")
    return found


def _gathered(sources: Sequence[object], name: str) -> Document:
    """Join the pages of all sources, numbered consecutively; a source that cannot be read becomes a note."""
    _check_number(len(sources), name)
    pages: list[DocumentPage] = []
    notes: list[str] = []
    for source in sources:
        try:
            found = _listed(source)
        except InputError as error:
            notes.append(f"left out: {error}")
            continue
        notes += found.notes
        pages += found.pages
        _check_number(len(pages), name)
    counted = tuple(replace(page, number=number) for number, page in enumerate(pages, 1))
    name = f"{len(counted)} pictures" if name == "the list" and counted else name
    return Document(counted, name, tuple(dict.fromkeys(notes)), len(counted))


def _check_number(number: int, name: str) -> None:
    if number > MOST_PAGES:
        raise InputError(f"{name} has {number} pages, more than {MOST_PAGES}; choose some, such as pages='1-200'")


def _size_of(source: object) -> tuple[int, int]:
    """Return (height, width), from the header alone if possible; raise `InputError` if it cannot be read."""
    if isinstance(source, str | os.PathLike) and os.path.isfile(source):
        with suppress(InputError):
            return picture_size(source, os.path.basename(source))
    return load_picture(source, longest_side=LARGEST_SIDE).size


# ---- PDFs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PdfPlace:
    """A page of a PDF, drawn when needed. number: from 1."""

    path: PdfFile
    number: int

    def draw(self, longest_side: int | None = None) -> Picture:
        """Draw the page, reduced to `longest_side` if given."""
        name = pdf_name(self.path)
        pixels = _draw(self.path, name, self.number, longest_side)
        return Picture(pixels, f"{Path(name).stem}-{self.number}", *pixels.shape[:2])

    def words(self) -> Words:
        """Read the words of its text layer; scanned pages have none."""
        return _words(self.path, pdf_name(self.path), self.number)


def load_page(source: object, *, longest_side: int | None = None) -> tuple[Picture, Words | None]:
    """Load a picture, as `load_picture` does, and its words from its text layer or a file beside it. Of a PDF, load the
    page of a `PdfPlace`, or the first page of a path, with a note if there are more."""
    notes: tuple[str, ...] = ()
    if is_pdf(source):
        document = Document.of(source, 1)
        count, source = document.of_pages, document.pages[0].place
        notes = (f"page 1 of {count}: the others are not looked at here",) if count > 1 else ()
    if not isinstance(source, PdfPlace):
        picture = load_picture(source, longest_side=longest_side)
        return picture, words_beside(source, picture.size)
    picture, words = load_picture(source.draw(), longest_side=longest_side), source.words()
    return replace(picture, notes=notes), words or None


def is_pdf(source: object) -> bool:
    """Return whether a path or bytes are a PDF, by their first bytes."""
    if isinstance(source, bytes):
        return b"%PDF-" in source[:1024]
    if not isinstance(source, str | os.PathLike):
        return False
    try:
        with open(source, "rb") as file:
            return b"%PDF-" in file.read(1024)
    except (OSError, ValueError):
        return False


def page_numbers(pages: PageList, count: int, name: str) -> list[int]:
    """Parse pages (None or "all", 3, "3", "2-5,7", [1, 3]) into numbers from 1, each once, in the order given."""
    if pages is None or (isinstance(pages, str) and pages.strip().lower() == "all"):
        return list(range(1, count + 1))
    found: list[int] = []
    for part in pages.split(",") if isinstance(pages, str) else pages if isinstance(pages, Sequence) else [pages]:
        span = re.fullmatch(r"\s*(\d{1,9})\s*(?:-\s*(\d{1,9})\s*)?", str(part))
        first, last = (int(span[1]), int(span[2] or span[1])) if span else (0, 0)
        if not 1 <= first <= last <= count:
            whole = f"1 to {count}" if count > 1 else "1"
            raise InputError(f"page {str(part).strip()} is not in {name}; it has page {whole}")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def pdf_name(file: PdfFile) -> str:
    """Return the name of a PDF for messages."""
    return "the PDF given" if isinstance(file, bytes) else Path(file).name


def _of_pdf(file: Any, pages: PageList) -> Document:
    name, found, notes = pdf_name(file), [], []
    count, sizes = _sizes(file, name, pages)
    for number, (width, height) in sizes.items():
        size = drawn_size(width, height)[1]
        if size[0]:
            found.append(DocumentPage(number, f"{Path(name).stem}-{number}", size, PdfPlace(file, number)))
        else:
            notes.append(f"left out: page {number} of {name} cannot be drawn at {width:g} by {height:g} points")
    return Document(tuple(found), name, tuple(notes), count)


def _texts_of(places: Sequence[PdfPlace]) -> list[str]:
    """Read the text of pages of one PDF; if that fails, read them one by one, and leave out those that fail."""
    file = places[0].path
    try:
        return _texts(file, pdf_name(file), [place.number for place in places])
    except InputError:
        return [""] if len(places) == 1 else [text for place in places for text in _texts_of([place])]


# Work of PDFium, in a helper process that can be killed.


@apart
def _sizes(file: PdfFile, name: str, pages: PageList) -> tuple[int, dict[int, tuple[float, float]]]:
    """Return the number of pages of a PDF, and (width, height) in points of the chosen ones; 0 if unknown."""
    with opened_pdf(file, name) as opened:
        numbers = page_numbers(pages, len(opened), name)
        _check_number(len(numbers), name)
        sizes = dict.fromkeys(numbers, (0.0, 0.0))
        for number in numbers:
            with suppress(import_module("pypdfium2").PdfiumError):
                sizes[number] = opened.get_page_size(number - 1)
        return len(opened), sizes


@apart
def _draw(file: PdfFile, name: str, number: int, longest_side: int | None) -> np.ndarray:
    with opened_pdf(file, name) as document, opened_page(document, name, number) as page:
        width, height = page.get_size()
        scale, size = drawn_size(width, height)
        scale *= 1.0 if longest_side is None else min(1.0, longest_side / max(size))
        return np.ascontiguousarray(page.render(scale=scale, rev_byteorder=True).to_numpy())


@apart
def _words(file: PdfFile, name: str, number: int) -> Words:
    """Read the words of a page's text layer: letters between spaces, with boxes around their characters."""
    raw = import_module("pypdfium2.raw")
    with opened_pdf(file, name) as document, opened_page(document, name, number) as page:
        size = float(page.get_height()), float(page.get_width())
        with closing(page.get_textpage()) as layer:
            count = layer.count_chars()
            letters = np.array([raw.FPDFText_GetUnicode(layer, place) for place in range(count)], dtype=np.int64)
            boxes = np.array([layer.get_charbox(place, loose=True) for place in range(count)]).reshape(-1, 4)
        corners = _on_screen(raw, page, boxes, size)
    inked = (letters > 32) & (letters != 0xA0) & (corners[:, 2:] > corners[:, :2]).any(1)
    # A word ends at a space or a wide gap, because pdfium puts no space between columns.
    type_size = np.maximum((corners[:, 2:] - corners[:, :2]).max(1), 1e-6)
    apart = np.zeros(count)
    apart[1:] = np.maximum(corners[1:, :2] - corners[:-1, 2:], corners[:-1, :2] - corners[1:, 2:]).max(1)
    begins = inked & ((apart > WORD_GAP * type_size) | ~np.r_[False, inked[:-1]])
    word, total = np.cumsum(begins)[inked] - 1, int(begins.sum())
    lows, highs = np.full((total, 2), np.inf), np.full((total, 2), -np.inf)
    np.minimum.at(lows, word, corners[inked, :2])
    np.maximum.at(highs, word, corners[inked, 2:])
    texts = [""] * total
    for place, letter in zip(word.tolist(), letters[inked].tolist(), strict=True):
        texts[place] += chr(letter) if letter < 0x110000 and not 0xD800 <= letter < 0xE000 else "�"
    source = f"the text layer of {name}, page {number}"
    return make_words(texts, np.concatenate([lows, highs], 1), size=size, source=source)


@apart
def _texts(file: PdfFile, name: str, numbers: list[int]) -> list[str]:
    texts = []
    with opened_pdf(file, name) as document:
        for number in numbers:
            with opened_page(document, name, number) as page, closing(page.get_textpage()) as layer:
                texts.append(layer.get_text_range()[:MOST_CHARACTERS])
    return texts


@contextmanager
def opened_page(document: pypdfium2.PdfDocument, name: str, number: int) -> Generator[pypdfium2.PdfPage]:
    """Open a page with pypdfium2; its errors become one line."""
    try:
        with closing(document[number - 1]) as page:
            yield page
    except import_module("pypdfium2").PdfiumError as error:
        raise InputError(f"page {number} of {name} cannot be drawn{_reason(error)}") from error


@contextmanager
def opened_pdf(file: PdfFile, name: str) -> Generator[pypdfium2.PdfDocument]:
    """Open a PDF with pypdfium2; a helper process keeps it open for the next request."""
    pdfium = import_module("pypdfium2")
    if not isinstance(file, bytes) and not os.path.isfile(file):
        raise InputError(f"{file} does not exist; check the path")
    state = file if isinstance(file, bytes) else (os.fspath(file), os.stat(file).st_mtime_ns, os.path.getsize(file))
    if _open and _open[0] != state:
        _open.pop().close()
        _open.clear()
    try:
        document = _open[1] if _open else pdfium.PdfDocument(file if isinstance(file, bytes) else os.fspath(file))
    except pdfium.PdfiumError as error:
        what = "is locked by a password" if "assword" in str(error) else "is not a PDF that can be opened"
        raise InputError(f"{name} {what}{_reason(error)}; save it again") from error
    if opening.is_helper:
        _open[:] = [state, document]
        yield document
    else:
        with closing(document):
            yield document


# In a helper process: the identity of its last PDF when it was opened, and the PDF.
_open: list[Any] = []


def _reason(error: Exception) -> str:
    """Return the reason that PDFium gives; "" if it only says "Success"."""
    return "" if "Success" in str(error) else f" ({str(error).rstrip('.')})"


def drawn_size(width: float, height: float) -> tuple[float, tuple[int, int]]:
    """Return the scale to draw a page of these points at, and its (height, width) in pixels; zeros if impossible."""
    scale = min(DPI / 72, LARGEST_SIDE / max(width, height, 1e-3))
    if min(width, height) * scale < 1 or width * height * scale**2 > MAX_PIXELS:
        return 0.0, (0, 0)
    return scale, (math.ceil(height * scale), math.ceil(width * scale))


def _on_screen(raw: ModuleType, page: pypdfium2.PdfPage, boxes: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Map boxes of the page to x0, y0, x1, y1 from the upper left corner as drawn, cropped and rotated as the page."""
    # The mapping is affine, so three points determine it; on a large screen, rounding to integers is exact enough.
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
