"""`Document`: pages of a PDF, frames of a TIFF, a folder or a list of pictures; each is drawn when it is asked for.

document = Document.of("report.pdf", pages="2-5")
document.pages[0].size            (height, width), without drawing it
document.texts                    plain words of every page, where there is a text layer
document.pages[0].draw(800)       the picture, its longer side at most 800 pixels
"""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from PIL import ExifTags, Image

from ..core.errors import InputError
from .load import MAX_PIXELS, Picture, load_picture
from .pdf import (
    DPI,
    PdfFile,
    PdfPage,
    PdfPlace,
    drawn_pdf_page,
    drawn_size,
    is_pdf,
    opened_pdf,
    page_numbers,
    page_words,
    pdf_name,
    pdf_pages,
    readable,
)
from .words import Words
from .words_files import as_words, words_beside

# Pages of one document. More are told before any work.
MOST_PAGES = 2000
# Characters of a page that are searched.
MOST_CHARACTERS = 100_000
SUFFIXES = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"),
        *(".heic", ".heif", ".svg", ".pdf"),
    )
)
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")
_ON_ITS_SIDE = (5, 6, 7, 8)  # orientations of EXIF


@dataclass(frozen=True, eq=False)
class DocumentPage:
    """One page. number: from 1, as the file counts them. name: for messages and captions. size: (height, width) in
    pixels at which it is looked at. place: where it is."""

    number: int
    name: str
    size: tuple[int, int]
    place: PdfSheet | FrameSheet | PictureSheet

    def draw(self, longest_side: int | None = None) -> Picture:
        """Its picture, at a smaller scale where less is asked for; sizes and boxes stay those of `size`."""
        picture = self.place.draw(self.size, longest_side)
        return replace(picture, name=self.name, height=self.size[0], width=self.size[1])

    @cached_property
    def words(self) -> Words | None:
        """Its words with their boxes, where they come with it."""
        found = self.place.words(self.size)
        return found if found is not None and len(found) else None

    @property
    def source(self) -> Any:
        """This page alone, as `look` and `ask` take a picture."""
        return self.place.source(self.number)


@dataclass(frozen=True, eq=False)
class Document:
    """pages: in order. name: of the file, or how many pictures. notes: what could not be read, one line each. of_pages:
    how many the whole file has."""

    pages: tuple[DocumentPage, ...]
    name: str
    notes: tuple[str, ...] = ()
    of_pages: int = 0

    @classmethod
    def of(cls, source: Any, pages: int | str | Sequence[int] | None = None) -> Document:
        """A PDF (its path or bytes), a TIFF, a folder, a list of pictures, or one picture.

        Args:
            source: What is read.
            pages: Which of them, such as "2-5,7"; all by default.

        Returns:
            The document, none of its pages drawn.

        Example:
            >>> Document.of("report.pdf", "2-5")  # doctest: +SKIP
        """
        if isinstance(source, Document):
            return source if pages is None else source.chosen(pages)
        found = _listed(source, "all" if pages is None else pages)
        if pages is not None and not _counts_pages(source):
            found = found.chosen(pages)
        if not found.pages:
            raise InputError(f"{found.name} has no page that can be read; {' '.join(found.notes[:1]) or 'check it'}")
        return found

    def chosen(self, pages: int | str | Sequence[int]) -> Document:
        """Some of its pages."""
        numbers = page_numbers(pages, max(page.number for page in self.pages), self.name)
        by_number = {page.number: page for page in self.pages}
        absent = next((number for number in numbers if number not in by_number), None)
        if absent is not None:
            raise InputError(f"page {absent} is not in {self.name} as it was opened; choose another")
        return replace(self, pages=tuple(by_number[number] for number in numbers))

    def __len__(self) -> int:
        return len(self.pages)

    def __iter__(self) -> Iterator[DocumentPage]:
        return iter(self.pages)

    def __repr__(self) -> str:
        return f"Document({self.name}: {len(self)} pages)"

    @cached_property
    def texts(self) -> tuple[str, ...]:
        """What is written on each page, in one piece, for searching; empty where that is not known."""
        found = {}
        with _pdfs() as opened:
            for place, page in enumerate(self.pages):
                found[place] = page.place.text(opened)[:MOST_CHARACTERS]
        return tuple(found[place] for place in range(len(self)))


