"""Measure the height of the letters of a picture, place by place: from the boxes of its words, or from its pixels.

The height of a letter is that of a capital or a digit, in pixels. From pixels, it takes connected pieces that differ
from their surroundings, dark or light, and keeps those in a row with others of their size, which is rare in
photographs. These pieces are the letters of a row; its height is near that of its taller ones.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ..core.kept import ByteStore, helpers, pixels_key
from ..pictures.words import Words, chains

CELL = 16  # pixels of one value of the map
# Height of a capital as a share of a word's box, which includes ascenders and descenders.
LETTER_SHARE = 0.65
# Pictures with more pixels are reduced before they are measured.
MOST_PIXELS = 1 << 21
# Larger pictures are read at this many pixels: A4 at 100 dots an inch, in well under a second.
READ_PIXELS = 1024 * 1280
AROUND, CONTRAST = 41, 14  # side of the surroundings of a pixel, and grey levels by which ink differs from them
LEAST, MOST = 4, 240  # height in pixels of a piece that may be a letter, or a word whose letters touch
LONGEST = 14  # maximum width of a piece, in heights
FILLED = (0.12, 0.92)  # share of its box that a piece fills
# Distances in heights at which the next piece to the right is searched, along three lines through a piece.
REACH = np.array((0.1, 0.2, 0.35, 0.5, 0.7, 0.95, 1.2))
LINES = np.array((0.35, 0.6, 0.85))
ALIKE = 2.2  # maximum ratio of the heights of two neighbours
LEVEL = 0.3  # maximum offset of the feet, or else the tops, of two neighbours, in heights
UNEVEN, SPREAD = 0.09, 0.4  # maximum mean offset in a row, and spread of its heights, in heights
SHORTEST, SURE = 2, 3  # minimum letters of a row, and of one that is almost certainly type
FEWEST, SHARE = 12, 0.3  # minimum pieces in certain rows, and as a share of all pieces; with fewer there is no type
TALLER, CAPITAL = 75, 1.06  # percentile of the pieces' heights, and factor from it to a capital
_letters = ByteStore(1 << 20)  # dozens of pages


class InkPieces(NamedTuple):
    """The ink of one picture. key: of its letters, with the size as given. scale: (4,) from pixels here to those as
    given. planes: dark and light, the labels of OpenCV and their statistics."""

    key: tuple[str, int, int]
    scale: np.ndarray
    planes: Sequence[tuple[np.ndarray, np.ndarray]]


@dataclass(frozen=True, eq=False)
class TypeHeight:
    """The letters of one picture; false if there are none.

    boxes: (N, 4) float32, y0, x0, y1, x1 of the words or rows in pixels of the picture as given. heights: (N,) float32.
    size: (height, width) of that picture.
    """

    boxes: np.ndarray
    heights: np.ndarray
    size: tuple[int, int]

    def __bool__(self) -> bool:
        return len(self.heights) > 0

    def median(self) -> float:
        """Return the median height, weighted by number of letters; 0 without type."""
        return weighted_quantile(self.heights, self.ground, 0.5) if self else 0.0

    @cached_property
    def map(self) -> np.ndarray:
        """(rows, cols) float32: height of the letters in cells of `CELL` pixels, 0 where there is no type. Of rows that
        share a cell the lower letters, which are harder to read."""
        import cv2

        grid, boxes = np.zeros((-(-self.size[0] // CELL), -(-self.size[1] // CELL)), dtype=np.float32), self.boxes
        order = np.argsort(-self.heights, kind="stable")
        start = np.floor(boxes[:, :2] / CELL).astype(int)
        stop = np.maximum(np.ceil(boxes[:, 2:] / CELL).astype(int), start + 1)
        for (y0, x0), (y1, x1), height in zip(start[order], stop[order], self.heights[order].tolist(), strict=True):
            cv2.rectangle(grid, (int(x0), int(y0)), (int(x1) - 1, int(y1) - 1), height, cv2.FILLED)
        return grid

    @property
    def ground(self) -> np.ndarray:
        """Letters of each row (N,) float64, estimated as its length over its height."""
        return (self.boxes[:, 3] - self.boxes[:, 1]) / np.maximum(self.heights, 1.0)


def letters_of(pixels: np.ndarray, words: Words | None = None, size: tuple[int, int] | None = None) -> TypeHeight:
    """Measure the heights of a picture's letters, in pixels of the picture as given; cached for the last pictures.
    words: those of the picture, if known; pixels are then not used. size: of the picture, if pixels are a smaller view.

    Example:
        >>> letters_of(np.full((64, 64, 3), 255, np.uint8)).median()
        0.0
    """
    height, width = size or (pixels.shape[0], pixels.shape[1])
    if words is not None and len(words):
        boxes = words.boxes[:, [1, 0, 3, 2]] * np.array([height, width] * 2, dtype=np.float32)
        return TypeHeight(boxes.astype(np.float32), line_heights(boxes, words.lines) * LETTER_SHARE, (height, width))
    return measured([labelled(pixels, (height, width))])[0]


def view_size(size: tuple[int, ...], times: float = 1.0) -> tuple[int, int]:
    """Return (height, width) at which a picture without tall letters is read, `times` as large."""
    height, width = size
    times *= min(1.0, math.sqrt(READ_PIXELS / (height * width)))
    return (height, width) if times >= 1 else (max(1, round(height * times)), max(1, round(width * times)))


def view_letters(pixels: np.ndarray) -> TypeHeight:
    """Measure the letters of (H, W, 3) uint8 in a grey view of half the size at which it is read."""
    return measured([labelled(pixels)])[0]


def line_heights(boxes: np.ndarray, lines: np.ndarray) -> np.ndarray:
    """Return (N,) a typical height of each word's line, from boxes (N, 4) y0, x0, y1, x1 and line numbers (N,), because
    boxes depend on letters: "see" is lower than "Apply"."""
    tall = boxes[:, 2] - boxes[:, 0]
    _, inverse = np.unique(lines, return_inverse=True)
    order = np.lexsort((tall, inverse))
    count = np.bincount(inverse)
    first = np.cumsum(count) - count
    middle = tall[order][first + (2 * count) // 3 - (count % 3 == 0)]
    return middle[inverse].astype(np.float32)


def labelled(pixels: np.ndarray, size: tuple[int, int] | None = None) -> InkPieces | TypeHeight:
    """Label the pieces of ink of (H, W, 3) or (H, W) uint8, by default of the view of `view_letters`; or return its
    letters, if they are known. `measured` does the rest."""
    import cv2

    grey = pixels if size else cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    if size is None:
        pixels = grey = cv2.resize(grey, view_size(grey.shape, 0.5)[::-1], interpolation=cv2.INTER_AREA)
    key = pixels_key(pixels), *(size or (grey.shape[0], grey.shape[1]))
    if (known := _letters.get(key)) is not None:
        return known
    grey = grey if grey.ndim == 2 else cv2.cvtColor(np.ascontiguousarray(grey), cv2.COLOR_RGB2GRAY)
    times = min(1.0, float(np.sqrt(MOST_PIXELS / grey.size)))
    if times < 1:
        grey = cv2.resize(grey, None, fx=times, fy=times, interpolation=cv2.INTER_AREA)
    scale = np.array([key[1] / pixels.shape[0], key[2] / pixels.shape[1]] * 2, dtype=np.float32) / np.float32(times)
    grey = np.zeros((LEAST, LEAST), np.uint8) if min(grey.shape) < LEAST else grey  # too small to read
    mean = cv2.blur(grey, (AROUND, AROUND), borderType=cv2.BORDER_REPLICATE)
    light = helpers("light").submit(lambda: _pieces(cv2.subtract(grey, mean)))
    return InkPieces(key, scale, (_pieces(cv2.subtract(mean, grey)), light.result()))


def _pieces(above: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Label the pieces of ink in (H, W) uint8, the difference of each pixel from its surroundings: labels, stats."""
    import cv2

    ink = cv2.threshold(above, CONTRAST, 255, cv2.THRESH_BINARY)[1]
    # Bound the number of pieces by pixels with nothing above and to the left; 16-bit labels are faster if they suffice.
    before = cv2.bitwise_or(ink[:-1, 1:], ink[1:, :-1])
    begins = cv2.subtract(ink[1:, 1:], before)
    kind = cv2.CV_16U if cv2.countNonZero(begins) + sum(ink.shape) < 1 << 16 else cv2.CV_32S
    return cv2.connectedComponentsWithStats(ink, connectivity=8, ltype=kind)[1:3]


