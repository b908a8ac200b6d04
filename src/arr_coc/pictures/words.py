"""`Words`: the words on a picture, and their places.

They come with a file (hOCR or JSON), from a page of a PDF (`pdf`), by OCR (`ocr`), or from the caller:
`look(image, question, words=[("Total", (0.1, 0.8, 0.2, 0.82)), …])`. A broken file raises `InputError` with one line.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from ..core.errors import InputError, check_stop, positive, shown
from ..core.folders import read_text

# Maximum number of words on a page; a file with more is refused.
MOST_WORDS = 20_000
LONGEST_WORD = 256
# `Words.source` of words read by OCR.
OCR = "OCR"
# Two words of a line belong together if the gap between them is below this share of their height; two numbers, which
# columns and axes place close together, only if it is not wider than a space.
PHRASE_GAP = 0.9
FIGURE_GAP = 0.45
# Maximum ratio of the heights of two words of a line; and the maximum distance between their middles, in heights.
ALIKE = 2.2
LINE_REACH = (1 + ALIKE) / 2
_AT_ONCE = 128


@dataclass(frozen=True, eq=False)
class Words:
    """Words of a picture. texts: N words. boxes: (N, 4) float32, x0, y0, x1, y1 in 0–1 of the picture. lines: (N,)
    int64, the number of each word's line; computed from the boxes by default. source: where they come from, for notes.
    size: (height, width) of the picture that they were measured on, in any unit, because only the ratio counts.
    seconds: time to read them. unread: number of lines found but not recognised."""

    texts: tuple[str, ...]
    boxes: np.ndarray
    lines: np.ndarray
    source: str = "given"
    size: tuple[float, float] = (1.0, 1.0)
    seconds: float = 0.0
    unread: int = 0

    @property
    def by_ocr(self) -> bool:
        """Whether they were read by OCR, which may make mistakes."""
        return self.source == OCR

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def scaled(self) -> np.ndarray:
        """Boxes (N, 4) in units of the longer side, so that heights and widths can be compared."""
        height, width = np.array(self.size) / max(self.size)
        return self.boxes * np.array([width, height] * 2, dtype=np.float32)

    @cached_property
    def phrases(self) -> np.ndarray:
        """Number (N,) of each word's phrase: words together in a line, split at wide gaps and after a colon."""
        joined = neighbours_right(self.scaled, PHRASE_GAP)
        ends = np.array([text.endswith(":") for text in self.texts], dtype=bool)
        figures = np.array([text[-1:].isdigit() or text[:1].isdigit() for text in self.texts], dtype=bool)
        x0, y0, x1, y1 = self.scaled.T
        wide = x0[joined] - x1 > FIGURE_GAP * np.minimum(y1 - y0, (y1 - y0)[joined])
        apart = ends | (self.lines[joined] != self.lines) | (figures & figures[joined] & wide)
        return chains(np.where((joined >= 0) & ~apart, joined, -1))

    def __repr__(self) -> str:
        return f"Words({len(self)} words, {self.source})"


PromptWords = Words | list[Words | None] | None  # of the only picture of a prompt, or of each


def make_words(
    texts: Sequence[str],
    boxes: np.ndarray,
    *,
    size: tuple[float, float] = (1.0, 1.0),
    lines: object = None,
    source: str = "given",
) -> Words:
    """Make `Words` from boxes (N, 4) x0, y0, x1, y1 in units of `size` (height, width), clipped to it.

    Empty words and empty boxes are left out; corners in the wrong order are swapped. Raises `InputError`.
    """
    height, width = (positive(side, f"words of {source}: a side of the page") for side in size)
    check_number(len(texts), source)
    corners = np.asarray(boxes, dtype=np.float64).reshape(len(texts), 4)
    if not np.isfinite(corners).all():
        raise InputError(f"words of {source}: a box holds NaN or infinity; give numbers")
    corners = np.sort((corners / (width, height, width, height)).reshape(-1, 2, 2), axis=1).reshape(-1, 4)
    corners = np.clip(corners, 0.0, 1.0)
    written = [" ".join(str(text).split())[:LONGEST_WORD] for text in texts]
    there = np.array([bool(text) for text in written], dtype=bool) & (corners[:, 2:] > corners[:, :2]).all(1)
    kept = np.flatnonzero(there)
    corners = corners[kept].astype(np.float32)
    words = Words(
        tuple(written[place] for place in kept),
        corners,
        np.zeros(len(kept), np.int64) if lines is None else np.asarray(lines, dtype=np.int64).reshape(-1)[kept],
        source,
        (height, width),
    )
    return replace(words, lines=chains(neighbours_right(words.scaled, np.inf))) if lines is None else words


