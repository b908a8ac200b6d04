"""Arousal: estimate how much is at stake and change a relevance map by it: nothing when calm, a sharper map when alert,
tunnel vision in fear.

Stakes are the cost of a wrong answer, guessed from the words of the question. Only whole words count: "total" is about
money, "totality" about an eclipse.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..knowing.language.senses import named_phrases
from ..knowing.language.tables import DATA, read_table

ALERT, FEAR = 0.3, 0.7
# Above one, so that values below 1 shrink, small ones most. (Its inverse would raise them and flatten the map.)
GAMMA = 1.5
# Number of regions that stay in fear, and their radius around the best place, as a share of the map's longer side.
FEARED_REGIONS, FEARED_REACH = 2, 0.12
BOOST, SUPPRESSION = 2.0, 0.3
STAKES_WEIGHT, UNCERTAINTY_WEIGHT = 0.6, 0.3
# Stakes of a question without a known word.
UNKNOWN = 0.2
# Stakes at which a life may depend on the answer; doubt then counts twice.
GRAVE = 0.9


def arousal_of(stakes: float, uncertainty: float) -> float:
    """Return .6 stakes + .3 uncertainty, in [0, 1]. (The source adds .1 of recent failures, which no caller counts.)"""
    return STAKES_WEIGHT * stakes + UNCERTAINTY_WEIGHT * uncertainty


def first_arousal(question: str, ways: Sequence[np.ndarray]) -> tuple[float, tuple[str, ...]]:
    """Estimate arousal before any answer, with a note that gives the reason, unless it is calm.

    Stakes come from the words of the question; uncertainty is the contradiction between the ways of knowing, maps
    (h, w) of one size. It counts twice if the stakes are grave, so that one look can reach fear.
    """
    (stakes, words), doubt = keyword_stakes(question), contradiction(ways)
    value = arousal_of(stakes, min(1.0, 2 * doubt) if stakes >= GRAVE else doubt)
    if value < ALERT:
        return value, ()
    raised = f"stakes of {', '.join(map(repr, words))}, " if words else ""
    mood = "fear" if value >= FEAR else "alert"
    return value, (f"arousal {value:.2f} ({mood}): {raised}the ways contradict by {doubt:.2f}",)


def contradiction(ways: Sequence[np.ndarray]) -> float:
    """Compute (1 − mean correlation) / 2 of maps (h, w): 0 if all agree, one half if they are unrelated, 1 if they are
    opposite. Constant maps are ignored."""
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

    Calm leaves the map unchanged; alert raises it to the power 1.5; fear doubles the best regions and reduces the rest
    to 30 %. It doubles regions because single places are smaller than a token, so doubling them would move none.
    """
    if arousal < ALERT:
        return relevance
    if arousal < FEAR:
        return relevance**GAMMA
    feared = arrays.like(feared_regions(arrays.to_numpy(relevance)), relevance)
    return arrays.namespace(relevance).where(feared, relevance * BOOST, relevance * SUPPRESSION).clip(0, 1)


def feared_regions(relevance: np.ndarray) -> np.ndarray:
    """Return (h, w) bool: discs around the best places, none centred inside another; ties by position.

    Places are compared by the mean of their neighbourhood, so that a spot wins over a single pixel.
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
    """Return the highest stakes of the words and phrases in the question, and which those are."""
    for one in read_table(DATA / "senses.toml")["stakes"]:
        if named := named_phrases(question, one["words"]):
            return one["value"], named
    return UNKNOWN, ()
