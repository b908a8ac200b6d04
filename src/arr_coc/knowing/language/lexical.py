"""Lexical coupling: map the question's words to places in a picture without an encoder or training.

Three kinds of words are used, in the sense that is meant (`senses`), in four languages (`tables`): colours by distance
in L*a*b*, places by x and y, and words about reading by text regions. A question without such words gives a zero map
and a note that says so; ordinals ("the second chart") are ignored.
"""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass
from math import prod

import numpy as np

from ...core import arrays
from ...core.arrays import Array
from ...texture.channels import Texture, smooth, surround_radius
from ...texture.ops import srgb_to_lab
from .senses import coupled_words
from .tables import KNOWN

# sRGB of colour names.
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
    "cyan": (30, 195, 210),
    "turquoise": (50, 195, 185),
    "teal": (20, 125, 125),
    "magenta": (210, 40, 170),
    "beige": (225, 210, 180),
    "gold": (212, 175, 55),
    "silver": (190, 190, 195),
}
COLOUR_REACH = 30.0  # L*a*b* distance at which a colour still has the name
LIGHTNESS_WEIGHT = 0.5  # a shaded red is still red: lightness counts half as much as hue and saturation
VIEW = 512


@dataclass(frozen=True, eq=False)
class Coupling:
    """A map for the words of a question. map: (H, W) in [0, 1]. notes: the words that were used, or that none were."""

    map: Array
    notes: tuple[str, ...]


def lexical(texture: Texture, query: str) -> Coupling:
    """Map the colours, places and reading words of a question in one picture."""
    size = (texture["red"].shape[-2], texture["red"].shape[-1])
    ops, words, view = texture.ops, coupled_words(query), arrays.sized(size, VIEW)
    parts, matched = [], []
    if words.colours:
        red, green, blue = (ops.resize(texture[name], view) for name in ("red", "green", "blue"))
        near = colour_nearness((red, green, blue), tuple(words.colours.values()))
        # White letters on a red sign belong to the sign, so nearness is spread over a letter's width.
        parts.append(arrays.namespace(near).maximum(near, smooth(ops, near, surround_radius(view))))
        matched.append(f"colour ({', '.join(words.colours)})")
    if words.places:
        y, x = (ops.resize(texture[name], view) for name in ("y", "x"))
        parts.append(_place_map(y, x, set(words.places.values())))
        matched.append(f"place ({', '.join(words.places)})")
    if words.reading and "text_regions" in texture:
        parts.append(ops.resize(texture["text_regions"], view))
        matched.append(f"text ({', '.join(words.reading)})")
    if not parts:
        known = "" if words.language else f" (those of {KNOWN} are known)"
        matched.append(f"no colour, place or reading word in the question{known}")
    note = "lexical coupling: " + "; ".join(matched)
    if not parts:
        return Coupling(texture["red"] * 0, (note,))
    # Places that match all words come first; those that match some still count.
    library = arrays.namespace(parts[0])
    together = library.exp(sum(library.log(part.clip(1e-6)) for part in parts) / len(parts))
    combined = together if len(parts) == 1 else 0.6 * together + 0.4 * sum(parts) / len(parts)
    return Coupling(ops.enlarge(combined, size).clip(0, 1), (note,))


def colour_nearness(planes: Sequence[Array], colours: Sequence[str]) -> Array:
    """Compute how near each pixel of red, green and blue (H, W) is to the nearest named colour, in [0, 1]."""
    red, green, blue = planes
    weights, library, near = (LIGHTNESS_WEIGHT, 1.0, 1.0), arrays.namespace(red), None
    lab = srgb_to_lab((red, green, blue))
    wanted = np.array([COLOURS[name] for name in dict.fromkeys(colours)], dtype=np.float32) / 255
    for target in np.stack(srgb_to_lab((wanted[:, 0], wanted[:, 1], wanted[:, 2])), axis=1).tolist():
        far = sum((weight * (one - value)) ** 2 for weight, one, value in zip(weights, lab, target, strict=True))
        one = library.exp(far * (-0.5 / COLOUR_REACH**2))
        near = one if near is None else library.maximum(near, one)
    return near


def _place_map(y: Array, x: Array, kinds: Set[str]) -> Array:
    """Multiply the maps of the kinds of places, so that "top left" is one corner."""
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
    for both, either in (({"left", "right"}, "sides"), ({"top", "bottom"}, "ends")):
        kinds = kinds - both | {either} if both <= kinds else kinds  # "left and right" is not the middle
    return prod(maps[kind] for kind in sorted(kinds))