def measured(given: Sequence[InkPieces | TypeHeight]) -> list[TypeHeight]:
    """Measure the letters of pictures in one pass, and keep them; none where too few pieces are in rows."""
    inks, made = [one for one in given if isinstance(one, InkPieces)], []
    plane, boxes, heights = _rows([plane for ink in inks for plane in ink.planes])
    ends = np.searchsorted(plane, np.arange(0, 2 * len(inks) + 1, 2))
    for ink, start, end in zip(inks, ends, ends[1:], strict=False):
        found = TypeHeight(boxes[start:end] * ink.scale, heights[start:end] * ink.scale[0], ink.key[1:])
        _letters.put(ink.key, found)
        made.append(found)
    rest = iter(made)
    return [next(rest) if isinstance(one, InkPieces) else one for one in given]


def _rows(planes: Sequence[tuple[np.ndarray, np.ndarray]]) -> tuple[np.ndarray, ...]:
    """Find rows of letters in planes of pieces: planes (N,), boxes (N, 4) y0, x0, y1, x1, and heights (N,) float32."""
    stats = np.concatenate([np.zeros((0, 5), np.int32), *(stats for _, stats in planes)])
    wide, tall, area = stats[:, 2:].T.copy()
    fits = (tall >= LEAST) & (tall <= MOST) & (wide <= LONGEST * tall) & (wide * 12 >= tall)
    filled = area / np.maximum(wide * tall, 1)
    fits &= (filled > FILLED[0]) & (filled < FILLED[1])
    starts = np.cumsum([0, *(len(stats) for _, stats in planes)])
    fits[starts[:-1]] = False  # the background
    piece = np.flatnonzero(fits)
    if not len(piece):
        return np.zeros(0, np.int64), np.zeros((0, 4), np.float32), np.zeros(0, np.float32)
    number = np.full(len(stats), -1, np.int64)
    number[piece] = np.arange(len(piece))
    box, ends = stats[piece, :4].T.astype(np.int64), np.searchsorted(piece, starts)
    return _measured_rows(box, *_following(box, *_neighbours(box, planes, number, starts, ends)), ends)


