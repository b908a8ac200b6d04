"""The answer as it is written on the page: copied from its words, with how sure that is.

copied_answer(words, "What is the total?")     → WordsAnswer("$36.90", sureness 0.93, the boxes of its words)

A model that reads pixels may misread a digit; a text layer does not. The ranker says which words are the answer. How
sure it may be was fitted on drawn pages that it had not seen.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ...pictures.words import Words
from .page import word_page
from .source import features, ranker_weights, word_logits

# A word beside the likeliest belongs to the answer where its own odds are at least even, or this near to the likeliest.
NEAR = 2.0
LOUDEST = 12.0
# Of drawn bills, pages and Needle World: weights of what `doubts` tells. The file of a ranker brings its own.
CALIBRATION = (0.55, -0.25, 0.0)
# The sureness from which words by OCR count more than the scorer.
EVEN = 0.5


@dataclass(frozen=True, eq=False)
class WordsAnswer:
    """text: the words in reading order. sureness: how likely it is right, 0–1. boxes: (n, 4) of its words in 0–1.
    by_ocr: the words were read by OCR."""

    text: str
    sureness: float
    boxes: np.ndarray
    by_ocr: bool = False


def copied_answer(words: Words, query: str, weights: Mapping[str, np.ndarray] | None = None) -> WordsAnswer | None:
    """The phrase of the page that answers a question; None where the page has no words.

    Args:
        words: of the page.
        query: the question.
        weights: of a ranker of one's own; the bundled one where None.

    Returns:
        The likeliest words, in reading order.

    Example:
        >>> copied_answer(as_words("invoice.hocr"), "What is the total?").text
        '$36.90'
    """
    if not len(words):
        return None
    page = word_page(words)
    held = ranker_weights() if weights is None else weights
    logits = np.clip(word_logits(page, *features(page, query), held)[:, 0], -LOUDEST, LOUDEST)
    chosen = answer_words(page.phrase, logits)
    scale = held.get("calibration", CALIBRATION)
    sureness = float(1 / (1 + np.exp(-doubts(page.phrase, logits, chosen) @ np.asarray(scale, float))))
    text = " ".join(words.texts[place] for place in page.order[chosen].tolist())
    return WordsAnswer(text, sureness, words.boxes[page.order[chosen]], words.by_ocr)


def answer_words(phrase: np.ndarray, logits: np.ndarray) -> np.ndarray:
    """(N,) phrases and logits in the page's order → places of the answer's words: the likeliest, and those that go on
    from it."""
    best = int(logits.argmax())
    belongs = (phrase == phrase[best]) & ((logits > 0) | (logits >= logits[best] - NEAR))
    gaps = np.flatnonzero(~belongs)
    start = int(gaps[gaps < best].max(initial=-1)) + 1
    stop = int(gaps[gaps > best].min(initial=len(logits)))
    return np.arange(start, stop)


def doubts(phrase: np.ndarray, logits: np.ndarray, chosen: np.ndarray) -> np.ndarray:
    """(3,): the odds of the likeliest word, those of the best word elsewhere, and 1."""
    elsewhere = np.ones(len(logits), bool)
    elsewhere[phrase == phrase[chosen[0]]] = False
    second = logits[elsewhere].max(initial=-LOUDEST)
    return np.array([logits[chosen].max(), second, 1.0])


def sureness_of_words(words: Words, query: str) -> float:
    """How sure the words are of their answer, beside what it takes to be believed as far as the scorer."""
    copied = copied_answer(words, query)
    return (0.0 if copied is None else copied.sureness) - EVEN
