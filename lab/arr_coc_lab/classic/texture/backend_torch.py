"""The handful of image operations the channels are made of, in torch: batched, on any device, with gradients.

Maps are (B, H, W) float32. `backend_opencv` has the same operations for one picture on a CPU; a test holds the two
equal. Borders repeat the nearest pixel throughout, because that works for pictures of any size, even 1×1.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F

from . import pixels

Map = torch.Tensor
name = "torch"

# The square root has no slope at zero, and flat ground is where gradients are exactly zero.
SQUARE_ROOT_GUARD = 1e-12


def box(maps: Map, radius: int) -> Map:
    """Mean over a square window of side 2·radius + 1: (B, H, W) → (B, H, W)."""
    side = 2 * radius + 1
    padded = F.pad(maps[:, None], (radius, radius, radius, radius), mode="replicate")
    return F.avg_pool2d(F.avg_pool2d(padded, (side, 1), stride=1), (1, side), stride=1)[:, 0]


def sobel(maps: Map) -> tuple[Map, Map]:
    """Derivatives along x and y with Sobel's weights: (B, H, W) → two of (B, H, W)."""
    return pixels.sobel(maps)


def magnitude(along_x: Map, along_y: Map) -> Map:
    return square_root(along_x * along_x + along_y * along_y)


def square_root(maps: Map) -> Map:
    return (maps.clamp_min(0) + SQUARE_ROOT_GUARD).sqrt() - SQUARE_ROOT_GUARD**0.5


def peak(maps: Map) -> Map:
    """The largest value of each picture, (B, 1, 1): never over the batch."""
    return maps.amax((-2, -1), keepdim=True)


def trough(maps: Map) -> Map:
    return maps.amin((-2, -1), keepdim=True)


def mean(maps: Map) -> Map:
    return maps.mean((-2, -1), keepdim=True)


def at_least(maps: Map, floor: float) -> Map:
    return maps.clamp_min(floor)


def clip(maps: Map, low: float = 0.0, high: float = 1.0) -> Map:
    return maps.clamp(low, high)


def affine(maps: Map, scale: float | Map, shift: float, out: None = None) -> Map:
    return maps * scale + shift


def luminance(planes: tuple[Map, Map, Map], out: None = None) -> Map:
    return pixels.luminance(planes)


def lab(planes: tuple[Map, Map, Map]) -> tuple[Map, Map, Map]:
    """sRGB in [0, 1] → CIE L*a*b* (D65): L in [0, 100], a and b about [-110, 110]."""
    return pixels.srgb_to_lab(planes)


@lru_cache(maxsize=16)
def _area_weights(source: int, target: int, device: torch.device) -> torch.Tensor:
    """(target, source): how much of each source pixel lies in each target pixel; rows sum to one."""
    scale, made_on = source / target, device if device.type == "cuda" else torch.device("cpu")
    with torch.inference_mode(False):  # kept for whoever asks next, also for one who wants gradients
        edges = torch.arange(target + 1, dtype=torch.float64, device=made_on) * scale
        pixels = torch.arange(source, dtype=torch.float64, device=made_on)
        overlap = torch.minimum(edges[1:, None], pixels + 1) - torch.maximum(edges[:-1, None], pixels)
        return (overlap.clamp_min(0) / scale).float().to(device)


def shrink(maps: Map, size: tuple[int, int]) -> Map:
    """Exact area average onto a smaller grid, any ratio: (..., H, W) → (..., h, w)."""
    rows = _area_weights(maps.shape[-2], size[0], maps.device)
    columns = _area_weights(maps.shape[-1], size[1], maps.device)
    return rows @ (maps @ columns.T)


def enlarge(maps: Map, size: tuple[int, int], out: None = None) -> Map:
    """Bilinear, pixel centres aligned: (B, H, W) → (B, h, w)."""
    return F.interpolate(maps[:, None], size=size, mode="bilinear", align_corners=False)[:, 0]


def resize(maps: Map, size: tuple[int, int]) -> Map:
    """Area average where the grid gets smaller in both directions, bilinear otherwise."""
    if tuple(maps.shape[-2:]) == tuple(size):
        return maps
    smaller = size[0] <= maps.shape[-2] and size[1] <= maps.shape[-1]
    return shrink(maps, size) if smaller else enlarge(maps, size)


def count_in_blocks(codes: Map, kinds: int, block: int) -> list[Map]:
    """(B, H, W) whole numbers below `kinds` → for each of them, how often it occurs in blocks: (B, ⌈H/b⌉, ⌈W/b⌉)."""
    batch, height, width = codes.shape
    rows, columns = -(-height // block), -(-width // block)
    down = torch.arange(height, device=codes.device) // block
    across = torch.arange(width, device=codes.device) // block
    index = ((down[:, None] * columns + across) * kinds + codes.long()).flatten(1)
    counts = torch.zeros((batch, rows * columns * kinds), device=codes.device)
    counts.scatter_add_(1, index, torch.ones_like(index, dtype=counts.dtype))
    return list(counts.view(batch, rows, columns, kinds).unbind(-1))


def largest_in_blocks(maps: Map, size: tuple[int, int]) -> Map:
    """Largest value in each cell of a coarser grid: (B, H, W) → (B, h, w)."""
    return F.adaptive_max_pool2d(maps, size)


def amplitude(spectrum: torch.Tensor) -> Map:
    return square_root(spectrum.real**2 + spectrum.imag**2)


def position(size: tuple[int, int], like: Map) -> tuple[Map, Map]:
    """(1, H, W) y and x of every pixel's centre, in [0, 1]."""
    height, width = size
    y = (torch.arange(height, device=like.device, dtype=torch.float32) + 0.5) / height
    x = (torch.arange(width, device=like.device, dtype=torch.float32) + 0.5) / width
    return y[None, :, None].expand(1, height, width), x[None, None, :].expand(1, height, width)


def distance_from(size: tuple[int, int], point: tuple[float, float], like: Map, scale: float) -> Map:
    """(1, H, W) distance of every pixel's centre from `point` (y, x), all in pixels, times `scale`."""
    down = torch.arange(size[0], device=like.device, dtype=torch.float32)[:, None] + (0.5 - point[0])
    across = torch.arange(size[1], device=like.device, dtype=torch.float32)[None, :] + (0.5 - point[1])
    return (torch.sqrt(down * down + across * across) * scale)[None]


def distance_to(mask: Map) -> Map:
    """Euclidean distance in pixels from each pixel to the nearest set one, exact: (B, H, W) bool → (B, H, W).

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


def unit(vectors: torch.Tensor, dim: int) -> torch.Tensor:
    """Vectors of length one along `dim`; zero vectors stay zero."""
    length = vectors.square().sum(dim, keepdim=True).clamp_min(1e-20).sqrt()
    return vectors / length
