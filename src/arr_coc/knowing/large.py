"""Very large pictures: the scorer looks coarse first, and fine only where that may pay.

Reduced to what the scorer reads at once, small type of a large drawing is gone. So the picture is cut into tiles, whose
text is read and searched for the words of the question; the scorer is asked about the best. Where no word is found,
tiles are chosen that the coarse look points at or that hold much fine structure.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..core.errors import check_stop
from ..core.values import Relevance
from ..pictures.ocr import ocr_words
from .registry import Maps
from .scene import Scene
from .words.search import text_scores

# From this side on a picture is large; it is then held with this longer side, in tiles, of which so many are read.
LARGE_SIDE, FINE_SIDE, TILE, TILES = 4096, 4608, 1152, 4
# What fine structure counts beside what the coarse look says, and what the coarse look is worth where nobody looked.
STRUCTURE, UNREAD = 0.5, 0.5


@dataclass(frozen=True, eq=False)
class TileReader:
    """The scorer about the tiles of one picture, for one question. maps: a source's (`Source.maps`)."""

    maps: Callable[[Sequence[Scene], Sequence[str]], Maps]
    scene: Scene
    query: str

    def score(self, tile: np.ndarray) -> np.ndarray:
        """(H, W, 3) uint8 → (rows, cols) relevance of its 32×32 cells."""
        return self.maps([replace(self.scene, picture=tile, kept=None)], [self.query]).relevance[0].map

    def search(self, tiles: Sequence[np.ndarray]) -> np.ndarray | None:
        """(tiles,) how well plain text search finds the question in what is written on each; None where it finds it
        nowhere."""
        texts = [" ".join(ocr_words(tile).texts) for tile in tiles]
        scores = text_scores(texts, self.query)
        return scores if scores.max(initial=0.0) > 0 else None


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
    search: Callable[[Sequence[np.ndarray]], np.ndarray | None] = lambda tiles: None,
    *,
    tiles: int = TILES,
) -> Relevance:
    """The coarse map, with the tiles that may pay read as they are: one value for 32×32 pixels of `pixels`.

    Args:
        coarse: Relevance of the whole picture at a glance.
        pixels: (H, W, 3) uint8, the picture as finely as it is held.
        score: The scorer: pixels of a tile → (rows, cols) relevance of its 32×32 cells.
        search: How well each tile's text fits the question: tiles → (tiles,), or None where none does.
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
    scores = search(parts) if worth.size > tiles else None
    by = "the words of the question" if scores is not None else "what the first look and fine structure promise"
    chosen = np.lexsort((-worth.ravel(), -(worth.ravel() if scores is None else scores)))[:tiles]
    for place in chosen.tolist():
        check_stop()
        row, col = places[place]
        seen = score(parts[place])
        top, left = row * TILE // cell, col * TILE // cell
        high, wide = min(seen.shape[0], rows - top), min(seen.shape[1], cols - left)
        found[top : top + high, left : left + wide] = seen[:high, :wide]
    note = f"a large picture: looked at coarsely, then {len(chosen)} of {worth.size} parts as they are, by {by}"
    return replace(coarse, map=np.clip(found, 0, 1).astype(np.float32), notes=(*coarse.notes, note))
