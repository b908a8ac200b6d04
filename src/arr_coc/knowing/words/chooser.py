"""The chooser: a network that says which words of a page answer a question, and how sure that is.

A small transformer reads the question, the page's words with their boxes, and the scorer's map under each of them. It
points at the first word of the answer and at each word that follows. Its attention uses the relative positions of words
(left, above, in one line) and which words of the page are those of the question. It was trained on drawn pages only:
`arr-coc train words`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from zlib import crc32

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file

from ...core import folders
from ...core.arrays import overlaps
from ...core.errors import InputError
from ...core.folders import verify
from ...pictures.words import Words
from ..language.tables import plain
from .kinds import ASKS, GROUPS, KINDS, asked_kinds, number_of, parts_of, question_parts, stem, word_kinds

WEIGHTS = folders.WEIGHTS / "words" / folders.CHOOSER
HEADS = 8
MOST_WORDS, MOST_PARTS = 320, 24
LONGEST = 40  # words of an answer
GRAMS, BUCKETS = 12, 8192
# Bins for the distance of two words, in heights of a line: gaps along the line, and steps from line to line.
GAPS, STEPS = np.array([0.6, 2.0, 6.0, 20.0]), np.array([0.5, 1.6, 3.0, 6.0, 15.0])
RELATIONS = 11 * 11 + 3 + 1  # positions, three inside a phrase, and one for all other pairs
OWN = 18 + 2 * len(KINDS)  # features of a word alone
UNDER = 5  # features of the map under it
MATCHED = 5  # features of its match with the question
FEATURES = OWN + UNDER + MATCHED + 3 + len(ASKS)


@dataclass(frozen=True, eq=False)
class PageBoard:
    """Features of a page without a question. N words in reading order.

    order: (N,) int64, their numbers on the page. grams: (N, GRAMS) int64. own: (N, OWN) float32. relations: (N, N)
    uint8, the position of the second word relative to the first. right, below: (N,) int64, the next word in the line,
    and the first of the next line; N if there is none. parts: of each word.
    """

    order: np.ndarray
    boxes: np.ndarray
    phrase: np.ndarray
    grams: np.ndarray
    own: np.ndarray
    relations: np.ndarray
    right: np.ndarray
    below: np.ndarray
    parts: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.order)


@dataclass(frozen=True, eq=False)
class AskedBoard:
    """Features of a page with a question: T = P + N tokens, those of the question first.

    grams: (T, GRAMS). features: (T, FEATURES). relations: (N, N). match: (P, N, 2), same and related.
    """

    grams: np.ndarray
    features: np.ndarray
    relations: np.ndarray
    match: np.ndarray

    @property
    def asked(self) -> int:
        """Number of tokens of the question."""
        return self.match.shape[0]


@lru_cache(maxsize=32768)
def grams_of(text: str) -> tuple[int, ...]:
    """Hash the pieces of a word, 0 for none: the whole, its shape, and trigrams; all digits count as the same."""
    shape = "".join("9" if c.isdigit() else "A" if c.isupper() else "a" if c.isalpha() else c for c in text)
    squeezed = "".join(letter for at, letter in enumerate(shape) if shape[at - 1 : at] != letter)
    word = "".join("0" if c.isdigit() else c for c in plain(text).strip(".,:;()[]'\"?!"))
    padded = f"^{word}$"
    pieces = [f"={word}", f"~{squeezed}", *(padded[at : at + 3] for at in range(len(padded) - 2))][:GRAMS]
    found = [crc32(piece.encode()) % (BUCKETS - 1) + 1 for piece in pieces]
    return (*found, *(0,) * (GRAMS - len(found)))


def page_board(words: Words, keep: np.ndarray | None = None) -> PageBoard:
    """Compute the features of a page. keep: numbers of the words to read; all by default."""
    number = np.arange(len(words)) if keep is None else keep
    boxes, phrases = words.scaled[number].astype(np.float64), words.phrases[number]
    tops = np.full(int(phrases.max()) + 1, np.inf)
    np.minimum.at(tops, phrases, (boxes[:, 1] + boxes[:, 3]) / 2)
    inner = np.lexsort((boxes[:, 0], phrases, tops[phrases]))
    order, boxes, phrases = number[inner], boxes[inner], phrases[inner]
    texts = [words.texts[place] for place in order.tolist()]
    phrase = np.cumsum(np.r_[0, phrases[1:] != phrases[:-1]])
    right, below = _onward(boxes, phrase)
    own = _own_features(texts, boxes, phrase, words.size)
    grams = np.array([grams_of(text) for text in texts], dtype=np.int64).reshape(-1, GRAMS)
    parts = tuple(parts_of(text) for text in texts)
    return PageBoard(order, words.boxes[order], phrase, grams, own, relations_of(boxes, phrase), right, below, parts)


def _onward(boxes: np.ndarray, phrase: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (N,) the next word of the same phrase, and the first word of the phrase below; N if there is none."""
    number = len(boxes)
    right = np.full(number, number)
    below = np.full(number, number)
    together = phrase[1:] == phrase[:-1]
    right[:-1][together] = np.arange(1, number)[together]
    first = np.flatnonzero(np.r_[True, ~together])
    lines = np.stack(
        [
            np.minimum.reduceat(boxes[:, 0], first), np.minimum.reduceat(boxes[:, 1], first),
            np.maximum.reduceat(boxes[:, 2], first), np.maximum.reduceat(boxes[:, 3], first),
        ], 1,
    )  # fmt: skip
    x0, y0, x1, y1 = lines.T
    high = (y1 - y0)[:, None]
    gap = y0[None] - y1[:, None]
    over = np.minimum(x1[:, None], x1[None]) - np.maximum(x0[:, None], x0[None])
    near = (gap > -0.4 * high) & (gap < 1.4 * high) & (over > 0) & ~np.eye(len(lines), dtype=bool)
    distance = np.where(near, gap + 0.5 * np.abs(x0[None] - x0[:, None]), np.inf)
    best = distance.argmin(1)
    ends = np.flatnonzero(np.r_[~together, True])
    below[ends] = np.where(np.isfinite(distance.min(1)), first[best], number)
    return right, below


