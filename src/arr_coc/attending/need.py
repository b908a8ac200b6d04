"""Estimate how many tokens a question needs of a picture, for `budget="auto"`.

    need_of(relevance, "How much is the tea?", frame, scale=1.4, most=192)      → Need(8, "it needs the ground of 4 …")

A question about one value marks a few cells of the map, one about a whole scene many, and an uninformed map all of
them. So the marked area is counted, at the scale at which it is read: small print is shown larger and needs more. Words
of the question may raise the number: about places, about numbers of things, about whole scenes, and high stakes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..balancing.arousal import GRAVE, keyword_stakes
from ..core.values import Allocation
from ..knowing.language.senses import named_phrases
from ..knowing.language.tables import DATA, read_table
from .distance import MOST, Distance, cell_heights
from .frame import Frame, to_cells

# Tokens for each marked cell, for the rest of a picture of up to SMALL cells, and for each further cell, because large
# pictures have more distractors. Fitted on drawn pictures and pages with other seeds than those of
# docs/concepts/budget.md.
EACH, REST, SMALL, FURTHER = 0.5, 6.5, 256, 1 / 10
# Minimum share of the picture for questions about places and about numbers of things; factor for grave stakes.
SHARES, CAREFUL = {"places": 1 / 16, "counting": 1 / 8}, 2.0
# Letters with a relative accuracy below the first are lost; a larger share of relevant ones than the second is noted.
READ, LOST = 0.5, 0.25
# Cells below this share of the highest relevance are not needed.
NEEDED = 0.1


class Need(NamedTuple):
    """The tokens that a question needs. tokens: to spend. why: the reason for that number."""

    tokens: int
    why: str


def need_of(relevance: np.ndarray, query: str, frame: Frame, *, scale: float, most: int) -> Need:
    """Count the tokens that a question needs, 1 to `most`.

    relevance: (h, w), where it needs detail. frame: of the picture at scale 1. scale: of reading.
    """
    cells, table = _cells(relevance, frame), read_table(DATA / "senses.toml")
    # Area of the map: its sum in cells of the highest relevance.
    ground = float(cells.sum() / cells.max()) if cells.max() > 0 else float(cells.size)
    wanted = EACH * ground * scale + REST + FURTHER * max(0, cells.size - SMALL)
    why = f"it needs the ground of {ground:.0f} cells" + ("" if scale == 1 else f", read {scale:.3g} times as large")
    for kind, share in SHARES.items():
        named = named_phrases(query, table[kind])
        if named and wanted < share * cells.size:
            wanted, why = share * cells.size, f"{named[0]!r} asks for what is around"
    stakes, grave = keyword_stakes(query)
    if stakes >= GRAVE:
        wanted, why = CAREFUL * wanted, f"{why}, and {CAREFUL:g} times as much for stakes of {grave[0]!r}"
    if whole := named_phrases(query, table["whole"]):
        wanted, why = most, f"{whole[0]!r} asks for the whole picture"
    return Need(min(max(1, round(wanted)), most), why)


def lost_letters(relevance: np.ndarray, allocation: Allocation, distance: Distance) -> float:
    """Return the height in pixels of relevant letters that are shown too small for the model; 0 if few are lost, or no
    budget would show them. distance: of the allocation."""
    if distance.letters is None or distance.grip is None:
        return 0.0
    grip, cells = distance.grip, _cells(relevance, _frame(allocation))
    given, levels = cell_heights(distance.letters.map, *cells.shape), allocation.level_map()
    seen = given * distance.scale / np.exp2(np.where(levels < 0, levels.max() + 1, levels))
    # Letters that the model reads at no scale are not lost by the budget.
    at_best = np.max([grip.reading(given * times) for times in (distance.scale, 1.0, MOST)], axis=0)
    needed = np.where((given > 0) & (cells >= NEEDED * cells.max()), cells, 0.0)
    lost = needed * (grip.reading(seen) < READ) * (at_best >= READ)
    return float(np.median(seen[lost > 0])) if lost.sum() > LOST * needed.sum() else 0.0


def _frame(allocation: Allocation) -> Frame:
    return Frame((allocation.height, allocation.width), allocation.cell, allocation.canvas)


def _cells(relevance: np.ndarray, frame: Frame) -> np.ndarray:
    return np.asarray(to_cells(np.asarray(relevance, np.float32)[None], frame)[0])
