"""Questions that any page answers: what stands beside or below a piece of text, which word follows or begins how.

The questions that a page was drawn with are few, and a reader that studies the page a hundred times learns them by
heart. These are many, need every letter of what they ask by, and are of use in every layout: a label and what belongs
to it.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import NamedTuple

import numpy as np

from .page import DrawnPage, DrawnQuestion
from .words import wordings

# Families in which what stands beside a label is another label.
DRAWN = frozenset({"bars", "lines", "pies", "scatters", "stacks", "tables", "timetables"})
# Words nearer than this share of their height are one piece of text; what stands farther off is not beside or below it.
GAP, BESIDE, UNDER = 0.75, 12.0, 2.5
LONGEST = 28
SHARES = {"field": 0.35, "right": 0.25, "below": 0.15, "next": 0.15, "begins": 0.1}
MOST_WORDS = 400


class Pieces(NamedTuple):
    """Runs of words on one line. texts: S of them; boxes: (S, 4) float32, x0 y0 x1 y1 in pixels."""

    texts: list[str]
    boxes: np.ndarray


def pieces_of(page: DrawnPage) -> Pieces:
    """Words that follow one another on a line with no more than a blank between them."""
    boxes = page.word_boxes.astype(np.float32)
    if not len(boxes):
        return Pieces([], boxes.reshape(0, 4))
    last, this = boxes[:-1], boxes[1:]
    height = np.maximum(last[:, 3] - last[:, 1], 1)
    level = np.abs(this[:, 1] - last[:, 1]) < 0.5 * height
    near = (this[:, 0] - last[:, 2] < GAP * height) & (this[:, 0] > last[:, 0])
    piece = np.concatenate([[0], np.cumsum(~(level & near))])
    number = int(piece[-1]) + 1
    joined = np.zeros((number, 4), np.float32)
    joined[:, :2] = np.inf
    for axis, join in enumerate((np.minimum, np.minimum, np.maximum, np.maximum)):
        join.at(joined[:, axis], piece, boxes[:, axis])
    texts: list[list[str]] = [[] for _ in range(number)]
    for word, own in zip(page.words, piece.tolist(), strict=True):
        texts[own].append(word)
    return Pieces([" ".join(words) for words in texts], joined)


def nearest(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, 4) → (S,), (S,): the piece to the right on the same line and the one below, −1 where there is none."""
    x0, y0, x1, y1 = boxes.T
    high = np.maximum(y1 - y0, 1)
    shared = np.minimum(y1[:, None], y1) - np.maximum(y0[:, None], y0)
    across = x0 - x1[:, None]
    beside = (shared > 0.5 * np.minimum(high[:, None], high)) & (across > 0) & (across < BESIDE * high[:, None])
    over = np.minimum(x1[:, None], x1) - np.maximum(x0[:, None], x0)
    down = y0 - y1[:, None]
    under = (over > 0) & (down > -0.2 * high[:, None]) & (down < UNDER * high[:, None]) & (y0 > y0[:, None])
    found = []
    for which, far in ((beside, across), (under, down)):
        ranked = np.where(which, far, np.inf)
        best = ranked.argmin(1)
        found.append(np.where(np.isfinite(ranked[np.arange(len(best)), best]), best, -1))
    return found[0], found[1]


def neighbour_questions(page: DrawnPage, most: int, chance: random.Random) -> list[DrawnQuestion]:
    """At most so many questions about what the page shows; every one is asked by text that the page has only once."""
    if not most or len(page.words) > MOST_WORDS:
        return []
    pieces = pieces_of(page)
    if not pieces.texts:
        return []
    once = Counter(text.lower() for text in pieces.texts)
    right, below = nearest(pieces.boxes)
    questions: list[DrawnQuestion] = []

    def ask(kind: str, by: str, answer: str, box: np.ndarray, context: np.ndarray) -> None:
        wording = wordings("field" if kind == "field" else f"neighbour.{kind}")
        text = chance.choice(wording).format(L=by, l=by.lower())
        places = (one.round().astype(np.uint16)[None] for one in (box, context))
        questions.append(DrawnQuestion(kind, text, answer, *places))

    for number, text in enumerate(pieces.texts):
        label = text.rstrip(" :.")
        if once[text.lower()] > 1 or not 2 <= len(label) <= LONGEST:
            continue
        ways: list[tuple[str, int]] = [("right", right[number]), ("below", below[number])]
        # What belongs to a label stands beside or below it; where something is in both places, who knows which.
        if page.family not in DRAWN and label[0].isalpha() and min(right[number], below[number]) < 0:
            ways.append(("field", max(right[number], below[number])))
        for kind, other in ways:
            if other >= 0 and len(pieces.texts[other]) <= LONGEST:
                ask(kind, label, pieces.texts[other], pieces.boxes[other], pieces.boxes[number])
    words, counted = page.words, Counter(word.lower() for word in page.words)
    boxes = page.word_boxes.astype(np.float32)
    starts = Counter(word[:3] for word in words)
    for number, word in enumerate(words):
        if counted[word.lower()] > 1 or len(word) > LONGEST:
            continue
        if len(word) > 4 and starts[word[:3]] == 1:
            ask("begins", word[:3], word, boxes[number], boxes[number])
        follows = number + 1 < len(words) and len(words[number + 1]) <= LONGEST
        if follows and len(word) > 2 and abs(boxes[number + 1, 1] - boxes[number, 1]) < 4:
            gap = boxes[number + 1, 0] - boxes[number, 2]
            if 0 <= gap < GAP * (boxes[number, 3] - boxes[number, 1]):
                ask("next", word, words[number + 1], boxes[number + 1], boxes[number])
    chance.shuffle(questions)
    # As many of each kind as there may be: single words are many, pieces are few.
    kinds: dict[str, list[DrawnQuestion]] = {}
    for one in questions:
        kinds.setdefault(one.kind, []).append(one)
    kept = [one for kind, share in SHARES.items() for one in kinds.get(kind, [])[: max(1, round(share * most))]]
    return kept[:most]
