"""Files of words with their boxes: hOCR and plain JSON, told apart by their contents.

A broken file raises `InputError` with one line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from html.parser import HTMLParser
from pathlib import Path
from typing import Any, TypeVar

from ..core.errors import InputError
from ..core.files import read_bytes
from .words import MOST_WORDS, Words, listed_words, make_words

BESIDE = (".hocr", ".words.json")
LARGEST_FILE = 64_000_000
FORMATS = "hOCR or JSON (tesseract page.png page hocr writes hOCR)"
_LINES = frozenset({"ocr_line", "ocrx_line", "ocr_header", "ocr_caption", "ocr_textfloat", "ocr_footer"})
# JSON inside JSON inside …: deeper than any list of words.
_DEEPEST = 64
Page = TypeVar("Page")


def as_words(value: Any, size: tuple[float, float]) -> Words:
    """What a caller may give as `words=` for a picture of `size` (height, width): `Words`; a list of (text, box) or of
    {"text": …, "box": …}; or a file of words or its path (`read_words`). Boxes are x0, y0, x1, y1 in 0–1,
    or in pixels where one of them is above 1.5."""
    if isinstance(value, Words):
        return value
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str | bytes)):
        return listed_words(value, size, "the caller")
    return read_words(value, size=size)


def read_words(path: str | os.PathLike[str], *, page: int = 1, size: tuple[float, float] | None = None) -> Words:
    """The words of one page of a file. page: from 1. size: (height, width) of the picture, where the file has none."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"words must be a file, Words, or a list of (text, box), got {type(path).__name__}")
    name = Path(path).name
    text = _text_of(Path(path))
    start = text.lstrip("\ufeff \t\r\n")
    if page < 1:
        raise InputError(f"page {page} of {name}: pages are counted from 1")
    if start[:1] in ("{", "["):
        return _json_words(start, size, name, page)
    if "ocrx_word" in start or "ocr_page" in start:
        return _hocr_words(text, size, name, page)
    raise InputError(f"{name} holds no words that can be read; give {FORMATS}")


def words_beside(picture: object) -> Path | None:
    """Find the file of words beside a picture's file: page.png and page.hocr or page.words.json."""
    if not isinstance(picture, str | os.PathLike) or not os.path.isfile(picture):
        return None
    places = (Path(picture).with_suffix(ending) for ending in BESIDE)
    return next((place for place in places if os.path.isfile(place)), None)


def _text_of(path: Path) -> str:
    try:
        raw = read_bytes(path, LARGEST_FILE)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the words of {path} ({reason}); check the path") from error
    if not raw.strip():
        raise InputError(f"{path.name} is empty; give {FORMATS}")
    encoding = "utf-16" if raw[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
    declared = re.match(rb"""\s*<\?xml[^>]*encoding=["']([\w.-]+)""", raw[:200])
    if declared and encoding != "utf-16":
        encoding = declared[1].decode("ascii", "replace")
    try:
        text = raw.decode(encoding)
    except (UnicodeDecodeError, LookupError) as error:
        raise InputError(f"{path.name} is not text in {encoding}; save it as UTF-8") from error
    if "\0" in text:
        raise InputError(f"{path.name} is not a file of words; give {FORMATS}")
    return text


def _json_words(text: str, size: tuple[float, float] | None, name: str, page: int) -> Words:
    depth = deepest = 0
    for bracket in re.findall(r"[\[\]{}]", text):
        depth += 1 if bracket in "[{" else -1
        deepest = max(deepest, depth)
    try:
        value = json.loads(text) if deepest <= _DEEPEST else None
    except ValueError as error:
        raise InputError(f"{name} is not JSON ({error})") from error
    if value is None:
        raise InputError(f"{name} is nested {deepest} deep; give a list of words")
    if isinstance(value, dict) and isinstance(value.get("pages"), list):
        value = _page_of(value["pages"], page, name)
    elif page != 1:
        raise InputError(f"{name} has one page, not {page}")
    if isinstance(value, dict) and not isinstance(value.get("words"), list):
        raise InputError(
            f'{name} has no list "words"; give {{"width": …, "height": …, "words": [{{"text", "box"}}, …]}}'
        )
    return listed_words(value, size, name)


def _page_of(pages: Sequence[Page], page: int, name: str) -> Page:
    if not 1 <= page <= len(pages):
        raise InputError(f"{name} has {len(pages)} pages, not {page}; give a page from 1 to {len(pages)}")
    return pages[page - 1]


def _placed(
    texts: list[str], boxes: list[list[float]], lines: list[int], size: tuple[float, float] | None, name: str
) -> Words:
    if size is None:
        raise InputError(f"{name} does not tell the size of its page; give the picture with it")
    return make_words(texts, boxes, size=size, lines=lines, source=name)


class _Hocr(HTMLParser):
    """Pages, lines and words by their class and the box in their title; HTML as it comes, closed or not."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.pages: list[tuple[list[float] | None, list[tuple[str, list[float], int]]]] = []
        self.line = 0
        self.open: list[str] | None = None
        self.box: list[float] = []
        self.depth = 0
        self.words = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        classes = set((known.get("class") or "").split())
        box = _title_box(known.get("title") or "")
        if self.open is not None and tag not in ("br", "img", "wbr", "meta", "hr"):
            self.depth += 1
        if "ocr_page" in classes:
            self.pages.append((box, []))
        elif classes & _LINES:
            self.line += 1
        elif "ocrx_word" in classes and box is not None and self.words <= MOST_WORDS:
            self.open, self.box, self.depth = [], box, 1
            self.words += 1

    def handle_data(self, data: str) -> None:
        if self.open is not None:
            self.open.append(data)

    def handle_endtag(self, tag: str) -> None:
        if self.open is None:
            return
        self.depth -= 1
        if self.depth <= 0:
            if not self.pages:
                self.pages.append((None, []))
            self.pages[-1][1].append(("".join(self.open), self.box, self.line))
            self.open = None


def _title_box(title: str) -> list[float] | None:
    found = re.search(r"\bbbox" + r"\s+(-?\d+(?:\.\d+)?)" * 4, title)
    return [float(number) for number in found.groups()] if found else None


def _hocr_words(text: str, size: tuple[float, float] | None, name: str, page: int) -> Words:
    reader = _Hocr()
    try:
        reader.feed(text)
        reader.close()
    except (ValueError, AssertionError) as error:  # the parser's own way of refusing a broken declaration
        raise InputError(f"{name} is not hOCR that can be read ({error})") from error
    extent, words = _page_of(reader.pages, page, name)
    corner = (0.0, 0.0)
    if extent is not None and extent[2] > extent[0] and extent[3] > extent[1]:
        corner, size = (extent[0], extent[1]), (extent[3] - extent[1], extent[2] - extent[0])
    boxes = [[x0 - corner[0], y0 - corner[1], x1 - corner[0], y1 - corner[1]] for _, (x0, y0, x1, y1), _ in words]
    return _placed([word for word, _, _ in words], boxes, [line for _, _, line in words], size, name)
