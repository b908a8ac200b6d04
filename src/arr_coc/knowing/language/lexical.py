"""Lexical coupling: what a question's plain words can be tied to without any encoder or training.

Three kinds of words couple, in the sense that is meant (`senses`), in five languages (`lexicon`): colours to distance
in L*a*b*, places to x and y, and words about reading to text regions. It is honest about the rest: a question without
such words gives a zero map and says so, and what would have to be counted ("the second chart") is left alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from ...core import arrays
from ...core.arrays import Array
from ...core.errors import InputError
from ...texture.backend import Backend, BackendMap, smooth, surround_radius
from ...texture.pixels import srgb_to_lab
from ...texture.texture import Texture
from . import lexicon
from .lexicon import CoupledWords
from .senses import coupled_words

# sRGB of what people call by these names.
COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (215, 35, 35),
    "orange": (245, 140, 25),
    "yellow": (245, 215, 40),
    "green": (45, 155, 65),
    "blue": (40, 85, 205),
    "purple": (125, 50, 160),
    "violet": (125, 50, 160),
    "pink": (245, 130, 175),
    "brown": (120, 75, 40),
    "black": (15, 15, 15),
    "white": (248, 248, 248),
    "grey": (128, 128, 128),
    "gray": (128, 128, 128),
    "cyan": (30, 195, 210),
    "turquoise": (50, 195, 185),
    "teal": (20, 125, 125),
    "magenta": (210, 40, 170),
    "beige": (225, 210, 180),
    "gold": (212, 175, 55),
    "golden": (212, 175, 55),
    "silver": (190, 190, 195),
}
COLOUR_REACH = 30.0  # L*a*b* units within which a colour still goes by the name
LIGHTNESS_WEIGHT = 0.5  # a shaded red is still red: lightness counts half of hue and saturation
VIEW = 512


@dataclass(frozen=True, eq=False)
class Coupling:
    """map: (H, W) or (B, H, W) in [0, 1]. notes: one line a picture: which words coupled, or that none did."""

    map: Array
    notes: tuple[str, ...]


def lexical(texture: Texture, query: str | Sequence[str]) -> Coupling:
    """The coupling of one query, or of one query per picture of a batch."""
    queries = [query] if isinstance(query, str) else list(query)
    pictures = len(texture.data) if texture.batched else 1
    if len(queries) not in (1, pictures):
        raise InputError(f"need one query, or one for each of {pictures} pictures, got {len(queries)}")
    queries = queries * pictures if len(queries) == 1 else queries
    size = (texture.data.shape[-2], texture.data.shape[-1])
    view = arrays.sized(size, VIEW)
    # Every query has words of its own, so each picture is coupled on its own.
    singles = [replace(texture, data=data) for data in texture.data] if texture.batched else [texture]
    results = [_couple(single, one, view) for single, one in zip(singles, queries, strict=True)]
    ops = texture.ops
    maps = [singles[0].shaped(ops.clip(ops.enlarge(found, size))) for found, _ in results]
    library = arrays.namespace(maps[0])
    return Coupling(library.stack(maps) if texture.batched else maps[0], tuple(note for _, note in results))


def _couple(texture: Texture, query: str, view: tuple[int, int]) -> tuple[BackendMap, str]:
    """(map of the view's size, note) of one picture and its query."""
    ops, words = texture.ops, coupled_words(query)
    blank = ops.resize(texture.plane(texture.names[0]), view) * 0
    if not words:
        known = "" if words.language else f" (those of {lexicon.KNOWN} are known)"
        nothing = f"no colour, place or reading word in the question{known}: lexical coupling is zero"
        return blank, "; ".join([nothing, *_uncounted(words)])
    parts, told = [], []
    if words.colours:
        red, green, blue = (ops.resize(texture.plane(name), view) for name in ("red", "green", "blue"))
        parts.append(_colour_map(ops, (red, green, blue), words.colour_names))
        told.append(f"colour ({', '.join(words.colours)})")
    if words.places:
        y, x = (ops.resize(texture.plane(name), view) for name in ("y", "x"))
        parts.append(_place_map(y, x, words.place_kinds))
        told.append(f"place ({', '.join(words.places)})")
    if words.reading:
        if "text_regions" in texture:
            parts.append(ops.resize(texture.plane("text_regions"), view))
            told.append(f"text ({', '.join(words.reading)})")
        else:
            told.append(f"nothing for {', '.join(words.reading)}: layout {texture.layout.name} has no text_regions")
    told += _uncounted(words)
    if not parts:
        return blank, "lexical coupling: " + "; ".join(told)
    # What meets all of the words comes first; what meets some of them still counts.
    library = arrays.namespace(parts[0])
    together = library.exp(sum(library.log(ops.at_least(part, 1e-6)) for part in parts) / len(parts))
    combined = together if len(parts) == 1 else 0.6 * together + 0.4 * sum(parts) / len(parts)
    return combined, "lexical coupling: " + "; ".join(told)


def _uncounted(words: CoupledWords) -> list[str]:
    """What a question counts and these maps cannot."""
    return [f"{', '.join(one.said for one in words.ordinals)}: not counted here"] if words.ordinals else []


def _colour_map(ops: Backend, planes: tuple[BackendMap, BackendMap, BackendMap], colours: Sequence[str]) -> BackendMap:
    """Nearness of red, green and blue to the nearest of the named colours, its own ground included.

    White letters on a red sign belong to the red sign: nearness is spread over a letter's width.
    """
    lab = srgb_to_lab(planes)
    wanted = np.array([COLOURS[name] for name in dict.fromkeys(colours)], dtype=np.float32) / 255
    targets = np.stack(srgb_to_lab((wanted[:, 0], wanted[:, 1], wanted[:, 2])), axis=1).tolist()
    weights, library = (LIGHTNESS_WEIGHT, 1.0, 1.0), arrays.namespace(planes[0])
    near = None
    for target in targets:
        squared = sum(
            (weight * (plane - value)) ** 2 for weight, plane, value in zip(weights, lab, target, strict=True)
        )
        one = library.exp(squared * (-0.5 / COLOUR_REACH**2))
        near = one if near is None else library.maximum(near, one)
    spread = smooth(ops, near, surround_radius((planes[0].shape[-2], planes[0].shape[-1])))
    return library.maximum(near, spread)


def _place_map(y: BackendMap, x: BackendMap, places: Sequence[str]) -> BackendMap:
    """The product of the kinds of places, so that "top left" is one corner."""
    sideways, upright = abs(2 * x - 1), abs(2 * y - 1)
    maps = {
        "top": 1 - y,
        "bottom": y,
        "left": 1 - x,
        "right": x,
        "centre": (1 - sideways) * (1 - upright),
        "corner": sideways * upright,
        "sides": sideways,
        "ends": upright,
    }
    kinds = set(places)
    for both, either in (({"left", "right"}, "sides"), ({"top", "bottom"}, "ends")):
        kinds = kinds - both | {either} if both <= kinds else kinds  # "left and right" is not the middle
    if kinds & {"top", "bottom", "left", "right"} and "corner" in kinds:
        kinds.discard("corner")  # "the top left corner" names one corner: the sides already say which
    return prod(maps[kind] for kind in sorted(kinds))
