"""Words by OCR without being asked for: where it is installed, and where it is likely to pay.

Reading a page takes seconds. So a picture is read only if it is no photograph and if there is enough type on it that is
tall enough. What was read is weighed with the scorer's map: see `weighing`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...pictures.kind import photograph_odds
from ...pictures.ocr import REMEDY, ocr_missing, ocr_words
from ...texture.type_height import letters_of

if TYPE_CHECKING:
    from ..scene import Scene

# Pixels of a capital in the middle, below which nobody reads; and letters, below which the scorer sees all there is.
# By drawn pages of other layouts than the scorer and the ranker were taught, worn: lab/LOG.md.
LEAST_HEIGHT, LEAST_LETTERS = 3.0, 60


def reading_pays(scene: Scene) -> bool:
    """Whether OCR is worth its seconds: the kind of picture, how much type there is and how tall."""
    if scene.given is None:
        return False
    letters = letters_of(scene.pixels)
    enough = bool(letters) and letters.ground.sum() >= LEAST_LETTERS and letters.median() >= LEAST_HEIGHT
    return enough and photograph_odds(scene.pixels) <= 0


def with_words(scene: Scene) -> Scene:
    """The same scene with its words read by OCR, where that is allowed, installed and pays. Where it is only not
    installed, `ocr` stays, so that a note can say what it would add."""
    if not scene.ocr or scene.words is not None or not scene.choosing or ocr_missing() is not None:
        return scene
    words = ocr_words(scene.pixels) if reading_pays(scene) else None
    return scene.varied(words=words if words is not None and len(words) else None, ocr=False)


def what_ocr_would_add(scene: Scene) -> str | None:
    """One line where OCR is allowed, would pay and is not installed."""
    missing = scene.ocr and scene.words is None and ocr_missing() is not None
    return f"words by OCR would count too ({REMEDY})" if missing and reading_pays(scene) else None
