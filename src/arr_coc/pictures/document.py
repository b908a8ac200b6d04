"""`Document`: pages of a PDF, a folder or a list of pictures; each is drawn when it is asked for (PDFs by pypdfium2).

document = Document.of("report.pdf", pages="2-5")
document.pages[0].size            (height, width), without drawing it
document.texts                    plain words of every page, where there is a text layer
document.pages[0].draw(800)       the picture, its longer side at most 800 pixels
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

# Pages of one document, and of these without words, which must be drawn; more are refused before any work. Characters
# of a page that are searched, and pages that are read at a time.
MOST_PAGES, MOST_DRAWN, MOST_CHARACTERS, AT_ONCE = 10_000, 2000, 100_000, 64
# Names of files that are looked for in folders.
READABLE = re.compile(r".+\.(png|jpe?g|webp|gif|bmp|tiff?|ppm|pgm|jp2|avif|hei[cf]|pdf)", re.IGNORECASE)
# Dots an inch at which pages are drawn: 10-point type is then 20 pixels high, and A4 has 1 190 by 1 684 pixels.
DPI = 144
LARGEST_SIDE = 4096
WORD_GAP = 0.6  # of the type's size
# Where a PDF is: its path, or what stands in it.
PdfFile = str | os.PathLike[str] | bytes
PageList = int | str | Sequence[int] | None  # see `page_numbers`


@dataclass(frozen=True, eq=False)
class DocumentPage:
    """One page. number: from 1, as the file counts them. name: for messages and captions. size: (height, width) in
    pixels at which it is looked at. place: where it is, a `PdfPlace`, or what `load_picture` takes."""

    number: int
    name: str
    size: tuple[int, int]
    place: object

    def draw(self, longest_side: int | None = None) -> Picture:
        """Its picture, at a smaller scale where less is asked for; sizes and boxes stay those of `size`."""
        draw = self.place.draw if isinstance(self.place, PdfPlace) else partial(load_picture, self.place)
        return replace(draw(longest_side=longest_side), name=self.name, height=self.size[0], width=self.size[1])

    # No `cached_property`: in Python 3.11 all objects of a class share its lock, and one that takes long holds up all.
    @property
    def words(self) -> Words | None:
        """Its words with their boxes, where they come with it."""
        if "_words" not in vars(self):
            place = self.place
            vars(self)["_words"] = place.words() if isinstance(place, PdfPlace) else words_beside(place, self.size)
        return vars(self)["_words"] or None


@dataclass(frozen=True, eq=False)
class Document:
    """pages: in order. name: of the file, or how many pictures. notes: what could not be read, one line each. of_pages:
    how many the whole file has."""

    pages: tuple[DocumentPage, ...]
    name: str
    notes: tuple[str, ...] = ()
    of_pages: int = 0

    @classmethod
    def of(cls, source: object, pages: PageList = None) -> Document:
        """A PDF (its path or bytes), a folder, a list of pictures, or one picture.

        Args:
            source: What is read.
            pages: Which of them, such as "2-5,7"; all by default.

        Returns:
            The document, none of its pages drawn.

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
        """Some of its pages."""
        numbers = page_numbers(pages, self.of_pages, self.name)
        by_number = {page.number: page for page in self.pages}
        if absent := set(numbers) - by_number.keys():
            raise InputError(f"page {min(absent)} is not in {self.name} as it was opened; choose another")
        return replace(self, pages=tuple(by_number[number] for number in numbers))

    def __len__(self) -> int:
        return len(self.pages)

    def __iter__(self) -> Iterator[DocumentPage]:
        return iter(self.pages)

    def __repr__(self) -> str:
        return f"Document({self.name}: {len(self)} pages)"

    @property
    def texts(self) -> tuple[str, ...]:
        """What is written on each page, in one piece, for searching; empty where that is not known."""
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
    """A document where the source is one: a list, a folder or a PDF; None for one picture."""
    if isinstance(source, Document | list | tuple) or _is_folder(source) or is_pdf(source):
        return Document.of(source, pages)
    if pages is not None:
        raise InputError(f"pages={pages!r} are of documents, and this is one picture; leave it out")
    return None


def _is_folder(source: object) -> TypeGuard[str | os.PathLike[str]]:
    return isinstance(source, str | os.PathLike) and os.path.isdir(source)


