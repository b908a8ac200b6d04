"""The arithmetic of carried relevance, written once for numpy and torch: every function takes either."""

from __future__ import annotations

from ..arrays import Array, namespace


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
