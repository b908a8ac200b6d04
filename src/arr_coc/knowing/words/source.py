"""Question × words → map: where the answer to a question is written on a page whose words are known.

A phrase counts by what it shares with the question (exact, near and related words, rarer ones more), by the kind of
value it is (when → a date), and by its neighbours: the value stands right of its label, below it, or where a row and a
column meet. A small network weighs these (`word_ranker`); it was trained on drawn pages only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np

from ...core import folders
from ...core.errors import InputError
from ...core.folders import verify
from ...core.values import Relevance
from ...pictures.ocr import ocr_missing, ocr_words
from ...pictures.words import Words, as_words
from ..language.senses import coupled_words
from ..scene import Scene
from .kinds import ASKING, ASKS, GROUPS, KINDS, asked_kinds, parts_of, stem
from .page import DOWN, LEFT, RIGHT, UP, WordPage, letter_pairs, word_page

# ----------------------------------------------------------------------------------------------------------------------
# A small network over the phrases of a page: how likely each word is the answer, and how likely it is what names it.
#
# Every phrase starts from its own features; two rounds let it hear its neighbours (left, right, above, below, the heads
# of its row and column) and the page as a whole; then each word is judged with its phrase. Numpy only; the weights are
# written by `python -m arr_coc_lab.train.train_words`.

RANKER = "ranker.npz"
WEIGHTS = folders.WEIGHTS / "words" / RANKER
ROUNDS = 2
LOUDEST = 5.0  # standard deviations beyond which a feature says no more


@lru_cache(maxsize=4)
def ranker_weights(path: Path = WEIGHTS) -> Mapping[str, np.ndarray]:
    """The weights by name, float32."""
    verify(path.parent, [path.name])
    try:
        with np.load(path, allow_pickle=False) as held:
            return {name: held[name].astype(np.float32) for name in held.files}
    except (OSError, ValueError) as error:
        remedy = "install the package again" if path == WEIGHTS else "give a folder that arr-coc train words wrote"
        raise InputError(f"cannot read the ranker of words at {path} ({error}); {remedy}") from error


def standard(values: np.ndarray, mean: np.ndarray, scale: np.ndarray) -> np.ndarray:
    return np.clip((values - mean) / scale, -LOUDEST, LOUDEST)


def word_logits(
    page: WordPage, phrases: np.ndarray, words: np.ndarray, weights: Mapping[str, np.ndarray] | None = None
) -> np.ndarray:
    """(S, ·) and (N, ·) features → (N, 2) logits in the page's order: answer, and what names it."""
    w = ranker_weights() if weights is None else weights
    seen = standard(phrases, w["mean"], w["scale"])
    hidden = np.maximum(seen @ w["first"] + w["first_bias"], 0)
    for turn in range(ROUNDS):
        padded = np.concatenate([hidden, np.zeros_like(hidden[:1])])
        around = padded[page.neighbours].reshape(len(hidden), -1)
        overall = np.broadcast_to(hidden.max(0), hidden.shape)
        heard = np.concatenate([hidden, around, overall], axis=1)
        hidden = hidden + np.maximum(heard @ w[f"round{turn}"] + w[f"round{turn}_bias"], 0)
    own = standard(words, w["word_mean"], w["word_scale"])
    together = (page.phrase[1:] == page.phrase[:-1])[:, None]
    nothing = np.zeros_like(own[:1])
    before = np.concatenate([nothing, own[:-1] * together])
    after = np.concatenate([own[1:] * together, nothing])
    judged = np.concatenate([hidden[page.phrase], own, before, after], axis=1)
    judged = np.maximum(judged @ w["word"] + w["word_bias"], 0)
    return judged @ w["last"] + w["last_bias"]


# ----------------------------------------------------------------------------------------------------------------------

# Parts of a question that are compared; a longer one is cut, its later words kept: they name the thing more often.
MOST_PARTS = 24
# Phrases that share words with the question and may be the label or the head of another.
ANCHORS = 48
NEAR = 8.0  # heights within which a neighbour is near
MAP_SIDE = 256
# Chosen on drawn pages of layouts that the ranker was not trained on: docs/words.md has the table.
NAMED = 0.1  # what a word that names the answer is worth beside the answer
QUIET = 0.12  # the weight of a word that asks without naming
_ALIKE = 0.45  # likeness of letters from which two words may be the same one misread


@dataclass(frozen=True)
class WordQuestion:
    """The parts of a question that may stand on a page, with weights (Q,), and what kinds it asks for (asks,)."""

    parts: tuple[str, ...]
    weights: np.ndarray
    kinds: np.ndarray
    pairs: np.ndarray


