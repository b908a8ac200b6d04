"""Depth routing: which leaf's visual features reach which depth of the language model.

Qwen3-VL adds DeepStack planes after its first language layers. A leaf injects shallow, middle or deep by its relevance:
thresholds 0, .5, .8 of the source, with costs .1, .5, 1. With `early`, a leaf also passes no further through the vision
tower than it injects. Untrained, that costs 71 points on Needle World; docs/source-map.md.

    realized = realize_routed(backbone, model, inputs, allocations, relevance, DepthRouting(early=True))
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.realizing.patches import LeafBatch
from arr_coc.realizing.qwen3_vl.encode import PatchPlaces, VisualTokens, foveate

from .walks import TowerWalk

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from arr_coc.core.values import Allocation
    from arr_coc.realizing.base import Inputs, Realized
    from arr_coc.realizing.qwen3_vl.adapter import Qwen3VL


@dataclass(frozen=True)
class DepthRouting:
    """thresholds: relevance above which a leaf injects shallow, middle, deep. costs: of each depth, in the reward.
    early: leaves are encoded no further than they inject."""

    thresholds: tuple[float, float, float] = (0.0, 0.5, 0.8)
    costs: tuple[float, float, float] = (0.1, 0.5, 1.0)
    early: bool = False

    def gates(self, relevance: Tensor) -> Tensor:
        """Decide for relevance (N,) where each leaf injects → (3, N) bool: shallow, middle, deep."""
        low, middle, high = self.thresholds
        return torch.stack([relevance >= low, relevance > middle, relevance > high])

    def reach(self, relevance: Tensor) -> Tensor:
        """Find the deepest band in which each leaf injects, (N,) int64, 0 for none."""
        return (self.gates(relevance) * torch.arange(3, device=relevance.device)[:, None]).amax(0)

    def cost(self, relevance: Tensor) -> Tensor:
        """Price the deepest injection of each leaf, (N,)."""
        prices = torch.tensor(self.costs, device=relevance.device)[:, None]
        return (self.gates(relevance) * prices).amax(0)


def realize_routed(
    backbone: Qwen3VL,
    model: PreTrainedModel,
    inputs: Inputs,
    allocations: Sequence[Allocation],
    relevance: Sequence[np.ndarray],
    routing: DepthRouting,
) -> Realized:
    """Encode a prompt as `backbone.realize` does, its DeepStack planes routed by relevance (rows, cols) per picture."""
    batch = LeafBatch.of(allocations, inputs["pixel_values"].device)
    values = relevance_under(batch, relevance)
    vision: Any = model.model.visual
    planes, blocks = list(vision.deepstack_visual_indexes), len(vision.blocks)

    def shortened(patches: Tensor, part: LeafBatch) -> VisualTokens:
        return encode_to_depth(model, patches, part, last_blocks(routing.reach(values), planes, blocks))

    tower = shortened if routing.early else None
    tokens = foveate(model, backbone.normalised_pixels(model, inputs), batch, tower)
    if not tokens.planes:
        raise InputError("this model has no DeepStack planes, so there is no depth to route to")
    gates = routing.gates(values.to(tokens.planes[0].device))
    routed = tuple(
        plane * gates[number * 3 // len(tokens.planes), :, None].to(plane.dtype)
        for number, plane in enumerate(tokens.planes)
    )
    return backbone.splice(model, inputs, batch, VisualTokens(tokens.embeds, routed))


def relevance_under(batch: LeafBatch, relevance: Sequence[np.ndarray]) -> Tensor:
    """Average each picture's map (rows, cols of its grid) under each of its leaves → (M,)."""
    found = []
    for one, leaves, (rows, cols) in zip(relevance, batch.leaves.split(batch.counts), batch.grid.tolist(), strict=True):
        sums = np.zeros((rows + 1, cols + 1))
        sums[1:, 1:] = np.asarray(one, dtype=np.float64).cumsum(0).cumsum(1)
        top, left, level = leaves.cpu().numpy().T
        bottom, right = np.minimum(top + (1 << level), rows), np.minimum(left + (1 << level), cols)
        total = sums[bottom, right] - sums[top, right] - sums[bottom, left] + sums[top, left]
        found.append(total / ((bottom - top) * (right - left)))
    return torch.from_numpy(np.concatenate(found)).float()


def last_blocks(reach: Tensor, planes: Sequence[int], depth: int) -> Tensor:
    """Find the last block of a tower of `depth` blocks that each leaf needs: (N,) bands → (N,) int64.

    Plane k comes behind block planes[k]. The deepest band needs all blocks.
    """
    bands = [plane * 3 // len(planes) for plane in range(len(planes))]
    stops = [
        max((block for block, own in zip(planes, bands, strict=True) if own <= band), default=planes[0])
        for band in range(2)
    ]
    return torch.tensor([*stops, depth - 1], device=reach.device)[reach]


def encode_to_depth(model: PreTrainedModel, patches: Tensor, batch: LeafBatch, last: Tensor) -> VisualTokens:
    """`encode_leaves`, but every leaf passes only through the blocks up to its `last` (M,) one.

    The later blocks run on the leaves that are left, which see each other alone. A leaf's token is made of what its
    last block gave. It has no part in the DeepStack planes behind that block (zeros). With every leaf at the last block
    of all, the result is that of `encode_leaves`.
    """
    return DepthWalk(model.model.visual, patches, batch, last).run()


class DepthWalk(TowerWalk):
    """Leaves that leave the tower on the way. going: (K,) int64, those still inside."""

    def __init__(self, tower: Any, patches: Tensor, batch: LeafBatch, last: Tensor) -> None:
        places = PatchPlaces.of(tower, batch.leaves, batch.grid[batch.owner])
        super().__init__(tower, patches, places, [])
        self.unit, self.parts = tower.spatial_merge_unit, len(batch.counts)
        self.ends, self.part = last.to(self.hidden.device), batch.owner.to(self.hidden.device)
        self.final, self.all_turns = torch.empty_like(self.hidden), self.turn
        self._go_on(torch.arange(len(last), device=self.hidden.device))

    def _go_on(self, going: Tensor) -> None:
        """With these leaves only."""
        counts = torch.bincount(self.part[going], minlength=self.parts)
        self.lengths = (counts[counts > 0] * self.unit).tolist()
        inside = torch.arange(self.unit, device=going.device)
        self.going, self.rows = going, (going[:, None] * self.unit + inside).flatten()
        cosine, sine = self.all_turns
        self.turn = cosine[self.rows], sine[self.rows]

    def plane(self, made: Tensor) -> Tensor:
        return made.new_zeros(len(self.ends), made.shape[-1]).index_copy(0, self.going, made)

    def after(self, number: int) -> bool:
        leaving = self.ends[self.going] <= number
        if number == len(self.tower.blocks) - 1 or bool(leaving.all()):
            self.final = self.final.index_copy(0, self.rows, self.hidden)
            return True
        if bool(leaving.any()):
            patch = leaving.repeat_interleave(self.unit)
            self.final = self.final.index_copy(0, self.rows[patch], self.hidden[patch])
            self.hidden = self.hidden[~patch]
            self._go_on(self.going[~leaving])
        return False

    def last(self) -> Tensor:
        return self.final

    def run(self) -> VisualTokens:
        made = super().run()
        missing = len(self.tower.deepstack_visual_indexes) - len(made.planes)
        return VisualTokens(made.embeds, (*made.planes, *[torch.zeros_like(made.planes[0])] * missing))