def relations_of(boxes: np.ndarray, phrase: np.ndarray) -> np.ndarray:
    """Return (N, N) uint8: the position of the second word relative to the first."""
    x0, y0, x1, y1 = boxes.T
    high = np.maximum(y1 - y0, 1e-4)[:, None]
    ahead, behind = x0[None] - x1[:, None], x0[:, None] - x1[None]
    along = np.where(ahead > 0, 1, np.where(behind > 0, -1, 0))
    far = np.digitize(np.maximum(np.maximum(ahead, behind), 0) / high, GAPS) + 1
    column = 5 + along * far
    middle = (y0 + y1) / 2
    down = (middle[None] - middle[:, None]) / high
    row = 5 + np.sign(down).astype(int) * np.digitize(np.abs(down), STEPS)
    place = (np.clip(row, 0, 10) * 11 + np.clip(column, 0, 10)).astype(np.uint8)
    same = phrase[None] == phrase[:, None]
    step = np.arange(len(boxes))[None] - np.arange(len(boxes))[:, None]
    inside = np.where(step == 1, 121, np.where(step == -1, 122, 123))
    return np.where(same, inside, place).astype(np.uint8)


def _own_features(texts: Sequence[str], boxes: np.ndarray, phrase: np.ndarray, size: tuple[float, float]) -> np.ndarray:
    """Compute (N, OWN) float32 features of each word by itself and in its phrase."""
    number = len(texts)
    first = np.flatnonzero(np.r_[True, phrase[1:] != phrase[:-1]])
    count = np.diff(np.r_[first, number])
    whole = [" ".join(texts[start : start + many]) for start, many in zip(first.tolist(), count.tolist(), strict=True)]
    place = np.arange(number) - first[phrase]
    high = np.maximum(boxes[:, 3] - boxes[:, 1], 1e-4)
    longest = max(size)
    extent = np.array([size[1], size[0]] * 2) / longest
    figures = np.array([number_of(text) for text in texts])
    known = np.isfinite(figures)
    rank = np.full(number, 0.5)
    if known.sum() > 1:
        rank[known] = np.argsort(np.argsort(figures[known])) / (known.sum() - 1)
    plainly = np.array(
        [
            (
                text[:1].isupper(), text.isupper() and len(text) > 1, sum(map(str.isdigit, text)) / len(text),
                text.endswith(":"), min(len(text), 24) / 12, any(c in "$€£¥%" for c in text),
            ) for text in texts
        ], dtype=np.float32,
    )  # fmt: skip
    columns = [
        *(boxes / extent - 0.5).T, np.log(high / np.median(high)), np.log1p((boxes[:, 2] - boxes[:, 0]) / high) - 1,
        place / 4, np.minimum(count[phrase], 12) / 4, place == 0, place == count[phrase] - 1, known, rank - 0.5,
    ]  # fmt: skip
    kinds = word_kinds(texts), word_kinds(whole)[phrase]
    return np.concatenate([np.stack(columns, 1), plainly, *kinds], 1).astype(np.float32)


