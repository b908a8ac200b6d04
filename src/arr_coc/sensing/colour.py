"""sRGB → CIE L*a*b*, exactly, for numpy arrays and tensors alike.

(OpenCV's own conversion interpolates in a table and may be off by half a unit.)
"""

from __future__ import annotations

from .. import arrays
from ..arrays import Array

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
