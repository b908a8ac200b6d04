"""Channels of place: y, x, eccentricity, gaze."""

from __future__ import annotations

from math import hypot

from ..errors import InputError
from .backend import Backend, BackendMap

GAZE_SPREAD = 0.05  # of the longer side: roughly what a fovea covers of a picture at reading distance


def check_gaze(gaze: tuple[float, float] | None) -> tuple[float, float] | None:
    """(y, x) of the gaze in [0, 1] of the picture, or None."""
    if gaze is None:
        return None
    y, x = (float(value) for value in gaze)
    if not (0 <= y <= 1 and 0 <= x <= 1):
        raise InputError(f"gaze must be (y, x) with both in [0, 1] of the picture, got ({y}, {x})")
    return y, x


def eccentricity(ops: Backend, size: tuple[int, int], gaze: tuple[float, float] | None, like: BackendMap) -> BackendMap:
    """Distance from the gaze (the middle, if none), in pixels, over the distance to the farthest corner."""
    y, x = gaze or (0.5, 0.5)
    height, width = size
    farthest = hypot(max(y, 1 - y) * height, max(x, 1 - x) * width)
    return ops.distance_from(size, (y * height, x * width), like, 1 / farthest)


def gaze_map(ops: Backend, size: tuple[int, int], gaze: tuple[float, float] | None, like: BackendMap) -> BackendMap:
    """A soft spot at the gaze; zero everywhere when there is none."""
    if gaze is None:
        return ops.zeros(size, like)
    spread = GAZE_SPREAD * max(size)
    distance = ops.distance_from(size, (gaze[0] * size[0], gaze[1] * size[1]), like, 1.0)
    return ops.exponential(distance * distance * (-0.5 / spread**2))