@lru_cache(maxsize=256)
def asked(query: str) -> WordQuestion:
    """A question taken apart. Words in capitals or in quotes are names of what stands on the page."""
    quoted = " ".join(re.findall(r"[\"“”‘']([^\"“”‘']{2,})[\"“”’']", query))
    named = set(parts_of(quoted))
    found: dict[str, float] = {}
    for place, word in enumerate(query.split()):
        for part in parts_of(word):
            capital = place > 0 and word[:1].isupper()
            weight = QUIET if part in ASKING else 1.0
            weight = max(weight, 0.7) if capital and part in ASKING else weight
            weight = 1.3 if part in named else weight
            found[part] = max(found.get(part, 0.0), weight)
    parts = tuple(found)[-MOST_PARTS:]
    weights = np.array([found[part] for part in parts], dtype=np.float32)
    return WordQuestion(parts, weights, asked_kinds(query), letter_pairs(parts))


def matches(page: WordPage, question: WordQuestion) -> tuple[np.ndarray, np.ndarray]:
    """(N, Q) how surely each word is that part of the question, and (N, Q) whether it means about the same, 0–1."""
    alike = page.pairs @ question.pairs.T
    same = np.where(alike > _ALIKE, alike * alike, 0.0).astype(np.float32)
    related = np.zeros_like(same)
    place = {part: row for row, part in enumerate(page.parts)}
    for column, part in enumerate(question.parts):
        stemmed, groups = stem(part), GROUPS.get(part, frozenset())
        if groups:
            related[[row for row, other in enumerate(page.groups) if other & groups], column] = 1.0
        same[[row for row, other in enumerate(page.stems) if other == stemmed], column] = 0.95
        if len(part) > 3:  # words run together by OCR, or a part of a compound
            inside = [row for row, other in enumerate(page.parts) if part in other]
            same[inside, column] = np.maximum(same[inside, column], 0.75)
        if part.isdigit():  # a number is that number or another one
            same[:, column] = np.where(same[:, column] > 0.8, same[:, column], 0.0)
        if part in place:
            same[place[part], column] = related[place[part], column] = 1.0
    rows = [np.maximum.reduceat(values[page.part], page.first_part, axis=0) for values in (same, related)]
    return rows[0], rows[1]


def features(page: WordPage, query: str) -> tuple[np.ndarray, np.ndarray]:
    """(S, ·) of the phrases and (N, ·) of the words in the page's order, float32: all that the ranker reads."""
    question = asked(query)
    if not question.parts:
        question = WordQuestion(("",), np.ones(1, np.float32), question.kinds, letter_pairs(("",)))
    exact, related = matches(page, question)
    weights, first = question.weights, page.first
    phrase = np.maximum.reduceat(exact, first, axis=0)
    kin = np.maximum.reduceat(related, first, axis=0)
    # Rarity: a word that stands on the page ten times says little about where to look.
    rarity = 1 / (1 + 0.6 * np.log(np.maximum(1, (exact > 0.8).sum(0))))
    total = weights.sum()
    share = _weighed(phrase, weights) / total
    word_best = (exact * np.minimum(weights, 1.0)).max(1)
    filled = np.add.reduceat(word_best, first) / np.diff([*first, len(word_best)])
    rare = (phrase * (weights * rarity)).max(1)
    kinship = _weighed(kin, weights) / total
    follows = _in_order(exact, page)
    scarce = weights * rarity
    strength = _weighed(phrase, scarce) / scarce.sum() * (0.3 + 0.7 * filled)
    best = max(1e-6, float(strength.max()))
    directions, crossing, ahead = _from_anchors(page, phrase, scarce, strength)
    kinds = np.stack([page.kinds[:, KINDS.index(kind)] * question.kinds[ASKS.index(kind)] for kind in KINDS], axis=1)
    most, least = question.kinds[ASKS.index("most")], question.kinds[ASKS.index("least")]
    number = len(page)
    dynamic = [
        share, filled, share * filled, rare, kinship, follows, strength / best, np.minimum.reduceat(word_best, first),
        kinds.max(1), kinds.sum(1), most * (page.percentile - 0.5), least * (0.5 - page.percentile),
        np.full(number, best), np.full(number, np.log1p((strength > 0.5 * best).sum())),
    ]  # fmt: skip
    everywhere = np.broadcast_to(question.kinds, (number, len(ASKS)))
    table = [page.features, np.stack(dynamic, 1), directions, crossing, ahead, kinds, everywhere]
    before = _running_max(word_best, page)
    kinds_asked = np.array([question.kinds[ASKS.index(kind)] for kind in KINDS], dtype=np.float32)
    wanted = _weighed(page.word_kinds, kinds_asked)
    own = [word_best, (exact * scarce).max(1), related.max(1), before, np.maximum(before - word_best, 0), wanted]
    return (
        np.concatenate(table, axis=1).astype(np.float32),
        np.concatenate([page.word_features, np.stack(own, 1)], axis=1).astype(np.float32),
    )


