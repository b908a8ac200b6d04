"""Compute the channels of a picture that the ways of knowing use: colours, position, saliency, print.

    sense(pixels, side=768)["saliency"]     (h, w) float32 in [0, 1]

The formulas take a set of operations as first argument (`ops`): here for maps (H, W), elsewhere for (B, H, W).
"""

from __future__ import annotations

from dataclasses import dataclass
from math import hypot
from types import ModuleType

import numpy as np

from ..core.arrays import Array, float32, namespace, sized
from . import ops as opencv

CHANNELS = ("red", "green", "blue", "y", "x", "eccentricity", "saliency", "text_regions")
_BYTE_TO_UNIT = np.arange(256, dtype=np.float32) / np.float32(255)


@dataclass(frozen=True, eq=False)
class Texture:
    """The channels of one picture: planes by name, each (H, W) float32."""

    planes: dict[str, np.ndarray]
    ops: ModuleType = opencv

    def __contains__(self, name: object) -> bool:
        return name in self.planes

    def __getitem__(self, name: str) -> np.ndarray:
        return self.planes[name]


def sense(pixels: np.ndarray, side: int | None = None) -> Texture:
    """Compute all `CHANNELS` of (H, W, 3) uint8. side: the longer side at which to compute them; by default its own."""
    import cv2

    size = (pixels.shape[0], pixels.shape[1]) if side is None else sized(pixels.shape[:2], side, grow=True)
    pixels = opencv.resize(pixels, size)
    red, green, blue = (cv2.LUT(cv2.extractChannel(pixels, place), _BYTE_TO_UNIT) for place in range(3))
    y, x = opencv.position(size)
    away, salient = eccentricity(opencv, size), saliency(opencv, (red, green, blue))
    text = text_regions(opencv, opencv.luminance((red, green, blue)))
    return Texture(dict(zip(CHANNELS, (red, green, blue, y, x, away, salient, text), strict=True)))


# ---- wide neighbourhoods ---------------------------------------------------------------------------------------------

# Averaged on a reduced view and enlarged again, at a cost that does not grow with the radius: a mean over 33×33 pixels
# has no detail that a quarter-size view could lose, and there it costs a sixteenth.


