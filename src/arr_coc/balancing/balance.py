"""Balancing, one stage: the maps of all sources become one relevance map, and it is known who decided.

    known = knowns(scene, question)                 what the sources say of one picture, one question, one budget
    balance_ways(known, read_law()).map             (h, w) in [0, 1]

1. Three tensions, sigmoids of a linear law of the signs of picture, question and budget.
2. The three ways that need no training become one map, the source "look": `tensions.balance`, sharpened, aroused.
3. A softmax over the sources that spoke, by the same signs and by how sharp, sure and shared each map is, mixes them.
4. Exploring may add what stands out, and the tension between compressing and particularizing sets the power to which
   the map is raised: how steeply tokens gather. What the third tension does to them is in `attending.allocate`.

Everything runs in numpy, or with gradients in torch where the law holds tensors: `Law` has every learned number, so a
training calls `balance_ways` with one `Known` again and again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from ..core import arrays
from ..core.arrays import Array, constant, sized
from ..knowing.signs import plain_signs
from ..texture.channels import centre_map
from .arousal import modulate
from .law import SOURCES, TENSION_NAMES, Law
from .tensions import WEIGHTS, balance, sharpen

# Cells along the longer side on which maps are compared.
SIDE = 24
# Which way of knowing each of the library's sources is; the three of "look" have their own names.
LOOK_WAYS = {"detail": "propositional", "saliency": "perspectival", "plain words": "participatory"}


@dataclass(frozen=True, eq=False)
class Known:
    """What the sources say of one picture and one question, before it is balanced.

    maps: (h, w) in [0, 1] by source, but for "look". size: (height, width) of the picture. signs: (12,), see `SIGNS`.
    sure: how sure a source is of itself. plain: (3, h, w), what is there, what stands out and what plain words couple
    to, where "look" is among the sources. arousal: of the question and of how far these three contradict each other.
    salient: (h, w), what stands out, where the law explores. mixed: whether the centre takes part too, as it does
    where it is not clear which source knows most.
    """

    maps: Mapping[str, np.ndarray]
    size: tuple[int, int]
    signs: np.ndarray = field(default_factory=plain_signs)
    sure: Mapping[str, float] = field(default_factory=dict)
    plain: np.ndarray | None = None
    arousal: float = 0.0
    salient: np.ndarray | None = None
    mixed: bool = False


@dataclass(frozen=True, eq=False)
class BalancedWays:
    """map: (h, w) in [0, 1]. weights: of each source, together 1. tensions: by name. look: the law's. All arrays or all
    tensors."""

    map: Array
    weights: Mapping[str, Any]
    tensions: Mapping[str, Any]
    look: Array

    def numbers(self) -> dict[str, float]:
        """The tensions as numbers."""
        return {name: round(float(value), 6) for name, value in self.tensions.items()}

    def ways(self, kinds: Mapping[str, str]) -> dict[str, dict[str, float]]:
        """Way of knowing → source → weight, the heaviest first. kinds: the way of each source."""
        parts = {name: float(weight) for name, weight in self.weights.items()}
        if look := parts.pop("look", 0.0):
            first, asked = look * float(self.look[0]), float(self.tensions[TENSION_NAMES[0]])
            parts |= {"plain words": first * asked, "detail": first * (1 - asked), "saliency": look - first}
        found: dict[str, dict[str, float]] = {}
        for name, weight in sorted(parts.items(), key=lambda one: -one[1]):
            found.setdefault({**LOOK_WAYS, **kinds}.get(name, "given"), {})[name] = round(weight, 4)
        return found


def balance_ways(known: Known, law: Law) -> BalancedWays:
    """Balance what the sources say into one map."""
    signs = constant(known.signs, law.tensions)
    tensions = law.named_tensions(signs)
    planes: dict[str, Array] = {name: constant(one, law.tensions) for name, one in known.maps.items()}
    if known.plain is not None:
        planes["look"] = look_map(constant(known.plain, law.tensions), tensions, known.arousal, law.look)
    if known.mixed:
        planes["centre"] = constant(centre_map(sized(known.size, SIDE, grow=True)), law.tensions)
        weights = weights_of(planes, known, law, signs)
        shape = max((one.shape for name, one in planes.items() if name != "centre"), key=lambda one: one[0] * one[1])
        mixed: Array = sum(weights[name] * on_cells(one, shape) for name, one in planes.items())
        mixed = arrays.float32(mixed / mixed.max())
    else:
        ((name, mixed),) = planes.items()
        weights = {name: 1.0}
    return BalancedWays(_shaped(mixed, known, law, signs, tensions), weights, tensions, law.look)


def look_map(plain: Array, tensions: Mapping[str, Any], arousal: float, weights: Array = WEIGHTS) -> Array:
    """(3, h, w), what is there, what stands out and what plain words couple to → the map of "look"."""
    return modulate(sharpen(balance(*(one[None] for one in plain), tensions, weights))[0], arousal)


def weights_of(planes: Mapping[str, Array], known: Known, law: Law, signs: Array) -> dict[str, Any]:
    """How far each map is to be believed here. How sharp and how shared a map is, is no way for a gradient."""
    grid = sized(known.size, SIDE, grow=True)
    cells = {name: np.asarray(on_cells(arrays.to_numpy(one), grid)) for name, one in planes.items()}
    about = np.zeros((len(SOURCES), 3))
    for name, own in cells.items():
        best = max(1, own.size // 8)
        others = [np.sqrt(own * other).sum() for key, other in cells.items() if key not in (name, "centre")]
        sharp = float(np.partition(own.ravel(), -best)[-best:].sum())
        about[SOURCES.index(name)] = sharp, known.sure.get(name, 0.0), max(others, default=0.0)
    logits = law.sources @ signs + (law.maps * constant(about, law.maps)).sum(1)
    there = [name for name in SOURCES if name in planes]
    raised = {"centre": law.middle} if "photos" not in planes else {}
    said = {name: logits[SOURCES.index(name)] + raised.get(name, 0.0) for name in there}
    most = float(arrays.to_numpy(logits).max())
    odds = {name: arrays.namespace(logits).exp(one - most) for name, one in said.items()}
    return {name: one / sum(odds.values()) for name, one in odds.items()}


def _shaped(plane: Array, known: Known, law: Law, signs: Array, tensions: Mapping[str, Any]) -> Array:
    """Add what exploring finds, and raise the map to the power by which tokens gather."""
    if (law.learns or float(law.salient)) and known.salient is not None:
        ground = on_cells(constant(known.salient, plane), plane.shape)
        plane = plane + law.salient * tensions["exploit_explore"] * arrays.float32(ground / ground.max()) * plane.max()
    steep = law.steepness_of(signs)
    if not law.learns and float(steep) == 1:
        return plane
    top = plane.max()
    return ((plane.clip(1e-6) / top.clip(1e-6)) ** (steep if law.learns else float(steep)) * top).clip(0, 1)


def on_cells(plane: Array, shape: tuple[int, ...]) -> Array:
    """A map of any size on (rows, cols) cells, its sum 1."""
    if arrays.is_tensor(plane):
        down, across = (constant(_resizing(*pair), plane) for pair in zip(plane.shape, shape, strict=True))
        cells = down @ plane @ across.T
    else:
        cells = _resize(plane, shape).astype(np.float64)
    cells = cells.clip(0) + 1e-9
    return cells / cells.sum()


def _resize(plane: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    import cv2

    return cv2.resize(np.asarray(plane, np.float32), shape[::-1], interpolation=cv2.INTER_AREA)


@lru_cache(maxsize=64)
def _resizing(length: int, wanted: int) -> np.ndarray:
    """(wanted, length): what `_resize` does along one axis."""
    return _resize(np.eye(length, dtype=np.float32), (wanted, length))
