"""Needle World: pictures with small things in them, questions about these things, and the true boxes.

    from arr_coc import needle
    batch = needle.render("cards", 8, size=(256, 256), seed=5)
    batch.pictures, batch.questions[0], batch.answers[0], batch.boxes[0]

One torch renderer in whole numbers: the same picture for the same seed on a processor and on a GPU, bit for bit.
"""

from __future__ import annotations

from arr_coc.core.alphabet import CHARACTERS, NUMBER_OF_IDS, PADDING, decode, encode

from .atlas import typefaces
from .batch import ANSWER_LENGTH, CELL_CLASSES, MAX_BOXES, MAX_CONTEXT, QUESTION_LENGTH, NeedleBatch
from .clips import NeedleClip, render_clip
from .difficulty import EASY, HARD, NORMAL, NURSERY, PRESETS, Difficulty
from .export import write_dataset
from .families import FAMILIES
from .renderer import SPLITS, render

__all__ = [
    "ANSWER_LENGTH",
    "CELL_CLASSES",
    "CHARACTERS",
    "EASY",
    "FAMILIES",
    "HARD",
    "MAX_BOXES",
    "MAX_CONTEXT",
    "NORMAL",
    "NUMBER_OF_IDS",
    "NURSERY",
    "PADDING",
    "PRESETS",
    "QUESTION_LENGTH",
    "SPLITS",
    "Difficulty",
    "NeedleBatch",
    "NeedleClip",
    "decode",
    "encode",
    "render",
    "render_clip",
    "typefaces",
    "write_dataset",
]
