"""Between maps of any resolution and the grid of level-0 cells, and from leaves back to pixels of the picture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..values import DEFAULT_CELL, Allocation, Relevance


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


def as_maps(relevance: Relevance | np.ndarray | Tensor | Sequence[Relevance]) -> Tensor:
    """Any form of relevance → (B, h, w) float tensor, checked."""
    if isinstance(relevance, Relevance):
        maps = torch.from_numpy(np.ascontiguousarray(relevance.map))
    elif isinstance(relevance, Tensor | np.ndarray):
        maps = torch.as_tensor(relevance)
    else:
        items = list(relevance)
        if not items:
            raise InputError("got no relevance map; give one map for each picture")
        maps = torch.cat([as_maps(item) for item in items])
    maps = maps.float()
    if maps.ndim == 2:
        maps = maps[None]
    if maps.ndim != 3 or 0 in maps.shape:
        raise InputError(f"relevance must have shape (rows, cols) or (batch, rows, cols), got {tuple(maps.shape)}")
    if not bool(torch.isfinite(maps).all()):
        raise InputError("relevance contains NaN or infinity; every value must be a number in [0, 1]")
    return maps


def to_cells(maps: Tensor, frame: Frame) -> Tensor:
    """(B, h, w) maps that cover the picture → (B, rows, cols) mean relevance of the visible part of each cell."""
    rows, cols = frame.grid
    height, width = frame.seen
    exact = height == rows * frame.cell and width == cols * frame.cell
    if exact and maps.shape[1:] == (rows, cols):
        return maps
    down = _overlap(rows, frame.cell, height, maps.shape[1], maps)
    across = _overlap(cols, frame.cell, width, maps.shape[2], maps)
    return torch.einsum("rh,bhw,cw->brc", down, maps, across)


def _overlap(cells: int, cell: int, length: int, samples: int, like: Tensor) -> Tensor:
    """(cells, samples) weights: the share of each cell's visible extent that falls on each sample of a map."""
    edges = torch.arange(cells + 1, dtype=torch.float64).mul(cell).clamp(max=length) * (samples / length)
    start, stop = edges[:-1, None], edges[1:, None]
    sample = torch.arange(samples, dtype=torch.float64)
    shared = (torch.minimum(stop, sample + 1) - torch.maximum(start, sample)).clamp_min(0)
    return (shared / shared.sum(1, keepdim=True)).to(like)


def boxes_to_cells(boxes: Sequence[Sequence[float]] | np.ndarray, frame: Frame) -> Tensor:
    """Boxes (K, 4) as x0, y0, x1, y1 in 0–1 of the picture → (rows, cols) share of each cell's area they cover."""
    array = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not np.isfinite(array).all() or (array[:, 2:] < array[:, :2]).any():
        raise InputError("boxes must be x0, y0, x1, y1 in 0–1 with x1 ≥ x0 and y1 ≥ y0")
    rows, cols = frame.grid
    height, width = frame.seen
    tops, lefts = np.arange(rows) * frame.cell / height, np.arange(cols) * frame.cell / width
    tall, wide = frame.cell / height, frame.cell / width
    down = np.clip(np.minimum(tops + tall, array[:, 3:4]) - np.maximum(tops, array[:, 1:2]), 0, None) / tall
    across = np.clip(np.minimum(lefts + wide, array[:, 2:3]) - np.maximum(lefts, array[:, 0:1]), 0, None) / wide
    return torch.from_numpy((down[:, :, None] * across[:, None, :]).max(axis=0).astype(np.float32))
