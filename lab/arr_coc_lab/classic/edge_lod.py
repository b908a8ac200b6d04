"""The source "edge_lod", phase 1: the more edges a patch has, the finer it is seen. No question, no training."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.knowing.registry import Source

from .query_aware_lod import LEVELS
from .selectors import SENSE_SIDE, SUB, Grid, Pixels, patch_grid, size_of
from .texture import ops
from .texture.channels40 import MVP13, BatchTexture, sense

if TYPE_CHECKING:
    from arr_coc.knowing.scene import Scene

THRESHOLDS = (0.15, 0.3, 0.5, 0.7)
# An edge is a pixel at least this strong, of the picture's strongest.
EDGE = 0.1


def edge_density(texture: BatchTexture, grid: Grid) -> Tensor:
    """Share of edge pixels in [0, 1] of each cell of `grid`: (B, rows, columns)."""
    plane = texture["sobel_magnitude"]
    return ops.shrink((plane > EDGE).to(plane), grid)


@dataclass(frozen=True)
class EdgeLOD:
    """Patch → classic level, by edge density: below .15 → 64 tokens, .15 → 100, .3 → 160, .5 → 256, .7 → 400."""

    thresholds: tuple[float, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        if len(self.thresholds) != LEVELS - 1 or list(self.thresholds) != sorted(self.thresholds):
            raise InputError(f"EdgeLOD needs {LEVELS - 1} rising thresholds, got {self.thresholds}")

    def levels(self, density: Tensor) -> Tensor:
        """Return levels, int64, from 0 (64 tokens) to 4 (400 tokens), of any shape."""
        return torch.bucketize(density, density.new_tensor(self.thresholds), right=True)


def edge_map(texture: BatchTexture, grid: Grid) -> Tensor:
    """Return the classic level of each cell of the grid, and within a level the density itself, in [0, 1]."""
    density = edge_density(texture, grid)
    return (EdgeLOD().levels(density) + density) / LEVELS


def edge_maps(pixels: Pixels) -> Tensor:
    """Return a map of two by two cells a patch, (B, rows, columns), of one picture or a batch."""
    texture = sense(pixels, MVP13, size=min(SENSE_SIDE * 2, max(size_of(pixels))))
    (height, width), (rows, cols) = texture.size, patch_grid(texture.size)
    return edge_map(texture, (min(SUB * rows, height), min(SUB * cols, width))).float()


def edge_lod_relevance(scene: Scene, query: str) -> Relevance:
    """Return the source "edge_lod"."""
    note = "phase 1: edge density, the question was not read"
    return Relevance(edge_maps(scene.pixels)[0].numpy(), query=query, notes=(note,))


SOURCE = Source("edge_lod", edge_lod_relevance, summary="how many edges a patch has: the selector of phase 1")
