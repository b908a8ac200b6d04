"""A texture on any coarser grid: `to_cells(texture, (32, 32))`, each channel by its own reducer."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..errors import InputError
from . import backend_torch as ops
from .array import Texture
from .blocks import unit


def to_cells(texture: Texture, grid: tuple[int, int]) -> Texture:
    """The texture over `grid` = (rows, columns) cells that cover the picture exactly, any ratio.

    Means are exact area averages, so averaged x and y are the cells' true centres. The grid may not be finer than the
    texture.
    """
    rows, columns = (int(side) for side in grid)
    texture = texture.cropped()
    if not (1 <= rows <= texture.height and 1 <= columns <= texture.width):
        raise InputError(f"cells must be between 1×1 and {texture.height}×{texture.width}, got {rows}×{columns}")
    data = texture.batch()
    layout = texture.layout
    result = ops.shrink(data, (rows, columns))
    replaced: dict[int, torch.Tensor] = {}
    for place in layout.having("maximum"):
        replaced[place] = ops.largest_in_blocks(data[:, place], (rows, columns))
    for place in layout.having("majority"):
        replaced[place] = _majority_in_cells(data[:, place], (rows, columns))
    planes = list(result.unbind(1))
    # Where a cell's border cuts through a pixel, averaging whole pixels misses the centre by a little: say it exactly.
    for name, centres in zip(("y", "x"), ops.position((rows, columns), data), strict=True):
        if name in layout:
            replaced[layout.index(name)] = centres.expand(len(data), rows, columns)
    for place, plane in replaced.items():
        planes[place] = plane
    vectors = list(layout.having("unit_mean"))
    if vectors:
        unit_planes = unit(torch.stack([planes[place] for place in vectors], 1), 1).unbind(1)
        for place, plane in zip(vectors, unit_planes, strict=True):
            planes[place] = plane
    stacked = torch.stack(planes, dim=1)
    return replace(texture, data=stacked if texture.batched else stacked[0], height=rows, width=columns)


def _majority_in_cells(identifiers: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    """(B, H, W) → (B, rows, columns): most frequent identifier among the pixels whose centres lie in each cell."""
    batch, height, width = identifiers.shape
    rows, columns = grid
    count = int(identifiers.max()) + 1
    device = identifiers.device
    row = (torch.arange(height, device=device) * 2 + 1) * rows // (2 * height)
    column = (torch.arange(width, device=device) * 2 + 1) * columns // (2 * width)
    cell = row[:, None] * columns + column[None, :]
    codes = (cell * count + identifiers.long()).flatten(1)
    votes = torch.zeros((batch, rows * columns * count), device=device)
    votes.scatter_add_(1, codes, torch.ones_like(codes, dtype=votes.dtype))
    return votes.view(batch, rows, columns, count).argmax(-1).float()
