"""Dense optical flow (DIS).

A flow is (H, W, 2) in pixels, x first: the pixel of the earlier frame at p is
found in the later one at p + flow(p). `backward_flow` is the other way round, which is the one that warps: it says,
for each pixel of the later frame, where it came from.
"""

from __future__ import annotations

import numpy as np

from ..core.arrays import sized
from ..core.errors import InputError

# Moving by this share of the longer side between two frames, or more, is full motion.
FULL_MOTION = 0.05
# Flow is found on a view of at most this many pixels: motion is a coarse matter, and DIS costs by the pixel.
VIEW = 512


def optical_flow(earlier: np.ndarray, later: np.ndarray, quick: bool = False) -> np.ndarray:
    """(H, W, 2) float32 flow from `earlier` to `later`, both (H, W) luminance in [0, 1] or uint8. quick: rougher, in
    less time."""
    import cv2

    if earlier.shape != later.shape or earlier.ndim != 2:
        raise InputError(f"flow needs two luminance maps of one size, got {earlier.shape} and {later.shape}")
    height, width = earlier.shape
    first, second = _grey(earlier), _grey(later)
    if min(first.shape) < 16:
        # DIS matches 8-pixel patches over scales and refuses less; nothing that small moves measurably.
        return np.zeros((height, width, 2), dtype=np.float32)
    empty = np.zeros((*first.shape, 2), dtype=np.float32)
    preset = cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST if quick else cv2.DISOPTICAL_FLOW_PRESET_FAST
    flow = np.asarray(cv2.DISOpticalFlow.create(preset).calc(first, second, empty))
    if flow.shape[:2] != (height, width):
        scale = np.array([width / flow.shape[1], height / flow.shape[0]], dtype=np.float32)
        flow = cv2.resize(flow, (width, height), interpolation=cv2.INTER_LINEAR) * scale
    return flow


def _grey(luminance: np.ndarray) -> np.ndarray:
    """uint8, at most `VIEW` pixels along the longer side."""
    import cv2

    if max(luminance.shape) > VIEW:
        luminance = cv2.resize(luminance, sized(luminance.shape, VIEW)[::-1], interpolation=cv2.INTER_AREA)
    if luminance.dtype == np.uint8:
        return luminance
    return cv2.convertScaleAbs(luminance, alpha=255.0)


def backward_flow(earlier: np.ndarray, later: np.ndarray, quick: bool = False) -> np.ndarray:
    """(H, W, 2): for each pixel of `later`, where it was in `earlier`, relative to itself."""
    return optical_flow(later, earlier, quick)
