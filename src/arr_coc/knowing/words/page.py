"""What is known about a page of words before anything is asked: phrases, their neighbours, kinds and sizes.

N words, S phrases (words that stand together in a line). Made once for a page; questions then cost little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from zlib import crc32

import numpy as np

from ...core.errors import check_stop
from ...pictures.words import EVERY_PAIR, Nearest, Words, chosen, in_bands
from .kinds import GROUPS, KINDS, number_of, parts_of, stem, word_kinds

LEFT, RIGHT, UP, DOWN, ROW_HEAD, COLUMN_HEAD = range(6)
NEIGHBOURS = 6
HASHES = 1024  # of letter pairs and triples
_AT_ONCE = 256
_YEAR = KINDS.index("year")


@dataclass(frozen=True, eq=False)
class WordPage:
    """order: (N,) words sorted by phrase, then from left to right. first: (S,) where each phrase begins in `order`.
    phrase: (N,) phrase of each word *in that order*. texts: S. boxes: (S, 4) in units of the longer side. neighbours:
    (S, 6) phrase to the left, right, above, below, at the head of the row and of the column; S where there is none.
    features: (S, ·) and word_features: (N, ·) float32. parts: the different parts of words; part: which one,
    first_part: (N,) where each word's parts begin; pairs: (parts, HASHES) their letters, of length 1."""

    words: Words
    order: np.ndarray
    first: np.ndarray
    phrase: np.ndarray
    texts: tuple[str, ...]
    boxes: np.ndarray
    neighbours: np.ndarray
    kinds: np.ndarray
    word_kinds: np.ndarray
    features: np.ndarray
    word_features: np.ndarray
    percentile: np.ndarray
    parts: tuple[str, ...]
    stems: tuple[str, ...]
    groups: tuple[frozenset[int], ...]
    part: np.ndarray
    first_part: np.ndarray
    pairs: np.ndarray

    def __len__(self) -> int:
        return len(self.texts)


def word_page(words: Words) -> WordPage:
    """The page of some words; there must be at least one. The last few are kept, unless they are too large for that."""
    return _kept_page(words) if len(words) <= EVERY_PAIR else _word_page(words)


def _word_page(words: Words) -> WordPage:
    order = np.lexsort((words.scaled[:, 0], words.phrases))
    phrase = words.phrases[order]
    first = np.flatnonzero(np.r_[True, phrase[1:] != phrase[:-1]])
    phrase = np.cumsum(np.r_[False, phrase[1:] != phrase[:-1]])
    texts = [words.texts[place] for place in order]
    boxes = words.scaled[order].astype(np.float64)
    joined = tuple(" ".join(texts[a:b]) for a, b in zip(first, [*first[1:], len(texts)], strict=True))
    spans = np.concatenate(
        [np.minimum.reduceat(boxes[:, :2], first, axis=0), np.maximum.reduceat(boxes[:, 2:], first, axis=0)], axis=1
    )
    near, gaps = neighbours_of(spans)
    found, whole = np.split(word_kinds([*texts, *joined]), [len(texts)])
    kinds = np.maximum(whole, np.maximum.reduceat(found, first, axis=0) * 0.5)
    percentile, ticks = figures(joined, spans, kinds)
    lists = [parts_of(text) or ("",) for text in texts]
    flat = [part for parts in lists for part in parts]
    unique = tuple(dict.fromkeys(flat))
    place = {part: number for number, part in enumerate(unique)}
    return WordPage(
        words=words,
        order=order,
        first=first,
        phrase=phrase,
        texts=joined,
        boxes=spans,
        neighbours=near,
        kinds=kinds,
        word_kinds=found,
        features=_phrase_features(joined, spans, gaps, kinds, percentile, ticks, np.diff([*first, len(texts)]), words),
        word_features=_word_features(texts, found, first, phrase),
        percentile=percentile,
        parts=unique,
        stems=tuple(map(stem, unique)),
        groups=tuple(GROUPS.get(part, frozenset()) for part in unique),
        part=np.array([place[part] for part in flat]),
        first_part=np.cumsum([0, *map(len, lists)])[:-1],
        pairs=letter_pairs(unique),
    )


_kept_page = lru_cache(maxsize=8)(_word_page)


# Letters of a part that are compared; no word of a language is longer.
LONGEST_PART = 64


def letter_pairs(parts: tuple[str, ...]) -> np.ndarray:
    """(parts, HASHES) float32 of length 1: which pairs and triples of letters a part has, its ends marked, so that the
    product of two of them is how alike they are."""
    found = np.zeros((len(parts), HASHES), np.float32)
    for start in range(0, len(parts), _AT_ONCE):
        check_stop()
        marked = [f"^{part[:LONGEST_PART]}$".encode() for part in parts[start : start + _AT_ONCE]]
        row = np.repeat(np.arange(start, start + len(marked)), [len(one) for one in marked])
        letters = np.frombuffer(b"".join(marked), np.uint8).astype(np.uint32)
        for size in (2, 3):
            inside = np.flatnonzero(row[: len(row) - size + 1] == row[size - 1 :])
            found[row[inside], _hashes(letters, inside, size)] = 1
    found /= np.maximum(np.sqrt(found.sum(1, keepdims=True)), 1e-6)
    return found