def document_of(source: Any, pages: int | str | Sequence[int] | None = None) -> Document | None:
    """A document where the source is one: a list, a folder, a PDF or a TIFF with several pages; None for one picture.

    Of one page only, it has one page: `document.pages[0].source` is the picture.
    """
    if _may_have_pages(source):
        return Document.of(source, pages)
    if pages is not None:
        raise InputError(f"pages={pages!r} are of documents, and this is one picture; leave it out")
    return None


def _may_have_pages(source: Any) -> bool:
    if isinstance(source, Document | list) or (
        isinstance(source, tuple) and not isinstance(source, PdfPage | PdfPlace)
    ):
        return True
    if isinstance(source, bytes):
        return b"%PDF-" in source[:1024] or source[:4] in _TIFF
    if not isinstance(source, str | os.PathLike) or not os.fspath(source) or "\0" in os.fspath(source):
        return False
    return os.path.isdir(source) or is_pdf(source) or _is_tiff(source)


def _counts_pages(source: Any) -> bool:
    """Whether `_listed` chose the pages itself: what is counted by a file's own numbers."""
    return not isinstance(source, list | tuple) and not (
        isinstance(source, str | os.PathLike) and os.path.isdir(source)
    )


def _listed(source: Any, pages: Any) -> Document:
    if isinstance(source, list | tuple) and not isinstance(source, PdfPage | PdfPlace):
        return _gathered(source, "the list")
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        return _gathered(files_in(Path(source)), Path(source).name or str(source))
    if is_pdf(source) or (isinstance(source, bytes) and b"%PDF-" in source[:1024]):
        return _of_pdf(bytes(source) if isinstance(source, bytes) else source, pages)
    if (isinstance(source, bytes) and source[:4] in _TIFF) or _is_tiff(source):
        return _of_tiff(source, pages)
    sheet = PictureSheet(source)
    page = DocumentPage(1, sheet.name, sheet.size(), sheet)
    return Document((page,), sheet.name, of_pages=1)


def files_in(folder: Path) -> list[Path]:
    """The pictures and PDFs of a folder, by name; hidden ones may be what a killed process left."""
    shown = (entry for entry in folder.iterdir() if not entry.name.startswith("."))
    found = sorted(entry for entry in shown if entry.suffix.lower() in SUFFIXES and entry.is_file())
    if not found:
        raise InputError(f"{folder} is a folder without pictures; give one with PNG, JPEG, WebP or PDF files")
    return found


def _gathered(sources: Sequence[Any], name: str) -> Document:
    """Pages of all sources, counted through; what cannot be read is a note, and the others are kept."""
    if not sources:
        raise InputError("no picture was given; give at least one")
    _check_number(len(sources), name)
    pages: list[DocumentPage] = []
    notes: list[str] = []
    for source in sources:
        try:
            found = source if isinstance(source, Document) else _listed(source, "all")
        except InputError as error:
            notes.append(f"left out: {error}")
            continue
        notes += found.notes
        pages += found.pages
        _check_number(len(pages), name)
    if not pages:
        raise InputError(f"none of {name} can be read; {notes[0].removeprefix('left out: ')}")
    counted = tuple(replace(page, number=number) for number, page in enumerate(pages, 1))
    name = f"{len(counted)} pictures" if name == "the list" else name
    return Document(counted, name, tuple(dict.fromkeys(notes)), len(counted))


def _check_number(number: int, name: str) -> None:
    if number > MOST_PAGES:
        raise InputError(f"{name} has {number} pages, more than {MOST_PAGES}; choose some, such as pages='1-200'")


