"""Measure the motion between two frames and the difference that it leaves unexplained, and detect cuts.

Cuts are detected by the difference that the best motion cannot explain and the change of colours of the whole frame.
Both are relative to the clip's recent level, so that a restless scene needs more for a cut than a still one. The two
weights are learned.

A flow is (H, W, 2) in pixels, x first: for each pixel of the later frame, its position in the earlier one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from ..core.arrays import Array, sized

# Longer side at which frames are compared, because motion is coarse.
VIEW = 256
# Motion of this share of the longer side between two frames, or more, counts as full motion.
FULL_MOTION = 0.05
# Longer side of maps that follow the motion: several values for each cell of a frame of 1024 pixels.
MAP = 128
# A quick pan: longer side of the views that detect it; minimum and maximum shift as a share of a side; and minimum
# similarity after it: 0.63 or more for pans of drawn scenes, 0.5 or less for two scenes, except at smaller shifts.
PAN_VIEW, PAN_LEAST, PAN_MOST, PAN_LIKENESS = 128, 0.04, 0.5, 0.6


@dataclass(frozen=True, eq=False)
class Motion:
    """The motion between two frames. flow: (h, w, 2) float32 at the maps' size: the earlier position of each place, in

    pixels of the maps. unexplained: (h, w) in [0, 1]: the difference after the motion; 1 for places from outside the
    frame. agreement: (h, w) in [0, 1]: how surely both frames show the same thing there. moving: (h, w) in [0, 1]:
    motion relative to that of the whole frame, so that camera motion does not count. residual: mean difference after
    the motion, where both frames show the same. pan: (x, y) in pixels of the views, the shift of a quick camera pan;
    0, 0 without one.
    """

    flow: np.ndarray
    unexplained: np.ndarray
    agreement: np.ndarray
    moving: np.ndarray
    residual: float
    pan: tuple[int, int] = (0, 0)


def agreement(residual: Array, agree: float | Array, disagree: float | Array) -> Array:
    """Map residuals after the motion to [0, 1]: 1 up to `agree`, 0 from `disagree`, linear in between."""
    return (1 - (residual - agree) / (disagree - agree)).clip(0, 1)


def view_of(pixels: np.ndarray) -> np.ndarray:
    """Resize (H, W, 3) uint8 to the size at which frames are compared."""
    import cv2

    height, width = sized(pixels.shape[:2], VIEW)
    return np.ascontiguousarray(cv2.resize(pixels, (width, height), interpolation=cv2.INTER_AREA))


def measure_motion(earlier: np.ndarray, later: np.ndarray, agree: float, disagree: float) -> Motion:
    """Measure the `Motion` between two views (h, w, 3) uint8 of one size, at the size of the maps."""
    import cv2

    grey = [cv2.cvtColor(view, cv2.COLOR_RGB2GRAY) for view in (earlier, later)]
    pan = quick_pan(*grey)
    if any(pan):  # farther than the flow can reach, so it is applied first
        whole = np.zeros((*grey[0].shape, 2), dtype=np.float32) - np.array(pan, dtype=np.float32)
        flow = whole + backward_flow(_remap(grey[0], whole), grey[1])
    else:
        flow = backward_flow(grey[0], grey[1])
    difference = cv2.absdiff(_remap(earlier, flow), later)
    height, width = later.shape[:2]
    small_height, small_width = size = sized((height, width), MAP)
    residual = cv2.transform(difference, np.full((1, 3), 1 / 3, dtype=np.float32))
    # Blurred a little, so that single pixels of noise or of a wrong flow do not count as new.
    unexplained = cv2.blur(_shrink(residual.astype(np.float32), size), (3, 3)) * np.float32(1 / 255)
    scale = np.array([small_width / width, small_height / height], dtype=np.float32)
    small = _shrink(flow, size) * scale
    y, x = _places(small_height, small_width)
    from_x, from_y = x + small[..., 0], y + small[..., 1]
    outside = (from_x <= -1) | (from_x >= small_width) | (from_y <= -1) | (from_y >= small_height)
    unexplained[outside] = 1
    full = FULL_MOTION * max(small_height, small_width)
    # Motion of the camera is the median motion; a sample of places is enough.
    camera = np.median(small[::4, ::4].reshape(-1, 2), axis=0)
    return Motion(
        flow=small,
        unexplained=unexplained,
        agreement=agreement(unexplained, agree, disagree),
        moving=np.minimum(_length(small - camera) * np.float32(1 / full), np.float32(1)),
        residual=float(shared_ground(residual, pan)[1].mean()) / 255,
        pan=pan,
    )


def backward_flow(earlier: np.ndarray, later: np.ndarray) -> np.ndarray:
    """Return (H, W, 2) float32: the position of each pixel of `later` in `earlier`, relative; both (H, W) uint8."""
    import cv2

    empty = np.zeros((*later.shape, 2), dtype=np.float32)
    if min(later.shape) < 16:  # DIS matches 8-pixel patches over scales; nothing that small moves measurably
        return empty
    return np.asarray(cv2.DISOpticalFlow.create(cv2.DISOPTICAL_FLOW_PRESET_ULTRAFAST).calc(later, earlier, empty))


def quick_pan(earlier: np.ndarray, later: np.ndarray) -> tuple[int, int]:
    """Find the shift (x, y) of the whole picture between two grey views (h, w), in whole pixels.

    It uses phase correlation of small views. 0, 0 for shifts that the flow finds by itself, and if no single shift
    explains the change: two scenes have next to nothing in common at any shift.
    """
    import cv2

    height, width = earlier.shape
    size = sized((height, width), PAN_VIEW)
    if min(size) < 16:
        return 0, 0
    small = [_shrink(one.astype(np.float32), size) for one in (earlier, later)]
    shift, likeness = cv2.phaseCorrelate(*small, _window(*size))
    x, y = (round(way * side / least) for way, side, least in zip(shift, (width, height), size[::-1], strict=True))
    far = abs(x) > PAN_MOST * width or abs(y) > PAN_MOST * height
    return (0, 0) if likeness < PAN_LIKENESS or far or max(abs(x), abs(y)) < PAN_LEAST * max(height, width) else (x, y)


@lru_cache(maxsize=16)
def _window(height: int, width: int) -> np.ndarray:
    import cv2

    return cv2.createHanningWindow((width, height), cv2.CV_32F)


def shared_ground(view: np.ndarray, pan: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of a view (h, w, …) which the next one shows after a pan, and that which the last one showed."""
    x, y = pan
    height, width = view.shape[:2]
    before = view[max(0, -y) : height - max(0, y), max(0, -x) : width - max(0, x)]
    after = view[max(0, y) : height - max(0, -y), max(0, x) : width - max(0, -x)]
    return before, after


