"""Operations on maps (H, W) float32 of one picture, by OpenCV and numpy.

The formulas of `channels` and of the ways of knowing use these names, so that another set of operations (for a batch on
a device) can replace them. The last section has those that give the same bits in numpy and torch: where pixels are put
into bins, rounding decides for some, and the two would count them differently.
"""

from __future__ import annotations

from functools import lru_cache

import cv2
import numpy as np

from ..core.arrays import Array, namespace, pad_edge

BORDER = cv2.BORDER_REPLICATE


def box(maps: Array, radius: int) -> Array:
    side = 2 * radius + 1
    return cv2.boxFilter(maps, cv2.CV_32F, (side, side), borderType=BORDER)


def sobel(maps: Array) -> tuple[Array, Array]:
    along_x = cv2.Sobel(maps, cv2.CV_32F, 1, 0, ksize=3, borderType=BORDER)
    return along_x, cv2.Sobel(maps, cv2.CV_32F, 0, 1, ksize=3, borderType=BORDER)


def square_root(maps: Array) -> Array:
    return np.sqrt(np.maximum(maps, np.float32(0)))


def mean(maps: Array) -> np.float32:
    return np.float32(cv2.mean(maps)[0])


def shrink(maps: Array, size: tuple[int, int]) -> Array:
    return cv2.resize(maps, (size[1], size[0]), interpolation=cv2.INTER_AREA)


def enlarge(maps: Array, size: tuple[int, int]) -> Array:
    return cv2.resize(maps, (size[1], size[0]), interpolation=cv2.INTER_LINEAR)


def resize(maps: Array, size: tuple[int, int]) -> Array:
    if maps.shape[:2] == tuple(size):
        return maps
    smaller = size[0] <= maps.shape[0] and size[1] <= maps.shape[1]
    return shrink(maps, size) if smaller else enlarge(maps, size)


def count_in_blocks(codes: Array, kinds: int, block: int) -> list[Array]:
    """Count integers below `kinds` in blocks: (H, W) → for each kind (⌈H/b⌉, ⌈W/b⌉)."""
    height, width = codes.shape
    rows, columns = -(-height // block), -(-width // block)
    cell = (np.arange(height, dtype=np.int32) // block)[:, None] * columns + np.arange(width, dtype=np.int32) // block
    counts = np.bincount((cell * kinds + codes).ravel(), minlength=rows * columns * kinds)
    return list(np.moveaxis(counts.reshape(rows, columns, kinds), -1, 0).astype(np.float32))


def amplitude(spectrum: Array) -> Array:
    return np.abs(spectrum).astype(np.float32)


@lru_cache(maxsize=4)
def position(size: tuple[int, int]) -> tuple[Array, Array]:
    """Return the positions of pixels in [0, 1]: y and x, each of `size`."""
    height, width = size
    y = ((np.arange(height, dtype=np.float32) + np.float32(0.5)) / np.float32(height))[:, None]
    x = ((np.arange(width, dtype=np.float32) + np.float32(0.5)) / np.float32(width))[None, :]
    return np.broadcast_to(y, size), np.broadcast_to(x, size)


@lru_cache(maxsize=4)
def distance_from(size: tuple[int, int], point: tuple[float, float], scale: float) -> Array:
    """Return the distance of every pixel from a point (y, x) in pixels, times `scale`."""
    down = np.arange(size[0], dtype=np.float32)[:, None] + np.float32(0.5 - point[0])
    across = np.arange(size[1], dtype=np.float32)[None, :] + np.float32(0.5 - point[1])
    distance = np.sqrt(down * down + across * across) * np.float32(scale)
    distance.flags.writeable = False  # cached for the next picture of this size
    return distance


# ---- the same in numpy and torch -------------------------------------------------------------------------------------


def luminance(planes: tuple[Array, Array, Array]) -> Array:
    red, green, blue = planes
    return 0.299 * red + 0.587 * green + 0.114 * blue


def exact_sobel(maps: Array) -> tuple[Array, Array]:
    """Compute derivatives along x and y with Sobel's weights, the edge repeated: (…, H, W) → two of (…, H, W)."""
    padded = pad_edge(maps)
    difference_x = padded[..., 2:] - padded[..., :-2]
    difference_y = padded[..., 2:, :] - padded[..., :-2, :]
    along_x = difference_x[..., :-2, :] + 2 * difference_x[..., 1:-1, :] + difference_x[..., 2:, :]
    along_y = difference_y[..., :-2] + 2 * difference_y[..., 1:-1] + difference_y[..., 2:]
    return along_x, along_y


# Rows: weights of red, green and blue in X, Y and Z, divided by those of the white point D65.
_TO_WHITE = (
    (0.412453 / 0.950456, 0.357580 / 0.950456, 0.180423 / 0.950456),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.088754, 0.119193 / 1.088754, 0.950227 / 1.088754),
)


def srgb_to_lab(planes: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Convert red, green, blue in [0, 1], of any shape, to L in [0, 100], a and b about [-110, 110] (D65)."""
    library = namespace(planes[0])

    def power(values: Array, exponent: float) -> Array:
        # numpy's logarithm and exponential are fast; its general power is twenty times slower.
        return library.exp(library.log(values) * exponent)

    red, green, blue = (
        library.where(plane <= 0.04045, plane / 12.92, power((plane.clip(0.04045) + 0.055) / 1.055, 2.4))
        for plane in planes
    )
    white = (weights[0] * red + weights[1] * green + weights[2] * blue for weights in _TO_WHITE)
    x, y, z = (
        library.where(part > 0.008856, power(part.clip(0.008856), 1 / 3), 7.787 * part + 16 / 116) for part in white
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)
