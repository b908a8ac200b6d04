"""Features of picture, question and budget ("signs") by which sources are chosen and balanced."""

from __future__ import annotations

import numpy as np

from .language.senses import coupled_words
from .photos.source import photo_question
from .scene import Scene

SIGNS = (
    *("photograph", "grey", "type", "typeless", "reading", "thing", "ground", "colour", "place", "photo thing"),
    *("1", "budget"),
)
CONSTANT = SIGNS.index("1")


def plain_signs(share: float = 0.25) -> np.ndarray:
    """Return (12,) signs if only the budget is known, as a share of the picture's tokens."""
    signs = np.zeros(len(SIGNS))
    signs[CONSTANT], signs[-1] = 1.0, np.log2(4 * share)
    return signs


def signs_of(scene: Scene, query: str) -> np.ndarray:
    """Compute (12,) signs of a picture, a question and a budget, in the order of `SIGNS`."""
    pixels, letters = scene.pixels, scene.letters
    small = pixels[:: max(1, len(pixels) // 128), :: max(1, pixels.shape[1] // 128)]
    planes = np.moveaxis(small, 2, 0).copy()  # whole planes are compared in a fifteenth of the time
    colourful = float((planes.max(0) - planes.min(0)).mean()) / 32
    ground = (letters.boxes[:, 2:] - letters.boxes[:, :2]).prod(1).sum() / np.prod(letters.size)
    plain, named = coupled_words(query), photo_question(query)
    reading = bool(set(plain.reading) - {part for word in named.words for part in word.split("-")})
    odds = float(np.clip(scene.odds / 4, -2, 2))
    signs = {
        "photograph": odds,
        "grey": float(colourful < 0.1),
        "type": float(np.sqrt(min(1.0, ground))),
        "typeless": float(not letters),
        "reading": float(reading),
        "thing": float(bool(named.things)),
        "ground": float(named.ground),
        "colour": float(bool(plain.colours)),
        "place": float(named.side is not None),
        "photo thing": max(0.0, odds) * bool(named.things),
    }
    return np.array([*signs.values(), *plain_signs(scene.share)[len(signs) :]])
