"""Copy the answer from the words of a page, with its probability of being right.

copied_answer(words, "What is the total?")     → WordsAnswer("$36.90", sureness 0.93, the boxes of its words)

A model that reads pixels may misread a digit; a text layer does not. The chooser says which words are the answer. Its
sureness was calibrated on drawn pages of layouts that it had not seen.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ...core.kept import ByteStore, pixels_key
from ...pictures.words import Words
from .chooser import MOST_WORDS, WEIGHTS, PageBoard, ask_board, choose, matches, page_board, spans_of, under, weights_of
from .kinds import parts_of, question_parts

_judged = ByteStore(16 << 20)  # the map, the balancing and the answer need the same result
# Sureness above which words by OCR count more than the scorer.
EVEN = 0.5


@dataclass(frozen=True, eq=False)
class WordsAnswer:
    """A copied answer. text: the words in reading order. sureness: its probability of being right. boxes: (n, 4) of its
    words in 0–1. by_ocr: whether the words were read by OCR."""

    text: str
    sureness: float
    boxes: np.ndarray
    by_ocr: bool = False


def copied_answer(
    words: Words, query: str, relevance: np.ndarray | None = None, weights: Path = WEIGHTS
) -> WordsAnswer | None:
    """Find the words of a page that answer a question: the likeliest, in reading order; None if the page has no words.
    relevance: (rows, cols), the scorer's map of the page, if there is one. weights: of the chooser.

    Example:
        >>> copied_answer(as_words("invoice.hocr"), "What is the total?").text
        '$36.90'
    """
    if not len(words):
        return None
    page, logits = judged(words, query, relevance, weights)
    (chosen, sure), *_ = spans_of(page, logits)
    slope, shift = weights_of(weights)["calibration"]
    odds = np.log(np.clip(sure, 1e-4, 1 - 1e-4) / (1 - np.clip(sure, 1e-4, 1 - 1e-4)))
    places = page.order[chosen]
    text = " ".join(words.texts[place] for place in places.tolist())
    return WordsAnswer(text, float(1 / (1 + np.exp(-slope * odds - shift))), words.boxes[places], words.by_ocr)


def judged(
    words: Words, query: str, relevance: np.ndarray | None = None, weights: Path = WEIGHTS
) -> tuple[PageBoard, np.ndarray]:
    """Return the page as the chooser reads it, and its (N + 1, 4) logits; of many words only those that may matter."""

    def read() -> tuple[PageBoard, np.ndarray]:
        page = page_board(words, None if len(words) <= MOST_WORDS else near_question(words, query, relevance))
        seen = None if relevance is None else under(relevance, page.boxes)
        return page, choose(ask_board(page, query, seen), weights_of(weights))

    return _judged.made((words, query, None if relevance is None else pixels_key(relevance), weights), read)


def near_question(words: Words, query: str, relevance: np.ndarray | None = None) -> np.ndarray:
    """Return the numbers (MOST_WORDS,) of the words nearest to what the question names, and of those on the map."""
    parts, weight = question_parts(query)
    shared = matches([parts_of(text) for text in words.texts], parts)[..., 0]
    strength = np.einsum("pn,p->n", shared, weight / (1 + np.log(np.maximum(1, (shared > 0.8).sum(1)))))
    anchors = np.argsort(-strength, kind="stable")[:48]
    middle = (words.scaled[:, :2] + words.scaled[:, 2:]) / 2
    high = np.median(words.scaled[:, 3] - words.scaled[:, 1])
    # Along a line and down a column, a value may be far from its label.
    aside, down = (np.abs(middle[:, None, axis] - middle[None, anchors, axis]) / high for axis in (0, 1))
    apart = np.minimum(aside + 8 * down, 3 * aside + down)
    worth = (strength[anchors] * np.exp(-apart / 40)).max(1) + 1e-6 * strength
    if relevance is not None:
        seen = under(relevance, words.boxes)
        worth = worth / max(worth.max(), 1e-6) + seen / max(float(seen.max()), 1e-6)
    return np.sort(np.argsort(-worth, kind="stable")[:MOST_WORDS])


def answer_shares(words: Words, query: str, relevance: np.ndarray | None = None, weights: Path = WEIGHTS) -> np.ndarray:
    """Return (N, 2) float32 in 0–1: the probability that each word is part of the answer (the rest: that it is not on
    this page), and part of its label (or the heads of its row and column). relevance: the scorer's map."""
    found = np.zeros((len(words), 2), np.float32)
    if len(words):
        page, logits = judged(words, query, relevance, weights)
        odds = np.exp(np.clip(logits[:-1, 0] - logits[-1, 0], -30, 30))  # against "not on this page"
        share = odds / (1 + odds.sum())
        inside = share.copy()
        for chosen, _ in spans_of(page, logits, most=8):
            inside[chosen] = np.maximum(inside[chosen], share[chosen[0]])
        found[page.order] = np.stack([inside, 1 / (1 + np.exp(-np.clip(logits[:-1, 3], -30, 30)))], 1)
    return found


def sureness_of_words(words: Words, query: str, relevance: np.ndarray | None = None) -> float:
    """Return the sureness of the words' answer, relative to the one at which they count as much as the scorer."""
    copied = copied_answer(words, query, relevance)
    return (0.0 if copied is None else copied.sureness) - EVEN