def _weighed(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(S, Q) · (Q,) without BLAS, whose kernels for so few columns look at memory beside them: the result is right, but
    where that memory holds NaN, numpy warns of an invalid value."""
    return np.einsum("sq,q->s", values, weights)


def _in_order(exact: np.ndarray, page: WordPage) -> np.ndarray:
    """(S,) how many words of a phrase follow one another as they do in the question, as a share of the question."""
    sure = exact > 0.7
    pairs = np.zeros(len(exact), np.float32)
    if len(exact) > 1 and sure.shape[1] > 1:
        pairs[1:] = (sure[:-1, :-1] & sure[1:, 1:]).any(1) & (page.phrase[1:] == page.phrase[:-1])
    return np.add.reduceat(pairs, page.first) / max(1, sure.shape[1] - 1)


def _running_max(values: np.ndarray, page: WordPage) -> np.ndarray:
    """(N,) the largest value among the words before this one in its phrase."""
    shifted = np.r_[0.0, values[:-1]]
    shifted[page.first] = 0.0
    # Phrases are kept apart by steps larger than any value, so that one running maximum serves all.
    return np.maximum.accumulate(shifted + 4.0 * page.phrase) - 4.0 * page.phrase


def _from_anchors(
    page: WordPage, phrase: np.ndarray, weights: np.ndarray, strength: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """What each phrase has beside it: (S, 8) the strongest match to the left, right, above and below, near and at any
    distance; (S, 8) how much of the question its row, its column, both and the two together hold, also beside the most
    that any has; (S, 6) where the page's best match lies."""
    number = len(page)
    anchors = np.argsort(-strength, kind="stable")[:ANCHORS]
    anchors = anchors[strength[anchors] > 0.02]
    if not len(anchors):
        return np.zeros((number, 8), np.float32), np.zeros((number, 8), np.float32), np.zeros((number, 6), np.float32)
    x0, y0, x1, y1 = page.boxes.T[:, :, None]
    a0, b0, a1, b1 = page.boxes[anchors].T[:, None, :]
    high, wide = np.maximum(y1 - y0, 1e-6), np.maximum(x1 - x0, 1e-6)
    beside = np.minimum(y1, b1) - np.maximum(y0, b0) > 0.4 * np.minimum(high, b1 - b0)
    over = np.minimum(x1, a1) - np.maximum(x0, a0)
    above = ((over > 0.3 * np.minimum(wide, a1 - a0)) | (np.abs(x0 - a0) < 0.5 * high)) & ~beside
    itself = np.arange(number)[:, None] == anchors
    beside, above = beside & ~itself, above & ~itself
    gaps = {LEFT: x0 - a1, RIGHT: a0 - x1, UP: y0 - b1, DOWN: b0 - y1}
    before = {LEFT: a0 + a1 < x0 + x1, RIGHT: a0 + a1 > x0 + x1, UP: b0 + b1 < y0 + y1, DOWN: b0 + b1 > y0 + y1}
    found = []
    for side in (LEFT, RIGHT, UP, DOWN):
        there = (beside if side in (LEFT, RIGHT) else above) & before[side]
        decay = np.exp(-np.maximum(gaps[side], 0) / (NEAR * high))
        found += [(there * decay * strength[anchors]).max(1), (there * strength[anchors]).max(1)]
    total = weights.sum()
    row, column = (_gathered(there, phrase[anchors]) for there in (beside, above))
    row_share, column_share = (_weighed(part, weights) / total for part in (row, column))
    union = _weighed(np.maximum(row, column), weights) / total
    crossing = [row_share, column_share, np.minimum(row_share, column_share), union]
    crossing += [union - np.maximum(row_share, column_share)]
    crossing += [one / max(1e-6, float(one.max())) for one in (row_share, column_share, union)]
    top = page.boxes[anchors[0]]
    aside = (page.boxes[:, 0] - top[2]) / high[:, 0], (page.boxes[:, 1] - top[3]) / high[:, 0]
    level = (page.boxes[:, 1] + page.boxes[:, 3] - top[1] - top[3]) / 2 / high[:, 0]
    left = (page.boxes[:, 0] - top[0]) / high[:, 0]
    ahead = [np.tanh(aside[0] / 8), np.tanh(aside[1] / 4), np.exp(-np.abs(level)), np.exp(-np.abs(left))]
    ahead += [itself[:, 0], np.exp(-np.hypot(level, left / 4) / 4)]
    return _columns(found), _columns(crossing), _columns(ahead)


def _columns(values: Sequence[np.ndarray]) -> np.ndarray:
    return np.stack(values, axis=1).astype(np.float32)


def _gathered(there: np.ndarray, parts: np.ndarray) -> np.ndarray:
    """(S, A) which anchors count, (A, Q) the parts of the question they hold → (S, Q) the surest of each part."""
    return np.stack([(there * parts[:, column]).max(1) for column in range(parts.shape[1])], axis=1)


def answer_shares(words: Words, query: str, weights: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """(N, 2) float32 in 0–1, in the order of the words: how likely each one is part of the answer, and of what names
    it (the label, the heads of its row and column)."""
    if not len(words):
        return np.zeros((0, 2), np.float32)
    return page_shares(word_page(words), query, weights)


def page_shares(page: WordPage, query: str, weights: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """The same of a page of at least one word, or of several as one."""
    logits = word_logits(page, *features(page, query), weights)
    found = np.empty_like(logits)
    found[page.order] = 1 / (1 + np.exp(-np.clip(logits, -30, 30)))
    return found


def paint(words: Words, values: np.ndarray) -> np.ndarray:
    """(N,) values → map (rows, cols) float32 in [0, 1] that covers the page: each word's value over its own ground.

    A cell's mean is then what a look at it is worth: how much of the answer it is likely to show.
    """
    height, width = words.size
    rows, cols = (max(1, round(MAP_SIDE * side / max(height, width))) for side in (height, width))
    x0, y0, x1, y1 = words.boxes.astype(np.float64).T[:, :, None]
    line, column = np.arange(rows), np.arange(cols)
    down = np.clip(np.minimum(y1 * rows, line + 1) - np.maximum(y0 * rows, line), 0, 1)
    across = np.clip(np.minimum(x1 * cols, column + 1) - np.maximum(x0 * cols, column), 0, 1)
    return np.clip((down * values[:, None]).T @ across, 0, 1).astype(np.float32)


def map_of(words: Words, shares: np.ndarray) -> np.ndarray:
    """The words that are likely the answer first, then what names it, then other words by their score; nothing on blank
    ground. (N, 2) of `answer_shares` → (rows, cols) float32 in [0, 1], the longer side `MAP_SIDE`."""
    return paint(words, np.clip(shares[:, 0] + NAMED * shares[:, 1], 0, 1))


def words_map(words: Words, query: str) -> np.ndarray:
    """Where the answer to a question is written: see `map_of`."""
    return map_of(words, answer_shares(words, query))


def counted_line(words: Words, query: str) -> tuple[np.ndarray, str] | None:
    """(N,) which words stand in the line that a question counts ("What does the third line say?"), and what was
    counted. None where none is asked for, there are not so many, or lines stand side by side, as in columns."""
    meant = coupled_words(query)
    asked_for = [one for one in meant.ordinals if one.line]
    if not meant.reading or len(asked_for) != 1:
        return None
    names, place = np.unique(words.lines, return_inverse=True)
    top, bottom = np.ones(len(names)), np.zeros(len(names))
    np.minimum.at(top, place, words.boxes[:, 1])
    np.maximum.at(bottom, place, words.boxes[:, 3])
    order = np.argsort(top + bottom, kind="stable")
    top, bottom = top[order], bottom[order]
    beside = bottom[:-1] - top[1:] > 0.25 * np.minimum.reduce([(bottom - top)[:-1], (bottom - top)[1:]])
    number = asked_for[0].number
    if beside.any() or number > len(names):
        return None
    line = order[number if number < 0 else number - 1]
    counted = len(names) if number < 0 else number
    return place == line, f"{asked_for[0].said}: line {counted} of {len(names)}"


def told_source(words: Words) -> str:
    """Where words come from, and what reading them cost."""
    if not words.by_ocr:
        return words.source
    return f"{words.source}, {words.seconds:.1f} s" if words.seconds else f"{words.source}, read before"


def words_missing(offers: frozenset[str]) -> str | None:
    """One line that says what "words" lacks: words from the caller or OCR."""
    line = None if "words" in offers else ocr_missing()
    return None if line is None else f"relevance='words': give words=, or let them be read: {line}"


def words_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "words": those that are known, else by OCR. A picture without any gets the detail that it has. option:
    the folder of a ranker that `train words` wrote, instead of the bundled one."""
    size = (scene.pixels.shape[0], scene.pixels.shape[1])
    words = ocr_words(scene.pixels) if scene.words is None else as_words(scene.words, size)
    if not len(words):
        note = f"no words ({words.source}): what a coarse look would lose"
        from ..ways import scene_detail

        return Relevance(scene_detail(scene, query).map, query=query, notes=(note,))
    shares = answer_shares(words, query, ranker_weights(Path(option) / RANKER) if option else None)
    counted = counted_line(words, query)
    if counted is not None:
        shares[counted[0], 0] = 1.0
    best = int(shares[:, 0].argmax())
    note = f"{len(words)} words ({told_source(words)}); likeliest {words.texts[best]!r}, {100 * shares[best, 0]:.0f} %"
    notes = (note,) if counted is None else (note, counted[1])
    return Relevance(map_of(words, shares), query=query, notes=notes)