# CRC-32 of one byte.
_BYTES = np.array([crc32(bytes([byte]), 0xFFFFFFFF) ^ 0xFFFFFFFF for byte in range(256)], np.uint32)


def _hashes(letters: np.ndarray, places: np.ndarray, size: int) -> np.ndarray:
    """(n,) the CRC-32 of `size` letters from each place, as `zlib.crc32` counts it, below HASHES."""
    state = np.full(len(places), 0xFFFFFFFF, np.uint32)
    for step in range(size):
        state = _BYTES[(state ^ letters[places + step]) & 0xFF] ^ (state >> np.uint32(8))
    return (state ^ np.uint32(0xFFFFFFFF)) % HASHES


def neighbours_of(boxes: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S, 4) → (S, 6) neighbours, and (S, 4) the gaps to the first four in heights of the phrase, 99 where none."""
    number = len(boxes)
    x0, y0, x1, y1 = boxes.T
    high, wide = np.maximum(y1 - y0, 1e-6), np.maximum(x1 - x0, 1e-6)
    near = np.full((number, NEIGHBOURS), number)
    gaps = np.full((number, 4), 99.0)
    middle_x, middle_y = (x0 + x1) / 2, (y0 + y1) / 2
    # Of each side: in what order its phrases stand in bands and on the page, and where a phrase looks among them.
    rows, columns = (middle_y, high), (middle_x, np.maximum(wide, high))
    lookups = {
        LEFT: Nearest(number, in_bands(*rows, x1, x0), (x1, x0)),
        RIGHT: Nearest(number, in_bands(*rows, x0, x1), (x0, x1)),
        UP: Nearest(number, in_bands(*columns, y1, y0), (y1, y0)),
        DOWN: Nearest(number, in_bands(*columns, y0, y1), (y0, y1)),
    }
    for start in range(0, number, _AT_ONCE):  # blocks, so that a dense page needs no gigabyte
        check_stop()
        here = slice(start, start + _AT_ONCE)
        for side, lookup in lookups.items():
            other = lookup.of(here)
            beside = np.minimum(y1[here, None], y1[other]) - np.maximum(y0[here, None], y0[other]) > 0.4 * np.minimum(
                high[here, None], high[other]
            )
            if side in (LEFT, RIGHT):
                allowed = beside
                before = (
                    middle_x[other] < middle_x[here, None] if side == LEFT else middle_x[other] > middle_x[here, None]
                )
                gap = x0[here, None] - x1[other] if side == LEFT else x0[other] - x1[here, None]
            else:
                over = np.minimum(x1[here, None], x1[other]) - np.maximum(x0[here, None], x0[other])
                aligned = (over > 0.3 * np.minimum(wide[here, None], wide[other])) | (
                    np.abs(x0[here, None] - x0[other]) < 0.5 * high[here, None]
                )
                aligned |= (np.abs(x1[here, None] - x1[other]) < 0.5 * high[here, None]) & (
                    over > -0.5 * high[here, None]
                )
                allowed = aligned & ~beside
                before = (
                    middle_y[other] < middle_y[here, None] if side == UP else middle_y[other] > middle_y[here, None]
                )
                gap = y0[here, None] - y1[other] if side == UP else y0[other] - y1[here, None]
            ranked = np.where(allowed & before, np.maximum(gap, 0) + 1e-3 * np.abs(x0[here, None] - x0[other]), np.inf)
            best = ranked.argmin(1)
            least = ranked[np.arange(len(best)), best]
            near[here, side] = np.where(np.isfinite(least), chosen(other, best), number)
            gaps[here, side] = np.where(np.isfinite(least), least / high[here], 99.0)
    for side, head in ((LEFT, ROW_HEAD), (UP, COLUMN_HEAD)):
        step = np.append(near[:, side], number)
        step = np.where(step == number, np.arange(number + 1), step)
        for _ in range(number.bit_length()):  # pointers are doubled until they stand at the head
            step = step[step]
        near[:, head] = np.where(step[:-1] == np.arange(number), number, step[:-1])
    return near, gaps


def figures(texts: tuple[str, ...], boxes: np.ndarray, kinds: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(S,) how large each figure is among those of the page, 0–1, 0.5 for what is none; and (S,) whether it belongs to
    the ticks of an axis: evenly spaced figures in a row or a column, which say nothing about extremes."""
    values = np.array([number_of(text) if len(text) < 40 else np.nan for text in texts])
    ticks = np.zeros(len(texts), np.float32)
    numeric = np.flatnonzero(np.isfinite(values))
    if len(numeric) >= 4:
        x0, y0, x1, y1 = boxes[numeric].T
        height = np.maximum(y1 - y0, 1e-6)
        for edges, along in ((((x1, x0, (x0 + x1) / 2)), (y0 + y1) / 2), (((y0 + y1) / 2,), (x0 + x1) / 2)):
            for edge in edges:
                evenly = _evenly(edge, 0.35 * height, along, values[numeric])
                ticks[numeric] = np.maximum(ticks[numeric], evenly)
    plain = np.isfinite(values) & (ticks < 0.5) & (kinds[:, _YEAR] < 1)
    percentile = np.full(len(texts), 0.5, np.float32)
    if plain.sum() > 1:
        ranks = np.searchsorted(np.sort(values[plain]), values[plain])
        percentile[plain] = ranks / max(1, ranks.max())
    return percentile, ticks


