"""Pages without a browser: lines of type of one width, whose every letter's box is known; and a kind of photograph."""

from __future__ import annotations

import numpy as np
from PIL import Image

STEP, LINE, LEFT, TOP = 12, 24, 16, 16


def cloudy(height: int, width: int, seed: int = 0) -> np.ndarray:
    """(height, width, 3) uint8: structure of every size, no two places alike."""
    generator = np.random.default_rng(seed)
    total = np.full((height, width, 3), 128.0)
    for side, strength in ((5, 50), (30, 30), (120, 20)):
        coarse = generator.normal(0, 1, (max(2, side * height // width), side, 3)) * 60 + 128
        image = Image.fromarray(np.clip(coarse, 0, 255).astype(np.uint8)).resize(
            (width, height), Image.Resampling.BICUBIC
        )
        total += (np.asarray(image, dtype=np.float64) - 128) * (strength / 60)
    return np.clip(total, 0, 255).astype(np.uint8)
