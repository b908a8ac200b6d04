"""Colours, where things go on a page, and the one primitive all region drawing rests on: `covered`."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from ..attending.frame import token_boxes
from ..core.values import Allocation
from ..pictures.lettering import Colour

# Fine is warm and bright, coarse is cool and dark; the last colour serves all coarser levels. Every two are told apart
# by colour-blind readers as well.
LEVEL_COLOURS = np.array(
    [(255, 206, 70), (242, 130, 72), (229, 64, 118), (137, 86, 247), (38, 114, 192), (18, 67, 107)], dtype=np.uint8
)
UNSEEN: Colour = (38, 39, 44)  # ground that no token looks at
MARGIN = 32
GAP = 20
# A pane never gets taller than this share of the page's width, so that a till receipt stays on a screen.
TALLEST = 0.6
PAPER: Colour = (250, 249, 246)
MUTED: Colour = (108, 112, 120)
RULE: Colour = (222, 220, 214)
# The two sides of a comparison: apart in hue and alike in lightness, also for colour-blind readers.
FIRST: Colour = (196, 90, 20)
SECOND: Colour = (24, 104, 168)


def level_colour(level: int) -> np.ndarray:
    """(3,) uint8 colour of a level of detail; `UNSEEN` for a level below 0."""
    return np.array(UNSEEN, dtype=np.uint8) if level < 0 else LEVEL_COLOURS[min(level, len(LEVEL_COLOURS) - 1)]


@cache
def relevance_scale() -> np.ndarray:
    """(256, 3) uint8 RGB, perceptually uniform (inferno), from relevance 0 to 1."""
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    return np.ascontiguousarray(cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1])


@cache
def difference_scale() -> np.ndarray:
    """(256, 3) uint8 RGB: the first allocation's colour, paper in the middle, the second's."""
    stops = np.array([FIRST, (236, 234, 228), SECOND], dtype=np.float64)
    at = np.linspace(0, 2, 256)
    return np.stack([np.interp(at, [0, 1, 2], stops[:, channel]) for channel in range(3)], -1).round().astype(np.uint8)


def page(height: int, width: int) -> np.ndarray:
    """(height, width, 3) uint8 of empty paper."""
    return np.full((height, width, 3), PAPER, dtype=np.uint8)


def fit(height: int, width: int, room_height: int, room_width: int) -> tuple[int, int]:
    """The largest (height, width) of that shape inside the room, at least 1 pixel each way."""
    scale = min(room_height / height, room_width / width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def resize(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) uint8 → size: area mean when shrinking, cubic when growing."""
    if pixels.shape[:2] == tuple(size):
        return pixels
    shrinking = pixels.shape[0] >= size[0] and pixels.shape[1] >= size[1]
    return cv2.resize(pixels, (size[1], size[0]), interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_CUBIC)


def place(canvas: np.ndarray, picture: np.ndarray, x: int, y: int, room: tuple[int, int]) -> None:
    """Put `picture` into the middle of a room (height, width) at (x, y), with a hairline around it."""
    height, width = picture.shape[:2]
    top, left = y + (room[0] - height) // 2, x + (room[1] - width) // 2
    canvas[max(top - 1, 0) : top + height + 1, max(left - 1, 0) : left + width + 1] = RULE
    canvas[top : top + height, left : left + width] = picture


def boxes_at(allocation: Allocation, size: tuple[int, int]) -> np.ndarray:
    """(N, 4) int64: top, left, bottom, right of every region on a display of `size`, neighbours still touching."""
    return _displayed(allocation.boxes.astype(np.float64), size, (allocation.height, allocation.width))


def tokens_at(allocation: Allocation, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """`boxes_at` of every token, (T, 4), and its level (T,): a region of several tokens is drawn as their grid."""
    if (allocation.counts == 1).all():
        return boxes_at(allocation, size), allocation.levels
    given = (allocation.height, allocation.width)
    canvas = allocation.canvas or given
    pixels = np.array([*given, *given]) / (*canvas, *canvas) * allocation.cell
    levels = np.repeat(allocation.levels, allocation.counts)
    return _displayed(token_boxes(allocation) * pixels, size, given), levels


def _displayed(boxes: np.ndarray, size: tuple[int, int], given: tuple[int, int]) -> np.ndarray:
    """(N, 4) top, left, height, width in pixels as given → top, left, bottom, right on the display."""
    scale = np.array([size[0] / given[0], size[1] / given[1]] * 2)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return np.rint(corners * scale).astype(np.int64)


def covered(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W) bool: which pixels lie in any of `boxes` (N, 4) top, left, bottom, right; bottom and right exclusive.

    Marks the corners of all boxes at once and sums twice: the cost does not depend on how many boxes there are.
    """
    height, width = size
    top, left, bottom, right = np.clip(boxes, 0, np.array([height, width, height, width])).T
    steps = np.zeros((height + 1, width + 1), dtype=np.int32)
    for rows, cols, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        np.add.at(steps, (rows, cols), sign)
    np.cumsum(steps, axis=0, out=steps)
    np.cumsum(steps, axis=1, out=steps)
    return steps[:-1, :-1] > 0


def levels_at(allocation: Allocation, size: tuple[int, int]) -> np.ndarray:
    """(H, W) int16: the level of detail at every display pixel, -1 where nothing looks; the finer region wins."""
    boxes = boxes_at(allocation, size)
    result = np.full(size, -1, dtype=np.int16)
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        result[covered(boxes[allocation.levels == level], size)] = level
    return result
