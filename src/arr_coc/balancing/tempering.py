"""Tempering: how much of a further look explores ground that was not examined yet."""

from __future__ import annotations

import numpy as np

# Exploration up to here is too little to be worth disturbing the map for.
BLEND_ABOVE = 0.2


def exploration_rule(pass_number: int, uncertainty: float) -> float:
    """How much a pass explores, by the uncertainty after the pass before."""
    if pass_number <= 1:
        return 0.1
    return 0.5 if uncertainty > 0.7 else 0.3 if uncertainty > 0.4 else 0.05


def temper(relevance: np.ndarray, examined: np.ndarray, exploration: float) -> np.ndarray:
    """Blend a map (h, w) with one of the ground not examined yet; examined: (h, w) in [0, 1].

    Fresh ground counts as much as the most relevant place, examined ground as little as the least.
    """
    if exploration <= BLEND_ABOVE:
        return relevance
    low, high = relevance.min(), relevance.max()
    return (1 - exploration) * relevance + exploration * (high - (high - low) * examined)
