"""Channels of shape: object_boundaries and distance_field."""

from __future__ import annotations

from .backend import Backend, BackendMap

# Both are made on a view of at most this many pixels along the longer side, and enlarged.
VIEW = 256
STRONG = 0.25
# A colour step this large (in L*a*b*, where 2.3 is just noticeable) counts as a full boundary.
FULL_STEP = 40.0


def view_size(size: tuple[int, int]) -> tuple[int, int]:
    """The picture's size shrunk so that the longer side is at most `VIEW`."""
    scale = min(1.0, VIEW / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def object_boundaries(ops: Backend, planes: tuple[BackendMap, BackendMap, BackendMap]) -> BackendMap:
    """Steps between the colours of neighbouring surfaces, in [0, 1].

    Colours are smoothed over a few pixels of the small view first: texture and strokes go, outlines of things stay.
    """
    size = tuple(planes[0].shape[-2:])
    small = view_size(size)
    colours = ops.lab(tuple(ops.resize(plane, small) for plane in planes))
    total = None
    for colour in colours:
        smooth = ops.box(ops.box(colour, 1), 1)
        along_x, along_y = ops.sobel(smooth)
        squared = along_x * along_x + along_y * along_y
        total = squared if total is None else total + squared
    # A step of s between two flat colours, smoothed so, has a gradient of about 4/3 of s at its middle.
    step = ops.square_root(total) * (3 / (4 * FULL_STEP))
    return ops.enlarge(ops.clip(step), size)


def distance_field(ops: Backend, boundaries: BackendMap) -> BackendMap:
    """Distance to the nearest strong boundary over half the longer side, in [0, 1]; 1 where there is none."""
    size = tuple(boundaries.shape[-2:])
    small = view_size(size)
    distance = ops.distance_to(ops.resize(boundaries, small) > STRONG)
    return ops.enlarge(ops.clip(distance * (2 / max(small))), size)
