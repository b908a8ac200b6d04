"""The few numbers that say how relevance moves from frame to frame; learned on moving Needle World, or defaults."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..core.arrays import Array, namespace
from ..core.errors import InputError
from ..core.folders import WEIGHTS, verify
from ..core.values import JsonObject
from ..texture.motion import agreement

# What `arr-coc train video` writes.
SETTINGS_NAME = "settings.json"
SHIPPED = WEIGHTS / "video"


@dataclass(frozen=True)
class TemporalSettings:
    """decay: share of the carried relevance where it is looked at again, if the flow is trusted (0.7–0.9 expected).

    boost: what the relevance of a place that moves on its own is multiplied by (1.2–1.8 expected). weak: trust below
    which the carried relevance is looked at again. agree, disagree: the residual (0–1) that motion leaves unexplained
    up to which ground is the same, and from which it is other ground. fade: trust that is left after each frame.
    cut_weights, cut_bias: of `motion.FEATURES`; a sum above zero is a cut. keyframe: everything is looked at again, and
    after this many frames.
    """

    decay: float = 0.8
    boost: float = 1.5
    weak: float = 0.5
    agree: float = 0.03
    disagree: float = 0.11
    fade: float = 0.98
    cut_weights: tuple[float, ...] = (33.0, 61.0)
    cut_bias: float = -3.2
    keyframe: int = 30

    def __post_init__(self) -> None:
        object.__setattr__(self, "cut_weights", tuple(float(value) for value in self.cut_weights))
        shares = {"decay": self.decay, "weak": self.weak, "fade": self.fade}
        wrong = [f"{name}={value}" for name, value in shares.items() if not 0 <= value <= 1]
        if wrong:
            raise InputError(f"{', '.join(wrong)} must be in [0, 1]")
        if not self.boost >= 1:
            raise InputError(f"boost={self.boost} would hide what moves; give 1 or more")
        if not 0 <= self.agree < self.disagree:
            raise InputError(f"agree={self.agree} must lie below disagree={self.disagree}, both from 0 on")
        if self.keyframe < 1:
            raise InputError(f"keyframe={self.keyframe} must be 1 frame or more")

    def to_json(self) -> JsonObject:
        return asdict(self)

    @classmethod
    def from_json(cls, data: JsonObject) -> TemporalSettings:
        return cls(**data)


def load_settings(folder: str | Path | None = None) -> TemporalSettings:
    """What was learned: from a folder of `arr-coc train video`, the package's own, or defaults."""
    path = Path(SHIPPED if folder is None else folder) / SETTINGS_NAME
    if folder is None and not os.path.exists(path):
        return TemporalSettings()
    verify(path.parent, [path.name])
    try:
        return TemporalSettings.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"no temporal settings could be read from {path}: {error}") from error


# ----------------------------------------------------------------------------------------------------------------------
# The arithmetic of carried relevance, for numpy and torch alike, and which parts of a frame are looked at again.


# What similarity calls the same ground. Fixed, not learned: a measure must not move with what it measures.
SAME_UP_TO, OTHER_FROM = 0.03, 0.11


def same_ground(residual: Array) -> Array:
    """Residual that the motion left → [0, 1]: how much of a place is the ground that was there before."""
    return agreement(residual, SAME_UP_TO, OTHER_FROM)


def carried_trust(warped_trust: Array, same_ground: Array, fade: float | Array) -> Array:
    """How far the carried relevance of a place may be believed after one more frame.

    The smaller of the two and not their product: a flow that is a little off in every frame (fine print that drifts) is
    no growing evidence of other ground.
    """
    return fade * namespace(warped_trust).minimum(warped_trust, same_ground)


def blend(warped: Array, current: Array, trust: Array, decay: float | Array) -> Array:
    """decay · warped + (1 − decay) · current, and only current where the warped is not to be trusted."""
    weight = decay * trust
    return weight * warped + (1 - weight) * current


def boosted(relevance: Array, moving: Array, boost: float | Array) -> Array:
    """Relevance with places that move on their own raised, up to `boost` times; never above 1."""
    return (relevance * (1 + (boost - 1) * moving)).clip(0, 1)


# The frame is cut into so many bands across its shorter side, of which so many may be looked at again in one frame:
# what is left waits a frame, so that no frame costs much more than another.
BANDS = 8
MOST = 1
# A band is looked at again if this share of it is weak.
SHARE = 0.02


def weak_bands(trust: np.ndarray, weak: float) -> list[tuple[slice, slice]]:
    """(h, w) trust → windows (rows, cols), each as long as the longer side; neighbouring bands are one window."""
    height, width = trust.shape
    across_rows = height <= width
    shares = (trust < weak).mean(axis=1 if across_rows else 0)
    number = min(BANDS, len(shares))
    edges = np.linspace(0, len(shares), number + 1).astype(int)
    weakness = np.add.reduceat(shares, edges[:-1]) / np.diff(edges)
    chosen = np.sort(np.argsort(-weakness, kind="stable")[:MOST])
    chosen = chosen[weakness[chosen] > SHARE]
    runs = np.split(chosen, np.flatnonzero(np.diff(chosen) > 1) + 1) if len(chosen) else []
    spans = [slice(int(edges[run[0]]), int(edges[run[-1] + 1])) for run in runs]
    if across_rows:
        return [(span, slice(0, width)) for span in spans]
    return [(slice(0, height), span) for span in spans]
