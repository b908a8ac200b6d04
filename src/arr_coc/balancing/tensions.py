"""Opponent processing: each tension balances two ways of spending attention; neither side ever wins for good.

- compress ↔ particularize: what there is to read, against what the question names;
- exploit ↔ explore: what stands out, against what does not;
- focus ↔ diversify: the score itself, against the score plus a bonus for distance from the best places.

The law sets each tension for every question. The formulas run on numpy arrays (one picture, no torch) and on tensors
(batches, gradients).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from .law import TENSION_NAMES as TENSION_NAMES

# Set by hand, for callers without a law. At one half a map and its complement would cancel.
DEFAULT_TENSIONS: Mapping[str, float] = dict(zip(TENSION_NAMES, (0.6, 0.15, 0.1), strict=True))
WEIGHTS = np.array([4 / 7, 1.0, 0.09])
TOP_PLACES = 8
# Power to which the balanced map is raised. A tree splits by mass, so a large area of medium values wins over a small
# area of high ones unless the map is sharp; unsharpened, the result is close to uniform down-sampling. Chosen among
# seven powers by coverage of true boxes on 150 real pictures, so benchmarks that use those are not held out.
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

    tensions: by name; an array if a tension differs between places. weights: (3,): the share of the first tension's map
    in the sum with the second's, how far exploring inverts what stands out, and how much diversifying adds. correction:
    (B, h, w), added before normalisation (a learned residual).
    """
    particularize, explore, diversify = (tensions.get(name, usual) for name, usual in DEFAULT_TENSIONS.items())
    share, turned, bonus = weights if arrays.is_tensor(weights) else weights.tolist()
    first = (1 - particularize) * propositional + particularize * participatory
    second = (1 - turned * explore) * perspectival + turned * explore * (1 - perspectival)
    combined = arrays.float32(share * first + (1 - share) * second)
    score = combined + bonus * diversify * distance_to_top(combined)
    return normalise(score if correction is None else score + correction)


def normalise(maps: Array) -> Array:
    """Stretch each map of (B, h, w) to [0, 1]; a constant map becomes zero."""
    library = arrays.namespace(maps)
    low = library.amin(maps, axis=(1, 2), keepdims=True)
    span = library.amax(maps, axis=(1, 2), keepdims=True) - low
    return (maps - low) / span.clip(1e-6)


def sharpen(relevance: Array) -> Array:
    """Sharpen a map in [0, 1] for the tree that is split by it; order and range stay the same."""
    return relevance**SHARPNESS


def distance_to_top(scores: Array) -> Array:
    """Compute the distance (B, h, w) to the nearest of the best places, in units of the picture's diagonal.

    No gradient flows through the choice of the best places.
    """
    library = arrays.namespace(scores)
    batch, height, width = scores.shape
    best = arrays.largest_first(scores.reshape(batch, -1), min(TOP_PLACES, height * width))
    down = (arrays.like(np.arange(height), scores) - (best // width)[:, :, None]) ** 2
    across = (arrays.like(np.arange(width), scores) - (best % width)[:, :, None]) ** 2
    # Integers up to here, so that both libraries find the same nearest place.
    nearest = library.amin(down[:, :, :, None] + across[:, :, None, :], axis=1)
    return arrays.float32(library.sqrt(arrays.float64(nearest))) / (height**2 + width**2) ** 0.5
