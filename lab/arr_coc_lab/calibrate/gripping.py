"""Measure the grip of a model: it reads short texts with letters of 5 to 96 pixels on canvases of several sizes.

A canvas holds a label and a value, as plain and as worn as pages are, in held-out typefaces. The model is asked for
the value and sees the true box in full detail: this measures reading, not finding. Answers are appended to a file, so
an interrupted run resumes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import cv2
import numpy as np

from arr_coc.attending.grip import GRIP, SCHEMA
from arr_coc.core.alphabet import IDS
from arr_coc.options import Options

from ..bench.rows import BenchRow, Key, RowStore
from ..bench.scores import anls, box_map
from ..worlds.needle.atlas import _glyph_arrays

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

HEIGHTS = (5, 6, 7, 8, 9.5, 11, 13, 16, 19, 23, 28, 36, 48, 64, 96)
CANVASES = (256, 512, 768, 1024, 1536, 2048)
MAIN = (512, 1024)  # canvases on which every height is tried; other canvases are tried at the heights read best
NUMBER, SEED = 8, 31
TOKENS, BOARD = 96, 64
READ = 0.85  # share of the best canvas's accuracy from which a canvas counts as read
WIDTH = 0.22  # width in octaves of the smoothing over neighbouring heights
WITHIN = 0.95  # share of the best accuracy from which a height counts as good as the best
LABELS = ("Total", "Name", "Date", "City", "Amount", "Order no.", "Phone", "Street", "Item", "Price", "Code", "Status")
WORDS = ("Harbour", "Lindgren", "Monday", "Approved", "Lisbon", "Carrots", "North gate", "Paid in cash", "Green tea")
WORDS += ("Miller and Sons", "See page 12", "Open until nine", "Room 204", "Third floor", "Not yet", "Maria Keller")


class Sample(NamedTuple):
    """One drawn text. box: x0, y0, x1, y1 in 0–1, of label and value."""

    pixels: np.ndarray
    question: str
    answer: str
    box: tuple[float, float, float, float]


@dataclass(frozen=True)
class TextCell:
    """A text of one letter height on a canvas of one side. number: counts the texts of that cell."""

    height: float
    side: int
    number: int

    @property
    def key(self) -> str:
        return f"{self.height:g} {self.side} {self.number}"


def line_of(text: str, face: int, height: float) -> tuple[np.ndarray, float]:
    """Draw a line of text with capitals `height` pixels tall: (h, w) float32 coverage, and its baseline."""
    arrays = _glyph_arrays()
    caps = arrays["caps"][face].astype(float)
    size = int(np.argmax(caps >= height)) if (caps >= height).any() else len(caps) - 1
    tall = int(arrays["heights"][face, size])
    parts = []
    for letter in text:
        glyph = IDS[letter]
        wide, first = int(arrays["advance"][face, size, glyph]), int(arrays["first"][face, size, glyph])
        parts.append(arrays["coverage"][first : first + wide * tall].reshape(wide, tall).T)
    line, times = np.concatenate(parts, 1).astype(np.float32) / 255, height / caps[size]
    shape = max(1, round(line.shape[1] * times)), max(1, round(tall * times))
    how = cv2.INTER_AREA if times < 1 else cv2.INTER_CUBIC
    return np.clip(cv2.resize(line, shape, interpolation=how), 0, 1), float(arrays["ascents"][face, size]) * times


def sample(cell: TextCell, seed: int = SEED) -> Sample | None:
    """Draw the text of a cell, always the same; None if letters of that height do not fit the canvas."""
    random = np.random.default_rng([seed, round(cell.height * 10), cell.side, cell.number])
    faces = np.flatnonzero(_glyph_arrays()["held_out"])
    face, label = int(random.choice(faces)), str(random.choice(LABELS))
    worn = bool(cell.number % 2)
    inner, side = 0.94 * cell.side, cell.side
    for value in _values(random):
        first, second = line_of(f"{label}:", face, cell.height)[0], line_of(value, face, cell.height)[0]
        gap = round(0.8 * cell.height)
        across = first.shape[1] + gap + second.shape[1] <= inner
        high = first.shape[0] if across else 2 * first.shape[0] + gap
        wide = first.shape[1] + gap + second.shape[1] if across else max(first.shape[1], second.shape[1])
        if wide <= inner and high <= inner:
            break
    else:
        return None
    y, x = (int(random.integers(1, max(2, side - extent))) for extent in (high, wide))
    ink = np.zeros((side, side), np.float32)
    _put(ink, first, y, x)
    _put(ink, second, *((y, x + first.shape[1] + gap) if across else (y + first.shape[0] + gap, x)))
    ground, colour = random.integers(225, 256, 3), random.integers(0, 70, 3)
    pixels = ground + ink[..., None] * (colour - ground)
    if worn:
        pixels = cv2.GaussianBlur(pixels, (0, 0), float(random.uniform(0.3, 0.3 + cell.height / 30)))
        pixels = pixels + random.normal(0, random.uniform(2, 9), (side, side, 1))
    box = (x / side, y / side, min(1.0, (x + wide) / side), min(1.0, (y + high) / side))
    question = f"What is written for {label.lower()}?"
    return Sample(np.clip(np.rint(pixels), 0, 255).astype(np.uint8), question, value, box)


def _values(random: np.random.Generator) -> Iterator[str]:
    """Yield a word, short sentence or number, then shorter ones for tall letters."""
    digits = "".join(map(str, random.integers(0, 10, 6)))
    yield str(random.choice(WORDS)) if random.random() < 0.5 else f"{digits[:3]}.{digits[3:5]}"
    yield digits[:4]
    yield digits[:2]


def _put(canvas: np.ndarray, part: np.ndarray, y: int, x: int) -> None:
    place = canvas[y : y + part.shape[0], x : x + part.shape[1]]
    place[:] = np.maximum(place, part[: place.shape[0], : place.shape[1]])


def measure(
    eye: Eye,
    model: str,
    *,
    number: int = NUMBER,
    seed: int = SEED,
    kept: Path | None = None,
    advance: Callable[[], None] = lambda: None,
) -> dict[str, Any]:
    """Let the model read every cell; return the document for grip.json.

    Args:
        eye: The model.
        model: Its name, from `grip_model`.
        number: Number of texts of every height and canvas.
        seed: The same seed draws the same texts.
        kept: A file of answers, to resume from and to append to.
        advance: Called after each text.
    """
    store = RowStore(kept)

    def read(cells: Sequence[TextCell]) -> dict[str, float | None]:
        """Read these cells if necessary; return all points so far."""
        for cell in cells:
            if store.missing([Key(cell.key, "reader")]):
                text = sample(cell, seed)
                store.add(
                    BenchRow("grip", cell.key, "reader", scores={} if text is None else {"anls": score(eye, text)})
                )
            advance()
        return {key.question: row.scores.get("anls") for key, row in store.rows.items()}

    best = best_heights(read(cells_of(HEIGHTS, MAIN, number)))
    said = read(cells_of(best, [side for side in CANVASES if side not in MAIN], number))
    return document(said, best) | {"model": model, "n": number, "seed": seed}


def steps(number: int) -> int:
    """Return the number of texts that `measure` asks for."""
    return number * (len(HEIGHTS) * len(MAIN) + 3 * (len(CANVASES) - len(MAIN)))


def cells_of(heights: Sequence[float], sides: Sequence[int], number: int) -> list[TextCell]:
    """List cells number by number, so that an interrupted run has some of each."""
    return [TextCell(height, side, one) for one in range(number) for height in heights for side in sides]


def score(eye: Eye, text: Sample) -> float:
    """Return how much of the value was read right, 0 to 1."""
    eye.set_image(text.pixels)
    answer = eye.ask(text.question, TOKENS, options=Options(relevance=box_map(text.box), max_new_tokens=32))
    return anls(answer.text, [text.answer])


def counted(said: dict[str, float | None], which: int) -> dict[float, tuple[float, int]]:
    """Sum points and texts by the height (0) or the canvas (1) of the cells."""
    found: dict[float, tuple[float, int]] = {}
    for key, points in said.items():
        if points is not None:
            place = float(key.split()[which])
            right, asked = found.get(place, (0.0, 0))
            found[place] = right + points, asked + 1
    return dict(sorted(found.items()))


def _curve(said: dict[str, float | None]) -> tuple[list[float], list[float], list[int], np.ndarray]:
    main = {key: points for key, points in said.items() if int(key.split()[1]) in MAIN}
    found = counted(main, 0)
    heights, right, asked = list(found), [one[0] for one in found.values()], [one[1] for one in found.values()]
    return heights, right, asked, smoothed(heights, right, asked)


def best_heights(said: dict[str, float | None]) -> tuple[float, ...]:
    """Return the three heights read best on the main canvases."""
    heights, _, _, accuracy = _curve(said)
    return tuple(sorted(heights[place] for place in np.argsort(-accuracy, kind="stable")[:3].tolist()))


def document(said: dict[str, float | None], best: Sequence[float]) -> dict[str, Any]:
    """Summarise measurements: the curve, the best height, its range, and the canvases."""
    heights, right, asked, accuracy = _curve(said)
    at_best = {key: points for key, points in said.items() if float(key.split()[0]) in best}
    canvases = counted(at_best, 1)
    shares = [points / number for points, number in canvases.values()]
    middle, low, high = best_of(heights, accuracy.tolist())
    return {
        "schema": SCHEMA,
        "kind": GRIP,
        "heights": heights,
        "accuracy": [round(float(one), 4) for one in accuracy],
        "right": [round(one, 3) for one in right],
        "asked": asked,
        "best": round(middle, 2),
        "range": [round(low, 2), round(high, 2)],
        "largest": largest_read([int(side) for side in canvases], shares),
        "canvases": [
            {"side": int(side), "accuracy": round(share, 4), "asked": number}
            for (side, (_, number)), share in zip(canvases.items(), shares, strict=True)
        ],
    }


def smoothed(heights: Sequence[float], right: Sequence[float], asked: Sequence[float]) -> np.ndarray:
    """Return (N,) shares from counts at each height, smoothed with their neighbours by distance in octaves."""
    place = np.log2(np.asarray(heights, dtype=np.float64))
    near = np.exp(-0.5 * ((place[:, None] - place) / WIDTH) ** 2)
    return (near @ np.asarray(right, dtype=np.float64)) / np.maximum(near @ np.asarray(asked, dtype=np.float64), 1e-9)


def largest_read(sides: Sequence[int], accuracy: Sequence[float]) -> int:
    """Return the largest canvas up to which all canvases are read nearly as well as the best."""
    order = np.argsort(sides)
    best, found = max(accuracy), int(sides[order[0]])
    peak = int(np.argmax(np.array(accuracy)[order]))
    for place, number in enumerate(order):
        if place > peak and accuracy[number] < READ * best:
            break
        found = int(sides[number])
    return found


def best_of(heights: Sequence[float], accuracy: Sequence[float]) -> tuple[float, float, float]:
    """Return the best height and the range around it within 95 % of the best accuracy, interpolated linearly."""
    place = np.linspace(np.log(heights[0]), np.log(heights[-1]), 512)
    share = np.interp(place, np.log(heights), accuracy)
    peak = int(share.argmax())
    good = share >= WITHIN * share[peak] - 1e-12
    low = peak - int(np.argmin(good[peak::-1])) + 1 if not good[: peak + 1].all() else 0
    high = peak + int(np.argmin(good[peak:])) - 1 if not good[peak:].all() else len(place) - 1
    middle = float(np.exp((place[low] + place[high]) / 2))
    return middle, float(np.exp(place[low])), float(np.exp(place[high]))
