"""Tell photographs from drawn pictures (pages, charts, screens) by simple statistics.

Photographs use many colours and levels, and change softly at every scale; drawn pictures have a flat ground and sharp
edges. Seven features and a logistic regression, fitted once; docs/how-to/photos.md says on what, and how well.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import sized

SIDE = 512
# Mean, spread and weight of the seven features, and the constant; fitted, see above.
MIDDLE = (3.3045, 2.6978, 0.4108, 2.4018, 0.8175, 2.6602, 1.1779)
SPREAD = (1.9178, 1.2472, 0.2892, 0.4887, 1.13, 0.5755, 1.1452)
WEIGHTS = (3.088, 1.7332, 1.8835, -1.0909, 0.4877, -1.1501, 1.1947)
CONSTANT = -4.6015
# Log-odds above which a picture counts as a photograph; above even odds, because taking a receipt on a wooden table for
# a photograph costs more: the photo map does not find its text.
PHOTOGRAPH = 0.75


def is_photograph(pixels: np.ndarray) -> bool:
    """Return whether (H, W, 3) uint8 is more like a photograph than like a drawn picture."""
    return photograph_odds(pixels) > PHOTOGRAPH


def photograph_odds(pixels: np.ndarray) -> float:
    """Return the log-odds that (H, W, 3) uint8 is a photograph."""
    return float((kind_features(pixels) - np.array(MIDDLE)) / np.array(SPREAD) @ np.array(WEIGHTS) + CONSTANT)


def kind_features(pixels: np.ndarray) -> np.ndarray:
    """Compute (7,) features: entropy of colours and of grey levels in bits, spread of a 16×16 view, and the mean and
    median slope of the picture and of its quarter-size view."""
    import cv2

    pixels = np.ascontiguousarray(pixels)
    if max(pixels.shape[:2]) > SIDE:
        pixels = cv2.resize(pixels, sized(pixels.shape[:2], SIDE)[::-1], interpolation=cv2.INTER_AREA)
    colours = cv2.calcHist([pixels], [2, 0, 1], None, [16] * 3, [0, 256] * 3)
    grey = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY)
    view = cv2.resize(grey, (16, 16), interpolation=cv2.INTER_AREA)
    height, width = grey.shape
    quarter = cv2.resize(grey, (max(1, width // 4), max(1, height // 4)), interpolation=cv2.INTER_AREA)
    slopes = [slope for plane in (grey, quarter) for slope in _slopes(plane)]
    levels = cv2.calcHist([grey], [0], None, [32], [0, 256])
    return np.array([_entropy(colours), _entropy(levels), float(view.std()) / 64, *slopes])


def _entropy(counts: np.ndarray) -> float:
    share = counts[counts > 0].astype(np.float64) / counts.sum(dtype=np.float64)
    return float(-(share * np.log2(share)).sum())


def _slopes(plane: np.ndarray) -> tuple[float, float]:
    """Return the logarithms of the mean and the median slope, in levels a pixel."""
    import cv2

    slope = cv2.magnitude(cv2.Sobel(plane, cv2.CV_32F, 1, 0), cv2.Sobel(plane, cv2.CV_32F, 0, 1))
    # The median by counting, to a 64th of a level: sorting takes ten times as long.
    median = np.searchsorted(np.bincount((slope * 16).astype(np.uint16).ravel()).cumsum(), slope.size / 2) / 64
    return float(np.log(cv2.mean(slope)[0] / 4 + 0.5)), float(np.log(median + 0.5))
