"""Pictures of a decision: drawing only, nothing here decides anything.

Panes (`overlay`: leaves over the picture, `heat`: the relevance map, `foveated`: what the model will see) and the pages
made of them: `homunculus` (all of it side by side, with legend and numbers), `comparison` (two allocations and where
they differ), `contact_sheet` (many pictures in one), `document_sheet` (pages of a document, those with tokens bright),
`answer_sheet` (questions with what was said to them).
"""

from __future__ import annotations

from .comparison import comparison, difference_map
from .document import document_sheet
from .homunculus import homunculus
from .panes import foveated, heat, overlay
from .sheets import AnswerPanel, answer_sheet, contact_sheet

__all__ = [
    "AnswerPanel",
    "answer_sheet",
    "comparison",
    "contact_sheet",
    "difference_map",
    "document_sheet",
    "foveated",
    "heat",
    "homunculus",
    "overlay",
]
