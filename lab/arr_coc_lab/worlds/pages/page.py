"""A drawn page and what is known about it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class DrawnQuestion(NamedTuple):
    """A question with boxes in pixels: (N, 4) and (M, 4) uint16, x0 y0 x1 y1; `context` is what it is asked by."""

    kind: str
    text: str
    answer: str
    boxes: np.ndarray
    context: np.ndarray


class DrawnPage(NamedTuple):
    """A drawn page, clean. picture: WebP. word_boxes (W, 4), char_boxes (C, 4) uint16 in pixels; characters stand in
    order, so that word i holds the next len(words[i]) of them."""

    name: str
    family: str
    layout: str
    split: str
    width: int
    height: int
    picture: bytes
    words: list[str]
    word_boxes: np.ndarray
    char_boxes: np.ndarray
    questions: list[DrawnQuestion]
