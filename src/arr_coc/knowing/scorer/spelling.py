"""Which words of a question stand on a page that nobody has read, by the letters that the scorer sees.

The scorer has a head that names the characters at every eighth pixel; it was trained beside its map. A word stands
where its letters follow one another from left to right. Nothing is written down as text: only words that were asked
for are looked for, so a letter that is read wrong costs little.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.alphabet import IDS, SPACE, text_row
from ...core.kept import PictureStore
from ..words.joint import KINDRED
from ..words.kinds import GROUPS, parts_of, stem
from ..words.source import asked
from .onnx_scorer import load, seen_picture

# Blocks of 8 pixels from one letter to the next, and more of them from one word to the next.
REACH, GAP = 3, 4
# No letter is held more impossible than this, as a logarithm: one that is not seen does not undo a long word.
LEAST = -5.0
# The mean of its letters from which on a word is more likely there than not, and how soon; by the words of drawn
# documents: docs/documents.md.
THERE, SOON = -0.5, 0.25
# Levels by which ink differs from paper, and pixels that are kept around it.
INK, MARGIN = 48, 24
# Below so much, nothing was found that tells pages or parts apart.
LEAST_FOUND = 0.4
# Words of the question below this weight are not looked for, but as part of a pair, where they are as long as this.
NAMING, PAIRED = 0.5, 4


class AskedWord(NamedTuple):
    """What is looked for. texts: itself and words of one meaning, in small letters. worth: of each, beside itself.
    weight: what it says in the question."""

    texts: tuple[str, ...]
    worth: tuple[float, ...]
    weight: float


@lru_cache(maxsize=64)
def asked_words(query: str) -> tuple[AskedWord, ...]:
    """The words of a question that name something, and two that follow one another."""
    question = asked(query)
    weights = dict(zip(question.parts, question.weights.tolist(), strict=True))
    words = [part for word in query.split() for part in parts_of(word) if part in weights]
    found = {}
    for word in words:
        if weights[word] >= NAMING:
            kin = tuple(other for other, groups in GROUPS.items() if other != word and groups & GROUPS.get(word, set()))
            found[word] = AskedWord((stem(word), *kin), (1.0, *[KINDRED] * len(kin)), weights[word])
    for pair in pairwise(words):
        heavy = max(weights[word] for word in pair)
        if heavy >= NAMING and all(weights[word] >= NAMING or len(word) >= PAIRED for word in pair):
            found[" ".join(pair)] = AskedWord((" ".join(pair),), (1.0,), heavy)
    return tuple(found.values())


def letter_board(folder: Path, pixels: np.ndarray, kept: PictureStore | None = None) -> np.ndarray:
    """(H, W, 3) uint8 → (h / 8, w / 8, alphabet) float16: the logarithm of how surely each character stands there or
    just below, small letters and capitals as one. Empty margins are not read. kept: where the score of the same picture
    will find what was read; then all of it is."""
    scorer = load(folder)
    seen = scorer.see(written(pixels)) if kept is None else seen_picture(folder, pixels, kept)
    logits = scorer.letters(seen)
    board = -np.logaddexp(0, -logits, dtype=np.float32)
    small, large = (slice(IDS[first], IDS[first] + 26) for first in "aA")
    board[..., small] = np.maximum(board[..., small], board[..., large])
    # A low letter's middle may lie a block below that of its tall neighbour.
    board[:-1] = np.maximum(board[:-1], board[1:])
    return board.astype(np.float16)


def written(pixels: np.ndarray) -> np.ndarray:
    """A page without its empty margins: whatever differs from its paper is kept, and a little around it."""
    plane = pixels[..., 1].astype(np.int16)
    ink = np.abs(plane - int(np.median(plane[::4, ::4]))) > INK
    rows, cols = (np.flatnonzero(ink.any(axis)) for axis in (1, 0))
    if not len(rows):
        return pixels[:MARGIN, :MARGIN]
    top, left = max(0, int(rows[0]) - MARGIN), max(0, int(cols[0]) - MARGIN)
    return pixels[top : int(rows[-1]) + MARGIN, left : int(cols[-1]) + MARGIN]


def spelled(board: np.ndarray, words: Sequence[AskedWord]) -> np.ndarray:
    """(words,) from 0 to 1: how surely each stands anywhere on a page, itself or a word of its meaning."""
    planes: dict[int, np.ndarray] = {}
    for number in {number for word in words for text in word.texts for number in text_row(text, len(text))}:
        planes[number] = np.maximum(board[..., number].astype(np.float32), LEAST)
    found = np.zeros(len(words))
    for place, word in enumerate(words):
        means = np.array([_best(text, planes) for text in word.texts])
        there = 1 / (1 + np.exp(np.clip((THERE - means) / SOON, -30, 30)))
        found[place] = (there * word.worth).max()
    return found


def _best(text: str, planes: dict[int, np.ndarray]) -> float:
    """The best mean of a text's letters over all places of a page."""
    total: np.ndarray | None = None
    apart, letters = False, 0
    for number in text_row(text, len(text)):
        if number == SPACE:
            apart = True
            continue
        letters += 1
        if total is None:
            total = planes[number]
        else:
            # The letter before stands in the same block, or up to `REACH` blocks to the left.
            before = np.full_like(total, -np.inf) if apart else total.copy()
            for step in range(1, min(REACH + (GAP if apart else 0), total.shape[1] - 1) + 1):
                np.maximum(before[:, step:], total[:, :-step], out=before[:, step:])
            total = before + planes[number]
        apart = False
    return -math.inf if total is None else float(total.max()) / letters


def spelled_scores(there: np.ndarray, words: Sequence[AskedWord]) -> np.ndarray:
    """(pages,) how well the question is found on each page, as plain text search counts it: what stands on few pages
    says more. there: (pages, words), as `spelled` gives it."""
    pages = there.sum(0)
    rare = np.log1p((len(there) - pages + 0.5) / (pages + 0.5))
    return there @ (np.array([word.weight for word in words]) * rare)
