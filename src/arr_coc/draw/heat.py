"""The relevance map as colour."""

from __future__ import annotations

import cv2
import numpy as np

from ..values import Relevance
from .palette import relevance_scale


def heat(relevance: Relevance | np.ndarray, size: tuple[int, int], pixels: np.ndarray | None = None) -> np.ndarray:
    """(H, W, 3) uint8 RGB of a map in [0, 1], on a perceptually uniform scale that means the same in every picture.

    pixels: (H, W, 3) uint8 of the picture at that size; its brightness then shades the colours a little, so that one
    can tell what is where without losing the scale.
    """
    values = np.asarray(relevance.map if isinstance(relevance, Relevance) else relevance, dtype=np.float32)
    grows = size[0] >= values.shape[0] and size[1] >= values.shape[1]
    interpolation = cv2.INTER_LINEAR if grows else cv2.INTER_AREA
    values = cv2.resize(np.clip(values, 0, 1), (size[1], size[0]), interpolation=interpolation)
    colours = relevance_scale()[np.rint(values * 255).astype(np.uint8)]
    if pixels is None:
        return colours
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)[..., None] / 255
    shaded = colours * (0.7 + 0.3 * grey) + 14 * grey
    return np.clip(np.rint(shaded), 0, 255).astype(np.uint8)