def check_number(number: int, source: str) -> None:
    if number > MOST_WORDS:
        raise InputError(f"words of {source}: {number} words are more than {MOST_WORDS}; give one page at a time")


def listed_words(value: object, size: tuple[float, float], source: str) -> Words:
    """Read words from lists and mappings, as in JSON; {"words": […], "width": …, "height": …} includes the size."""
    if isinstance(value, Mapping):
        if "height" in value and "width" in value:
            size = (value["height"], value["width"])
        value = value.get("words")
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        what = 'a list of words, or {"width": …, "height": …, "words": [{"text", "box"}, …]}'
        raise InputError(f"words of {source}: expected {what}, got {shown(value)}")
    check_number(len(value), source)
    pairs = [_pair(entry, source) for entry in value]
    try:
        boxes = np.array([box for _, box in pairs], dtype=np.float64).reshape(-1, 4)
        if not boxes.size or float(np.abs(boxes).max()) <= 1.5:
            boxes = boxes * (size[1], size[0], size[1], size[0])
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"words of {source}: a box must be four numbers x0, y0, x1, y1, and a size two") from error
    return make_words([text for text, _ in pairs], boxes, size=size, source=source)


def _pair(entry: object, source: str) -> tuple[str, list[float]]:
    if isinstance(entry, Mapping):
        text, box = entry.get("text"), entry.get("box", entry.get("bbox"))
    elif isinstance(entry, Sequence) and not isinstance(entry, str | bytes) and len(entry) == 2:
        text, box = entry
    else:
        text = box = None
    if not isinstance(text, str) or not hasattr(box, "__len__") or len(box) != 4:  # type: ignore[arg-type]
        raise InputError(
            f'words of {source}: {str(entry)[:60]!r} is not a word; give {{"text": "Total", "box": [x0, y0, x1, y1]}}'
        )
    return text, list(box)  # type: ignore[arg-type]


def neighbours_right(boxes: np.ndarray, gap: float) -> np.ndarray:
    """Return (N,) int64: for each box the next word in its line within `gap` heights, or -1; none follows two."""
    number = len(boxes)
    following = np.full(number, -1, np.int64)
    distance = np.full(number, np.inf)
    x0, y0, x1, y1 = boxes.T
    high = y1 - y0
    middle = (y0 + y1) / 2
    downwards = np.argsort(middle, kind="stable")
    for first in range(0, number, _AT_ONCE):  # from top to bottom, so that each word is compared with nearby ones only
        check_stop()
        part = downwards[first : first + _AT_ONCE]
        reach = LINE_REACH * float(high[part].max())
        above = np.searchsorted(middle[downwards], middle[part[0]] - reach)
        below = np.searchsorted(middle[downwards], middle[part[-1]] + reach, side="right")
        other = np.sort(downwards[above:below])[None]
        shared = np.minimum(y1[part, None], y1[other]) - np.maximum(y0[part, None], y0[other])
        least = np.minimum(high[part, None], high[other])
        apart = x0[other] - x1[part, None]
        # Similar letter sizes only: a heading beside small print is another line.
        fits = (shared > 0.5 * least) & (least * ALIKE > np.maximum(high[part, None], high[other]))
        fits &= (x0[other] > x0[part, None]) & (apart > -0.6 * least) & (apart < gap * least)
        ranked = np.where(fits, apart + (1 - shared / np.maximum(least, 1e-9)) * least, np.inf)
        best = ranked.argmin(1)
        distance[part] = ranked[np.arange(len(best)), best]
        following[part] = np.where(np.isfinite(distance[part]), other[0, best], -1)
    nearest = np.argsort(distance, kind="stable")
    kept = nearest[np.unique(following[nearest], return_index=True)[1]]  # one word for each follower, the nearest
    claimed = np.full(number, -1, np.int64)
    claimed[kept] = following[kept]
    return claimed


def chains(following: np.ndarray) -> np.ndarray:
    """Number chains: (N,) the follower of each, or -1 → (N,) int64 its chain, numbered by their first members."""
    number = len(following)
    start, linked = np.arange(number), np.flatnonzero(following >= 0)
    start[following[linked]] = linked
    for _ in range(max(1, number).bit_length()):  # pointer doubling needs as many rounds as the length has bits
        start = start[start]
    begins = np.zeros(number, np.int64)
    begins[start] = 1
    return (np.cumsum(begins) - 1)[start]


