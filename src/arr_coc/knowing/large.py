"""Very large pictures: the scorer looks coarse first, and fine only where that may pay.

Reduced to what the scorer reads at once, small type of a large drawing is gone. So the picture is cut into tiles. What
the scorer sees of each, before it is asked, tells which words of the question stand there; the question is asked of the
best. Where no word is found, tiles are chosen that the coarse look points at or that hold much fine structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..core.kept import ByteStore, PictureStore, pixels_key
from ..core.stopping import check_stop
from ..core.values import Relevance
from .registry import Maps
from .scene import Scene
from .scorer.source import ScorerRelevance
from .scorer.spelling import LEAST_FOUND, asked_words, letter_board, spelled, spelled_scores

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
        if not named or str(self.scene.device) != "cpu" or not isinstance(scorer, ScorerRelevance):
            return None
        if not scorer.has_graph:
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
    """(rows, cols) of tiles: how much a fine look at each may pay.

    Args:
        coarse: (h, w) relevance of the whole picture, as the coarse look found it.
        pixels: (H, W, 3) uint8, the picture as finely as it is held.
        tile: Pixels on the side of a tile.

    Returns:
        The largest coarse relevance in each tile, and half of how much fine structure it has beside the richest one.
    """
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
    """The coarse map with the tiles that may pay read as they are.

    Args:
        coarse: Relevance of the whole picture at a glance.
        pixels: (H, W, 3) uint8, the picture as finely as it is held.
        score: The scorer: pixels of a tile → (rows, cols) relevance of its 32×32 cells.
        spell: What tells tiles apart before they are asked: tiles → (tiles,), or None.
        tiles: How many are read.

    Returns:
        A map with one value for 32×32 pixels of `pixels`.
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
