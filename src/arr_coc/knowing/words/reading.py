"""Read the words of a picture by OCR if that is likely to help: the lines that the scorer points at.

They are then weighed with the scorer's map: see `balancing.choosing`.
"""

from __future__ import annotations

from dataclasses import replace

from ...core.errors import InputError
from ...pictures.ocr import ocr_words
from ...texture.type_height import letters_of
from ..registry import as_relevance
from ..scene import Scene
from ..scorer.source import scorer_maps

# Median height of capitals below which nothing can be read, and number of letters below which the scorer suffices.
LEAST_HEIGHT, LEAST_LETTERS = 3.0, 60


def reading_pays(scene: Scene) -> bool:
    """Return whether a picture is not a photograph and has legible type, at its full resolution."""
    letters = letters_of(scene.page_pixels)
    enough = bool(letters) and letters.ground.sum() >= LEAST_LETTERS and letters.median() >= LEAST_HEIGHT
    return enough and scene.odds <= 0


def with_words(scene: Scene, query: str) -> Scene:
    """Return the scene with the words of its `ocr` most relevant lines, if no words are known and reading pays; and
    with the scorer's map for the question, which selects the lines, as `pointed`."""
    if not scene.ocr or scene.words is not None or not scene.choosing or scene.given is None:
        return scene
    if not reading_pays(scene):
        return replace(scene, ocr=0)
    (found,) = scorer_maps([scene], [query]).relevance
    pointed = as_relevance(found, query, "").map
    try:
        words = ocr_words(scene.page_pixels, pointed, scene.ocr)
    except InputError as error:  # continue without OCR if its models are damaged
        return replace(scene, ocr=0, remark=f"no words were read: {error}")
    page = words.unread or sum(map(len, words.texts)) >= LEAST_LETTERS  # as read, not as estimated
    return replace(scene, words=words if page else None, ocr=0, pointed=pointed)
