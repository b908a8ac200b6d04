"""Pictures of a decision: drawing only, nothing here decides anything.

One file per kind of picture: `overlay` (leaves over the picture), `heat` (the relevance map), `foveated` (what the
model will see), `homunculus` (all of it side by side, with legend and numbers), `comparison` (two allocations and
where they differ), `contact_sheet` (many pictures in one), `answer_sheet` (questions with what was said to them).
"""

from __future__ import annotations

from .answer_sheet import Asked, answer_sheet
from .comparison import comparison, difference_map
from .contact_sheet import contact_sheet
from .foveated import foveated
from .heat import heat
from .homunculus import homunculus
from .overlay import overlay

__all__ = [
    "Asked",
    "answer_sheet",
    "comparison",
    "contact_sheet",
    "difference_map",
    "foveated",
    "heat",
    "homunculus",
    "overlay",
]
