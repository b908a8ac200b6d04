"""Wide neighbourhoods at a cost that does not grow with them: averaged on a shrunken view, enlarged again.

A mean over 33×33 pixels has no detail a quarter-size view could lose, and there it costs a sixteenth.
"""

from __future__ import annotations

from .backend import Backend, BackendMap


def surround_radius(size: tuple[int, int]) -> int:
    """About 1/64 of the longer side: 16 pixels at 1024, the height of a line of text."""
    return max(1, max(size) // 64)


def _view(size: tuple[int, int], radius: int) -> tuple[tuple[int, int], int]:
    """The size to average at and the radius there: as coarse as leaves the radius at least 4 pixels."""
    factor = max(1, radius // 4)
    return (max(1, size[0] // factor), max(1, size[1] // factor)), max(1, round(radius / factor))


def smooth(ops: Backend, maps: BackendMap, radius: int) -> BackendMap:
    """Blurred by two boxes (a triangle: near enough to a Gaussian) of `radius`."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    return ops.resize(ops.box(ops.box(ops.resize(maps, view), near), near), size)


def local_contrast(ops: Backend, maps: BackendMap, radius: int, floor: float) -> BackendMap:
    """(value − mean of its surroundings) / (their standard deviation + floor)."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    mean = ops.box(ops.resize(maps, view), near)
    square = ops.box(ops.resize(maps * maps, view), near)
    gain = 1 / (ops.square_root(square - mean * mean) + floor)
    return (maps - ops.resize(mean, size)) * ops.resize(gain, size)
