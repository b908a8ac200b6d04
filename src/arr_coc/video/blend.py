"""The arithmetic of carried relevance, for numpy and torch alike, and which parts of a frame are looked at again."""

from __future__ import annotations

import numpy as np

from ..core.arrays import Array, namespace


def agreement(residual: Array, agree: float | Array, disagree: float | Array) -> Array:
    """Residual that the motion left → [0, 1]: 1 up to `agree`, 0 from `disagree` on, straight between."""
    return (1 - (residual - agree) / (disagree - agree)).clip(0, 1)


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
