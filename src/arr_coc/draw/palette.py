"""The few colours of all pictures: paper, ink, one warm-to-cool scale for levels, one uniform scale for relevance."""

from __future__ import annotations

from functools import cache

import cv2
import numpy as np

from ..core.values import LEVEL_COLOURS, UNSEEN
from ..pictures.lettering import INK as INK
from ..pictures.lettering import Colour

PAPER: Colour = (250, 249, 246)
MUTED: Colour = (108, 112, 120)
RULE: Colour = (222, 220, 214)


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


# The two sides of a comparison: apart in hue and alike in lightness, also for colour-blind readers.
FIRST: Colour = (196, 90, 20)
SECOND: Colour = (24, 104, 168)
