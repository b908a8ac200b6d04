"""Where the pages of a document are: sheets of a PDF, frames of a TIFF, pictures; each draws itself when asked."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

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
    opened_pdf,
    page_words,
    pdf_name,
    pdf_pages,
    readable,
)
from .words import Words
from .words_files import as_words, words_beside

if TYPE_CHECKING:
    from pypdfium2 import PdfDocument

_ON_ITS_SIDE = (5, 6, 7, 8)  # orientations of EXIF


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

    def text(self, opened: Callable[[PdfFile], PdfDocument]) -> str:
        with suppress(InputError), readable(self.number, pdf_name(self.file)):
            page = opened(self.file)[self.number - 1]
            layer = page.get_textpage()
            found = layer.get_text_range()
            layer.close()
            page.close()
            return found
        return ""

    def source(self, number: int) -> object:
        if isinstance(self.file, bytes):
            return next(pdf_pages(self.file, self.number, dpi=DPI))
        return PdfPlace(Path(self.file), self.number)


@contextmanager
def open_once() -> Generator[Callable[[PdfFile], PdfDocument]]:
    """A function that opens each PDF once; they are closed at the end."""
    held: dict[object, PdfDocument] = {}
    with ExitStack() as stack:

        def opened(file: PdfFile) -> PdfDocument:
            key = id(file) if isinstance(file, bytes) else os.fspath(file)
            if key not in held:
                held[key] = stack.enter_context(opened_pdf(file))
            return held[key]

        yield opened


@contextmanager
def frames_of(file: bytes | Path) -> Generator[Image.Image]:
    with Image.open(io.BytesIO(file) if isinstance(file, bytes) else file) as image:
        yield image


@dataclass(frozen=True, eq=False)
class FrameSheet:
    """A frame of a TIFF."""

    file: bytes | Path
    number: int

    def draw(self, size: tuple[int, int], longest_side: int | None) -> Picture:
        try:
            with frames_of(self.file) as image:
                image.seek(self.number - 1)
                picture = load_picture(image, longest_side=longest_side)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"page {self.number} cannot be drawn ({' '.join(str(error).split())})") from error
        return replace(picture, notes=tuple(note for note in picture.notes if not note.startswith("frame ")))

    def words(self, size: tuple[int, int]) -> Words | None:
        return None

    def text(self, opened: Callable[[PdfFile], PdfDocument]) -> str:
        return ""

    def source(self, number: int) -> object:
        return replace(self.draw((0, 0), None), name=f"page {self.number}")


@dataclass(frozen=True, eq=False)
class PictureSheet:
    """Anything that `load_picture` takes, and a page of a PDF that was drawn already."""

    given: object

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

    def text(self, opened: Callable[[PdfFile], PdfDocument]) -> str:
        with suppress(InputError):
            found = self.words((1, 1)) if words_beside(self.given) is None else self.words(self.size())
            return " ".join(found.texts) if found is not None else ""
        return ""

    def source(self, number: int) -> object:
        return self.given