def surround_radius(size: tuple[int, int]) -> int:
    """Return about 1/64 of the longer side: 16 pixels at 1024, the height of a line of text."""
    return max(1, max(size) // 64)


def _view(size: tuple[int, int], radius: int) -> tuple[tuple[int, int], int]:
    """Return the size to average at and the radius there: as coarse as possible with a radius of at least 4 pixels."""
    factor = max(1, radius // 4)
    return (max(1, size[0] // factor), max(1, size[1] // factor)), max(1, round(radius / factor))


def smooth(ops: ModuleType, maps: Array, radius: int) -> Array:
    """Blur by two box filters of `radius`, which is close to a Gaussian."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    return ops.resize(ops.box(ops.box(ops.resize(maps, view), near), near), size)


def local_contrast(ops: ModuleType, maps: Array, radius: int, floor: float) -> Array:
    """Compute (value − mean of its surroundings) / (their standard deviation + floor)."""
    size = tuple(maps.shape[-2:])
    view, near = _view(size, radius)
    mean = ops.box(ops.resize(maps, view), near)
    square = ops.box(ops.resize(maps * maps, view), near)
    gain = 1 / (ops.square_root(square - mean * mean) + floor)
    return (maps - ops.resize(mean, size)) * ops.resize(gain, size)


# ---- saliency -------------------------------------------------------------------------------------------------------


# Size of the view of the whole picture: saliency is coarse, and other channels measure detail.
SALIENCY_VIEW = 64
# Amplitude of one grey level of noise over the view: weaker frequencies have no reliable phase.
SALIENCY_NOISE = SALIENCY_VIEW / 255
FAINTEST_SALIENCE = 1e-4
SALIENCY_BLUR = 2


def saliency(ops: ModuleType, planes: tuple[Array, Array, Array]) -> Array:
    """Map what the picture's own statistics do not predict, (H, W) or (B, H, W) in [0, 1]; zero for a blank picture.

    Spectral residual after Hou and Zhang (2007), on opponent colours instead of grey alone, so that a red sign among
    equally bright green ones stands out. The spectrum of a natural picture is smooth; divided by its smoothed form, the
    unexpected remains.
    """
    library, size = namespace(planes[0]), planes[0].shape[-2:]
    red, green, blue = (ops.resize(plane, (SALIENCY_VIEW, SALIENCY_VIEW)) for plane in planes)
    opponents = (ops.luminance((red, green, blue)), red - green, blue - (red + green) * 0.5)
    light, red_green, blue_yellow = (_residual(ops, channel) for channel in opponents)
    total = light + red_green + blue_yellow
    total = ops.box(ops.box(total, SALIENCY_BLUR), SALIENCY_BLUR)
    low, high = (extreme(total, axis=(-2, -1), keepdims=True) for extreme in (library.amin, library.amax))
    total = (total - low) / (high - low).clip(FAINTEST_SALIENCE)
    return ops.enlarge(total, tuple(size))


def _residual(ops: ModuleType, channel: Array) -> Array:
    """Compute the squared response of one channel. The mean is subtracted first, so a blank channel gives zero."""
    library = namespace(channel)
    spectrum = library.fft.fft2(channel - ops.mean(channel))
    expected = ops.box(library.log(ops.amplitude(spectrum) + SALIENCY_NOISE), 1)
    back = library.fft.ifft2(spectrum * library.exp(-expected))
    return float32(back.real**2 + back.imag**2)


# ---- print ----------------------------------------------------------------------------------------------------------

# The thresholds were set by eye and count on samples of scanned forms, charts and photos (FUNSD, ChartQA, COCO):
# figures for those sources are not held out.
# Standard deviation below which a window is blank.
FAINTEST_INK = 6 / 255
# Headings are detected in a view reduced by this factor.
HEADING = 2


def text_regions(ops: ModuleType, luminance: Array) -> Array:
    """Map likeness to text in [0, 1], (H, W) or (B, H, W): the maximum for two type sizes, body text and headings."""
    size = (luminance.shape[-2], luminance.shape[-1])
    radius = max(2, max(size) // 128)
    body = _likeness(ops, luminance, radius)
    small = (max(1, size[0] // HEADING), max(1, size[1] // HEADING))
    heading = _likeness(ops, ops.resize(luminance, small), radius)
    return namespace(body).maximum(ops.resize(body, size), ops.resize(heading, size)).clip(0, 1)


def _likeness(ops: ModuleType, luminance: Array, radius: int) -> Array:
    """Measure many edges in both directions around a little ink on plain ground, in windows of `radius`.

    Ink on paper has a high skewness (much ground, little ink), texture has not; a rule or a border has edges in one
    direction only. The result may be on a coarser grid, because the statistics are of windows.
    """
    size = (luminance.shape[-2], luminance.shape[-1])
    normalised = local_contrast(ops, luminance, radius, FAINTEST_INK)
    along_x, along_y = ops.sobel(normalised)
    factor = max(1, radius // 2)
    view, near = (max(1, size[0] // factor), max(1, size[1] // factor)), max(1, radius // factor)
    skew, energy_x, energy_y = (
        ops.box(ops.resize(values, view), near)
        for values in (normalised * normalised * normalised, along_x * along_x, along_y * along_y)
    )
    total = energy_x + energy_y
    both_ways = 4 * energy_x * energy_y / (total * total + 1e-3)
    busy = ((total - 2.0) * 0.25).clip(0, 1)
    lopsided = ((abs(skew) - 0.5) * 4).clip(0, 1)
    return ops.box(busy * lopsided * (both_ways * 2 - 0.6).clip(0, 1), near) * 2


# ---- place ----------------------------------------------------------------------------------------------------------


def eccentricity(ops: ModuleType, size: tuple[int, int], gaze: tuple[float, float] | None = None) -> Array:
    """Compute the distance in pixels from the gaze (default: the middle), over that of the farthest corner."""
    y, x = gaze or (0.5, 0.5)
    height, width = size
    farthest = hypot(max(y, 1 - y) * height, max(x, 1 - x) * width)
    return ops.distance_from(size, (y * height, x * width), 1 / farthest)


def centre_map(shape: tuple[int, int]) -> np.ndarray:
    """Return a map (rows, cols) in [0, 1] that is high in the middle of the picture."""
    y, x = ((np.arange(number) + 0.5) / number - 0.5 for number in shape)
    return np.exp(-(y[:, None] ** 2 + x[None] ** 2) / (2 * 0.25**2))
