"""How relevance moves from frame to frame: the numbers of it, learned or defaults, its arithmetic, and what it costs.

Each frame of a stream pays for what is new in it: the whole cap after a cut, a single token where nothing changed. A
total is never exceeded: what the coming frames need at the least is kept back.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from ..attending.frame import Frame, to_cells
from ..core.arrays import Array, namespace
from ..core.errors import InputError
from ..core.folders import WEIGHTS, verify
from ..core.values import Allocation, JsonObject, token_density
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


def load_settings(folder: str | Path | None = None) -> TemporalSettings:
    """What was learned: from a folder of `arr-coc train video`, the package's own, or defaults."""
    path = Path(SHIPPED if folder is None else folder) / SETTINGS_NAME
    if folder is None and not os.path.exists(path):
        return TemporalSettings()
    verify(path.parent, [path.name])
    try:
        return TemporalSettings(**json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"no temporal settings could be read from {path}: {error}") from error


# ---- carried relevance, for numpy and torch alike -------------------------------------------------------------------

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


# Bands into which a frame is cut across its shorter side. The weakest is looked at again, the others wait a frame, so
# that no frame costs much more than another.
BANDS = 8
# A band is looked at again if this share of it is weak.
SHARE = 0.02


def weak_bands(trust: np.ndarray, weak: float) -> list[tuple[slice, slice]]:
    """(h, w) trust → the window (rows, cols) of its weakest band, along the longer side; none where all is sure."""
    height, width = trust.shape
    across_rows = height <= width
    shares = (trust < weak).mean(axis=1 if across_rows else 0)
    edges = np.linspace(0, len(shares), min(BANDS, len(shares)) + 1).astype(int)
    weakness = np.add.reduceat(shares, edges[:-1]) / np.diff(edges)
    band = int(weakness.argmax())
    if weakness[band] <= SHARE:
        return []
    span = slice(int(edges[band]), int(edges[band + 1]))
    return [(span, slice(0, width)) if across_rows else (slice(0, height), span)]


# ---- what of this ground was shown before, and what a frame may therefore cost ---------------------------------------

# Ground counts as shown where it was shown in this share of the detail that is wanted now: carried maps blur a little.
ENOUGH = 0.6


def detail_of(allocation: Allocation) -> np.ndarray:
    """(rows, cols) float32: 1 at level 0, a half at level 1, …; 0 where nothing looks."""
    levels = allocation.level_map()
    return np.where(levels < 0, 0.0, np.exp2(-levels.astype(np.float32))).astype(np.float32)


def cells_of(maps: np.ndarray, grid: tuple[int, int]) -> np.ndarray:
    """(h, w) → (rows, cols) mean of each cell."""
    return to_cells(maps[None], Frame(grid, 1))[0]


def spread_over(cells: np.ndarray, size: tuple[int, ...]) -> np.ndarray:
    """(rows, cols) → (h, w), each place with the value of the cell it lies in."""
    rows, cols = cells.shape
    at_row = np.minimum((np.arange(size[0]) + 0.5) * rows / size[0], rows - 1).astype(int)
    at_col = np.minimum((np.arange(size[1]) + 0.5) * cols / size[1], cols - 1).astype(int)
    return np.ascontiguousarray(cells[at_row[:, None], at_col[None, :]], dtype=np.float32)


def fresh_ground(standing: Allocation, shown: np.ndarray) -> float:
    """Share of the standing tokens that stand on ground not yet shown in that detail. shown: (rows, cols)."""
    density = token_density(standing)
    unmet = shown < ENOUGH * detail_of(standing)
    return float((density * unmet).sum() / density.sum())


def kept_share(earlier: Allocation, later: Allocation, same_ground: np.ndarray) -> float:
    """[0, 1]: how much of two allocations of one size is the same: as many tokens on the same places, and on the same
    ground there. same_ground: (rows, cols) share of each cell of the later frame that was there in the earlier one.

    Places alone would not do: after a cut, what matters often stands where something else stood before.
    """
    before, after = token_density(earlier), token_density(later)
    return float((np.minimum(before, after) * same_ground).sum() / max(float(before.sum()), float(after.sum())))


@dataclass(frozen=True)
class Pace:
    """cap: tokens that one frame may cost. total: tokens of the whole clip, None for no end. frames: how many frames
    will come, where that is known; without it a total is used up by the frames that come first."""

    cap: int
    total: int | None = None
    frames: int | None = None

    def __post_init__(self) -> None:
        if self.cap < 1:
            raise InputError(f"a frame needs at least 1 token, got a cap of {self.cap}")
        if self.frames is not None and self.frames < 1:
            raise InputError(f"a clip has at least 1 frame, got {self.frames}")
        if self.total is not None and self.total < (self.frames or 1):
            raise InputError(f"a total of {self.total} tokens is less than one for each of {self.frames or 1} frames")

    def allowance(self, frame: int, spent: int, fresh: float) -> int:
        """Tokens that frame `frame` (from 0) may cost; fresh: share of its relevant ground that is new, 0 to 1.

        Never below one unless the total is used up: then 0, and the frame cannot be shown.
        """
        wanted = 1 + round((self.cap - 1) * min(max(fresh, 0.0), 1.0))
        if self.total is None:
            return wanted
        left = self.total - spent
        if self.frames is not None:
            left -= max(0, self.frames - frame - 1)
        return max(0, min(wanted, left))
