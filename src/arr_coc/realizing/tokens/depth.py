"""Depth routing: which leaf's visual features reach which depth of the language model.

A DeepStack backbone adds K feature planes of its vision tower to the hidden states of its first K layers. Routing makes
that depend on relevance: every leaf injects its shallow plane, only leaves above .5 the middle ones, only leaves above
.8 the deep ones. With `placement="stock"` the planes stay at the layers where the model was trained to find them; with
`placement="spread"` they move to layers 3, 8, 13, 18, 23 of 32, scaled to the backbone's depth. With `early=True` a
leaf that does not inject deeper leaves the vision tower there: later blocks run on fewer leaves. Off unless asked for.

    attach(model, processor, relevance="glance:three", depth=DepthRouting(early=True))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from ...core.values import Relevance

SPREAD_LAYERS = (3, 8, 13, 18, 23)
SPREAD_DEPTH = 32


@dataclass(frozen=True)
class HierarchicalRelevance:
    """Three maps of one picture, each deciding which leaves inject at its depth.

    low: edges and texture, for the shallow layers. middle: clusters and objects. high: the question, for the deep ones.
    Each is (rows, cols) in [0, 1], any resolution.
    """

    low: np.ndarray
    middle: np.ndarray
    high: np.ndarray

    def __post_init__(self) -> None:
        for name in ("low", "middle", "high"):
            object.__setattr__(self, name, Relevance(getattr(self, name)).map)

    @classmethod
    def flat(cls, relevance: Relevance | np.ndarray) -> HierarchicalRelevance:
        """The special case of three equal maps."""
        array = relevance.map if isinstance(relevance, Relevance) else relevance
        return cls(array, array, array)

    def at(self, leaves: np.ndarray, rows: int, cols: int) -> np.ndarray:
        """Mean of each map under each leaf. leaves: (N, 3) on a grid of rows × cols cells. Returns (3, N)."""
        return np.stack([_mean_under(array, leaves, rows, cols) for array in (self.low, self.middle, self.high)])


@dataclass(frozen=True)
class DepthRouting:
    """thresholds: relevance above which a leaf injects shallow, middle, deep. costs: of each depth, in the reward.
    early: leaves are encoded no further than they inject."""

    placement: Literal["stock", "spread"] = "stock"
    thresholds: tuple[float, float, float] = (0.0, 0.5, 0.8)
    costs: tuple[float, float, float] = (0.1, 0.5, 1.0)
    early: bool = False

    @classmethod
    def named(cls, name: str) -> DepthRouting:
        """ "stock" and "spread" are the placements; "early" also saves the blocks of the encoder."""
        if name not in NAMED:
            raise InputError(f"depth {name!r} is unknown; choose from {', '.join(NAMED)}")
        return NAMED[name]

    def __post_init__(self) -> None:
        if self.placement not in ("stock", "spread"):
            raise InputError(f"placement {self.placement!r} is unknown; use 'stock' or 'spread'")

    def gates(self, relevance: Tensor) -> Tensor:
        """relevance: (3, N) low, middle, high. Returns (3, N) bool: whether a leaf injects shallow, middle, deep."""
        low, middle, high = self.thresholds
        return torch.stack([relevance[0] >= low, relevance[1] > middle, relevance[2] > high])

    def reach(self, relevance: Tensor) -> Tensor:
        """(3, N) → (N,) int64: the deepest band in which each leaf injects, 0 for none at all."""
        return (self.gates(relevance) * torch.arange(3, device=relevance.device)[:, None]).amax(0)

    def cost(self, relevance: Tensor) -> Tensor:
        """(N,) cost of the deepest injection of each leaf: .1 shallow, .5 middle, 1 deep, 0 for none at all."""
        prices = torch.tensor(self.costs, device=relevance.device)[:, None]
        return (self.gates(relevance) * prices).amax(0)

    def layers(self, planes: int, depth: int) -> list[tuple[int, int, float]]:
        """(language layer, plane, weight) of every injection, for K planes and a language model of `depth` layers."""
        if self.placement == "stock":
            return [(plane, plane, 1.0) for plane in range(planes)]
        places = [
            (layer * depth // SPREAD_DEPTH, place * planes // len(SPREAD_LAYERS))
            for place, layer in enumerate(SPREAD_LAYERS)
        ]
        # A plane that is injected twice is injected at half weight, so that its total stays what it was.
        share = [sum(plane == other for _, other in places) for _, plane in places]
        return [(layer, plane, 1 / times) for (layer, plane), times in zip(places, share, strict=True)]


NAMED = {"stock": DepthRouting(), "spread": DepthRouting("spread"), "early": DepthRouting(early=True)}


def last_blocks(reach: Tensor, planes: Sequence[int], depth: int) -> Tensor:
    """(N,) bands → (N,) int64: the last block of a tower of `depth` blocks that each leaf needs, where plane k comes
    behind block planes[k]. The deepest band needs them all."""
    bands = [plane * 3 // len(planes) for plane in range(len(planes))]
    stops = [max((block for block, own in zip(planes, bands, strict=True) if own <= band), default=planes[0])
             for band in range(2)]  # fmt: skip
    return torch.tensor([*stops, depth - 1], device=reach.device)[reach]


def route_planes(planes: Sequence[Tensor], relevance: Tensor, depth: int, routing: DepthRouting) -> list[Tensor]:
    """The planes to add after each of the first language layers, zero where a leaf does not inject.

    planes: K tensors (N, D). relevance: (3, N). depth: layers of the language model.
    Returns tensors (N, D), one per language layer up to the deepest injection.
    """
    if not planes:
        raise InputError("this backbone has no DeepStack planes, so there is no depth to route to")
    gates = routing.gates(relevance.to(planes[0].device))
    injections = routing.layers(len(planes), depth)
    routed = [torch.zeros_like(planes[0]) for _ in range(1 + max(layer for layer, _, _ in injections))]
    for layer, plane, weight in injections:
        band = plane * 3 // len(planes)  # planes in order of depth, in three bands
        routed[layer] = routed[layer] + planes[plane] * (gates[band, :, None] * weight).to(planes[plane].dtype)
    return routed


def _mean_under(array: np.ndarray, leaves: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Mean of a map of any resolution under each leaf, by an integral image. Returns (N,)."""
    height, width = array.shape
    integral = np.zeros((height + 1, width + 1))
    integral[1:, 1:] = array.astype(np.float64).cumsum(0).cumsum(1)
    first = leaves[:, :2]
    last = np.minimum(first + (1 << leaves[:, 2:3] if leaves.shape[1] == 3 else leaves[:, 2:]), [rows, cols])
    scale = np.array([height / rows, width / cols])
    top, left = np.floor(first * scale + 1e-9).astype(np.int64).T
    bottom, right = np.ceil(last * scale - 1e-9).astype(np.int64).T
    total = integral[bottom, right] - integral[top, right] - integral[bottom, left] + integral[top, left]
    return (total / ((bottom - top) * (right - left))).astype(np.float32)
