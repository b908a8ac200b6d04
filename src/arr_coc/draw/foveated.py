"""What the model will see: every leaf at its own resolution."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from ..pictures import load_picture
from ..values import Allocation
from .layout import Window, cut, levels_at, resize
from .palette import UNSEEN


def mip(pixels: np.ndarray, level: int, canvas: tuple[int, int]) -> np.ndarray:
    """Area means over the 2**level × 2**level blocks of a canvas: (ceil(H / 2**level), ceil(W / 2**level), 3) uint8.

    The edge is padded by replication, as the encoder's input is. Where `pixels` are smaller than the canvas (a large
    picture read reduced), blocks are measured on the canvas and averaged over the pixels there are.
    """
    if level <= 0:
        return pixels
    block = 1 << level
    blocks = np.array([-(-side // block) for side in canvas])
    wanted = np.rint(blocks * block * (np.array(pixels.shape[:2]) / np.array(canvas))).astype(int)
    missing = np.maximum(wanted - pixels.shape[:2], 0)
    padded = cv2.copyMakeBorder(pixels, 0, int(missing[0]), 0, int(missing[1]), cv2.BORDER_REPLICATE)
    return cv2.resize(padded, (int(blocks[1]), int(blocks[0])), interpolation=cv2.INTER_AREA)


def foveated(
    picture: Any, allocation: Allocation, size: tuple[int, int] | None = None, window: Window | None = None
) -> np.ndarray:
    """(H, W, 3) uint8 RGB: the picture with each region at its level of detail, ground nobody looks at dark.

    picture: anything `load_picture` takes. size: (height, width) of the result; by default that of the canvas the
    backbone sees at level 0, where the result is exact, block for block. On a smaller display, levels finer than the
    display can show look alike. window: show only this part of the picture.
    """
    picture = load_picture(picture)
    canvas = allocation.canvas or picture.size
    size = size or canvas
    window = window or Window(0, 0, *picture.size)
    pixels = picture.pixels
    if pixels.shape[0] > canvas[0] or pixels.shape[1] > canvas[1]:
        pixels = resize(pixels, canvas)
    at_row = _canvas_index(size[0], window.top, window.height, canvas[0], picture.height)
    at_col = _canvas_index(size[1], window.left, window.width, canvas[1], picture.width)
    levels = levels_at(allocation, size, window)
    result = np.full((*size, 3), UNSEEN, dtype=np.uint8)
    # Canvas pixels behind one pixel of the display, or of what was read where that is coarser.
    reduction = max(canvas[0] * window.height / picture.height / size[0], canvas[0] / pixels.shape[0])
    smooth: np.ndarray | None = None
    for level in sorted(set(allocation.levels.tolist())):
        here = levels == level
        if not here.any():
            continue  # a close-up mostly shows one level, and the mips of a whole picture take their time
        if (1 << level) <= reduction or level == 0:
            # A block no larger than a pixel cannot be shown; smooth resizing is then closest to the truth.
            smooth = cut(pixels, window, picture.size, size) if smooth is None else smooth
            seen = smooth
        else:
            seen = mip(pixels, level, canvas)[(at_row >> level)[:, None], (at_col >> level)[None, :]]
        result[here] = seen[here]
    return result


def _canvas_index(display: int, start: int, length: int, canvas: int, given: int) -> np.ndarray:
    """(display,) int64: which row (or column) of the canvas each one of the display shows: its centre's."""
    at = (start + (np.arange(display) + 0.5) * (length / display)) * (canvas / given)
    return np.minimum(at.astype(np.int64), canvas - 1)
