"""The three ways of knowing of one sensed picture, balanced into one map: the relevance called "look".

Without an image-text encoder, what couples to the question is what its plain words name: colours, places, print; and,
where its weights are there, the things that the photo map knows by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from math import log
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import numpy as np

from ...balancing.tension import DEFAULT_TENSIONS, balance
from ...core.arrays import Array, namespace, sized
from ...core.errors import InputError
from ...core.values import Relevance
from ...texture import ops as opencv
from ...texture.channels import Texture, check_gaze, eccentricity
from ...texture.pixels import luminance, sobel
from ..scene import Scene

if TYPE_CHECKING:
    from torch import Tensor

    from ..language.lexical import Coupling
    from ..photos.source import PhotoSight


TENSIONS_NAME = "tensions.json"
# Three maps (h, w) and a question → one map (1, h, w) in [0, 1], and the tensions it was balanced by.
Balanced = Callable[[Sequence[np.ndarray], str], tuple[np.ndarray, dict[str, float]]]

# Relevance is kept at this longer side: several values for each cell of a 1024-pixel picture, and quick to balance.
MAP_SIDE = 256


def look_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "look"; a prompt without a question is asked what is there. Drawn pictures are balanced by learned
    tensions, photographs by those set by hand; option "adaptive" or "fixed": one of them whatever the picture; or the
    folder of `train tensions --data`."""
    from ...balancing.adaptive import adaptive_balance
    from ...pictures.kind import is_photograph

    balanced = None
    if option == "adaptive" or (not option and not is_photograph(scene.pixels)):
        balanced = adaptive_balance
    elif option not in ("", "fixed"):
        balanced = partial(by_tensions, read_tensions(Path(option)))
    query = query or "what is there"
    photo = photo_map(scene.seen, query) if scene.photos else None
    return relevance_of(scene.texture, query, photo, balanced)


def read_tensions(folder: Path) -> dict[str, float]:
    """The three tensions that a training left in a folder."""
    if not os.path.isfile(folder / TENSIONS_NAME):
        raise InputError(
            f"relevance='look:{folder}' is unknown; use look, look:adaptive, look:fixed, or a folder of train tensions"
        )
    try:
        found = json.loads((folder / TENSIONS_NAME).read_text(encoding="utf-8"))["tensions"]
        tensions = {name: float(found[name]) for name in DEFAULT_TENSIONS}
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise InputError(f"{folder / TENSIONS_NAME} holds no three tensions ({error!r}); train them again") from error
    if not all(0 <= value <= 1 for value in tensions.values()):
        raise InputError(f"{folder / TENSIONS_NAME}: a tension lies in 0–1; train it again")
    return tensions


def by_tensions(
    tensions: dict[str, float], ways: Sequence[np.ndarray], query: str
) -> tuple[np.ndarray, dict[str, float]]:
    """Three maps (h, w) → (1, h, w) by three numbers, whatever is asked."""
    return balance(*(one[None] for one in ways), tensions), tensions


def photo_map(picture: np.ndarray | PhotoSight, query: str) -> Coupling | None:
    """What the photo map couples to the question in pixels, or in a `Scene.seen`: a `Coupling`; None where it
    is not there or has nothing to say, and then nothing heavy was loaded."""
    from ..photos.source import photo_coupling

    return photo_coupling(picture, query)


def relevance_of(
    texture: Texture, query: str, photo: Coupling | None = None, balanced: Balanced | None = None
) -> Relevance:
    """The three maps of one sensed picture (a `Texture`), balanced into one, which
    arousal sharpens: by the stakes of the question's words, and by how far the three contradict each other here.

    photo: what the photo map says of the things that the question names (of `photo_map`). balanced: what makes one
    map of the three, and says by which tensions; those set by hand where None.
    """
    from ...balancing.arousal import first_arousal, modulate
    from ...balancing.tension import sharpen
    from ...core.arrays import like
    from ..language.lexical import lexical

    coupling = lexical(texture, query)
    names = ("propositional", "perspectival", "participatory")
    maps = [propositional(texture), perspectival(texture), coupling.map]
    height, width = sized(maps[0].shape, MAP_SIDE)
    maps = [texture.ops.shrink(one, (height, width)) for one in maps]
    notes = coupling.notes
    if photo is not None:
        seen = like(enlarged(photo.map, (height, width)), maps[2])
        maps[2] = coupled_with(maps[2], seen)
        notes = (*(note for note in notes if "is zero" not in note), *photo.notes)
    ways = [np.asarray(one) for one in maps]
    arousal = first_arousal(query, ways)
    if arousal.mood != "calm":
        notes = (*notes, arousal.note())
    one_map, tensions = (balance(*(one[None] for one in maps)), DEFAULT_TENSIONS)
    if balanced is not None:
        one_map, tensions = balanced(ways, query)
        own, learned = "tensions of one's own", "tensions by the question, place by place, as learned on drawn worlds"
        notes = (*notes, own if isinstance(balanced, partial) else learned)
    return Relevance(
        map=modulate(sharpen(one_map), arousal.value)[0],
        query=query,
        tensions=dict(tensions),
        notes=notes,
        **dict(zip(names, ways, strict=True)),
    )