def _neighbours(box: np.ndarray, planes: Sequence[tuple[np.ndarray, np.ndarray]], *where: np.ndarray) -> np.ndarray:
    """Return (2, K) int64: pieces, and what is found to their right, the nearest first.

    box: (4, N) int64 left, top, width, height of the pieces that may be letters. where: piece by label, or -1; where
    the labels and where the pieces of each plane begin.
    """
    (left, top, wide, tall), (number, starts, ends) = box, where
    sizes = np.repeat([labels.shape for labels, _ in planes], np.diff(ends), axis=0)
    y = np.minimum((top + LINES[:, None] * tall).astype(np.int64), sizes[:, 0] - 1) * sizes[:, 1]
    x = np.minimum((left + wide + REACH[:, None] * tall).astype(np.int64), sizes[:, 1] - 1)
    found = (x[:, None] + y).reshape(len(REACH) * len(LINES), -1)  # (places, N), nearest first; flat indices are faster
    for (labels, _), label, start, stop in zip(planes, starts, ends, ends[1:], strict=False):
        found[:, start:stop] = number[label:].take(labels.reshape(-1).take(found[:, start:stop]))
    fresh = found >= 0
    fresh[1:] &= found[1:] != found[:-1]  # most places show what the one before showed
    place = np.flatnonzero(fresh)
    return np.stack([place % len(tall), found.reshape(-1)[place]])


