"""The stage balancing: turn the maps of all sources into one relevance map, and report the weight of each.

    known = knowns(scene, question)                 the maps of the sources for one picture, question and budget
    balance_ways(known, read_law()).map             (h, w) in [0, 1]

1. Compute three tensions, sigmoids of a linear law of the signs of picture, question and budget.
2. Join the three ways that need no training into the source "look": `tensions.balance`, sharpened, then arousal.
3. Mix the sources that have a map by a softmax over the same signs and how sharp, sure and shared each map is.
4. Add what stands out, if exploring, and raise the map to a power set by the tension between compressing and
   particularizing: how steeply tokens gather. The effect of the third tension is in `attending.allocate`.

It runs in numpy, or with gradients in torch if the law has tensors: `Law` has every learned number, so a training calls
`balance_ways` with the same `Known` repeatedly.
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

# Number of cells along the longer side at which maps are compared.
SIDE = 24
# The way of knowing of each of the three parts of "look", by the names used in results.
LOOK_WAYS = {"detail": "propositional", "saliency": "perspectival", "plain words": "participatory"}


@dataclass(frozen=True, eq=False)
class Known:
    """The input of balancing: the maps of the sources for one picture and one question.

    maps: (h, w) in [0, 1] by source, except "look". size: (height, width) of the picture. signs: (12,), see `SIGNS`.
    sure: how reliable a source's map is. plain: (3, h, w), the propositional, perspectival and participatory maps, if
    "look" is among the sources. arousal: by the question and the contradiction of these three. salient: (h, w), what
    stands out, if the law explores. mixed: whether several maps are mixed, with the centre as one of them.
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
    """The result of balancing. map: (h, w) in [0, 1]. weights: of each source, with sum 1. tensions: by name. look:
    that of the law. All are arrays, or all are tensors."""

    map: Array
    weights: Mapping[str, Any]
    tensions: Mapping[str, Any]
    look: Array

    def numbers(self) -> dict[str, float]:
        """Return the tensions as numbers."""
        return {name: round(float(value), 6) for name, value in self.tensions.items()}

    def ways(self, kinds: Mapping[str, str]) -> dict[str, dict[str, float]]:
        """Return way of knowing → source → weight, the highest first. kinds: the way of each source."""
        parts = {name: float(weight) for name, weight in self.weights.items()}
        if look := parts.pop("look", 0.0):
            first, asked = look * float(self.look[0]), float(self.tensions[TENSION_NAMES[0]])
            parts |= {"plain words": first * asked, "detail": first * (1 - asked), "saliency": look - first}
        found: dict[str, dict[str, float]] = {}
        for name, weight in sorted(parts.items(), key=lambda one: -one[1]):
            found.setdefault({**LOOK_WAYS, **kinds}.get(name, "given"), {})[name] = round(weight, 4)
        return found


def balance_ways(known: Known, law: Law) -> BalancedWays:
    """Balance the maps of the sources into one map."""
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
    """Balance propositional, perspectival and participatory maps (3, h, w) into the map of "look"."""
    return modulate(sharpen(balance(*(one[None] for one in plain), tensions, weights))[0], arousal)


def weights_of(planes: Mapping[str, Array], known: Known, law: Law, signs: Array) -> dict[str, Any]:
    """Compute the weight of each map. No gradient flows through how sharp and how shared a map is."""
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
    """Add what stands out, if exploring, and raise the map to the power by which tokens gather."""
    if (law.learns or float(law.salient)) and known.salient is not None:
        ground = on_cells(constant(known.salient, plane), plane.shape)
        plane = plane + law.salient * tensions["exploit_explore"] * arrays.float32(ground / ground.max()) * plane.max()
    steep = law.steepness_of(signs)
    if not law.learns and float(steep) == 1:
        return plane
    top = plane.max()
    return ((plane.clip(1e-6) / top.clip(1e-6)) ** (steep if law.learns else float(steep)) * top).clip(0, 1)


def on_cells(plane: Array, shape: tuple[int, ...]) -> Array:
    """Resize a map of any size to (rows, cols) cells with sum 1."""
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
    """Return the matrix (wanted, length) of `_resize` along one axis."""
    return _resize(np.eye(length, dtype=np.float32), (wanted, length))