# ---- files ---------------------------------------------------------------------------------------------------------

BESIDE = (".hocr", ".words.json")
LARGEST_FILE = 64_000_000
FORMATS = "hOCR or JSON (tesseract page.png page hocr writes hOCR)"
_LINES = frozenset({"ocr_line", "ocrx_line", "ocr_header", "ocr_caption", "ocr_textfloat", "ocr_footer"})


def as_words(value: object, size: tuple[float, float]) -> Words:
    """Convert the argument `words` for a picture of `size` (height, width): `Words`, a list of (text, box) or of
    {"text": …, "box": …}, or the path of a file of words (`read_words`). Boxes are x0, y0, x1, y1 in 0–1, or in pixels
    if one of them is above 1.5."""
    if isinstance(value, Words):
        return value
    if isinstance(value, Mapping) or (isinstance(value, Sequence) and not isinstance(value, str | bytes)):
        return listed_words(value, size, "the caller")
    return read_words(value, size)


def read_words(path: object, size: tuple[float, float]) -> Words:
    """Read the words of the first page of a file. size: (height, width) of the picture, if the file lacks it."""
    if not isinstance(path, str | os.PathLike):
        raise InputError(f"words must be a file, Words, or a list of (text, box), got {type(path).__name__}")
    name = Path(path).name
    try:
        text = read_text(path, LARGEST_FILE).lstrip("\ufeff \t\r\n")
        value = json.loads(text) if text[:1] in ("{", "[") else None
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read the words of {path} ({reason}); give {FORMATS}, saved as UTF-8") from error
    if value is not None:
        return listed_words(value, size, name)
    if "ocrx_word" in text or "ocr_page" in text:
        return _hocr_words(text, size, name)
    raise InputError(f"{name} has no words that can be read; give {FORMATS}")


def words_beside(picture: object, size: tuple[float, float]) -> Words | None:
    """Read the file of words beside a picture: page.hocr or page.words.json beside page.png; None without one."""
    if not isinstance(picture, str | os.PathLike) or not os.path.isfile(picture):
        return None
    places = (Path(picture).with_suffix(ending) for ending in BESIDE)
    return next((read_words(place, size) for place in places if os.path.isfile(place)), None)


class _Hocr(HTMLParser):
    """Parse lines and words of the first page by their class and the box in their title. Tags need not be closed: a
    word ends where the next word, line or page begins."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.page: list[float] | None = None
        self.pages = self.line = 0
        self.open: list[str] = []
        self.words: list[tuple[list[str], list[float], int]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        known = dict(attrs)
        classes = set((known.get("class") or "").split())
        box = _title_box(known.get("title") or "")
        if "ocr_page" in classes:
            self.page, self.pages, self.open = box if self.page is None else self.page, self.pages + 1, []
        elif classes & _LINES:
            self.line, self.open = self.line + 1, []
        elif "ocrx_word" in classes:
            self.open = []
            if box is not None and self.pages < 2 and len(self.words) <= MOST_WORDS:
                self.words.append((self.open, box, self.line))

    def handle_data(self, data: str) -> None:
        self.open.append(data)


def _title_box(title: str) -> list[float] | None:
    found = re.search(r"\bbbox" + r"\s+(-?\d+(?:\.\d+)?)" * 4, title)
    return [float(number) for number in found.groups()] if found else None


def _hocr_words(text: str, size: tuple[float, float], name: str) -> Words:
    reader = _Hocr()
    try:
        reader.feed(text)
        reader.close()
    except (ValueError, AssertionError) as error:  # the parser's own way of refusing a broken declaration
        raise InputError(f"{name} is not valid hOCR ({error}); give {FORMATS}") from error
    extent, corner = reader.page, (0.0, 0.0)
    if extent is not None and extent[2] > extent[0] and extent[3] > extent[1]:
        corner, size = (extent[0], extent[1]), (extent[3] - extent[1], extent[2] - extent[0])
    texts, boxes, lines = zip(*reader.words, strict=True) if reader.words else ((), (), ())
    placed = np.array(boxes, dtype=np.float64).reshape(-1, 4) - (*corner, *corner)
    return make_words(["".join(parts) for parts in texts], placed, size=size, lines=lines, source=name)
