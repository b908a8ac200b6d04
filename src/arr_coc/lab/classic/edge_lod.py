"""EdgeLOD, the Phase 1 selector: the more edges a patch has, the finer it is seen. No question, no training."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ...attending.classic import CLASSIC_TOKENS
from ...errors import InputError
from ...sensing import Texture
from ...sensing import backend_torch as ops

THRESHOLDS = (0.15, 0.3, 0.5, 0.7)
# An edge is a pixel at least this strong, of the picture's strongest.
EDGE = 0.1


def edge_density(texture: Texture, grid: tuple[int, int] | None = None) -> torch.Tensor:
    """Share of edge pixels in [0, 1] of each cell of `grid`, or around each pixel: (rows, columns) or (B, …)."""
    name = "edges" if "edges" in texture else "sobel_magnitude"
    plane = texture[name] if texture.batched else texture[name][None]
    marked = (plane > EDGE).to(plane)
    size = (marked.shape[-2], marked.shape[-1])
    density = ops.box(marked, max(1, max(size) // 64)) if grid is None else ops.shrink(marked, grid)
    return density if texture.batched else density[0]


@dataclass(frozen=True)
class EdgeLOD:
    """Patch → classic level, by edge density: below .15 → 64 tokens, .15 → 128, .3 → 256, .5 → 384, .7 → 400."""

    thresholds: tuple[float, ...] = THRESHOLDS

    def __post_init__(self) -> None:
        if len(self.thresholds) != len(CLASSIC_TOKENS) - 1 or list(self.thresholds) != sorted(self.thresholds):
            raise InputError(f"EdgeLOD needs {len(CLASSIC_TOKENS) - 1} rising thresholds, got {self.thresholds}")

    def levels(self, density: torch.Tensor) -> torch.Tensor:
        """int64, 0 (64 tokens) to 4 (400 tokens), of any shape."""
        return torch.bucketize(density, density.new_tensor(self.thresholds), right=True)

    def __call__(self, texture: Texture, grid: tuple[int, int]) -> torch.Tensor:
        """(rows, columns) or (B, rows, columns) int64 tokens per patch."""
        levels = self.levels(edge_density(texture, grid))
        return torch.tensor(CLASSIC_TOKENS, device=levels.device)[levels]