def under(map_: np.ndarray, boxes: np.ndarray) -> np.ndarray:
    """Average a map (h, w) under each of the boxes (N, 4) in 0–1: (N,)."""
    rows, cols = map_.shape
    x0, y0, x1, y1 = (boxes * [cols, rows, cols, rows]).T
    seen = (overlaps(y0, y1, rows) @ map_.astype(np.float64) * overlaps(x0, x1, cols)).sum(1)
    return seen / np.maximum((x1 - x0) * (y1 - y0), 1e-9)


def _map_features(seen: np.ndarray | None, number: int) -> np.ndarray:
    """Compute (N, UNDER) features of the map's mean under each word; zeros without a map."""
    if seen is None:
        return np.zeros((number, UNDER), np.float32)
    best = max(float(seen.max()), 1e-6)
    rank = np.argsort(np.argsort(seen)) / max(1, number - 1)
    columns = [np.ones(number), np.log(seen + 1e-3) / 3, seen / best, rank - 0.5, np.full(number, best)]
    return np.stack(columns, 1).astype(np.float32)


def matches(parts: Sequence[tuple[str, ...]], asked: Sequence[str]) -> np.ndarray:
    """Return (P, N, 2) in 0–1: how surely each word equals each part of the question, and whether it is a synonym."""
    from rapidfuzz.distance import Indel
    from rapidfuzz.process import cdist

    known = list(dict.fromkeys(part for word in parts for part in word)) or [""]
    place = {part: number for number, part in enumerate(known)}
    alike = cdist(asked, known, scorer=Indel.normalized_similarity, dtype=np.float32)
    same, related = np.where(alike > 0.74, alike * alike, 0.0), np.zeros_like(alike)
    stems, groups = [stem(part) for part in known], [GROUPS.get(part, frozenset()) for part in known]
    for row, part in enumerate(asked):
        stemmed, mine = stem(part), GROUPS.get(part, frozenset())
        for column, other in enumerate(known):
            if other == part:
                same[row, column] = related[row, column] = 1.0
            elif stems[column] == stemmed:
                same[row, column] = 0.95
            elif part.isdigit() or other == f"sub{part}":  # numbers must match exactly
                same[row, column] = 0.0
            elif len(part) > 3 and len(other) > 3 and (part in other or other in part):
                same[row, column] = max(same[row, column], 0.75)
            if mine and mine & groups[column]:
                related[row, column] = 1.0
    found = np.zeros((len(asked), len(parts), 2), np.float32)
    for word, mine in enumerate(parts):
        if mine:
            columns = [place[part] for part in mine]
            found[:, word, 0], found[:, word, 1] = same[:, columns].max(1), related[:, columns].max(1)
    return found


def ask_board(page: PageBoard, query: str, seen: np.ndarray | None = None) -> AskedBoard:
    """Add a question to the features of a page. seen: (N,) mean of the scorer's map under each word, in its order."""
    asked, weight = question_parts(query, MOST_PARTS)
    match = matches(page.parts, asked)
    sure = match[..., 0] > 0.8
    weight = weight / (1 + 0.6 * np.log(np.maximum(1, sure.sum(1))))  # a word that is everywhere says little
    number, asked_parts = len(page), len(asked)
    features = np.zeros((asked_parts + number, FEATURES), np.float32)
    own = (match[..., 0] * weight[:, None]).max(0)
    first = np.flatnonzero(np.r_[True, page.phrase[1:] != page.phrase[:-1]])
    whole = np.einsum("pn,p->n", np.maximum.reduceat(match[..., 0], first, axis=1), weight) / weight.sum()
    kindred = np.einsum("pn,p->n", np.maximum.reduceat(match[..., 1], first, axis=1), weight) / weight.sum()
    shared = np.stack([own, match[..., 1].max(0), whole[page.phrase], kindred[page.phrase],
                       whole[page.phrase] / max(float(whole.max()), 1e-6)], 1)  # fmt: skip
    features[asked_parts:, : OWN + UNDER + MATCHED] = np.concatenate([page.own, _map_features(seen, number), shared], 1)
    tail = features[:asked_parts, OWN + UNDER + MATCHED :]
    tail[:, 0], tail[:, 1], tail[:, 2] = 1.0, np.arange(asked_parts) / MOST_PARTS, weight
    tail[:, 3:] = asked_kinds(query)
    grams = np.concatenate([np.array([grams_of(part) for part in asked], np.int64).reshape(-1, GRAMS), page.grams])
    return AskedBoard(grams, features, page.relations, match)


