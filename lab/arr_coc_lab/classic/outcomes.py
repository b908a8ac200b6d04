"""The source "outcomes": a scorer that learned where to look from a reader's answers, through the passes, and no box.

look(image, question, relevance="outcomes")

`arr-coc train outcomes` makes its weights (the row `answers`) and says how it compares with boxes.
"""

from __future__ import annotations

from arr_coc.core.errors import InputError
from arr_coc.core.values import Relevance
from arr_coc.knowing.registry import Source
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.source import ScorerRelevance

from .. import LAB_WEIGHTS

FOLDER = LAB_WEIGHTS / "outcomes"


def missing() -> str | None:
    """Describe in one line what is missing, or return None."""
    if (FOLDER / "config.json").is_file():
        return None
    return f"no scorer in {FOLDER}; train one: arr-coc train outcomes, and copy OUT/scorer there"


def outcome_relevance(scene: Scene, query: str) -> Relevance:
    """Return the map of the scorer that learned from answers."""
    if reason := missing():
        raise InputError(reason)
    return ScorerRelevance(FOLDER).of_scene(scene, query)


SOURCE = Source("outcomes", outcome_relevance, "a network that learned from answers alone", ready=missing)