# ---- kinds of pages --------------------------------------------------------------------------------------------------


def _of_pdf(file: PdfFile, pages: Any) -> Document:
    name = pdf_name(file)
    with opened_pdf(file) as opened:
        if not len(opened):
            raise InputError(f"{name} is a PDF without pages; save it again")
        numbers = page_numbers(pages, len(opened), name)
        _check_number(len(numbers), name)
        found, notes = [], []
        for number in numbers:
            try:
                with readable(number, name):
                    width, height = opened.get_page_size(number - 1)
            except InputError as error:
                notes.append(f"left out: {error}")
                continue
            size = drawn_size(width, height)[1]
            if not size[0]:
                notes.append(f"left out: page {number} of {name} is {width:g} by {height:g} points, cannot be drawn")
                continue
            found.append(DocumentPage(number, f"{Path(name).stem}-{number}", size, PdfSheet(file, number)))
        return Document(tuple(found), name, tuple(notes), len(opened))


@dataclass(frozen=True, eq=False)
class PdfSheet:
    """A page of a PDF."""

    file: PdfFile
    number: int

    def draw(self, size: tuple[int, int], longest_side: int | None) -> Picture:
        scale = 1.0 if longest_side is None else min(1.0, longest_side / max(size))
        with opened_pdf(self.file) as opened:
            # Of a page so large that it is drawn below the usual scale, `drawn_size` says at how many dots an inch.
            width, height = opened.get_page_size(self.number - 1)
            page, picture = drawn_pdf_page(
                opened, self.number, pdf_name(self.file), 72 * drawn_size(width, height)[0] * scale
            )
            page.close()
        return picture

    def words(self, size: tuple[int, int]) -> Words:
        name = pdf_name(self.file)
        with opened_pdf(self.file) as opened, readable(self.number, name):
            page = opened[self.number - 1]
            extent = (float(page.get_height()), float(page.get_width()))
            found = page_words(page, extent, f"the text layer of {name}, page {self.number}")
            page.close()
        return found

    def text(self, opened: Callable[[PdfFile], Any]) -> str:
        with suppress(InputError), readable(self.number, pdf_name(self.file)):
            page = opened(self.file)[self.number - 1]
            layer = page.get_textpage()
            found = layer.get_text_range()
            layer.close()
            page.close()
            return found
        return ""

    def source(self, number: int) -> Any:
        if isinstance(self.file, bytes):
            return next(pdf_pages(self.file, self.number, dpi=DPI))
        return PdfPlace(Path(self.file), self.number)


@contextmanager
def _pdfs() -> Generator[Callable[[PdfFile], Any]]:
    """A function that opens each PDF once; they are closed at the end."""
    held: dict[Any, tuple[Any, Any]] = {}

    def opened(file: PdfFile) -> Any:
        key = id(file) if isinstance(file, bytes) else os.fspath(file)
        if key not in held:
            manager = opened_pdf(file)
            held[key] = (manager, manager.__enter__())
        return held[key][1]

    try:
        yield opened
    finally:
        for manager, _ in held.values():
            manager.__exit__(None, None, None)


def _of_tiff(file: Any, pages: Any) -> Document:
    name = "the TIFF given" if isinstance(file, bytes) else Path(file).name
    sizes: list[tuple[int, int]] = []
    try:
        with _frames(file) as image:
            while len(sizes) <= MOST_PAGES:
                sizes.append((image.size[1], image.size[0]))
                image.seek(len(sizes))
    except EOFError:
        pass
    except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError, SyntaxError and more
        if not sizes:
            return _listed_picture(file)
        note = f"left out: frames of {name} after {len(sizes)} cannot be read ({' '.join(str(error).split())})"
        return _tiff_pages(file, name, sizes, pages, (note,))
    return _tiff_pages(file, name, sizes, pages, ())


