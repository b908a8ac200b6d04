"""The drawing of a case that went wrong: the picture, and beside it where its tokens went."""

from __future__ import annotations

import numpy as np
from PIL import Image, ImageDraw

from arr_coc.core.values import Allocation
from arr_coc.draw.layout import resize
from arr_coc.draw.panes import overlay
from arr_coc.pictures.load import Picture

RED = (230, 20, 60)


def beside(picture: Picture, allocation: Allocation, side: int, boxes: np.ndarray | None = None) -> np.ndarray:
    """The picture and the same with its leaves, both with the boxes that matter.

    Args:
        picture: What was looked at.
        allocation: Where its tokens went.
        side: The longer side of each, in pixels.
        boxes: (K, 4), x0, y0, x1, y1 in 0–1.

    Returns:
        (H, W, 3) uint8.
    """
    scale = side / max(picture.size)
    size = (max(1, round(scale * picture.height)), max(1, round(scale * picture.width)))
    pixels = np.ascontiguousarray(resize(picture.pixels, size))
    panes = []
    for pane in (pixels, overlay(pixels, allocation)):
        image = Image.fromarray(pane)
        for box in np.zeros((0, 4)) if boxes is None else boxes * np.array([size[1], size[0]] * 2):
            ImageDraw.Draw(image).rectangle([round(edge) for edge in box], outline=RED, width=2)
        panes.append(np.asarray(image))
    return np.concatenate(panes, 1)