def _evenly(edge: np.ndarray, reach: np.ndarray, along: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(n,) 1 where those whose edge lies within `reach` of one's own grow with their place as on an axis: correlation
    above 0.999."""
    near = Nearest(len(edge), (), (edge, edge))
    scale = max(1e-9, float(np.abs(values).max()))
    found = np.zeros(len(edge), np.float32)
    for start in range(0, len(edge), EVERY_PAIR):
        part = slice(start, start + EVERY_PAIR)
        other = near.of(part)
        weight = (np.abs(edge[part, None] - edge[other]) < reach[part, None]).astype(float)
        count = weight.sum(1)
        places, sizes = np.broadcast_to(along[other], weight.shape), np.broadcast_to(values[other], weight.shape)
        centre_a, centre_v = (weight * places).sum(1) / count, (weight * sizes).sum(1) / count
        a, v = places - centre_a[:, None], (sizes - centre_v[:, None]) / scale
        shared = (weight * a * v).sum(1)
        spread = np.sqrt((weight * a * a).sum(1) * (weight * v * v).sum(1))
        found[part] = (count >= 4) & (np.abs(shared) > 0.999 * np.maximum(spread, 1e-12))
    return found


def letter_counts(texts: Sequence[str]) -> np.ndarray:
    """(N, 3) float64: letters of each text, those in upper case, and digits. No text is empty."""
    lengths = np.array([len(text) for text in texts])
    codes = np.frombuffer("".join(texts).encode("utf-32-le", "surrogatepass"), np.uint32)
    there = np.flatnonzero(np.bincount(codes))
    first, sums = np.cumsum(lengths) - lengths, [lengths]
    for is_kind in (str.isupper, str.isdigit):
        table = np.zeros(there[-1] + 1, np.int32)
        table[there] = [is_kind(chr(code)) for code in there.tolist()]
        sums.append(np.add.reduceat(table[codes], first))
    return np.stack(sums, axis=1).astype(float)


def _phrase_features(
    texts: tuple[str, ...],
    boxes: np.ndarray,
    gaps: np.ndarray,
    kinds: np.ndarray,
    percentile: np.ndarray,
    ticks: np.ndarray,
    lengths: np.ndarray,
    words: Words,
) -> np.ndarray:
    """(S, ·): what a phrase looks like and where it stands, whatever is asked."""
    x0, y0, x1, y1 = boxes.T
    high = np.maximum(y1 - y0, 1e-6)
    extent = np.array(words.size[::-1]) / max(words.size)
    size = np.log(high / np.median(high))
    largest = high / high.max()
    letters = letter_counts(texts)
    count = dict.fromkeys(texts, 0)
    for text in texts:
        count[text] += 1
    columns = [
        np.clip(size, -2, 2), largest**2, (x0 + x1) / 2 / extent[0], (y0 + y1) / 2 / extent[1], (x1 - x0) / extent[0],
        np.abs((x0 + x1) / extent[0] - 1), y0 <= y0.min() + 0.5 * high, np.log(lengths), letters[:, 0] / 20,
        letters[:, 1] / letters[:, 0], letters[:, 2] / letters[:, 0], [text.endswith(":") for text in texts],
        [text[:1].islower() for text in texts], np.log([count[text] for text in texts]), percentile, ticks,
        *np.exp(-gaps.T / 3), *(gaps.T < 90), np.full(len(texts), np.log(len(texts) / 50)),
    ]  # fmt: skip
    return _table(columns, kinds)


def _word_features(texts: list[str], kinds: np.ndarray, first: np.ndarray, phrase: np.ndarray) -> np.ndarray:
    """(N, ·): what a word is, and its place in its phrase."""
    lengths = np.diff([*first, len(texts)])[phrase]
    place = np.arange(len(texts)) - first[phrase]
    columns = [place == 0, place == lengths - 1, place / lengths, [text.endswith(":") for text in texts]]
    letters = letter_counts(texts)
    columns += [letters[:, 2] / letters[:, 0], letters[:, 0] / 10]
    return _table(columns, kinds)


def _table(columns: Sequence[object], kinds: np.ndarray) -> np.ndarray:
    """Columns (N,) and kinds (N, ·) side by side, float32."""
    own = np.stack([np.asarray(column, dtype=np.float32) for column in columns], 1)
    return np.concatenate([own, kinds], 1).astype(np.float32)
