"""Opponent processing: each tension pulls between two ways of spending attention; none of them ever wins for good.

- compress ↔ particularize: what is there to be read, against what this question couples to;
- exploit ↔ explore: what stands out, against what does not;
- focus ↔ diversify: the score itself, against the score plus a bonus for being far from the places already on top.

Where each stands is decided by the law for every question. The formulas run on numpy arrays (one picture, no torch) and
on tensors (batches, gradients).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from .law import TENSION_NAMES as TENSION_NAMES

# What was set by hand, where no law is asked. Exploring and diversifying are kept small: at one half, a map and its
# complement cancel.
DEFAULT_TENSIONS: Mapping[str, float] = dict(zip(TENSION_NAMES, (0.6, 0.15, 0.1), strict=True))
WEIGHTS = np.array([4 / 7, 1.0, 0.09])
TOP_PLACES = 8
# The three ways, balanced, are raised to this power. A tree splits by mass, so that a wide lukewarm field outbids a
# small hot place unless the map is sharp; unsharpened, the result is close to uniform down-sampling. Chosen among seven
# powers by the coverage of true boxes on 150 real pictures' questions, so a benchmark that uses those is not held out.
SHARPNESS = 4


def balance(
    propositional: Array,
    perspectival: Array,
    participatory: Array,
    tensions: Mapping[str, float | Array] = DEFAULT_TENSIONS,
    weights: Array = WEIGHTS,
    *,
    correction: Array | None = None,
) -> Array:
    """Balance three maps (B, h, w) in [0, 1] into one relevance map (B, h, w), each picture stretched to [0, 1].

    Args:
        propositional: What is there.
        perspectival: What stands out.
        participatory: What the question couples to.
        tensions: By name; an array where a tension differs between places.
        weights: (3,), what the first pull counts beside the second, how far exploring turns what stands out over, and
            what diversifying adds.
        correction: (B, h, w), added before normalisation (a learned residual).
    """
    particularize, explore, diversify = (tensions.get(name, usual) for name, usual in DEFAULT_TENSIONS.items())
    share, turned, bonus = weights if arrays.is_tensor(weights) else weights.tolist()
    first = (1 - particularize) * propositional + particularize * participatory
    second = (1 - turned * explore) * perspectival + turned * explore * (1 - perspectival)
    combined = arrays.float32(share * first + (1 - share) * second)
    score = combined + bonus * diversify * distance_to_top(combined)
    return normalise(score if correction is None else score + correction)


def normalise(maps: Array) -> Array:
    """(B, h, w) → each picture stretched to [0, 1]; a flat picture becomes all zero."""
    library = arrays.namespace(maps)
    low = library.amin(maps, axis=(1, 2), keepdims=True)
    span = library.amax(maps, axis=(1, 2), keepdims=True) - low
    return (maps - low) / span.clip(1e-6)


def sharpen(relevance: Array) -> Array:
    """A map in [0, 1] → the map that a tree is split by; order and range stay the same."""
    return relevance**SHARPNESS


def distance_to_top(scores: Array) -> Array:
    """(B, h, w) → distance to the nearest of the top-scored places, in units of the picture's diagonal.

    Which places are on top is a choice, not a quantity, so no gradient flows through it.
    """
    library = arrays.namespace(scores)
    batch, height, width = scores.shape
    best = arrays.largest_first(scores.reshape(batch, -1), min(TOP_PLACES, height * width))
    down = (arrays.like(np.arange(height), scores)[:, None] - (best // width)[:, None, :]) ** 2
    across = (arrays.like(np.arange(width), scores)[:, None] - (best % width)[:, None, :]) ** 2
    # Whole numbers up to here, so that both libraries find the very same nearest place.
    nearest = library.amin(down[:, :, None, :] + across[:, None, :, :], axis=-1)
    return arrays.float32(library.sqrt(arrays.float64(nearest))) / (height**2 + width**2) ** 0.5
