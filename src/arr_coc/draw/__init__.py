"""Draw decisions; nothing here decides anything.

Panes: `overlay` (leaves over the picture), `heat` (the relevance map), `foveated` (what the model will see),
`difference_map` (where two allocations differ). Pages of panes: `homunculus` (all panes side by side, with legend and
numbers) and `document_sheet` (the pages of a document, those with tokens bright).
"""

from __future__ import annotations

from .document import document_sheet
from .homunculus import homunculus
from .panes import difference_map, foveated, heat, overlay

__all__ = ["difference_map", "document_sheet", "foveated", "heat", "homunculus", "overlay"]
