"""Search the pages of a document as plain text."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from .kinds import ASKS, GROUPS, PATTERNS, asked_kinds, kinds_of, parts_of, question_parts, stem

# BM25's saturation of repeated words (k1), and penalty for long pages (b).
SATURATION, LENGTH = 1.2, 0.5
# Weight of a synonym, and of a word that only contains the one searched.
KINDRED, INSIDE = 0.5, 0.5
# Score for values of the kind that is asked for, if no word of the question matches well.
OF_KIND = 0.05


def text_scores(texts: Sequence[str], query: str) -> np.ndarray:
    """Return (pages,) scores of plain text search (BM25) for the question on each page; synonyms count, too."""
    parts, weights = question_parts(query)
    counted = [Counter(parts_of.__wrapped__(text)) for text in texts]  # not cached for whole pages
    lengths = np.array([sum(one.values()) for one in counted], dtype=np.float64)
    scores = np.zeros(len(texts))
    if not lengths.any():
        return scores
    damped = SATURATION * (1 - LENGTH + LENGTH * lengths / lengths[lengths > 0].mean())
    vocabulary = dict.fromkeys(part for one in counted for part in one)
    for part, weight in dict(zip(parts, weights.tolist(), strict=True)).items():
        worth = _alike(part, vocabulary)
        found = np.array([sum(one[other] * worth[other] for other in one.keys() & worth.keys()) for one in counted])
        if found.any():
            pages = int((found >= 0.5).sum())
            rare = math.log(1 + (len(texts) - pages + 0.5) / (pages + 0.5))
            scores += weight * rare * found / (found + damped)
    asked = asked_kinds(query)
    places = [place for place, kind in enumerate(PATTERNS) if kind in ASKS and asked[ASKS.index(kind)]]
    if places and scores.max() < 0.5:
        for page, text in enumerate(texts):
            kinds = map(kinds_of, text.split()[:2000])
            scores[page] += OF_KIND * any(one[place] for one in kinds for place in places)
    return scores


def _alike(part: str, vocabulary: dict[str, None]) -> dict[str, float]:
    """Return the words of the pages that match a part of the question, with their weights."""
    stemmed, groups, long = stem(part), GROUPS.get(part, frozenset()), len(part) > 3 and not part.isdigit()
    worth: dict[str, float] = {}
    for other in vocabulary:
        if other == part or stem(other) == stemmed:
            worth[other] = 1.0
        elif groups and GROUPS.get(other, frozenset()) & groups:
            worth[other] = KINDRED
        elif long and part in other:
            worth[other] = INSIDE
    return worth
