"""The leaves of an allocation, drawn over its picture."""

from __future__ import annotations

import cv2
import numpy as np

from ..values import Allocation
from .layout import boxes_at, covered, levels_at
from .palette import UNSEEN, level_colour

_VEIL = (84, 88, 100)


def overlay(pixels: np.ndarray, allocation: Allocation) -> np.ndarray:
    """(H, W, 3) uint8 RGB: `pixels` (the picture at display size) dimmed where it is seen coarsely, with borders.

    Every leaf gets a hairline in its level's colour, fainter where leaves are small on the display; where the level
    changes, a stronger line in the finer level's colour shows the outline.
    """
    size = pixels.shape[:2]
    levels = levels_at(allocation, size)
    result = _dimmed(pixels, levels)
    boxes = boxes_at(allocation, size)
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        chosen = boxes[allocation.levels == level]
        side = float(np.median(np.minimum(chosen[:, 2] - chosen[:, 0], chosen[:, 3] - chosen[:, 1])))
        lines = covered(_edges(chosen), size) & (levels == level)
        _blend(result, lines, level_colour(level), float(np.clip(side / 40, 0.12, 0.55)))
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        if (levels != level).any():
            thickness = max(1, round(min(size) / 420)) + (level == 0)
            _blend(result, _outline(levels, level, thickness), level_colour(level), 0.95)
    return result


def _dimmed(pixels: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Full colour at level 0, ever greyer and more veiled above, dark where nothing looks.

    A veil of one grey is seen on white paper and on a night street alike; darkening alone would not be.
    """
    coarsest = max(int(levels.max()), 1)
    share = np.clip(levels, 0, None).astype(np.float32)[..., None] / coarsest
    colours = pixels.astype(np.float32)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None]
    shown = colours + (grey - colours) * (0.6 * share)
    shown += (np.array(_VEIL, dtype=np.float32) - shown) * (0.6 * share)
    unseen = np.array(UNSEEN, dtype=np.float32) * 0.8 + 0.1 * grey
    return np.rint(np.where((levels < 0)[..., None], unseen, shown)).astype(np.uint8)


def _edges(boxes: np.ndarray) -> np.ndarray:
    """(2N, 4): the top row and the left column of each box; its other edges are its neighbours' top and left."""
    top, left, bottom, right = boxes.T
    return np.concatenate(
        [np.stack([top, left, top + 1, right], axis=1), np.stack([top, left, bottom, left + 1], axis=1)]
    )


def _outline(levels: np.ndarray, level: int, thickness: int) -> np.ndarray:
    """(H, W) bool: pixels of `level` within `thickness` of a coarser or unseen pixel."""
    rank = np.where(levels < 0, np.iinfo(np.int16).max, levels).astype(np.int16)
    here = (rank == level).astype(np.uint8)
    coarser = (rank > level).astype(np.uint8)
    reach = np.ones((2 * thickness + 1, 2 * thickness + 1), dtype=np.uint8)
    return (here & cv2.dilate(coarser, reach)).astype(bool)


def _blend(canvas: np.ndarray, where: np.ndarray, colour: np.ndarray, alpha: float) -> None:
    canvas[where] = np.rint(canvas[where] * (1 - alpha) + colour.astype(np.float32) * alpha).astype(np.uint8)
