"""The source "words": map where the answer to a question is on a page whose words are known."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from ...core.arrays import overlaps
from ...core.values import Relevance
from ...pictures.ocr import ocr_words
from ...pictures.words import Words, as_words
from ..scene import Scene
from ..ways import scene_detail
from .answer import answer_shares
from .chooser import WEIGHTS

MAP_SIDE = 256
NAMED = 0.1  # weight of a label beside the answer itself


def map_of(words: Words, shares: np.ndarray) -> np.ndarray:
    """Turn (N, 2) of `answer_shares` into a map (rows, cols) float32 in [0, 1], the longer side `MAP_SIDE`. The mean of
    a cell is the expected share of the answer that it shows; labels count less, blank ground is zero."""
    values, (height, width) = np.clip(shares[:, 0] + NAMED * shares[:, 1], 0, 1), words.size
    rows, cols = (max(1, round(MAP_SIDE * side / max(height, width))) for side in (height, width))
    x0, y0, x1, y1 = words.boxes.astype(np.float64).T
    down, across = overlaps(y0 * rows, y1 * rows, rows), overlaps(x0 * cols, x1 * cols, cols)
    return np.clip((down * values[:, None]).T @ across, 0, 1).astype(np.float32)


def origin(words: Words) -> str:
    """Describe where words come from, and how long reading them took."""
    if not words.by_ocr:
        return words.source
    number = len(np.unique(words.lines))
    lines = f"{number} of {number + words.unread} lines" if words.unread else f"{number} lines"
    return f"{words.source}, {lines}, {f'{words.seconds:.1f} s' if words.seconds else 'read before'}"


def words_relevance(scene: Scene, query: str, weights: Path = WEIGHTS) -> Relevance:
    """Compute the source "words", with known words, else by OCR; the map "detail" if there are none."""
    size = (scene.pixels.shape[0], scene.pixels.shape[1])
    words = ocr_words(scene.pixels) if scene.words is None else as_words(scene.words, size)
    if not len(words):
        note = f"no words ({words.source}): what a coarse look would lose"
        return Relevance(scene_detail(scene, query).map, query=query, notes=(note,))
    shares = answer_shares(words, query, scene.pointed, weights)
    best = int(shares[:, 0].argmax())
    note = f"{len(words)} words ({origin(words)}); likeliest {words.texts[best]!r}, {100 * shares[best, 0]:.0f} %"
    return Relevance(map_of(words, shares), query=query, notes=(note,))
