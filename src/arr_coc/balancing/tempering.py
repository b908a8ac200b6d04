"""Tempering: how much of a pass explores ground that was not examined yet."""

from __future__ import annotations

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
from .arousal import for_each_picture

FIRST_PASS, VERY_UNSURE, UNSURE, SURE = 0.1, 0.5, 0.3, 0.05
VERY_UNSURE_ABOVE, UNSURE_ABOVE = 0.7, 0.4
# Exploration up to here is too little to be worth disturbing the map for.
BLEND_ABOVE = 0.2


def exploration_rule(pass_number: Array, uncertainty: Array) -> Array:
    """Pass number (first = 1) and uncertainty after the pass before, (B,) each → exploration (B,).

    First pass .1; then uncertainty > .7 → .5, > .4 → .3, else .05.
    """
    where = arrays.namespace(uncertainty).where
    unsure = where(uncertainty > UNSURE_ABOVE, UNSURE, SURE)
    later = where(uncertainty > VERY_UNSURE_ABOVE, VERY_UNSURE, unsure)
    return where(pass_number <= 1, FIRST_PASS, later)


def temper(relevance: Array, examined: Array, exploration: Array | float) -> Array:
    """Relevance (B, h, w), examined (B, h, w) in [0, 1], exploration, one number or (B,) → (B, h, w).

    Above .2 the map is blended with one of the ground not examined yet, which spans the same range as relevance does:
    fresh ground counts as much as the most relevant place, examined ground as little as the least. numpy or torch.
    """
    if relevance.ndim != 3 or relevance.shape != examined.shape:
        raise InputError(
            f"relevance and examined must both be (B, h, w), got {tuple(relevance.shape)} and {tuple(examined.shape)}"
        )
    library = arrays.namespace(relevance)
    share = for_each_picture("exploration", exploration, relevance)
    low = library.amin(relevance, axis=(1, 2), keepdims=True)
    high = library.amax(relevance, axis=(1, 2), keepdims=True)
    fresh = high - (high - low) * examined
    return library.where(share > BLEND_ABOVE, (1 - share) * relevance + share * fresh, relevance)
