"""Words by OCR without being asked for: where it is installed, and where the law of `weighing` expects them to pay.

Reading a page takes seconds. So it is read only if it is no photograph, if its letters are tall enough to be read, and
if words are likely to know more than the scorer. What was read is weighed with the scorer's map.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...pictures.ocr import ocr_missing, ocr_words
from ...sensing.type_height import letters_of
from ..weighing import SIGNS, SOURCES, WeighingLaw, signs_of

if TYPE_CHECKING:
    from ..scene import Scene

# What words must be believed beforehand, beside the scorer, to be worth seconds.
PAYS = 0.25
# Pixels of letters in the middle, below which OCR misreads too much; and letters, below which nothing is a page.
LEAST_HEIGHT, LEAST_LETTERS = 6.0, 60
READERS = ("scorer", "words")


def promise_of_words(scene: Scene, query: str) -> float:
    """How far words would be believed beside the scorer; 0 where OCR is not worth its seconds."""
    if scene.given is None:
        return 0.0
    letters = letters_of(scene.pixels)
    if not letters or letters.ground.sum() < LEAST_LETTERS or letters.median() < LEAST_HEIGHT:
        return 0.0
    signs = signs_of(scene, query)
    if signs[SIGNS.index("photograph")] > 0:
        return 0.0
    there = np.array([name in READERS for name in SOURCES])
    share = float(WeighingLaw.bundled().beforehand(signs, there)[SOURCES.index("words")])
    return share if share >= PAYS else 0.0


def with_words(scene: Scene, query: str) -> Scene:
    """The same scene with its words read by OCR, where that is allowed, installed and pays. Where it is only not
    installed, `ocr` stays, so that a note can say what it would add."""
    if not scene.ocr or scene.words is not None or not scene.choosing or ocr_missing() is not None:
        return scene
    words = ocr_words(scene.pixels) if promise_of_words(scene, query) else None
    return scene.varied(words=words if words is not None and len(words) else None, ocr=False)


def what_ocr_would_add(scene: Scene, query: str) -> str | None:
    """One line where OCR is allowed, would pay and is not installed."""
    line = ocr_missing() if scene.ocr and scene.words is None else None
    share = 0.0 if line is None else promise_of_words(scene, query)
    return f"{line} (it would count for {100 * share:.0f} % here)" if share else None
