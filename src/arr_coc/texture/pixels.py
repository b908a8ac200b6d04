"""Luminance, its derivatives and CIE L*a*b*, the same to the last bit in numpy and torch.

OpenCV's are faster and equal up to rounding (its L*a*b* interpolates in a table and may be off by half a unit), which
is good enough for a channel. Where every pixel is then put in a bin, rounding decides for some of them, and two back
ends would count them differently: such formulas use these.
"""

from __future__ import annotations

from ..core import arrays
from ..core.arrays import Array, pad_edge


def luminance(planes: tuple[Array, Array, Array]) -> Array:
    red, green, blue = planes
    return 0.299 * red + 0.587 * green + 0.114 * blue


def sobel(maps: Array) -> tuple[Array, Array]:
    """Derivatives along x and y with Sobel's weights, the edge repeated: (…, H, W) → two of (…, H, W)."""
    padded = pad_edge(maps)
    difference_x = padded[..., 2:] - padded[..., :-2]
    difference_y = padded[..., 2:, :] - padded[..., :-2, :]
    along_x = difference_x[..., :-2, :] + 2 * difference_x[..., 1:-1, :] + difference_x[..., 2:, :]
    along_y = difference_y[..., :-2] + 2 * difference_y[..., 1:-1] + difference_y[..., 2:]
    return along_x, along_y


# Rows: what red, green and blue give to X, Y and Z, over those of the white point D65.
_TO_WHITE = (
    (0.412453 / 0.950456, 0.357580 / 0.950456, 0.180423 / 0.950456),
    (0.212671, 0.715160, 0.072169),
    (0.019334 / 1.088754, 0.119193 / 1.088754, 0.950227 / 1.088754),
)


def srgb_to_lab(planes: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
    """Red, green, blue in [0, 1], any shape → L in [0, 100], a and b about [-110, 110] (D65)."""
    library = arrays.namespace(planes[0])

    def power(values: Array, exponent: float) -> Array:
        # numpy has fast logarithms and exponentials; its general power is twenty times slower.
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
