"""Needle World: pictures with small things in them, questions about these things, and the true boxes.

    from arr_coc_lab.worlds import needle
    batch = needle.render("cards", 8, size=(256, 256), seed=5)
    batch.pictures, batch.questions[0], batch.answers[0], batch.boxes[0]

One torch renderer in whole numbers: the same picture for the same seed on a processor and on a GPU, bit for bit.
"""

from __future__ import annotations

from .atlas import typefaces
from .batch import ANSWER_LENGTH, CELL_CLASSES, MAX_BOXES, QUESTION_LENGTH, NeedleBatch, decode
from .clips import render_clip
from .difficulty import HARD, NORMAL, Difficulty
from .export import write_dataset
from .families import FAMILIES
from .renderer import SPLITS, render

__all__ = ["ANSWER_LENGTH", "CELL_CLASSES", "FAMILIES", "HARD", "MAX_BOXES", "NORMAL", "QUESTION_LENGTH", "SPLITS"]
__all__ += ["Difficulty", "NeedleBatch", "decode", "render", "render_clip", "typefaces", "write_dataset"]
