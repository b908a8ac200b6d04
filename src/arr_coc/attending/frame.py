"""How a picture lies on the grid of level-0 cells: from maps to cells, and from leaves back to pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError, shown, whole, whole_size
from ..core.values import DEFAULT_CELL, Allocation, Relevance


@dataclass(frozen=True)
class Frame:
    """How a picture of `image_size` lies on the grid of cells of the canvas that the backbone sees."""

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
        """(N, 3) row, col, level → (N, 4) int32 y, x, height, width in pixels of the picture as given, clipped."""
        return self.rectangles(cells[:, :2], np.int64(1) << cells[:, 2:3])

    def rectangles(self, first: np.ndarray, extent: np.ndarray) -> np.ndarray:
        """First cells and extents in cells, each (N, 2) → (N, 4) int32 as `boxes` gives them."""
        start, stop = first * self.cell, (first + extent) * self.cell
        scale = np.array(self.image_size) / np.array(self.seen)
        start = np.rint(np.minimum(start, self.seen) * scale).astype(np.int32)
        stop = np.rint(np.minimum(stop, self.seen) * scale).astype(np.int32)
        # A picture enlarged for the backbone may have cells smaller than its pixels; a region still has one.
        start = np.minimum(start, np.array(self.image_size, dtype=np.int32) - 1)
        return np.concatenate([start, np.maximum(stop - start, 1)], axis=1)

    def allocation(self, cells: np.ndarray, scores: np.ndarray, budget: int, strategy: str) -> Allocation:
        """(N, 3) leaves and (N,) scores as an `Allocation`."""
        covered = np.zeros(self.grid, dtype=bool)
        for level in np.unique(cells[:, 2]):
            row, col = cells[cells[:, 2] == level, :2].T[:, :, None, None] + np.indices((1 << level,) * 2)[:, None]
            covered[row.clip(max=self.grid[0] - 1), col.clip(max=self.grid[1] - 1)] = True
        return Allocation(
            boxes=self.boxes(cells),
            levels=cells[:, 2],
            counts=np.ones(len(cells)),
            scores=scores,
            height=self.image_size[0],
            width=self.image_size[1],
            budget=budget,
            full=self.full,
            strategy=strategy,
            sparse=not covered.all(),
            cell=self.cell,
            canvas=self.canvas,
        )


def as_maps(relevance: Relevance | Array) -> Array:
    """Relevance in every form → (B, h, w) float32, checked; B is 1 for one map."""
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
    """(B, h, w) maps that cover the picture → (B, rows, cols) mean relevance of the visible part of each cell."""
    rows, cols = frame.grid
    height, width = frame.seen
    # As many values as cells: one for each of them, also where the last ones reach beyond the picture.
    if tuple(maps.shape[1:]) == (rows, cols):
        return maps
    # In double precision, so that a constant map stays constant: rounding must not break the ties of flat ground.
    precise = arrays.float64(maps)
    down, across = (
        arrays.constant(_overlap(*side), precise)
        for side in ((rows, frame.cell, height, maps.shape[1]), (cols, frame.cell, width, maps.shape[2]))
    )
    return arrays.float32(down @ precise @ across.T)


def _overlap(cells: int, cell: int, length: int, samples: int) -> np.ndarray:
    """(cells, samples) weights: the share of each cell's visible extent that falls on each sample of a map."""
    edges = np.minimum(np.arange(cells + 1) * cell, length) * (samples / length)
    shared = arrays.overlaps(edges[:-1], edges[1:], samples)
    return shared / shared.sum(axis=1, keepdims=True)
