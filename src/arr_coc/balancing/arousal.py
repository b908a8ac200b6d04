"""How much is at stake, and what arousal does to a relevance map: nothing when calm, a sharper map when alert, tunnel
vision in fear.

Stakes are what a wrong answer would cost, guessed from the words of the question: a prior, not a judgement. Whole words
only: "total" is about money, "totality" is about an eclipse. `modulate` is written once for numpy and torch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError

ALERT, FEAR = 0.3, 0.7
# Above one: values below 1 shrink, small ones most. (Its inverse would lift them and flatten the map.)
GAMMA = 1.5
# Places this close to a picture's highest count as its top, which no power can tell apart.
TOP = 0.95
# In fear so many regions are seen and little else; each reaches so far from its best place, in longer sides of the map.
FEARED_REGIONS, FEARED_REACH = 2, 0.12
BOOST, SUPPRESSION = 2.0, 0.3
STAKES_WEIGHT, UNCERTAINTY_WEIGHT, FAILURES_WEIGHT = 0.6, 0.3, 0.1
MANY_FAILURES = 10
# From these stakes on, life may depend on it, and a doubt counts twice.
GRAVE = 0.9


def arousal_of(stakes: Array, uncertainty: Array, failures: Array) -> Array:
    """.6 stakes + .3 uncertainty + .1 recent failures (ten or more count as all); numbers or arrays, in [0, 1]."""
    share = failures / MANY_FAILURES
    recent = min(share, 1.0) if isinstance(share, float) else share.clip(None, 1.0)
    return STAKES_WEIGHT * stakes + UNCERTAINTY_WEIGHT * uncertainty + FAILURES_WEIGHT * recent


def mood(arousal: float) -> str:
    """calm below .3, alert from there, fear from .7."""
    return "fear" if arousal >= FEAR else "alert" if arousal >= ALERT else "calm"


@dataclass(frozen=True)
class Arousal:
    """value: in [0, 1]. words: those of the question that raise the stakes. contradiction: in [0, 1], how far the ways
    of knowing point apart."""

    value: float
    words: tuple[str, ...] = ()
    contradiction: float = 0.0

    @property
    def mood(self) -> str:
        return mood(self.value)

    def note(self) -> str:
        raised = f"stakes of {', '.join(map(repr, self.words))}, " if self.words else ""
        return f"arousal {self.value:.2f} ({self.mood}): {raised}the ways contradict by {self.contradiction:.2f}"


def first_arousal(question: str, ways: Sequence[np.ndarray], failures: int = 0) -> Arousal:
    """Before any answer: what is at stake by the question's words, and, for uncertainty, how far the ways of knowing,
    maps (h, w) of one size, contradict each other over this picture."""
    return arousal_by(question, contradiction(ways), failures)


def arousal_by(question: str, doubt: float, failures: int = 0) -> Arousal:
    """Arousal before any answer.

    Args:
        question: Its words say what is at stake.
        doubt: In [0, 1], how far what is known of the picture contradicts itself. It counts twice where the stakes are
            grave, so that fear can be reached by one look.
        failures: Recent ones, counted.
    """
    stakes = keyword_stakes(question)
    felt = min(1.0, 2 * doubt) if stakes.value >= GRAVE else doubt
    return Arousal(float(arousal_of(stakes.value, felt, float(failures))), stakes.words, doubt)


def aroused(relevance: np.ndarray, question: str) -> tuple[np.ndarray, Arousal]:
    """What fear does to a map (h, w) in [0, 1] that one learned source has made: its doubt is what its best place lacks
    to 1. Short of fear the map stays as it is; its power was learned with it."""
    felt = arousal_by(question, 1.0 - float(np.clip(relevance.max(initial=0.0), 0, 1)))
    return (modulate(relevance[None], felt.value)[0], felt) if felt.mood == "fear" else (relevance, felt)


def contradiction(ways: Sequence[np.ndarray]) -> float:
    """In [0, 1]: 0 where all maps rise and fall together, one half where they know nothing of each other, 1 where one
    says yes wherever the other says no. A map that says the same everywhere takes no part; a single way contradicts
    nobody."""
    flat = np.stack([np.asarray(one, dtype=np.float64).ravel() for one in ways])
    flat = flat - flat.mean(1, keepdims=True)
    length = np.sqrt((flat**2).sum(1))
    told = flat[length > 1e-6] / length[length > 1e-6, None]
    if len(told) < 2:
        return 0.0
    pairs = np.triu_indices(len(told), 1)
    return float(np.clip((1 - (told @ told.T)[pairs].mean()) / 2, 0, 1))


def modulate(relevance: Array, arousal: Array | float) -> Array:
    """(B, h, w) relevance in [0, 1] and arousal, one number or (B,) → (B, h, w) in [0, 1].

    Calm leaves the map alone; alert raises it to the power 1.5, after the rim of each spot at its top has been lowered
    (`hearts`); fear doubles the best regions and suppresses the rest to 30 %. Regions, because single places of a map
    are smaller than a token, and doubling them moves none.
    """
    if relevance.ndim != 3:
        raise InputError(f"relevance must be (B, h, w), got {tuple(relevance.shape)}; add a first dimension of 1")
    library = arrays.namespace(relevance)
    level = for_each_picture("arousal", arousal, relevance)
    alert = hearts(relevance) ** GAMMA
    afraid = library.where(feared_regions(relevance), relevance * BOOST, relevance * SUPPRESSION)
    aroused = library.where(level >= FEAR, afraid, alert).clip(0, 1)
    return library.where(level >= ALERT, aroused, relevance)


def for_each_picture(name: str, value: object, maps: Array) -> Array:
    """One number, or one for each picture (B,), made to broadcast with maps (B, h, w), in their library and device."""
    if arrays.is_tensor(value) and arrays.is_tensor(maps):
        numbers = value.to(maps.device)
    elif arrays.is_tensor(value):
        numbers = value.detach().cpu().numpy()
    else:
        numbers = arrays.like(np.asarray(value, dtype=np.float32), maps)
    if numbers.ndim > 1 or (numbers.ndim == 1 and len(numbers) not in (1, len(maps))):
        raise InputError(f"{name} must be one number or ({len(maps)},), got {tuple(numbers.shape)}")
    return numbers.reshape(-1, 1, 1)


def hearts(relevance: Array) -> Array:
    """(B, h, w) → the same, with the rim of each spot at the top of a map lower than its heart.

    A learned scorer says 1 for every place of what it found and 0 elsewhere: to any power that is the same map. How
    deep inside a spot a place lies still tells them apart: the share of top places among its neighbours, beside the
    most that one of these has. Nothing falls below the highest place outside the top, so the order of all others, and
    maps without such spots, stay as they are.
    """
    library = arrays.namespace(relevance)
    peak = library.amax(relevance, axis=(1, 2), keepdims=True)
    top = relevance >= TOP * peak
    crowd = sum(around(arrays.float32(top))) / 9
    most = library.amax(library.stack(around(crowd * top)), axis=0)
    outside = library.amax(library.where(top, 0 * relevance, relevance), axis=(1, 2), keepdims=True)
    lowered = library.maximum(relevance * crowd / library.where(top, most, 1 + 0 * most), outside)
    return library.where(top, lowered, relevance)


def around(maps: Array) -> list[Array]:
    """(B, h, w) → nine of it: each place, and its eight neighbours; beyond the edge lies what lies on it."""
    rows, cols = maps.shape[1:]
    padded = arrays.pad_edge(maps)
    return [padded[:, y : y + rows, x : x + cols] for y in range(3) for x in range(3)]


def feared_regions(relevance: Array, regions: int = FEARED_REGIONS, reach: float = FEARED_REACH) -> Array:
    """(B, h, w) → (B, h, w) bool: discs around the best places of each picture, none inside another; ties by position.

    A place counts by the mean of its neighbourhood, so that a spot goes before a speck.
    """
    library = arrays.namespace(relevance)
    rows, cols = relevance.shape[1:]
    down, across = (arrays.like(np.arange(side), relevance) for side in (rows, cols))
    radius = max(1.0, reach * max(rows, cols))
    left = sum(around(arrays.float32(relevance))) / 9 + 1e-3 * arrays.float32(relevance)
    found = left < -1
    for _ in range(regions):
        place = arrays.largest_first(left.reshape(len(left), -1), 1)
        row, col = place // cols, place % cols
        near = (down[None, :, None] - row[:, :, None]) ** 2 + (across[None, None] - col[:, :, None]) ** 2 <= radius**2
        found = found | (near & (library.amax(left, axis=(1, 2), keepdims=True) > 0))
        left = library.where(near, left * 0 - 1, left)
    return found


# ---- stakes ---------------------------------------------------------------------------------------------------------


THREAT, HEALTH, LAW, MONEY, TRAFFIC, CASUAL = 0.95, 0.95, 0.7, 0.6, 0.6, 0.1
# A question without any of the words below.
UNKNOWN = 0.2

STAKES: Mapping[str, float] = {
    **dict.fromkeys(("danger", "dangers", "dangerous", "emergency", "threat", "threats", "threatening"), THREAT),
    **dict.fromkeys(("weapon", "weapons", "gun", "guns", "knife", "knives", "bomb", "explosive"), THREAT),
    **dict.fromkeys(("fire", "smoke", "leak", "leaking", "drowning", "trapped", "intruder", "attack"), THREAT),
    **dict.fromkeys(("toxic", "poison", "poisonous", "hazard", "hazardous", "unsafe"), THREAT),
    **dict.fromkeys(("tumor", "tumors", "tumour", "tumours", "cancer", "lesion", "lesions", "nodule"), HEALTH),
    **dict.fromkeys(("fracture", "fractures", "bleeding", "haemorrhage", "hemorrhage", "stroke"), HEALTH),
    **dict.fromkeys(("diagnosis", "diagnose", "patient", "symptom", "symptoms", "malignant"), HEALTH),
    **dict.fromkeys(("dose", "doses", "dosage", "medication", "allergy", "allergic", "allergens"), HEALTH),
    **dict.fromkeys(("contract", "clause", "legal", "liability", "court", "signature", "deadline"), LAW),
    **dict.fromkeys(("password", "passport", "licence", "license", "expiry", "expires"), LAW),
    **dict.fromkeys(("total", "subtotal", "amount", "invoice", "payment", "balance due", "tax", "iban"), MONEY),
    **dict.fromkeys(("account number", "cost", "costs", "price", "salary", "refund", "debt"), MONEY),
    **dict.fromkeys(("stop sign", "traffic light", "speed limit", "pedestrian", "pedestrians"), TRAFFIC),
    **dict.fromkeys(("funny", "cute", "pretty", "beautiful", "nice", "favourite", "favorite", "mood"), CASUAL),
    **dict.fromkeys(("describe", "caption", "story", "joke", "style", "vibe"), CASUAL),
}


@dataclass(frozen=True)
class Stakes:
    """value: in [0, 1]. words: those of the question that raised it, empty where none is in the table."""

    value: float
    words: tuple[str, ...] = ()


def keyword_stakes(question: str, table: Mapping[str, float] = STAKES) -> Stakes:
    """The highest stakes among the table's words and phrases that stand in the question as whole words."""
    plain = " ".join(["", *re.findall(r"\w+", question.lower()), ""])
    named = tuple(words for words in table if f" {words} " in plain)
    if not named:
        return Stakes(UNKNOWN)
    highest = max(table[words] for words in named)
    return Stakes(highest, tuple(words for words in named if table[words] == highest))