# The network ----------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4)
def weights_of(path: Path = WEIGHTS) -> dict[str, np.ndarray]:
    """Load the weights by name, in float32."""
    verify(path.parent, [path.name])
    try:
        return {name: value.astype(np.float32) for name, value in load_file(path).items()}
    except (OSError, ValueError, SafetensorError) as error:
        raise InputError(f"cannot read the chooser of words at {path} ({error}); install the package again") from error


def choose(board: AskedBoard, weights: dict[str, np.ndarray]) -> np.ndarray:
    """Run the network: (N + 1, 4) logits (start, right, below, label) of every word; the last row is "not here"."""
    asked_parts, pieces = board.asked, weights["pieces.weight"]
    count = np.maximum((board.grams > 0).sum(1, keepdims=True), 1)
    spelled = (pieces[board.grams] * (board.grams > 0)[..., None]).sum(1) / np.sqrt(count)
    states = _linear(spelled, weights, "spell") + _linear(board.features, weights, "know")
    for number in range(sum(name.endswith(".mix.weight") for name in weights)):
        part = f"layers.{number}."
        bias = np.zeros((len(states), len(states), HEADS), np.float32)
        bias[asked_parts:, asked_parts:] = weights[part + "place.weight"][board.relations]
        bias[:asked_parts, asked_parts:] = _linear(board.match, weights, part + "found")
        bias[asked_parts:, :asked_parts] = _linear(board.match, weights, part + "asked").transpose(1, 0, 2)
        looked = _linear(_norm(states, weights, part + "norm"), weights, part + "look")
        ask, key, value = looked.reshape(len(states), 3, HEADS, -1).transpose(1, 2, 0, 3)
        scores = ask @ key.transpose(0, 2, 1) / np.sqrt(ask.shape[-1]) + bias.transpose(2, 0, 1)
        scores = np.exp(scores - scores.max(-1, keepdims=True))
        mixed = (scores / scores.sum(-1, keepdims=True)) @ value
        states = states + _linear(mixed.transpose(1, 0, 2).reshape(len(states), -1), weights, part + "mix")
        hidden = _linear(_norm(states, weights, part + "after"), weights, part + "up")
        states = states + _linear(hidden / (1 + np.exp(-hidden)), weights, part + "down")
    said = _linear(_norm(states, weights, "norm"), weights, "say")
    none = [said[:asked_parts, 4].mean(), *(-1e4,) * 3]
    return np.concatenate([said[asked_parts:, :4], np.array([none], np.float32)])


def _linear(values: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _norm(values: np.ndarray, weights: dict[str, np.ndarray], name: str) -> np.ndarray:
    centred = values - values.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred * centred).mean(-1, keepdims=True) + 1e-5)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def spans_of(page: PageBoard, logits: np.ndarray, most: int = 1) -> list[tuple[list[int], float]]:
    """Return the likeliest answers as lists of words, best first, each with its probability by the network."""
    starts = np.exp(logits[:, 0] - logits[:, 0].max())
    starts = starts / starts.sum()
    onward = 1 / (1 + np.exp(-np.clip(logits[:, 1:3], -30, 30)))
    found = []
    for start in np.argsort(-starts[:-1], kind="stable")[:most].tolist():
        chosen, sure = [start], float(starts[start])
        while len(chosen) < LONGEST:
            place = chosen[-1]
            ways = [(onward[place, way], int(after[place])) for way, after in enumerate((page.right, page.below))]
            chances = [(chance, after) for chance, after in ways if after < len(page) and after not in chosen]
            chance, after = max(chances, default=(0.0, -1))
            if chance <= 0.5:
                sure *= 1 - float(chance)
                break
            sure *= float(chance)
            chosen.append(after)
        found.append((chosen, sure))
    return found
