"""Luminance and its derivatives, the same to the last bit in numpy and torch.

OpenCV's are faster and equal up to rounding, which is good enough for a channel. Where every pixel is then put in a
bin, rounding decides for some of them, and two back ends would count them differently: such formulas use these.
"""

from __future__ import annotations

from ..arrays import Array, pad_edge


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
