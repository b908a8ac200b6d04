"""text_regions: where there is something to read, without any download.

Two detectors, one meaning (a map in [0, 1], high on text):
- `stroke_map`: statistics of small windows; milliseconds, either back end, batches, gradients. A detector of
  glyph-shaped components standing in rows was tried beside it: slower, it missed more and it fired on foliage.
- `ocr_map`: a real OCR detector, where the extra `arr-coc[ocr]` is installed.

The thresholds of `stroke_map` were set by eye and count on samples of scanned forms, charts and photos (FUNSD, ChartQA,
COCO): figures for those sources are not held out.
"""

from __future__ import annotations

import numpy as np

from ..pictures.ocr import ocr_engine, ocr_missing
from .backend import Backend, BackendMap, local_contrast

# Grey levels of spread below which a window is blank ground.
FAINTEST_INK = 6 / 255
# Headings are looked for in a view this many times smaller.
HEADING = 2


def stroke_map(ops: Backend, luminance: BackendMap) -> BackendMap:
    """Text-likeness in [0, 1], (H, W) or (B, H, W): the better of two sizes of type, body text and headings."""
    size = (luminance.shape[-2], luminance.shape[-1])
    radius = max(2, max(size) // 128)
    body = _likeness(ops, luminance, radius)
    small = (max(1, size[0] // HEADING), max(1, size[1] // HEADING))
    heading = _likeness(ops, ops.resize(luminance, small), radius)
    # The larger of the two, written so that both back ends and gradients know it.
    heading = ops.resize(heading, size)
    body = ops.resize(body, size)
    return ops.clip(body + ops.at_least(heading - body, 0.0))


def _likeness(ops: Backend, luminance: BackendMap, radius: int) -> BackendMap:
    """Many edges, in both directions, around a few inked pixels on plain ground, in windows of `radius`.

    Ink on paper is lopsided (much ground, little ink: high skewness), texture is not; a rule or a border has edges in
    one direction only. The map may come back on a coarser grid: the statistics are of windows.
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
    busy = ops.clip((total - 2.0) * 0.25)
    lopsided = ops.clip((ops.square_root(skew * skew) - 0.5) * 4)
    return ops.box(busy * lopsided * ops.clip(both_ways * 2 - 0.6), near) * 2


def ocr_installed() -> bool:
    return ocr_missing() is None


def ocr_map(array: np.ndarray) -> np.ndarray:
    """(H, W) float32: boxes of the OCR detector, from (H, W, 3) RGB, uint8 or float32 in [0, 1]."""
    import cv2

    engine = ocr_engine()
    picture = array if array.dtype == np.uint8 else cv2.convertScaleAbs(array, alpha=255.0)
    result = engine(np.ascontiguousarray(picture[..., ::-1]), use_det=True, use_cls=False, use_rec=False)
    text = np.zeros(array.shape[:2], dtype=np.float32)
    boxes = getattr(result, "boxes", None)
    if boxes is not None and len(boxes):
        cv2.fillPoly(text, [np.rint(box).astype(np.int32) for box in boxes], 1.0)
    return text
