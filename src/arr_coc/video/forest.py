"""One budget for a whole clip: the tokens of all its frames in one order, each where it is worth most.

Frames are known beforehand here. What a token is worth is the demand that it shows: relevance, where the ground is new.
So a cut gets a full look, a still scene next to nothing after its first frame, and what is left over when everything
new was seen goes to the most relevant ground again. All clips of a batch at once, any device.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ..allocation.overlay import overlay, token_gains
from ..allocation.tree import Leaves
from ..core.errors import InputError

# What repeated ground still counts, so that a budget that cannot be spent on new ground is not wasted.
REPEATED = 0.02


def demand_of(relevance: Tensor, same_ground: Tensor, repeated: float = REPEATED) -> Tensor:
    """(N, T, rows, cols): relevance of ground that is new. same_ground: share of each cell that was there before."""
    return relevance * (repeated + (1 - repeated) * (1 - same_ground))


def share_tokens(demand: Tensor, total: int, cap: int | None = None) -> Tensor:
    """(N, T, rows, cols) demand → (N, T) int64 tokens of each frame: `total` for each clip, at most `cap` for a frame.

    Every frame has one at the least. The total is met exactly; less only where the cap does not let it be spent.
    """
    number, frames, rows, cols = demand.shape
    cap = rows * cols if cap is None else min(cap, rows * cols)
    if total < frames or cap < 1:
        raise InputError(
            f"a total of {total} tokens and a cap of {cap} are less than one for each of {frames} frames; give more"
        )
    gains = token_gains(demand.flatten(0, 1)).unflatten(0, (number, frames))[..., :cap]
    gains[..., 0] = math.inf
    # Among equals the frames take turns: the first token of each, then the second.
    order = gains.transpose(1, 2).flatten(1).argsort(dim=1, descending=True, stable=True)[:, :total]
    counts = torch.zeros(number, frames, dtype=torch.int64, device=demand.device)
    return counts.scatter_add(1, order % frames, torch.ones_like(order))


def grow_forest(demand: Tensor, total: int, cap: int | None = None, relevance: Tensor | None = None) -> Leaves:
    """(N, T, rows, cols) demand → the leaves of all frames, (N · T, …), clip after clip: an overlay for each frame.

    total, cap: see `share_tokens`. The leaves are scored by `relevance`, by the demand unless given.
    """
    counts = share_tokens(demand, total, cap)
    scored = demand if relevance is None else relevance
    return overlay(demand.flatten(0, 1), counts.flatten().tolist(), scored=scored.flatten(0, 1))
