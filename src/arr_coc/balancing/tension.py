"""Opponent processing: each tension pulls between two ways of spending attention; none of them ever wins for good.

- compress ↔ particularize: what is there to be read, against what this question couples to;
- exploit ↔ explore: what stands out, against what does not (or was not examined yet);
- focus ↔ diversify: the score itself, against the score plus a bonus for being far from the places already on top.

The formulas are written once and run on numpy arrays (one picture, no torch) and on tensors (batches, gradients).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core import arrays
from ..core.arrays import Array

TENSION_NAMES = ("compress_particularize", "exploit_explore", "focus_diversify")
# What `look` uses without training. Exploring and diversifying are kept small: at one half, a map and its complement
# cancel, which is the right start for learning and a poor choice for use.
DEFAULT_TENSIONS: Mapping[str, float] = {"compress_particularize": 0.6, "exploit_explore": 0.15, "focus_diversify": 0.1}
WEIGHTS = (0.4, 0.3, 0.3)
DIVERSITY = 0.3
TOP_PLACES = 8
# The balanced map to this power is what is allocated by. A tree splits by mass, so that a wide lukewarm field outbids a
# small hot place unless the map is sharp; unsharpened, the result is close to uniform down-sampling. Chosen among seven
# powers by the coverage of true boxes on 150 real pictures' questions, so a benchmark that uses those is not held out.
SHARPNESS = 4


def balance(
    propositional: Array,
    perspectival: Array,
    participatory: Array,
    tensions: Mapping[str, float] | Array | None = None,
    *,
    examined: Array | None = None,
    correction: Array | None = None,
) -> Array:
    """Three maps (B, h, w) in [0, 1] → one relevance map (B, h, w), normalised to [0, 1] for each picture.

    tensions: by name, or an array whose last dimension is the three of them (broadcast over the maps, so that they may
    differ from place to place). examined: (B, h, w) in [0, 1]; given, exploring seeks what it has not covered instead
    of what does not stand out. correction: (B, h, w), added before normalisation (a learned residual).
    """
    if tensions is None:
        tensions = DEFAULT_TENSIONS
    if isinstance(tensions, Mapping):
        particularize, explore, diversify = (
            float(tensions.get(name, DEFAULT_TENSIONS[name])) for name in TENSION_NAMES
        )
    else:
        particularize, explore, diversify = (tensions[..., place] for place in range(len(TENSION_NAMES)))
    first = (1 - particularize) * propositional + particularize * participatory
    unexplored = 1 - (perspectival if examined is None else examined)
    second = (1 - explore) * perspectival + explore * unexplored
    combined = (WEIGHTS[0] * first + WEIGHTS[1] * second) / (WEIGHTS[0] + WEIGHTS[1])
    third = combined + diversify * DIVERSITY * distance_to_top(combined)
    score = WEIGHTS[0] * first + WEIGHTS[1] * second + WEIGHTS[2] * third
    return normalise(score if correction is None else score + correction)


def mixture(propositional: Array, perspectival: Array, participatory: Array) -> Array:
    """The same of maps of any shape, by the default tensions, place by place: without what needs the whole picture,
    which is the bonus for places far from the best and the stretching. In [0, 1]."""
    particularize, explore = (DEFAULT_TENSIONS[name] for name in TENSION_NAMES[:2])
    first = (1 - particularize) * propositional + particularize * participatory
    second = (1 - explore) * perspectival + explore * (1 - perspectival)
    return (WEIGHTS[0] * first + WEIGHTS[1] * second) / (WEIGHTS[0] + WEIGHTS[1])


def normalise(maps: Array) -> Array:
    """(B, h, w) → each picture stretched to [0, 1]; a flat picture becomes all zero."""
    library = arrays.namespace(maps)
    low = library.amin(maps, axis=(1, 2), keepdims=True)
    span = library.amax(maps, axis=(1, 2), keepdims=True) - low
    return (maps - low) / span.clip(1e-6)


def sharpen(relevance: Array, power: float = SHARPNESS) -> Array:
    """A map in [0, 1] → the map that a tree is split by; order and range stay the same."""
    return relevance**power


def distance_to_top(scores: Array, places: int = TOP_PLACES) -> Array:
    """(B, h, w) → distance to the nearest of the top-scored places, in units of the picture's diagonal.

    Which places are on top is a choice, not a quantity, so no gradient flows through it.
    """
    library = arrays.namespace(scores)
    batch, height, width = scores.shape
    best = arrays.largest_first(scores.reshape(batch, -1), min(places, height * width))
    down = (arrays.like(np.arange(height), scores)[:, None] - (best // width)[:, None, :]) ** 2
    across = (arrays.like(np.arange(width), scores)[:, None] - (best % width)[:, None, :]) ** 2
    # Whole numbers up to here, so that both libraries find the very same nearest place.
    nearest = library.amin(down[:, :, None, :] + across[:, None, :, :], axis=-1)
    return arrays.float32(library.sqrt(arrays.float64(nearest))) / (height**2 + width**2) ** 0.5
