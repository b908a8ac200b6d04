"""`Document`: pages of a PDF, frames of a TIFF, a folder or a list of pictures; each is drawn when it is asked for.

document = Document.of("report.pdf", pages="2-5")
document.pages[0].size            (height, width), without drawing it
document.texts                    plain words of every page, where there is a text layer
document.pages[0].draw(800)       the picture, its longer side at most 800 pixels
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from PIL import Image

from ..core.errors import InputError
from .document_sheets import FrameSheet, PdfSheet, PictureSheet, frames_of, open_once
from .load import Picture, load_picture
from .pdf import PageList, PdfFile, PdfPage, PdfPlace, drawn_size, head_of, opened_pdf, page_numbers, pdf_name, readable
from .regions import can_read_regions, region_size
from .words import Words

# Pages of one document. More are told before any work.
MOST_PAGES = 2000
# Characters of a page that are searched.
MOST_CHARACTERS = 100_000
SUFFIXES = frozenset(
    (
        *(".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif"),
        *(".heic", ".heif", ".pdf"),
    )
)
_TIFF = (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")


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
    def source(self) -> object:
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
    def of(cls, source: object, pages: PageList = None) -> Document:
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
        with open_once() as opened:
            for place, page in enumerate(self.pages):
                found[place] = page.place.text(opened)[:MOST_CHARACTERS]
        return tuple(found[place] for place in range(len(self)))


def document_of(source: object, pages: PageList = None) -> Document | None:
    """A document where the source is one: a list, a folder, a PDF or a TIFF with several pages; None for one picture.

    Of one page only, it has one page: `document.pages[0].source` is the picture.
    """
    if _may_have_pages(source):
        return Document.of(source, pages)
    if pages is not None:
        raise InputError(f"pages={pages!r} are of documents, and this is one picture; leave it out")
    return None


def _may_have_pages(source: object) -> bool:
    if isinstance(source, Document | list) or (
        isinstance(source, tuple) and not isinstance(source, PdfPage | PdfPlace)
    ):
        return True
    head = head_of(source, 1024)
    folder = isinstance(source, str | os.PathLike) and os.path.isdir(source)
    return folder or b"%PDF-" in head or head[:4] in _TIFF


def _counts_pages(source: object) -> bool:
    """Whether `_listed` chose the pages itself: what is counted by a file's own numbers."""
    return not isinstance(source, list | tuple) and not (
        isinstance(source, str | os.PathLike) and os.path.isdir(source)
    )


def _listed(source: object, pages: PageList) -> Document:
    if isinstance(source, list | tuple) and not isinstance(source, PdfPage | PdfPlace):
        return _gathered(source, "the list")
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        return _gathered(files_in(Path(source)), Path(source).name or str(source))
    head = head_of(source, 1024)
    if isinstance(source, str | os.PathLike | bytes) and b"%PDF-" in head:
        return _of_pdf(source, pages)
    if isinstance(source, str | os.PathLike | bytes) and head[:4] in _TIFF:
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


def _gathered(sources: Sequence[object], name: str) -> Document:
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


def _of_pdf(file: PdfFile, pages: PageList) -> Document:
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


def _of_tiff(file: PdfFile, pages: PageList) -> Document:
    file = file if isinstance(file, bytes) else Path(file)
    name = "the TIFF given" if isinstance(file, bytes) else file.name
    sizes: list[tuple[int, int]] = []
    try:
        with frames_of(file) as image:
            while len(sizes) <= MOST_PAGES:
                sizes.append((image.size[1], image.size[0]))
                image.seek(len(sizes))
    except EOFError:
        pass
    except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError, SyntaxError and more
        large = isinstance(error, Image.DecompressionBombError) and not sizes
        if large and isinstance(file, Path) and can_read_regions(file):
            return Document((DocumentPage(1, name, region_size(file), PictureSheet(file)),), name, of_pages=1)
        if not sizes:
            return _listed_picture(file)
        note = f"left out: frames of {name} after {len(sizes)} cannot be read ({' '.join(str(error).split())})"
        return _tiff_pages(file, name, sizes, pages, (note,))
    return _tiff_pages(file, name, sizes, pages, ())


def _listed_picture(file: object) -> Document:
    """Whatever is wrong with it is told where it is read as one picture."""
    picture = load_picture(file)
    return Document((DocumentPage(1, picture.name, picture.size, PictureSheet(file)),), picture.name, of_pages=1)


def _tiff_pages(
    file: bytes | Path, name: str, sizes: Sequence[tuple[int, int]], pages: PageList, notes: tuple[str, ...]
) -> Document:
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
