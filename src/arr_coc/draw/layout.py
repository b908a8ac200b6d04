"""Where things go on a page, and the one primitive all region drawing rests on: `covered`."""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np

from ..attending.frame import token_boxes
from ..core.values import Allocation
from .palette import PAPER, RULE

MARGIN = 32
GAP = 20
# A pane never gets taller than this share of the page's width, so that a till receipt stays on a screen.
TALLEST = 0.6


class Window(NamedTuple):
    """A part of a picture, in pixels of the picture as given."""

    top: int
    left: int
    height: int
    width: int


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


def cut(pixels: np.ndarray, window: Window, given: tuple[int, int], size: tuple[int, int]) -> np.ndarray:
    """The part of `pixels` that `window` names, resized; `pixels` may be a reduced version of the picture as given."""
    scale = np.array(pixels.shape[:2]) / np.array(given)
    start = np.rint(np.array([window.top, window.left]) * scale).astype(int)
    stop = np.rint(np.array([window.top + window.height, window.left + window.width]) * scale).astype(int)
    start = np.minimum(start, np.array(pixels.shape[:2]) - 1)
    stop = np.maximum(stop, start + 1)
    return resize(np.ascontiguousarray(pixels[start[0] : stop[0], start[1] : stop[1]]), size)


def place(canvas: np.ndarray, picture: np.ndarray, x: int, y: int, room: tuple[int, int]) -> None:
    """Put `picture` into the middle of a room (height, width) at (x, y), with a hairline around it."""
    height, width = picture.shape[:2]
    top, left = y + (room[0] - height) // 2, x + (room[1] - width) // 2
    canvas[max(top - 1, 0) : top + height + 1, max(left - 1, 0) : left + width + 1] = RULE
    canvas[top : top + height, left : left + width] = picture


def boxes_at(allocation: Allocation, size: tuple[int, int], window: Window | None = None) -> np.ndarray:
    """(N, 4) int64: top, left, bottom, right of every region on a display of `size`, neighbours still touching.

    window: the part of the picture that the display shows, in pixels as given; all of it by default.
    """
    return _displayed(allocation.boxes.astype(np.float64), size, window or _whole(allocation))


def tokens_at(allocation: Allocation, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """`boxes_at` of every token, (T, 4), and its level (T,): a region of several tokens is drawn as their grid."""
    if (allocation.counts == 1).all():
        return boxes_at(allocation, size), allocation.levels
    canvas = allocation.canvas or (allocation.height, allocation.width)
    pixels = np.array([allocation.height, allocation.width] * 2) / (*canvas, *canvas) * allocation.cell
    levels = np.repeat(allocation.levels, allocation.counts)
    return _displayed(token_boxes(allocation) * pixels, size, _whole(allocation)), levels


def _whole(allocation: Allocation) -> Window:
    return Window(0, 0, allocation.height, allocation.width)


def _displayed(boxes: np.ndarray, size: tuple[int, int], window: Window) -> np.ndarray:
    """(N, 4) top, left, height, width in pixels as given → top, left, bottom, right on the display."""
    start = np.array([window.top, window.left] * 2)
    scale = np.array([size[0] / window.height, size[1] / window.width] * 2)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return np.rint((corners - start) * scale).astype(np.int64)


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


def levels_at(allocation: Allocation, size: tuple[int, int], window: Window | None = None) -> np.ndarray:
    """(H, W) int16: the level of detail at every display pixel, -1 where nothing looks; the finer region wins."""
    boxes = boxes_at(allocation, size, window)
    result = np.full(size, -1, dtype=np.int16)
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        result[covered(boxes[allocation.levels == level], size)] = level
    return result