def _following(box: np.ndarray, one: np.ndarray, other: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Find the piece to the right of each, of similar size and on its line, among neighbours (see `_neighbours`).
    Returns (N,) int64, or -1; and (N,) its offset in heights."""
    _, top, _, tall = box
    foot = top + tall
    mine, its = tall[one], tall[other]
    away = np.minimum(np.abs(foot[other] - foot[one]), np.abs(top[other] - top[one]))
    away = np.maximum(away - 1, 0) / np.minimum(its, mine)
    ratio = its / mine
    fits = np.flatnonzero((other != one) & (ratio < ALIKE) & (ratio > 1 / ALIKE) & (away <= LEVEL))[::-1]
    following, off = np.full(len(tall), -1, np.int64), np.zeros(len(tall))
    following[one[fits]], off[one[fits]] = other[fits], away[fits]  # the nearest last, and it stays
    # No piece may follow two others; the last one keeps it.
    owner = np.full(len(tall), -1, np.int64)
    asks = np.flatnonzero(following >= 0)
    owner[following[asks]] = asks
    following[asks[owner[following[asks]] != asks]] = -1
    return following, off


def _measured_rows(box: np.ndarray, following: np.ndarray, off: np.ndarray, ends: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return what `_rows` does for pieces (see `_following`). ends: where the pieces of planes begin and end."""
    left, top, wide, tall = box
    count = np.bincount(row := chains(following))
    first = np.cumsum(count) - count
    links = np.bincount(row, weights=(linked := following >= 0))
    uneven = np.bincount(row, weights=np.where(linked, off, 0.0)) / np.maximum(links, 1)
    mean = np.bincount(row, weights=tall) / count
    spread = np.sqrt(np.maximum(np.bincount(row, weights=tall.astype(np.float64) ** 2) / count - mean**2, 0)) / mean
    letters = np.bincount(row, weights=np.clip(wide / (0.8 * tall), 1, 4))
    # Whole numbers that join the key of a sort and what is sorted are the fastest to sort.
    height = (np.sort(row << 8 | tall)[first + (count - 1) * TALLER // 100] & 255).astype(np.float32)
    level = (uneven <= UNEVEN) & (spread < SPREAD)
    sure = level & (count >= 3) & (letters >= SURE)
    order = np.sort(row << 32 | np.arange(len(row))) & ((1 << 32) - 1)
    plane, pieces = np.searchsorted(ends, order[first], "right") - 1, np.diff(ends)
    enough = np.bincount(plane, weights=count * sure, minlength=len(pieces)) >= np.maximum(FEWEST, SHARE * pieces)
    kept = level & (letters >= SHORTEST) & (count >= 2) & enough[plane]
    corners = np.stack([top, left, -top - tall, -left - wide])[:, order]
    boxes = np.abs(np.minimum.reduceat(corners, first, axis=1)).T[kept].astype(np.float32)
    return plane[kept], boxes, height[kept] * np.float32(CAPITAL)


def weighted_quantile(values: np.ndarray, weights: np.ndarray, share: float) -> float:
    """Return the value below which `share` of the weight lies."""
    order = np.argsort(values, kind="stable")
    total = np.cumsum(weights[order])
    return float(values[order][min(np.searchsorted(total, share * total[-1]), len(values) - 1)])


def no_letters() -> TypeHeight:
    """Return an empty `TypeHeight`, for pictures whose letters are not measured."""
    return TypeHeight(np.zeros((0, 4), np.float32), np.zeros(0, np.float32), (0, 0))