def _listed_picture(file: Any) -> Document:
    """Whatever is wrong with it is told where it is read as one picture."""
    picture = load_picture(file)
    return Document((DocumentPage(1, picture.name, picture.size, PictureSheet(file)),), picture.name, of_pages=1)


def _tiff_pages(file: Any, name: str, sizes: Sequence[tuple[int, int]], pages: Any, notes: tuple[str, ...]) -> Document:
    if len(sizes) == 1:
        sheet = PictureSheet(file)
        page_numbers(pages, 1, name)
        return Document((DocumentPage(1, sheet.name, sheet.size(), sheet),), name, of_pages=1)
    numbers = page_numbers(pages, len(sizes), name)
    _check_number(len(numbers), name)
    found = [
        DocumentPage(number, f"{Path(name).stem}-{number}", sizes[number - 1], FrameSheet(file, number))
        for number in numbers
    ]
    return Document(tuple(found), name, notes, len(sizes))


@contextmanager
def _frames(file: Any) -> Generator[Image.Image]:
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        yield image


@dataclass(frozen=True, eq=False)
class FrameSheet:
    """A frame of a TIFF."""

    file: Any
    number: int

    def draw(self, size: tuple[int, int], longest_side: int | None) -> Picture:
        try:
            with _frames(self.file) as image:
                image.seek(self.number - 1)
                picture = load_picture(image, longest_side=longest_side)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"page {self.number} cannot be drawn ({' '.join(str(error).split())})") from error
        return replace(picture, notes=tuple(note for note in picture.notes if not note.startswith("frame ")))

    def words(self, size: tuple[int, int]) -> Words | None:
        return None

    def text(self, opened: Callable[[PdfFile], Any]) -> str:
        return ""

    def source(self, number: int) -> Any:
        return replace(self.draw((0, 0), None), name=f"page {self.number}")


def _is_tiff(source: Any) -> bool:
    if not isinstance(source, str | os.PathLike):
        return False
    try:
        with open(source, "rb") as file:
            return file.read(4) in _TIFF
    except (OSError, ValueError):
        return False


@dataclass(frozen=True, eq=False)
class PictureSheet:
    """Anything that `load_picture` takes, and a page of a PDF that was drawn already."""

    given: Any

    @property
    def name(self) -> str:
        if isinstance(self.given, str | os.PathLike):
            return Path(self.given).name
        return str(getattr(self.given, "name", "") or "picture") if isinstance(self.given, Picture) else "picture"

    def size(self) -> tuple[int, int]:
        """(height, width) by the header alone, where that tells it; whatever cannot be read raises `InputError`."""
        if isinstance(self.given, PdfPage):
            return self.given.picture.size
        if isinstance(self.given, Picture):
            return self.given.size
        if isinstance(self.given, str | os.PathLike) and os.path.isfile(self.given):
            with suppress(Exception), Image.open(self.given) as image:
                sideways = image.getexif().get(ExifTags.Base.Orientation, 1) in _ON_ITS_SIDE
                width, height = image.size
                if width * height <= MAX_PIXELS:
                    return (width, height) if sideways else (height, width)
        if isinstance(self.given, np.ndarray) and self.given.dtype == np.uint8 and self.given.shape[2:] == (3,):
            return (self.given.shape[0], self.given.shape[1])
        return load_picture(self.source(1)).size

    def draw(self, size: tuple[int, int], longest_side: int | None) -> Picture:
        given = self.given.picture if isinstance(self.given, PdfPage) else self.given
        return load_picture(given, longest_side=longest_side)

    def words(self, size: tuple[int, int]) -> Words | None:
        if isinstance(self.given, PdfPage):
            return self.given.words
        beside = words_beside(self.given)
        return None if beside is None else as_words(beside, size)

    def text(self, opened: Callable[[PdfFile], Any]) -> str:
        with suppress(InputError):
            found = self.words((1, 1)) if words_beside(self.given) is None else self.words(self.size())
            return " ".join(found.texts) if found is not None else ""
        return ""

    def source(self, number: int) -> Any:
        return self.given
