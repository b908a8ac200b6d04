"""`letters`: how tall the letters of a picture are, laid over it."""

from __future__ import annotations

import cv2
import numpy as np

from ..sensing.type_height import TALLEST, TypeHeight
from .lettering import write
from .palette import relevance_scale

VEIL = 0.55  # how much of the picture's brightness goes under the colours
LABEL = 12
SMALLEST = 4  # pixels of letters at the dark end of the scale


def letters(pixels: np.ndarray, found: TypeHeight, size: tuple[int, int]) -> np.ndarray:
    """The rows of letters in the colour of their height, the tallest of each size with its pixels beside it.

    Args:
        pixels: (H, W, 3) uint8 at any size.
        found: Of the picture as given.
        size: (height, width) of the picture as given.

    Returns:
        (H, W, 3) uint8; the picture in grey where there is no type.
    """
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    result = np.repeat(np.rint(255 - (255 - grey) * VEIL).astype(np.uint8)[..., None], 3, axis=-1)
    times = np.array(pixels.shape[:2] * 2) / (size * 2)
    share = np.log(np.clip(found.heights, SMALLEST, TALLEST) / SMALLEST) / np.log(TALLEST / SMALLEST)
    colours = relevance_scale()[np.rint(40 + share * 190).astype(np.uint8)]
    for box, colour in zip(np.rint(found.boxes * times).astype(int).tolist(), colours.tolist(), strict=True):
        y0, x0, y1, x1 = box
        part = result[y0 : y1 + 1, x0 : x1 + 1]
        part[:] = np.rint(part * 0.45 + np.array(colour) * 0.55).astype(np.uint8)
    told: set[int] = set()
    for place in np.argsort(-found.ground, kind="stable").tolist():
        height = round(float(found.heights[place]))
        if height in told:
            continue
        told.add(height)
        y, x = np.rint(found.boxes[place, [0, 3]] * times[:2]).astype(int).tolist()
        write(result, f"{height} px", x + 3, max(0, y - 2), size=LABEL)
    return result
