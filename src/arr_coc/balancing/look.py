"""The source "look": the three ways of knowing of one picture, balanced into one map.

Without an image-text encoder, what couples to the question is what its plain words name: colours, places, print; and,
where its weights are there, the things that the photo map knows by name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import Array, like, sized
from ..core.errors import InputError
from ..core.values import Relevance
from ..knowing.language.lexical import lexical
from ..knowing.scene import Scene
from ..knowing.ways import perspectival, propositional
from ..texture.channels import Texture
from ..texture.ops import enlarge
from .arousal import first_arousal, modulate
from .tensions import DEFAULT_TENSIONS, adaptive_balance, balance, sharpen

if TYPE_CHECKING:
    from ..knowing.language.lexical import Coupling

TENSIONS_NAME = "tensions.json"
# Relevance is kept at this longer side: several values for each cell of a 1024-pixel picture, and quick to balance.
MAP_SIDE = 256


def look_relevance(scene: Scene, query: str, option: str = "") -> Relevance:
    """The source "look"; a prompt without a question is asked what is there. Drawn pictures are balanced by learned
    tensions, photographs by those set by hand; option "adaptive" or "fixed": one of them whatever the picture; or the
    folder of `train tensions --data`."""
    from ..knowing.photos.source import photo_coupling
    from ..pictures.kind import is_photograph

    tensions: Mapping[str, float] | None = DEFAULT_TENSIONS
    if option == "adaptive" or (not option and not is_photograph(scene.pixels)):
        tensions = None
    elif option not in ("", "fixed"):
        tensions = read_tensions(Path(option))
    query = query or "what is there"
    photo = photo_coupling(scene.seen, query) if scene.photos else None
    return relevance_of(scene.sensed[0], query, photo, tensions)


def read_tensions(folder: Path) -> dict[str, float]:
    """The three tensions that a training left in a folder."""
    try:
        found = json.loads((folder / TENSIONS_NAME).read_text(encoding="utf-8"))["tensions"]
        return {name: min(1.0, max(0.0, float(found[name]))) for name in DEFAULT_TENSIONS}
    except (OSError, ValueError, TypeError, KeyError) as error:
        ways = "use look, look:adaptive, look:fixed, or a folder of train tensions"
        raise InputError(f"relevance='look:{folder}' holds no three tensions ({error!r}); {ways}") from error


def relevance_of(
    texture: Texture,
    query: str,
    photo: Coupling | None = None,
    tensions: Mapping[str, float] | None = DEFAULT_TENSIONS,
) -> Relevance:
    """Balance the three maps of one sensed picture into one, which arousal sharpens: by the stakes of the question's
    words, and by how far the three contradict each other here.

    photo: what the photo map says of the things that the question names. tensions: None for the learned ones.
    """
    coupling = lexical(texture, query)
    notes = coupling.notes
    maps = [propositional(texture), perspectival(texture), coupling.map]
    height, width = sized(maps[0].shape, MAP_SIDE)
    maps = [texture.ops.shrink(one, (height, width)) for one in maps]
    if photo is not None:
        maps[2] = coupled_with(maps[2], like(enlarge(photo.map, (height, width)), maps[2]))
        notes = (*(note for note in notes if "is zero" not in note), *photo.notes)
    ways = [np.asarray(one) for one in maps]
    arousal, said = first_arousal(query, ways)
    notes = (*notes, *said)
    if tensions is None:
        balanced, tensions = adaptive_balance(ways, query)
        notes = (*notes, "tensions by the question, place by place, as learned on drawn worlds")
    else:
        balanced = balance(*(one[None] for one in ways), tensions)
    return Relevance(modulate(sharpen(balanced)[0], arousal), query, *ways, dict(tensions), notes)


def coupled_with(words: Array, photo: Array) -> Array:
    """Two maps (h, w), what plain words couple to and what the photo map does, as lexical joins its own words: what
    meets both comes first, what meets one still counts; a map that says nothing takes no part."""
    if not bool(photo.max() > 0):
        return words
    return 0.6 * (words * photo) ** 0.5 + 0.2 * (words + photo) if bool(words.max() > 0) else photo
