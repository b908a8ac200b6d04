"""Arousal: how much is at stake, and what that does to a relevance map: nothing when calm, a sharper map when alert,
tunnel vision in fear.

Stakes are what a wrong answer would cost, guessed from the words of the question: a prior, not a judgement. Whole words
only: "total" is about money, "totality" is about an eclipse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..knowing.language.senses import named_phrases
from ..knowing.language.tables import DATA, read_table

ALERT, FEAR = 0.3, 0.7
# Above one: values below 1 shrink, small ones most. (Its inverse would lift them and flatten the map.)
GAMMA = 1.5
# In fear two regions are seen and little else; each reaches so far from its best place, in longer sides of the map.
FEARED_REGIONS, FEARED_REACH = 2, 0.12
BOOST, SUPPRESSION = 2.0, 0.3
STAKES_WEIGHT, UNCERTAINTY_WEIGHT = 0.6, 0.3
# Stakes of a question that says nothing of them.
UNKNOWN = 0.2
# From these stakes on, life may depend on it, and a doubt counts twice.
GRAVE = 0.9


def arousal_of(stakes: float, uncertainty: float) -> float:
    """.6 stakes + .3 uncertainty, in [0, 1]. (The source adds .1 of recent failures, which no caller counts.)"""
    return STAKES_WEIGHT * stakes + UNCERTAINTY_WEIGHT * uncertainty


def first_arousal(question: str, ways: Sequence[np.ndarray]) -> tuple[float, tuple[str, ...]]:
    """Estimate arousal before any answer, and say in a note why, unless it is calm.

    The question's words say what is at stake; uncertainty is how far the ways of knowing, maps (h, w) of one size,
    contradict each other. It counts twice where the stakes are grave, so that fear can be reached by one look.
    """
    (stakes, words), doubt = keyword_stakes(question), contradiction(ways)
    value = arousal_of(stakes, min(1.0, 2 * doubt) if stakes >= GRAVE else doubt)
    if value < ALERT:
        return value, ()
    raised = f"stakes of {', '.join(map(repr, words))}, " if words else ""
    mood = "fear" if value >= FEAR else "alert"
    return value, (f"arousal {value:.2f} ({mood}): {raised}the ways contradict by {doubt:.2f}",)


def contradiction(ways: Sequence[np.ndarray]) -> float:
    """In [0, 1]: 0 where all maps (h, w) rise and fall together, one half where they know nothing of each other, 1
    where one says yes wherever the other says no. A map that says the same everywhere takes no part."""
    flat = np.stack([np.asarray(one, dtype=np.float64).ravel() for one in ways])
    flat = flat - flat.mean(1, keepdims=True)
    length = np.sqrt((flat**2).sum(1))
    spoken = flat[length > 1e-6] / length[length > 1e-6, None]
    if len(spoken) < 2:
        return 0.0
    pairs = np.triu_indices(len(spoken), 1)
    return float(np.clip((1 - (spoken @ spoken.T)[pairs].mean()) / 2, 0, 1))


def modulate(relevance: Array, arousal: float) -> Array:
    """Change a map (h, w) in [0, 1], of numpy or torch, by arousal.

    Calm leaves the map alone; alert raises it to the power 1.5; fear doubles the best regions and suppresses the rest
    to 30 %. Regions, because single places of a map are smaller than a token, and doubling them moves none.
    """
    if arousal < ALERT:
        return relevance
    if arousal < FEAR:
        return relevance**GAMMA
    feared = arrays.like(feared_regions(arrays.to_numpy(relevance)), relevance)
    return arrays.namespace(relevance).where(feared, relevance * BOOST, relevance * SUPPRESSION).clip(0, 1)


def feared_regions(relevance: np.ndarray) -> np.ndarray:
    """(h, w) → (h, w) bool: discs around the best places, none inside another; ties by position.

    A place counts by the mean of its neighbourhood, so that a spot goes before a speck.
    """
    (rows, cols), padded = relevance.shape, np.pad(relevance, 1, mode="edge")
    around = sum(padded[y : y + rows, x : x + cols] for y in range(3) for x in range(3))
    left = around / 9 + 1e-3 * relevance
    found = np.zeros(relevance.shape, dtype=bool)
    for _ in range(FEARED_REGIONS):
        row, col = np.unravel_index(int(left.argmax()), left.shape)
        down, across = np.ogrid[:rows, :cols]
        near = (down - row) ** 2 + (across - col) ** 2 <= max(1.0, FEARED_REACH * max(rows, cols)) ** 2
        found |= near & (left.max() > 0)
        left = np.where(near, -1.0, left)
    return found


def keyword_stakes(question: str) -> tuple[float, tuple[str, ...]]:
    """The highest stakes among the words and phrases that stand in the question as whole words, and which those are."""
    for one in read_table(DATA / "senses.toml")["stakes"]:
        if named := named_phrases(question, one["words"]):
            return one["value"], named
    return UNKNOWN, ()
