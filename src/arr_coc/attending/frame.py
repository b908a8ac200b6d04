"""How a picture lies on the grid of level-0 cells: from maps to cells, and from leaves back to pixels."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .. import arrays
from ..arrays import Array
from ..errors import InputError
from ..values import DEFAULT_CELL, Allocation


@dataclass(frozen=True)
class Frame:
    """How a picture of `image_size` lies on the grid of cells of the canvas that the backbone sees."""

    image_size: tuple[int, int]
    cell: int = DEFAULT_CELL
    canvas: tuple[int, int] | None = None

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
        side = np.int64(1) << cells[:, 2:3]
        start, stop = cells[:, :2] * self.cell, (cells[:, :2] + side) * self.cell
        scale = np.array(self.image_size) / np.array(self.seen)
        start = np.rint(np.minimum(start, self.seen) * scale).astype(np.int32)
        stop = np.rint(np.minimum(stop, self.seen) * scale).astype(np.int32)
        return np.concatenate([start, stop - start], axis=1)

    def allocation(
        self,
        cells: np.ndarray,
        scores: np.ndarray,
        budget: int,
        strategy: str,
        *,
        counts: np.ndarray | None = None,
        sparse: bool = False,
    ) -> Allocation:
        return Allocation(
            boxes=self.boxes(cells),
            levels=cells[:, 2],
            counts=np.ones(len(cells)) if counts is None else counts,
            scores=scores,
            height=self.image_size[0],
            width=self.image_size[1],
            budget=budget,
            full=self.full,
            strategy=strategy,
            sparse=sparse,
            cell=self.cell,
            canvas=self.canvas,
        )


def check_maps(maps: Array) -> Array:
    """(h, w) or (B, h, w) of numbers → (B, h, w), or one clear line."""
    if maps.ndim == 2:
        maps = maps[None]
    if maps.ndim != 3 or 0 in maps.shape:
        raise InputError(f"relevance must have shape (rows, cols) or (batch, rows, cols), got {tuple(maps.shape)}")
    if not bool(arrays.namespace(maps).isfinite(maps).all()):
        raise InputError("relevance contains NaN or infinity; every value must be a number in [0, 1]")
    return maps


def to_cells(maps: Array, frame: Frame) -> Array:
    """(B, h, w) maps that cover the picture → (B, rows, cols) mean relevance of the visible part of each cell."""
    rows, cols = frame.grid
    height, width = frame.seen
    exact = height == rows * frame.cell and width == cols * frame.cell
    if exact and tuple(maps.shape[1:]) == (rows, cols):
        return maps
    # In double precision, so that a constant map stays constant: rounding must not break the ties of flat ground.
    precise = arrays.float64(maps)
    down, across = (
        arrays.like(_overlap(*side), maps)
        for side in ((rows, frame.cell, height, maps.shape[1]), (cols, frame.cell, width, maps.shape[2]))
    )
    if arrays.namespace(maps) is not np:
        down, across = down.to(precise.dtype), across.to(precise.dtype)
    return arrays.float32(down @ precise @ across.T)


def _overlap(cells: int, cell: int, length: int, samples: int) -> np.ndarray:
    """(cells, samples) weights: the share of each cell's visible extent that falls on each sample of a map."""
    edges = np.minimum(np.arange(cells + 1) * cell, length) * (samples / length)
    start, stop = edges[:-1, None], edges[1:, None]
    sample = np.arange(samples)
    shared = np.clip(np.minimum(stop, sample + 1) - np.maximum(start, sample), 0, None)
    return shared / shared.sum(axis=1, keepdims=True)
