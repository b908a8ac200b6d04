"""The grid of level-0 cells over a picture: convert maps to cells, and leaves to pixels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError, shown, whole, whole_size
from ..core.values import DEFAULT_CELL, Allocation, Relevance


@dataclass(frozen=True)
class Frame:
    """The grid of cells on the canvas that the model sees, for a picture of `image_size`."""

    image_size: tuple[int, int]
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "image_size", whole_size(self.image_size, "image_size"))
        object.__setattr__(self, "cell", whole(self.cell, "cell", 1))
        if self.canvas is not None:
            object.__setattr__(self, "canvas", whole_size(self.canvas, "canvas"))

    @property
    def seen(self) -> tuple[int, int]:
        return self.canvas or self.image_size

    @property
    def grid(self) -> tuple[int, int]:
        return -(-self.seen[0] // self.cell), -(-self.seen[1] // self.cell)

    @property
    def full(self) -> int:
        return self.grid[0] * self.grid[1]

    def boxes(self, cells: np.ndarray) -> np.ndarray:
        """Convert leaves (N, 3) row, col, level to boxes (N, 4) int32 y, x, height, width in given pixels, clipped."""
        return self.rectangles(cells[:, :2], np.int64(1) << cells[:, 2:3])

    def rectangles(self, first: np.ndarray, extent: np.ndarray) -> np.ndarray:
        """Convert first cells and extents in cells, each (N, 2), to boxes like those of `boxes`."""
        start, stop = first * self.cell, (first + extent) * self.cell
        scale = np.array(self.image_size) / np.array(self.seen)
        start = np.rint(np.minimum(start, self.seen) * scale).astype(np.int32)
        stop = np.rint(np.minimum(stop, self.seen) * scale).astype(np.int32)
        # If the model enlarges the picture, cells may be smaller than its pixels; a region has at least one pixel.
        start = np.minimum(start, np.array(self.image_size, dtype=np.int32) - 1)
        return np.concatenate([start, np.maximum(stop - start, 1)], axis=1)

    def allocation(self, cells: np.ndarray, scores: np.ndarray, budget: int, strategy: str, **more: Any) -> Allocation:
        """Build an `Allocation` from leaves (N, 3) and scores (N,). more: its other fields."""
        levels = cells[:, 2].astype(np.int32)
        top = int(levels.max(initial=0))
        covered = np.zeros((1, *(-(-side >> top + 1) for side in self.grid)), dtype=bool)
        for level in range(top, -1, -1):
            covered = arrays.doubled(covered, *(-(-side >> level) for side in self.grid))
            covered[0][tuple(cells[levels == level, :2].T >> level)] = True
        return Allocation(
            boxes=self.boxes(cells),
            levels=levels,
            counts=np.ones(len(cells), np.int32),
            scores=scores,
            height=self.image_size[0],
            width=self.image_size[1],
            budget=budget,
            full=more.pop("full", self.full),
            strategy=strategy,
            sparse=not covered.all(),
            cell=self.cell,
            canvas=self.canvas,
            **more,
        )


def as_maps(relevance: Relevance | Array) -> Array:
    """Check relevance in any form and return (B, h, w) float32; B is 1 for one map."""
    maps = relevance.map if isinstance(relevance, Relevance) else relevance
    if not isinstance(maps, np.ndarray) and not arrays.is_tensor(maps):
        raise InputError(f"relevance must be a Relevance, an array or a tensor (rows, cols), got {shown(relevance)}")
    maps = arrays.float32(maps[None] if maps.ndim == 2 else maps)
    if maps.ndim != 3 or 0 in maps.shape:
        raise InputError(f"relevance must have shape (rows, cols) or (batch, rows, cols), got {tuple(maps.shape)}")
    if not bool(arrays.namespace(maps).isfinite(maps).all()):
        raise InputError("relevance contains NaN or infinity; every value must be a number in [0, 1]")
    return maps


def to_cells(maps: Array, frame: Frame) -> Array:
    """Average maps (B, h, w) of the picture over the visible part of each cell: (B, rows, cols)."""
    rows, cols = frame.grid
    height, width = frame.seen
    # A map with as many values as cells has one for each, even if the last cells extend beyond the picture.
    if tuple(maps.shape[1:]) == (rows, cols):
        return maps
    # In double precision, so that a constant map stays constant and rounding does not break ties.
    precise = arrays.float64(maps)
    down, across = (
        arrays.constant(_overlap(*side), precise)
        for side in ((rows, frame.cell, height, maps.shape[1]), (cols, frame.cell, width, maps.shape[2]))
    )
    return arrays.float32(down @ precise @ across.T)


def _overlap(cells: int, cell: int, length: int, samples: int) -> np.ndarray:
    """Return weights (cells, samples): the share of each cell's visible extent on each sample of a map."""
    edges = np.minimum(np.arange(cells + 1) * cell, length) * (samples / length)
    shared = arrays.overlaps(edges[:-1], edges[1:], samples)
    return shared / shared.sum(axis=1, keepdims=True)
