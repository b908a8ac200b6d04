"""Very large pictures: the scorer looks coarse first, and fine only where that may pay. And which words of a question
stand on a page or a part of it that nobody has read, by the letters that the scorer sees.

Reduced to what the scorer reads at once, small type of a large drawing is gone. So the picture is cut into tiles. What
the scorer sees of each, before it is asked, tells which words of the question stand there; the question is asked of the
best. Where no word is found, tiles are chosen that the coarse look points at or that hold much fine structure.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..core.alphabet import IDS, SPACE, text_row
from ..core.errors import check_stop
from ..core.kept import ByteStore, PictureStore, pixels_key
from ..core.values import Relevance
from .registry import Maps
from .scene import Scene
from .scorer.onnx_scorer import load, seen_picture
from .scorer.source import ScorerRelevance
from .words.kinds import GROUPS, parts_of, question_parts, stem
from .words.search import KINDRED

# From this side on a picture is large; it is then held with this longer side, in tiles, of which so many are read.
LARGE_SIDE, FINE_SIDE, TILE, TILES = 4096, 4608, 1152, 4
# What fine structure counts beside what the coarse look says, and what the coarse look is worth where nobody looked.
STRUCTURE, UNREAD = 0.5, 0.5
# Bytes that may be kept of tiles that were seen and may be asked.
KEPT_BYTES = 512 << 20


@dataclass(frozen=True, eq=False)
class TileReader:
    """The scorer about the tiles of one picture, for one question. maps: a source's (`Source.maps`)."""

    maps: Callable[[Sequence[Scene], Sequence[str]], Maps]
    scene: Scene
    query: str
    store: ByteStore = field(default_factory=lambda: ByteStore(KEPT_BYTES))

    def score(self, tile: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 → (rows, cols) relevance of its 32×32 cells."""
        return self.maps([replace(self.scene, picture=tile, kept=self._kept(tile))], [self.query]).relevance[0].map

    def spell(self, tiles: Sequence[np.ndarray]) -> np.ndarray | None:
        """(tiles,) how well the words of the question are found among the letters of each; None where none is, and
        where the scorer shows no letters."""
        scorer, named = self.scene.scorer or ScorerRelevance.bundled(), asked_words(self.query)
        reads = isinstance(scorer, ScorerRelevance) and scorer.has_graph and str(self.scene.device) == "cpu"
        if not named or not reads:
            return None
        there = []
        for tile in tiles:
            check_stop()
            there.append(spelled(letter_board(scorer.folder, tile, self._kept(tile)), named))
        scores = spelled_scores(np.stack(there), named)
        return scores if scores.max() >= LEAST_FOUND else None

    def _kept(self, tile: np.ndarray) -> PictureStore:
        return PictureStore(self.store, pixels_key(tile))


def tile_worth(coarse: np.ndarray, pixels: np.ndarray, tile: int = TILE) -> np.ndarray:
    """(rows, cols) of tiles: how much a fine look at each may pay: the largest coarse relevance (h, w) in it, and half
    of how much fine structure it has beside the richest one."""
    height, width = pixels.shape[:2]
    rows, cols = -(-height // tile), -(-width // tile)
    structure, peak = np.zeros((rows, cols)), np.zeros((rows, cols))
    for row in range(rows):
        for col in range(cols):
            part = pixels[row * tile : (row + 1) * tile, col * tile : (col + 1) * tile, 1]
            structure[row, col] = np.abs(np.diff(part.astype(np.int16), axis=1)).mean() if part.shape[1] > 1 else 0
            top, bottom = _span(row, tile, height, coarse.shape[0])
            left, right = _span(col, tile, width, coarse.shape[1])
            peak[row, col] = coarse[top:bottom, left:right].max()
    return peak + STRUCTURE * structure / max(float(structure.max()), 1e-9)


def _span(place: int, tile: int, length: int, samples: int) -> tuple[int, int]:
    start = int(place * tile * samples / length)
    return start, max(start + 1, int(np.ceil(min((place + 1) * tile, length) * samples / length)))


def read_tiles(
    coarse: Relevance,
    pixels: np.ndarray,
    score: Callable[[np.ndarray], np.ndarray],
    spell: Callable[[Sequence[np.ndarray]], np.ndarray | None] = lambda tiles: None,
    *,
    tiles: int = TILES,
) -> Relevance:
    """The coarse map, with the tiles that may pay read as they are: one value for 32×32 pixels of `pixels`.

    Args:
        coarse: Relevance of the whole picture at a glance.
        pixels: (H, W, 3) uint8, the picture as finely as it is held.
        score: The scorer: pixels of a tile → (rows, cols) relevance of its 32×32 cells.
        spell: What tells tiles apart before they are asked: tiles → (tiles,), or None.
        tiles: How many are read.
    """
    cell = 32
    height, width = pixels.shape[:2]
    rows, cols = -(-height // cell), -(-width // cell)
    down = np.minimum(np.arange(rows) * coarse.map.shape[0] // rows, coarse.map.shape[0] - 1)
    across = np.minimum(np.arange(cols) * coarse.map.shape[1] // cols, coarse.map.shape[1] - 1)
    found = UNREAD * coarse.map[np.ix_(down, across)]
    worth = tile_worth(coarse.map, pixels, TILE)
    places = [divmod(place, worth.shape[1]) for place in range(worth.size)]
    parts = [np.ascontiguousarray(pixels[row * TILE : (row + 1) * TILE, col * TILE : (col + 1) * TILE])
             for row, col in places]  # fmt: skip
    letters = spell(parts) if worth.size > tiles else None
    by = "the words of the question" if letters is not None else "what the first look and fine structure promise"
    chosen = np.lexsort((-worth.ravel(), -(worth.ravel() if letters is None else letters)))[:tiles]
    for place in chosen.tolist():
        check_stop()
        row, col = places[place]
        seen = score(parts[place])
        top, left = row * TILE // cell, col * TILE // cell
        high, wide = min(seen.shape[0], rows - top), min(seen.shape[1], cols - left)
        found[top : top + high, left : left + wide] = seen[:high, :wide]
    note = f"a large picture: looked at coarsely, then {len(chosen)} of {worth.size} parts as they are, by {by}"
    return replace(coarse, map=np.clip(found, 0, 1).astype(np.float32), notes=(*coarse.notes, note))


# ---- words by the letters that the scorer sees -----------------------------------------------------------------------
#
# The scorer has a head that names the characters at every eighth pixel; it was trained beside its map. A word stands
# where its letters follow one another from left to right. Nothing is written down as text: only words that were asked
# for are looked for, so a letter that is read wrong costs little.

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
    parts, worth = question_parts(query)
    weights = dict(zip(parts, worth.tolist(), strict=True))
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
