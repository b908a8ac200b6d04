"""Scene cuts: is this frame the same scene as the one before?

The rule of thumb "more than 30 % of the pixels move by more than 0.5" does not do it (`rule_says_cut`, kept for
comparison). In pixels, half a pixel is less than an ordinary drift of the camera; as half of full motion, a cut between
two pages of a similar layout moves nothing while a quick pan moves everything. What tells a cut is what the best motion
cannot explain, and how far the colours of the whole frame have changed. Both are taken against the clip's own recent
level, so that a restless scene needs more to be cut than a still one. The two weights are learned.
"""

from __future__ import annotations

import numpy as np

from .motion import Motion
from .settings import TemporalSettings

FEATURES = ("residual", "colours")
BINS = 6
# How quickly the clip's own level follows, and by how much at most it rises in one frame: a single cut must not raise
# it so far that the next one is missed, but a restless scene must not be cut over and over.
LEVEL_RATE = 0.5
LEVEL_STEP = np.array([0.02, 0.05], dtype=np.float32)
# The rule of thumb: this share of the pixels moves by more than half of full motion.
RULE_SHARE = 0.3


def colour_histogram(view: np.ndarray) -> np.ndarray:
    """(h, w, 3) uint8 → (BINS³,) shares of the pixels, by colour."""
    import cv2

    counts = cv2.calcHist([view], [0, 1, 2], None, [BINS] * 3, [0, 256] * 3).ravel()
    return counts / (view.shape[0] * view.shape[1])


def cut_features(motion: Motion, before: np.ndarray, after: np.ndarray) -> np.ndarray:
    """(2,) in [0, 1], as named in `FEATURES`. before, after: colour histograms."""
    return np.array([motion.residual, 1 - np.minimum(before, after).sum()], dtype=np.float32)


def cut_score(features: np.ndarray, level: np.ndarray, settings: TemporalSettings) -> float:
    """Above zero: a cut. features and level: (2,); the level is zero at the clip's first change."""
    return float(np.dot(settings.cut_weights, features - level) + settings.cut_bias)


def next_level(features: np.ndarray, level: np.ndarray) -> np.ndarray:
    """The clip's own level after one more frame."""
    return level + np.minimum(LEVEL_RATE * (features - level), LEVEL_STEP)


def rule_says_cut(motion: Motion) -> bool:
    """The rule of thumb that the learned features replace."""
    return motion.moved > RULE_SHARE
