"""Read the text lines of a picture: find them once, recognise those that matter, cache each.

    words = ocr_words(pixels)                      every line
    words = ocr_words(pixels, relevance, 12)       the twelve most relevant lines, and those read before

The models are PP-OCRv6 tiny (Apache-2.0), which come with the library and run on onnxruntime. Latin letters are read by
default; a line that they do not explain well is read again with every character of the model.

Lines are cached by the picture's pixels while the process runs, so that the next question about it reads new lines
only. Nothing is written to disk.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from time import perf_counter

import numpy as np

from ..core.errors import InputError, check_stop
from ..core.folders import WEIGHTS, Session, stored, verify
from ..core.kept import ByteStore, pixels_key
from .words import OCR, Words, make_words

FOLDER = WEIGHTS / "reader"
# Default number of lines to recognise for a question, the most relevant first.
MOST_LINES = 12
# Longer side in pixels at which lines are detected, and side of the parts in which larger pictures are read.
FIND_SIDE, PART = 1600, 1600
# The detector's own settings: thresholds of a text pixel and of a line, and how far a line extends beyond its pixels.
TEXT, LINE, GROWN = 0.2, 0.4, 1.4
LEAST_SIDE = 3  # pixels of a line
HEIGHT, WIDEST = 48, 2400  # pixels of a line when it is recognised
# A line with a lower mean probability than this in Latin letters is read again with all characters.
LATIN_SURE = 0.6
# Probability above which a space is inserted between letters, digits and signs, even if it is not the likeliest.
MISSED_SPACE = 0.1
# Maximum number of cached pictures, the most recently used.
MOST_PAGES = 1000
# ImageNet's mean and standard deviation in BGR order, as in the training of the detector.
MEAN, DEVIATION = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


LineWords = list[tuple[str, float, float]]  # each word with its start and end along the line, in 0–1


class LineReader:
    """The detection and recognition models of a folder. Raises `InputError` if they are damaged.

    characters: of the classes of `head`, with `bias`. latin: numbers of the classes that are Latin letters, digits,
    signs, the blank and the space.
    """

    def __init__(self, folder: Path = FOLDER) -> None:
        verify(folder)
        try:
            characters = json.loads((folder / "config.json").read_text(encoding="utf-8"))["characters"]
            head, scale, self.bias = stored(folder, *(f"read.linear_1.{part}" for part in ("w_0", "w_0.scale", "b_0")))
            self.finding, self.reading = (Session(folder / name) for name in ("detect.onnx", "read.onnx"))
        except (OSError, ValueError, KeyError, RuntimeError) as error:
            raise InputError(f"the line reader in {folder} cannot be read ({error}); install arr-coc again") from error
        self.head = head * scale
        self.characters = f"\0{characters} "  # the first class is the blank
        self.latin = np.array([number for number, one in enumerate(self.characters) if ord(one) < 0x2E80])

    def find(self, pixels: np.ndarray) -> np.ndarray:
        """Find the lines of (H, W, 3) uint8: (N, 4, 2) float32 corners x, y, clockwise from the top left."""
        import cv2

        height, width = pixels.shape[:2]
        times = min(1.0, FIND_SIDE / max(height, width))
        size = tuple(max(32, round(side * times / 32) * 32) for side in (width, height))
        seen = cv2.resize(pixels, size, interpolation=cv2.INTER_AREA)[..., ::-1].astype(np.float32) / 255
        seen = np.ascontiguousarray(((seen - MEAN) / DEVIATION).transpose(2, 0, 1)[None])
        (there,) = self.finding.run(None, {"pictures": seen})
        quads = quads_of(there[0, 0])
        return quads * np.array([width / size[0], height / size[1]], np.float32)

    def read(self, pixels: np.ndarray, quad: np.ndarray) -> LineWords:
        """Read one line: its words, each with its start and end along the line, in 0–1."""
        strip = straightened(pixels, quad)
        seen = np.ascontiguousarray((strip[..., ::-1].astype(np.float32) / 127.5 - 1).transpose(2, 0, 1)[None])
        (states,) = self.reading.run(None, {"pictures": seen})
        words, sure = self._spelled(states[0], self.latin)
        if sure < LATIN_SURE:
            others, surely = self._spelled(states[0], np.arange(len(self.characters)))
            if surely > LATIN_SURE and sum(len(text) for text, _, _ in others) > 1:  # icons look like one
                return others
        return words

    def _spelled(self, states: np.ndarray, rows: np.ndarray) -> tuple[LineWords, float]:
        """Decode states (steps, 80) into words and their mean probability; rows: the classes of the head to use."""
        logits = states @ self.head[:, rows] + self.bias[rows]
        share = np.exp(logits - logits.max(1, keepdims=True))
        share /= share.sum(1, keepdims=True)
        best = share.argmax(1)
        places = np.flatnonzero((best != 0) & np.r_[True, best[1:] != best[:-1]])
        sure = float(share[places, best[places]].mean()) if len(places) else 0.0
        words: LineWords = []
        text, first, last = "", 0, 0

        def end() -> None:
            if text:
                words.append((text, max(0.0, (first - 0.5) / len(best)), min(1.0, (last + 2) / len(best))))

        for place in places.tolist():
            one = self.characters[rows[best[place]]]
            gap = share[last + 1 : place, -1].max(initial=0.0)  # the last row is the space
            if one == " " or (text and gap > MISSED_SPACE and _turns(text[-1], one)):
                end()
                text = ""
            if one != " ":
                first = first if text else place
                text, last = text + one, place
        end()
        return words, sure


def _turns(before: str, after: str) -> bool:
    """Return whether a word may end between two characters, such as in "eC", "t8", "4(", ",T"."""
    if before.isdigit() and after.isdigit():
        return False
    return (before.islower() and not after.islower()) or before.isdigit() != after.isdigit() or before in ",;:)&"


line_reader = lru_cache(maxsize=1)(LineReader)  # opened once


def quads_of(there: np.ndarray) -> np.ndarray:
    """Find lines in a map (h, w) of text probabilities: (N, 4, 2) float32 corners, in reading order."""
    import cv2

    outlines, _ = cv2.findContours((there > TEXT).astype(np.uint8), cv2.RETR_LIST, cv2.CHAIN_APPROX_SIMPLE)
    quads = []
    for outline in outlines:
        middle, sides, angle = cv2.minAreaRect(outline)
        if min(sides) < LEAST_SIDE:
            continue
        left, top, width, height = cv2.boundingRect(outline)
        mask = cv2.drawContours(np.zeros((height, width), np.uint8), [outline - (left, top)], -1, 1, cv2.FILLED)
        if cv2.mean(there[top : top + height, left : left + width], mask)[0] < LINE:
            continue
        reach = GROWN * sides[0] * sides[1] / (sides[0] + sides[1])
        quads.append(_clockwise(cv2.boxPoints((middle, (sides[0] + reach, sides[1] + reach), angle))))
    found = np.array(quads, np.float32).reshape(-1, 4, 2)
    return found[np.lexsort((found[:, 0, 0], found[:, :, 1].mean(1)))]


def _clockwise(corners: np.ndarray) -> np.ndarray:
    """Order (4, 2) corners clockwise from the upper left one, which is at the left end of a slanted line."""
    by_x = corners[np.argsort(corners[:, 0], kind="stable")]
    left, right = (part[np.argsort(part[:, 1], kind="stable")] for part in (by_x[:2], by_x[2:]))
    return np.array([left[0], right[0], right[1], left[1]])


def straightened(pixels: np.ndarray, quad: np.ndarray) -> np.ndarray:
    """Straighten a line of (H, W, 3) uint8 into a strip (48, w, 3); vertical lines are turned."""
    import cv2

    wide = max(np.linalg.norm(quad[1] - quad[0]), np.linalg.norm(quad[2] - quad[3]))
    tall = max(np.linalg.norm(quad[3] - quad[0]), np.linalg.norm(quad[2] - quad[1]))
    if tall > 1.5 * wide:
        quad, wide, tall = quad[[1, 2, 3, 0]], tall, wide
    width = int(np.clip(round(HEIGHT * wide / max(tall, 1.0)), 16, WIDEST))
    # Cut out the line first, so that a large page is not processed for each of its lines.
    low = np.maximum(np.floor(quad.min(0)).astype(int) - 1, 0)
    high = np.ceil(quad.max(0)).astype(int) + 2
    part = pixels[low[1] : high[1], low[0] : high[0]]
    times = np.ones(2)
    if tall > 2 * HEIGHT:  # much larger letters are reduced by area first
        width_now, height_now = part.shape[1], part.shape[0]
        smaller = max(1, round(width_now * HEIGHT / tall)), max(1, round(height_now * HEIGHT / tall))
        times = np.array(smaller) / (width_now, height_now)
        part = cv2.resize(part, smaller, interpolation=cv2.INTER_AREA)
    corners = np.array([[0, 0], [width, 0], [width, HEIGHT], [0, HEIGHT]], np.float32)
    turn = cv2.getPerspectiveTransform(((quad - low) * times).astype(np.float32), corners)
    return cv2.warpPerspective(part, turn, (width, HEIGHT), flags=cv2.INTER_CUBIC, borderMode=cv2.BORDER_REPLICATE)


@dataclass(frozen=True, eq=False)
class ReadPage:
    """The cached lines of one picture. quads: (N, 4, 2) corners of lines. lines: a recognised line → its words."""

    quads: np.ndarray
    lines: dict[int, LineWords] = field(default_factory=dict)


_pages = ByteStore(MOST_PAGES, weigh=lambda page: 1)


def ocr_words(pixels: np.ndarray, relevance: np.ndarray | None = None, most: int | None = None) -> Words:
    """Read the words of (H, W, 3) uint8 RGB: those of all lines recognised now or before.

    relevance: (rows, cols) map that says which lines matter; by default all are equal. most: maximum number of lines to
    recognise for this question; all by default. `Words.seconds` is the time it took, `Words.unread` the number of lines
    found but not recognised.
    """
    started = perf_counter()
    pixels = np.ascontiguousarray(pixels, dtype=np.uint8)
    page = _pages.made(pixels_key(pixels), lambda: ReadPage(_found_lines(pixels)))
    wanted = _most_relevant(page.quads, pixels.shape[:2], relevance, most)
    fresh = [number for number in wanted if number not in page.lines]
    new = bool(fresh) or not page.lines
    page.lines.update(zip(fresh, _recognised(pixels, page.quads[fresh]), strict=True))
    words = _words_of(page, (pixels.shape[0], pixels.shape[1]))
    seconds = perf_counter() - started if new else 0.0
    unread = len(page.quads) - len(page.lines)
    return replace(words, seconds=seconds, unread=unread)


def _found_lines(pixels: np.ndarray) -> np.ndarray:
    """Find the corners (N, 4, 2) of all lines; very large pictures are processed in parts."""
    if max(pixels.shape[:2]) <= 2 * PART:
        return line_reader().find(pixels)
    found = [np.zeros((0, 4, 2), np.float32)]
    for top in range(0, pixels.shape[0], PART):
        for left in range(0, pixels.shape[1], PART):
            check_stop()
            part = pixels[top : top + PART, left : left + PART]
            found.append(line_reader().find(part) + np.array([left, top], np.float32))
    return np.concatenate(found)


def _recognised(pixels: np.ndarray, quads: np.ndarray) -> list[LineWords]:
    """Read each of the lines."""
    lines = []
    with ThreadPoolExecutor(2) as pool:  # straightens one line while the network reads another
        for line in pool.map(partial(line_reader().read, pixels), quads):
            check_stop()
            lines.append(line)
    return lines


def _most_relevant(
    quads: np.ndarray, size: tuple[int, int], relevance: np.ndarray | None, most: int | None
) -> list[int]:
    """Return the numbers of the lines to recognise, in order."""
    if most is None or relevance is None or len(quads) <= most:
        return list(range(len(quads)))[:most]
    rows, cols = relevance.shape
    scale = np.array([cols / size[1], rows / size[0]])
    low = np.clip(np.floor(quads.min(1) * scale).astype(int), 0, [cols - 1, rows - 1])
    high = np.maximum(np.ceil(quads.max(1) * scale).astype(int), low + 1)
    worth = [relevance[y0:y1, x0:x1].max() for (x0, y0), (x1, y1) in zip(low.tolist(), high.tolist(), strict=True)]
    return sorted(np.argsort(-np.array(worth), kind="stable")[:most].tolist())


def _words_of(page: ReadPage, size: tuple[int, int]) -> Words:
    """Return the words of all recognised lines, with boxes along their lines."""
    texts: list[str] = []
    boxes: list[Sequence[float]] = []
    lines: list[int] = []
    for number, words in sorted(page.lines.items()):
        corners = page.quads[number]
        upright = np.ptp(corners[:, 1]) > 1.5 * np.ptp(corners[:, 0])
        for text, first, last in words:
            ends = (0.0, 1.0) if upright else (first, last)
            upper, lower = ([a + (b - a) * share for share in ends] for a, b in (corners[[0, 1]], corners[[3, 2]]))
            part = np.array([*upper, *lower])
            texts.append(text)
            boxes.append([*part.min(0).tolist(), *part.max(0).tolist()])
            lines.append(number)
    return make_words(texts, np.array(boxes).reshape(-1, 4), size=size, lines=lines, source=OCR)