def _listed(source: object) -> Document:
    """All pages of a source."""
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
    """The pictures and PDFs of a folder, by name; hidden ones may be what a killed process left."""
    shown = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    found = sorted(entry for entry in shown if READABLE.fullmatch(entry.name) and entry.is_file())
    if not found:
        raise InputError(f"{folder} is a folder without pictures; give one with PNG, JPEG, WebP or PDF files")
    return found


def _gathered(sources: Sequence[object], name: str) -> Document:
    """Pages of all sources, counted through; what cannot be read is a note, and the others are kept."""
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
    """(height, width) by the header alone, where that tells it; whatever cannot be read raises `InputError`."""
    if isinstance(source, str | os.PathLike) and os.path.isfile(source):
        with suppress(InputError):
            return picture_size(source, os.path.basename(source))
    return load_picture(source, longest_side=LARGEST_SIDE).size


# ---- PDFs ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class PdfPlace:
    """A page that is drawn when it is asked for. number: from 1."""

    path: PdfFile
    number: int

    def draw(self, longest_side: int | None = None) -> Picture:
        """Its picture, drawn at a smaller scale where less is asked for."""
        name = pdf_name(self.path)
        pixels = _draw(self.path, name, self.number, longest_side)
        return Picture(pixels, f"{Path(name).stem}-{self.number}", *pixels.shape[:2])

    def words(self) -> Words:
        """The words of its text layer; none where the page was scanned."""
        return _words(self.path, pdf_name(self.path), self.number)


def load_page(source: object, *, longest_side: int | None = None) -> tuple[Picture, Words | None]:
    """A picture, as `load_picture` takes it, and its words where they come with it or in a file beside it: of a
    `PdfPlace`, or of the path of a PDF its first page, with a note where there are more."""
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
    """Whether a source is a PDF, its path or its bytes, by how it begins."""
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
    """What was asked for (None or "all", 3, "3", "2-5,7", [1, 3]) → numbers from 1, in order, each once."""
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
    """What messages call it."""
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
    """Of pages of one PDF the text; one that breaks the others is left out."""
    file = places[0].path
    try:
        return _texts(file, pdf_name(file), [place.number for place in places])
    except InputError:
        return [""] if len(places) == 1 else [text for place in places for text in _texts_of([place])]


# What PDFium does, each in a process that may be killed.


@apart
def _sizes(file: PdfFile, name: str, pages: PageList) -> tuple[int, dict[int, tuple[float, float]]]:
    """How many pages a PDF has, and of those that are wanted (width, height) in points: 0 where nothing is known."""
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
    """The words of a page's text layer: letters between spaces, in the boxes of their characters."""
    raw = import_module("pypdfium2.raw")
    with opened_pdf(file, name) as document, opened_page(document, name, number) as page:
        size = float(page.get_height()), float(page.get_width())
        with closing(page.get_textpage()) as layer:
            count = layer.count_chars()
            letters = np.array([raw.FPDFText_GetUnicode(layer, place) for place in range(count)], dtype=np.int64)
            boxes = np.array([layer.get_charbox(place, loose=True) for place in range(count)]).reshape(-1, 4)
        corners = _on_screen(raw, page, boxes, size)
    inked = (letters > 32) & (letters != 0xA0) & (corners[:, 2:] > corners[:, :2]).any(1)
    # A word ends at a space, and where the next character stands apart: pdfium puts no space between columns.
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
    """A page as pypdfium2 has it; refuse in one line what that cannot do with it."""
    try:
        with closing(document[number - 1]) as page:
            yield page
    except import_module("pypdfium2").PdfiumError as error:
        raise InputError(f"page {number} of {name} cannot be drawn{_reason(error)}") from error


@contextmanager
def opened_pdf(file: PdfFile, name: str) -> Generator[pypdfium2.PdfDocument]:
    """A PDF while it is read, as pypdfium2 has it; a helper keeps it open for the next request."""
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


# In a helper: what its last PDF was when it was opened, and the PDF.
_open: list[Any] = []


def _reason(error: Exception) -> str:
    """What PDFium says; nothing where it calls its failure a success."""
    return "" if "Success" in str(error) else f" ({str(error).rstrip('.')})"


def drawn_size(width: float, height: float) -> tuple[float, tuple[int, int]]:
    """The scale at which a page of these points is drawn, and (height, width) of it in pixels; 0 where it cannot."""
    scale = min(DPI / 72, LARGEST_SIDE / max(width, height, 1e-3))
    if min(width, height) * scale < 1 or width * height * scale**2 > MAX_PIXELS:
        return 0.0, (0, 0)
    return scale, (math.ceil(height * scale), math.ceil(width * scale))


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
