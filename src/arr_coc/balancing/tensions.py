"""Opponent processing: each tension pulls between two ways of spending attention; none of them ever wins for good.

- compress ↔ particularize: what is there to be read, against what this question couples to;
- exploit ↔ explore: what stands out, against what does not (or was not examined yet);
- focus ↔ diversify: the score itself, against the score plus a bonus for being far from the places already on top.

The formulas run on numpy arrays (one picture, no torch) and on tensors (batches, gradients). The source
"look" balances the three ways of knowing of one picture: without an image-text encoder, what couples to the question is
what its plain words name (colours, places, print) and, where it is installed, what the photo map knows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.language.lexical import Coupling, lexical
from ..knowing.scene import Scene
from ..knowing.ways import perspectival, propositional
from ..texture.channels import Texture
from ..texture.ops import enlarge
from .arousal import first_arousal, modulate

# What `look` uses without training. Exploring and diversifying are kept small: at one half, a map and its complement
# cancel, which is the right start for learning and a poor choice for use.
DEFAULT_TENSIONS: Mapping[str, float] = {"compress_particularize": 0.6, "exploit_explore": 0.15, "focus_diversify": 0.1}
TENSION_NAMES = tuple(DEFAULT_TENSIONS)
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
    tensions: Mapping[str, float] | Array = DEFAULT_TENSIONS,
    *,
    examined: Array | None = None,
    correction: Array | None = None,
) -> Array:
    """Balance three maps (B, h, w) in [0, 1] into one relevance map (B, h, w), each picture stretched to [0, 1].

    Args:
        propositional: What is there.
        perspectival: What stands out.
        participatory: What the question couples to.
        tensions: By name, or an array whose last dimension is the three of them, which may differ between places.
        examined: (B, h, w) in [0, 1]; exploring then seeks what it has not covered instead of what does not stand out.
        correction: (B, h, w), added before normalisation (a learned residual).
    """
    if isinstance(tensions, Mapping):
        particularize, explore, diversify = (tensions.get(name, usual) for name, usual in DEFAULT_TENSIONS.items())
    else:
        particularize, explore, diversify = (tensions[..., place] for place in range(len(TENSION_NAMES)))
    first = (1 - particularize) * propositional + particularize * participatory
    unexplored = 1 - (perspectival if examined is None else examined)
    second = (1 - explore) * perspectival + explore * unexplored
    combined = (WEIGHTS[0] * first + WEIGHTS[1] * second) / (WEIGHTS[0] + WEIGHTS[1])
    third = combined + diversify * DIVERSITY * distance_to_top(combined)
    score = WEIGHTS[0] * first + WEIGHTS[1] * second + WEIGHTS[2] * third
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


# ---- the source "look" -----------------------------------------------------------------------------------------------

TENSIONS_NAME = "tensions.json"
# Relevance is kept at this longer side: several values for each cell of a 1024-pixel picture, and quick to balance.
MAP_SIDE = 256


def look_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "look"; a prompt without a question is asked what is there. option: the folder of `train tensions
    --data`, instead of the tensions set by hand."""
    from ..knowing.photos.source import photo_coupling

    tensions = read_tensions(Path(option)) if option else DEFAULT_TENSIONS
    query = query or "what is there"
    photo = photo_coupling(scene.seen, query) if scene.photos else None
    return relevance_of(scene.sensed[0], query, photo, tensions)


def read_tensions(folder: Path) -> dict[str, float]:
    """The three tensions that a training left in a folder."""
    try:
        found = json.loads((folder / TENSIONS_NAME).read_text(encoding="utf-8"))["tensions"]
        return {name: min(1.0, max(0.0, float(found[name]))) for name in DEFAULT_TENSIONS}
    except (OSError, ValueError, TypeError, KeyError) as error:
        ways = "use look, or a folder of train tensions"
        raise InputError(f"relevance='look:{folder}' holds no three tensions ({error!r}); {ways}") from error


def relevance_of(
    texture: Texture,
    query: str,
    photo: Coupling | None = None,
    tensions: Mapping[str, float] = DEFAULT_TENSIONS,
) -> Relevance:
    """Balance the three maps of one sensed picture into one, which arousal sharpens: by the stakes of the question's
    words, and by how far the three contradict each other here.

    photo: what the photo map says of the things that the question names.
    """
    coupling = lexical(texture, query)
    notes = coupling.notes
    maps = [propositional(texture), perspectival(texture), coupling.map]
    height, width = arrays.sized(maps[0].shape, MAP_SIDE)
    maps = [texture.ops.shrink(one, (height, width)) for one in maps]
    if photo is not None:
        maps[2] = coupled_with(maps[2], arrays.like(enlarge(photo.map, (height, width)), maps[2]))
        notes = (*(note for note in notes if "is zero" not in note), *photo.notes)
    ways = [np.asarray(one) for one in maps]
    arousal, said = first_arousal(query, ways)
    notes = (*notes, *said)
    (balanced,) = sharpen(balance(*(one[None] for one in ways), tensions))
    return Relevance(modulate(balanced, arousal), query, *ways, dict(tensions), notes)


def coupled_with(words: Array, photo: Array) -> Array:
    """Two maps (h, w), what plain words couple to and what the photo map does, as lexical joins its own words: what
    meets both comes first, what meets one still counts; a map that says nothing takes no part."""
    if not bool(photo.max() > 0):
        return words
    return 0.6 * (words * photo) ** 0.5 + 0.2 * (words + photo) if bool(words.max() > 0) else photo
