"""The signs by which sources are chosen and balanced: what a picture, a question and a budget are like."""

from __future__ import annotations

import numpy as np

from ..pictures.kind import photograph_odds
from ..texture.type_height import TypeHeight, view_size
from .language.senses import coupled_words
from .photos.source import photo_question
from .scene import Scene

SIGNS = (
    *("photograph", "grey", "type", "typeless", "reading", "thing", "ground", "colour", "place", "photo thing"),
    *("1", "budget"),
)
CONSTANT = SIGNS.index("1")


def plain_signs(share: float = 0.25) -> np.ndarray:
    """(12,) signs where only the budget is known, as a share of the picture's tokens."""
    signs = np.zeros(len(SIGNS))
    signs[CONSTANT], signs[-1] = 1.0, np.log2(4 * share)
    return signs


def picture_signs(scene: Scene) -> tuple[float, float, float, float]:
    """What a picture is like, sensed once: the first four of `SIGNS`."""
    return scene.once("signs", lambda: _sensed(scene.pixels, scene.letters))


def _sensed(pixels: np.ndarray, letters: TypeHeight) -> tuple[float, float, float, float]:
    small = pixels[:: max(1, len(pixels) // 128), :: max(1, pixels.shape[1] // 128)].astype(np.int16)
    colourful = float((small.max(2) - small.min(2)).mean()) / 32
    size = view_size(pixels.shape[:2], 0.5)
    boxes = letters.boxes / np.array([*size, *size])
    ground = ((boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])).sum()
    odds = float(np.clip(photograph_odds(pixels) / 4, -2, 2))
    return odds, float(colourful < 0.1), float(np.sqrt(min(1.0, ground))), float(not letters)


def signs_of(scene: Scene, query: str) -> np.ndarray:
    """(12,) what a picture, a question and a budget are like, in the order of `SIGNS`."""
    odds, *sensed = picture_signs(scene)
    plain, named = coupled_words(query), photo_question(query)
    reading = bool(set(plain.reading) - {part for word in named.words for part in word.split("-")})
    signs = {
        **dict(zip(SIGNS, (odds, *sensed), strict=False)),
        "reading": float(reading),
        "thing": float(bool(named.things)),
        "ground": float(named.ground),
        "colour": float(bool(plain.colours)),
        "place": float(named.side is not None),
        "photo thing": max(0.0, odds) * bool(named.things),
    }
    return np.array([*signs.values(), *plain_signs(scene.share)[len(signs) :]])
