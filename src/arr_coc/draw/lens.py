"""A closer look: places cut out of a picture large enough that single blocks can be told apart."""

from __future__ import annotations

import cv2
import numpy as np

from ..pictures import Picture
from ..values import Allocation
from .foveated import foveated
from .layout import Window, cut, resize


def places_of_interest(picture: Picture, allocation: Allocation) -> dict[int, tuple[float, float]]:
    """Level → centre (y, x) in pixels as given: the finest level's best-scored leaf, the coarsest level's busiest."""
    centres = allocation.boxes[:, :2] + allocation.boxes[:, 2:] / 2
    finest, coarsest = int(allocation.levels.min()), int(allocation.levels.max())
    fine = np.flatnonzero(allocation.levels == finest)
    places = {finest: tuple(centres[fine[np.argmax(allocation.scores[fine])]])}
    if coarsest > finest:
        coarse = np.flatnonzero(allocation.levels == coarsest)
        places[coarsest] = tuple(centres[coarse[np.argmax(_contrast_at(picture, centres[coarse]))]])
    return places


def places_apart(first: Allocation, second: Allocation) -> tuple[tuple[float, float], tuple[float, float]]:
    """Centres (y, x) in pixels as given: where the first sees finer than the second by most, and the reverse."""
    return _most_ahead(first, second), _most_ahead(second, first)


def _most_ahead(ours: Allocation, theirs: Allocation) -> tuple[float, float]:
    centres = ours.boxes[:, :2] + ours.boxes[:, 2:] / 2
    other = theirs.level_map()
    at = (centres * (np.array(theirs.canvas or (theirs.height, theirs.width)) / (theirs.height, theirs.width))).astype(
        int
    )
    other = other[tuple(np.minimum(at // theirs.cell, np.array(other.shape) - 1).T)]
    # Ground the other one does not look at at all counts as coarser than its coarsest.
    other = np.where(other < 0, theirs.levels.max() + 1, other)
    return tuple(centres[np.lexsort((ours.scores, other - ours.levels))[-1]])


def _contrast_at(picture: Picture, centres: np.ndarray) -> np.ndarray:
    """(N,) local standard deviation of the brightness around each centre, on a small version of the picture."""
    rows, cols = picture.pixels.shape[:2]
    scale = min(1.0, 256 / max(rows, cols))
    size = (max(1, round(rows * scale)), max(1, round(cols * scale)))
    grey = cv2.cvtColor(resize(picture.pixels, size), cv2.COLOR_RGB2GRAY).astype(np.float32)
    mean, square = cv2.blur(grey, (9, 9)), cv2.blur(grey * grey, (9, 9))
    at = (centres * (np.array(size) / np.array(picture.size))).astype(int)
    at = np.minimum(at, np.array(size) - 1)
    return np.sqrt(np.maximum(square - mean * mean, 0))[at[:, 0], at[:, 1]]


def lens(
    picture: Picture, allocation: Allocation, centre: tuple[float, float], size: tuple[int, int], cells: float = 4.0
) -> tuple[np.ndarray, np.ndarray]:
    """Two (H, W, 3) uint8 cut-outs of `size`: the picture, and what the model sees there.

    cells: how many level-0 cells the shorter side of the cut-out spans.
    """
    given = np.array(picture.size)
    # Pixels as given that one level-0 cell covers: the backbone may resize before it cuts cells.
    cell = allocation.cell * (given / np.array(allocation.canvas or picture.size)).mean()
    extent = np.array(size) * (cells * cell / min(size))
    # A small picture limits both sides alike, so that nothing is stretched.
    extent = np.maximum(np.rint(extent * min(1.0, (given / extent).min())), 1).astype(int)
    start = np.clip(np.rint(np.array(centre) - extent / 2), 0, given - extent).astype(int)
    window = Window(*start.tolist(), *extent.tolist())
    return cut(picture.pixels, window, picture.size, size), foveated(picture, allocation, size, window)
