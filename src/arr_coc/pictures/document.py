"""`Document`: pages of a PDF, frames of a TIFF, a folder or a list of pictures; each is drawn when it is asked for.

document = Document.of("report.pdf", pages="2-5")
document.pages[0].size            (height, width), without drawing it
document.texts                    plain words of every page, where there is a text layer
document.pages[0].draw(800)       the picture, its longer side at most 800 pixels
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from PIL import ExifTags, Image

from ..core.errors import InputError
from .load import MAX_PIXELS, Picture, can_read_regions, load_picture, region_size
from .pdf import PageList, PdfFile, PdfPage, PdfPlace, drawn_size, head_of, opened_pdf, page_numbers, pdf_name, readable
from .words import Words, as_words, words_beside

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

# Pages of one document; more are refused before any work.
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
_ON_ITS_SIDE = (5, 6, 7, 8)  # orientations of EXIF


class TiffFrame(NamedTuple):
    """A frame of a TIFF that is read when it is asked for. number: from 1."""

    file: bytes | Path
    number: int

    def draw(self, longest_side: int | None = None) -> Picture:
        try:
            with Image.open(io.BytesIO(self.file) if isinstance(self.file, bytes) else self.file) as image:
                image.seek(self.number - 1)
                picture = load_picture(image, longest_side=longest_side)
        except InputError:
            raise
        except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError and more
            raise InputError(f"page {self.number} cannot be drawn ({' '.join(str(error).split())})") from error
        notes = tuple(note for note in picture.notes if not note.startswith("frame "))
        return replace(picture, name=f"page {self.number}", notes=notes)


@dataclass(frozen=True, eq=False)
class DocumentPage:
    """One page. number: from 1, as the file counts them. name: for messages and captions. size: (height, width) in
    pixels at which it is looked at. place: where it is, a `PdfPlace`, a `TiffFrame`, or what `load_picture` takes."""

    number: int
    name: str
    size: tuple[int, int]
    place: object

    def draw(self, longest_side: int | None = None) -> Picture:
        """Its picture, at a smaller scale where less is asked for; sizes and boxes stay those of `size`."""
        if isinstance(self.place, PdfPlace | TiffFrame):
            picture = self.place.draw(longest_side)
        else:
            picture = load_picture(self.place, longest_side=longest_side)
        return replace(picture, name=self.name, height=self.size[0], width=self.size[1])

    @cached_property
    def words(self) -> Words | None:
        """Its words with their boxes, where they come with it."""
        if isinstance(self.place, PdfPlace):
            found = self.place.words()
        else:
            beside = words_beside(self.place)
            found = None if beside is None else as_words(beside, self.size)
        return found if found is not None and len(found) else None

    @property
    def source(self) -> object:
        """This page alone, as `look` and `ask` take a picture."""
        return self.place.draw() if isinstance(self.place, TiffFrame) else self.place


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
        if pages is not None and _is_gathered(source):
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
        opened: dict[object, PdfDocument] = {}
        with ExitStack() as stack:  # each PDF is opened once
            for page in self.pages:
                if isinstance(page.place, PdfPlace) and _key(page.place.path) not in opened:
                    opened[_key(page.place.path)] = stack.enter_context(opened_pdf(page.place.path))
            return tuple(_text(page, opened)[:MOST_CHARACTERS] for page in self.pages)


def _key(file: PdfFile) -> object:
    return id(file) if isinstance(file, bytes) else os.fspath(file)


def _text(page: DocumentPage, opened: dict[object, PdfDocument]) -> str:
    if not isinstance(page.place, PdfPlace):
        with suppress(InputError):
            return " ".join(page.words.texts) if page.words is not None else ""
        return ""
    with suppress(InputError), readable(page.place.number, pdf_name(page.place.path)):
        sheet = opened[_key(page.place.path)][page.place.number - 1]
        layer = sheet.get_textpage()
        text = layer.get_text_range()
        layer.close()
        sheet.close()
        return text
    return ""


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
    head = head_of(source, 1024)
    return isinstance(source, Document) or _is_gathered(source) or b"%PDF-" in head or head[:4] in _TIFF


def _is_gathered(source: object) -> bool:
    """Whether a source is a list or a folder, whose pages are counted through."""
    several = isinstance(source, list | tuple) and not isinstance(source, PdfPlace | PdfPage)
    return several or (isinstance(source, str | os.PathLike) and os.path.isdir(source))


def _listed(source: object, pages: PageList) -> Document:
    if isinstance(source, list | tuple) and not isinstance(source, PdfPlace | PdfPage):
        return _gathered(source, "the list")
    if isinstance(source, str | os.PathLike) and os.path.isdir(source):
        return _gathered(files_in(Path(source)), Path(source).name or str(source))
    head = head_of(source, 1024)
    if isinstance(source, str | os.PathLike | bytes) and b"%PDF-" in head:
        return _of_pdf(source, pages)
    if isinstance(source, str | os.PathLike | bytes) and head[:4] in _TIFF:
        return _of_tiff(source, pages)
    return _one_page(source)


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
            found.append(DocumentPage(number, f"{Path(name).stem}-{number}", size, PdfPlace(file, number)))
        return Document(tuple(found), name, tuple(notes), len(opened))


def _of_tiff(file: PdfFile, pages: PageList) -> Document:
    file = file if isinstance(file, bytes) else Path(file)
    name = "the TIFF given" if isinstance(file, bytes) else file.name
    sizes: list[tuple[int, int]] = []
    notes: tuple[str, ...] = ()
    try:
        with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
            while len(sizes) <= MOST_PAGES:
                sizes.append((image.size[1], image.size[0]))
                image.seek(len(sizes))
    except EOFError:
        pass
    except Exception as error:  # decoders meet hostile bytes and raise struct.error, ValueError, SyntaxError and more
        large = isinstance(error, Image.DecompressionBombError) and not sizes
        if large and isinstance(file, Path) and can_read_regions(file):
            return Document((DocumentPage(1, name, region_size(file), file),), name, of_pages=1)
        reason = " ".join(str(error).split())
        notes = (f"left out: frames of {name} after {len(sizes)} cannot be read ({reason})",)
    if len(sizes) < 2:  # whatever is wrong with it is told where it is read as one picture
        page_numbers(pages, 1, name)
        return replace(_one_page(file), name=name)
    numbers = page_numbers(pages, len(sizes), name)
    _check_number(len(numbers), name)
    found = [
        DocumentPage(number, f"{Path(name).stem}-{number}", sizes[number - 1], TiffFrame(file, number))
        for number in numbers
    ]
    return Document(tuple(found), name, notes, len(sizes))


def _one_page(source: object) -> Document:
    """One picture as a document."""
    name = Path(source).name if isinstance(source, str | os.PathLike) else "picture"
    name = source.name if isinstance(source, Picture | PdfPlace) else name
    return Document((DocumentPage(1, name, _size_of(source), source),), name, of_pages=1)


def _size_of(source: object) -> tuple[int, int]:
    """(height, width) by the header alone, where that tells it; whatever cannot be read raises `InputError`."""
    if isinstance(source, Picture):
        return source.size
    if isinstance(source, PdfPlace):
        return source.draw().size
    if isinstance(source, str | os.PathLike) and os.path.isfile(source):
        with suppress(Exception), Image.open(source) as image:
            sideways = image.getexif().get(ExifTags.Base.Orientation, 1) in _ON_ITS_SIDE
            width, height = image.size
            if width * height <= MAX_PIXELS:
                return (width, height) if sideways else (height, width)
    if isinstance(source, np.ndarray) and source.dtype == np.uint8 and source.shape[2:] == (3,):
        return (source.shape[0], source.shape[1])
    return load_picture(source).size
