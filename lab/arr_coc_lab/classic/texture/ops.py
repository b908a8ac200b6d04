"""The operations of `arr_coc.texture.ops` in torch: maps are (B, H, W) float32, on any device, with gradients.

The formulas of the library are written over the names of that module, so they run over these, too. A test holds the two
equal. Borders repeat the nearest pixel.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from arr_coc.knowing.scorer.onnx_scorer import area_shrink as shrink
from arr_coc.texture.ops import exact_sobel as sobel
from arr_coc.texture.ops import luminance

__all__ = ["luminance", "shrink", "sobel"]  # the same formulas in both libraries

# The square root has no slope at zero, and flat ground is where gradients are exactly zero.
SQUARE_ROOT_GUARD = 1e-12


def box(maps: Tensor, radius: int) -> Tensor:
    """Average over a square window of side 2·radius + 1."""
    side = 2 * radius + 1
    padded = F.pad(maps[:, None], (radius, radius, radius, radius), mode="replicate")
    return F.avg_pool2d(F.avg_pool2d(padded, (side, 1), stride=1), (1, side), stride=1)[:, 0]


def magnitude(along_x: Tensor, along_y: Tensor) -> Tensor:
    return square_root(along_x * along_x + along_y * along_y)


def square_root(maps: Tensor) -> Tensor:
    return (maps.clamp_min(0) + SQUARE_ROOT_GUARD).sqrt() - SQUARE_ROOT_GUARD**0.5


def peak(maps: Tensor) -> Tensor:
    """Find the largest value of each picture, (B, 1, 1): never over the batch."""
    return maps.amax((-2, -1), keepdim=True)


def mean(maps: Tensor) -> Tensor:
    return maps.mean((-2, -1), keepdim=True)


def enlarge(maps: Tensor, size: tuple[int, int]) -> Tensor:
    return F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]


def resize(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """Average by area where the grid gets smaller in both directions, interpolate otherwise."""
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    smaller = size[0] <= maps.shape[-2] and size[1] <= maps.shape[-1]
    return shrink(maps, size) if smaller else enlarge(maps, size)


def count_in_blocks(codes: Tensor, kinds: int, block: int) -> list[Tensor]:
    """Count whole numbers below `kinds` in blocks: (B, H, W) → for each kind (B, ⌈H/b⌉, ⌈W/b⌉)."""
    batch, height, width = codes.shape
    rows, columns = -(-height // block), -(-width // block)
    down = torch.arange(height, device=codes.device) // block
    across = torch.arange(width, device=codes.device) // block
    index = ((down[:, None] * columns + across) * kinds + codes.long()).flatten(1)
    counts = torch.zeros((batch, rows * columns * kinds), device=codes.device)
    counts.scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
    return list(counts.view(batch, rows, columns, kinds).unbind(-1))


def amplitude(spectrum: Tensor) -> Tensor:
    return square_root(spectrum.real**2 + spectrum.imag**2)


def position(size: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """Return places of pixels in [0, 1]: y and x, each (1, H, W) on the processor."""
    y, x = ((torch.arange(side) + 0.5) / side for side in size)
    return y[None, :, None].expand(1, *size), x[None, None, :].expand(1, *size)


def distance_from(size: tuple[int, int], point: tuple[float, float], scale: float) -> Tensor:
    """Return the distance of every pixel from a point (y, x) in pixels, times `scale`: (1, H, W) on the processor."""
    down = torch.arange(size[0])[:, None] + (0.5 - point[0])
    across = torch.arange(size[1])[None, :] + (0.5 - point[1])
    return (torch.sqrt(down * down + across * across) * scale)[None]


def distance_to(mask: Tensor) -> Tensor:
    """Return the distance in pixels from each pixel to the nearest set one, exact: (B, H, W) bool → (B, H, W).

    First along columns, by the index of the last set pixel seen from above and from below; then along rows by the
    minimum over all columns. Meant for small grids: the second step holds (B, H, W, W) numbers.
    """
    _, height, width = mask.shape
    far = float(height + width)
    rows = torch.arange(height, device=mask.device, dtype=torch.float32)[None, :, None]
    above = torch.where(mask, rows, -far).cummax(dim=1).values
    below = torch.where(mask, rows, height + far).flip(1).cummin(dim=1).values.flip(1)
    along_columns = torch.minimum(rows - above, below - rows)
    columns = torch.arange(width, device=mask.device, dtype=torch.float32)
    across = (columns[:, None] - columns[None, :]) ** 2
    squared = (along_columns.square()[:, :, None, :] + across).amin(-1)
    return squared.sqrt().clamp_max(far)


def unit(vectors: Tensor, dim: int) -> Tensor:
    """Scale vectors to length one along `dim`; zero vectors stay zero."""
    return vectors / vectors.square().sum(dim, keepdim=True).clamp_min(1e-20).sqrt()