def warp_planes(planes: Sequence[np.ndarray], flow: np.ndarray) -> np.ndarray:
    """Warp maps (h, w) along one backward flow (h, w, 2); return (C, h, w)."""
    # OpenCV warps up to four channels at once.
    parts = [np.stack(planes[start : start + 4], axis=-1) for start in range(0, len(planes), 4)]
    carried = [np.atleast_3d(_remap(part, flow)) for part in parts]
    return np.ascontiguousarray(np.concatenate(carried, axis=-1).transpose(2, 0, 1))


def _remap(image: np.ndarray, flow: np.ndarray) -> np.ndarray:
    """Warp an image along a flow; the coordinates are cached, because computing them took longer than warping."""
    import cv2

    y, x = _places(*flow.shape[:2])
    places = (x + flow[..., 0], y + flow[..., 1])
    return cv2.remap(image, *places, interpolation=cv2.INTER_LINEAR, borderMode=cv2.BORDER_REPLICATE)


@lru_cache(maxsize=16)
def _places(height: int, width: int) -> tuple[np.ndarray, np.ndarray]:
    """Return columns of y and rows of x, for broadcasting."""
    return np.arange(height, dtype=np.float32)[:, None], np.arange(width, dtype=np.float32)[None, :]


def _shrink(values: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    import cv2

    return cv2.resize(values, size[::-1], interpolation=cv2.INTER_AREA)


def _length(vectors: np.ndarray) -> np.ndarray:
    import cv2

    return cv2.magnitude(np.ascontiguousarray(vectors[..., 0]), np.ascontiguousarray(vectors[..., 1]))


# ---- cuts -----------------------------------------------------------------------------------------------------------

FEATURES = ("residual", "colours")
BINS = 6
# Rate at which the clip's level follows, and its maximum rise in one frame: a single cut must not raise it so far that
# the next one is missed, but a restless scene must not be cut repeatedly.
LEVEL_RATE = 0.5
LEVEL_STEP = np.array([0.02, 0.05], dtype=np.float32)


def colour_histogram(view: np.ndarray) -> np.ndarray:
    """Return (BINS³,) shares of the pixels of (h, w, 3) uint8 by colour."""
    import cv2

    counts = cv2.calcHist([view], [0, 1, 2], None, [BINS] * 3, [0, 256] * 3).ravel()
    return counts / (view.shape[0] * view.shape[1])


def cut_features(motion: Motion, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """Compute (2,) in [0, 1], as named in `FEATURES`, from the part that both views (h, w, 3) show."""
    colours = [
        colour_histogram(part) for part in (shared_ground(before, motion.pan)[0], shared_ground(after, motion.pan)[1])
    ]
    return np.array([motion.residual, 1 - np.minimum(*colours).sum()], dtype=np.float32)


def cut_score(features: np.ndarray, level: np.ndarray, weights: Sequence[float], bias: float) -> float:
    """Return a score, above zero for a cut. features and level: (2,); the level is zero at the clip's first change."""
    return float(np.dot(weights, features - level) + bias)


def next_level(features: np.ndarray, level: np.ndarray) -> np.ndarray:
    """Return the clip's level after one more frame."""
    return level + np.minimum(LEVEL_RATE * (features - level), LEVEL_STEP)