def coupled_with(words: Array, photo: Array) -> Array:
    """Two maps (h, w), what plain words couple to and what the photo map does, as lexical joins its own words: what
    meets both comes first, what meets one still counts; a map that says nothing takes no part."""
    if not bool(photo.max() > 0):
        return words
    return 0.6 * (words * photo) ** 0.5 + 0.2 * (words + photo) if bool(words.max() > 0) else photo


def enlarged(plane: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(h, w) → size, bilinear: a coarse map without its steps."""
    return opencv.enlarge(np.ascontiguousarray(plane, dtype=np.float32), size)


# ----------------------------------------------------------------------------------------------------------------------
# Perspectival knowing: what stands out from here.

PERIPHERY_LOSS = 0.5


def perspectival(texture: Texture, gaze: tuple[float, float] | None = None) -> Array:
    """(H, W) or (B, H, W) in [0, 1]: saliency × (1 − 0.5 · eccentricity), plus motion.

    gaze: (y, x) in [0, 1]: look from there instead of from the place the texture was sensed from.
    """
    ops, saliency = texture.ops, texture["saliency"]
    far = texture["eccentricity"] if check_gaze(gaze) is None else eccentricity(ops, saliency.shape[-2:], gaze)
    score = saliency * (1 - PERIPHERY_LOSS * far)
    if "motion" in texture:
        score = score + texture["motion"]
    return ops.clip(score)


# ----------------------------------------------------------------------------------------------------------------------
# Propositional knowing: what is there to be read.
#
# Local information is the entropy of quantised gradients: blank ground says one thing over and over, a straight border
# says two, print says many. Structure is how strong those gradients are and whether they look like strokes, so that
# faint noise, which is all entropy and no content, stays low.

DIRECTIONS = 8
# Directions are told apart half-way between them: tan(22.5°). So edges along the axes and the diagonals, by far the
# most frequent, lie in the middle of their bin and not on its border, where rounding would decide.
HALF_WAY = 2**0.5 - 1
# A gradient weaker than this (about eight grey levels across an edge) is flat ground.
FLAT = 8 * 4 / 255
# Mean gradient (in luminance, Sobel's scale) of a block at which its structure counts as full: ordinary print.
FULL_STRUCTURE = 0.8
BLOCKS_ALONG = 64


def propositional(texture: Texture) -> Array:
    """(H, W) or (B, H, W) in [0, 1]: half entropy, half structure."""
    ops = texture.ops
    along_x, along_y = sobel(luminance((texture["red"], texture["green"], texture["blue"])))
    strength = ops.magnitude(along_x, along_y)
    size = (strength.shape[-2], strength.shape[-1])
    block = max(1, max(size) // BLOCKS_ALONG)
    grid = (-(-size[0] // block), -(-size[1] // block))
    entropy = _gradient_entropy(ops, along_x, along_y, block)
    structure = ops.clip(ops.shrink(strength, grid) / FULL_STRUCTURE)
    if "text_regions" in texture:
        structure = namespace(structure).maximum(structure, ops.shrink(texture["text_regions"], grid))
    # Entropy without strength is noise: it counts only as far as there is something for it to be about.
    score = 0.5 * entropy * ops.clip(structure * 4) + 0.5 * structure
    return ops.clip(ops.enlarge(score, size))


def scene_detail(scene: Scene, query: str) -> Relevance:
    """The source "detail"."""
    return detail_relevance(scene.tensor, query)


def detail_relevance(picture: Tensor, query: str = "") -> Relevance:
    """What stands out without a question: how much a place would lose if seen at an eighth of its resolution.

    picture: (3, H, W) in [0, 1]. The energy between each 8×8 block and its mean, square-rooted so that one hard edge
    does not outweigh a page of print.
    """
    from torch.nn.functional import avg_pool2d

    side = min(8, *picture.shape[1:])
    grey = picture.float().mean(0, keepdim=True)[None]
    mean, square = (avg_pool2d(item, side) for item in (grey, grey**2))
    energy = (square - mean**2).clamp_min(0)[0, 0].sqrt()
    values = (energy / energy.amax().clamp_min(1e-6)).cpu().numpy()
    return Relevance(values, query=query, propositional=values, notes=("local detail; the question was not read",))


def _gradient_entropy(ops: ModuleType, along_x: Array, along_y: Array, block: int) -> Array:
    """(rows, columns) or (B, …) in [0, 1]: entropy of {flat, eight directions} around each block, over its largest."""
    # Squared, because the two back ends' square roots differ in the last bit.
    code = _direction(along_x, along_y) * (along_x * along_x + along_y * along_y > FLAT**2)
    counts = ops.count_in_blocks(code, DIRECTIONS + 1, block)
    # Neighbouring blocks are read together: print straddles any grid.
    nearby = [ops.box(count, 1) for count in counts]
    total = ops.at_least(sum(nearby), 1e-6)
    shares = [ops.at_least(near / total, 1e-12) for near in nearby]
    return -sum(share * namespace(share).log(share) for share in shares) / log(DIRECTIONS + 1)


def _direction(along_x: Array, along_y: Array) -> Array:
    """1 to 8: which of the eight directions a gradient points in (their order is of no account here)."""
    wide, tall = abs(along_x), abs(along_y)
    where = namespace(along_x).where
    right, down = along_x > 0, along_y > 0
    diagonal = where(right, where(down, 5, 6), where(down, 7, 8))
    across, upright = where(right, 1, 2), where(down, 3, 4)
    return where(tall < HALF_WAY * wide, across, where(wide < HALF_WAY * tall, upright, diagonal))
