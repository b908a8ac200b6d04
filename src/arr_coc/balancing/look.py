"""The source "look": the three ways of knowing of one picture, balanced into one map.

Without an image-text encoder, what couples to the question is what its plain words name: colours, places, print; and,
where its weights are there, the things that the photo map knows by name.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import Array, like, sized
from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.language.lexical import lexical
from ..knowing.scene import Scene
from ..knowing.ways import perspectival, propositional
from ..texture import ops as opencv
from ..texture.channels import Texture
from .arousal import first_arousal, modulate
from .tension import DEFAULT_TENSIONS, balance, sharpen

if TYPE_CHECKING:
    from ..knowing.language.lexical import Coupling
    from ..knowing.photos.source import PhotoSight

TENSIONS_NAME = "tensions.json"
# Three maps (h, w) and a question → one map (1, h, w) in [0, 1], and the tensions it was balanced by.
Balanced = Callable[[Sequence[np.ndarray], str], tuple[np.ndarray, dict[str, float]]]

# Relevance is kept at this longer side: several values for each cell of a 1024-pixel picture, and quick to balance.
MAP_SIDE = 256


def look_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "look"; a prompt without a question is asked what is there. Drawn pictures are balanced by learned
    tensions, photographs by those set by hand; option "adaptive" or "fixed": one of them whatever the picture; or the
    folder of `train tensions --data`."""
    from ..pictures.kind import is_photograph
    from .adaptive import adaptive_balance

    balanced = None
    if option == "adaptive" or (not option and not is_photograph(scene.pixels)):
        balanced = adaptive_balance
    elif option not in ("", "fixed"):
        balanced = partial(by_tensions, read_tensions(Path(option)))
    query = query or "what is there"
    photo = photo_map(scene.seen, query) if scene.photos else None
    return relevance_of(scene.sensed[0], query, photo, balanced)


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
    from ..knowing.photos.source import photo_coupling

    return photo_coupling(picture, query)


def relevance_of(
    texture: Texture, query: str, photo: Coupling | None = None, balanced: Balanced | None = None
) -> Relevance:
    """The three maps of one sensed picture (a `Texture`), balanced into one, which
    arousal sharpens: by the stakes of the question's words, and by how far the three contradict each other here.

    photo: what the photo map says of the things that the question names (of `photo_map`). balanced: what makes one
    map of the three, and says by which tensions; those set by hand where None.
    """
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
