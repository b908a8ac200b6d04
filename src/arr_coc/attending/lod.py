"""`lod`: map each patch's score to the nearest of the five classic levels of detail."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from ..errors import InputError
from .classic import CLASSIC_TOKENS, LEAST, MOST, check_classic_budget

Mapping = Literal["linear", "square", "sigmoid"]


def lod_tokens(scores: Tensor, budget: int, mapping: Mapping = "linear") -> Tensor:
    """(B, K) scores in [0, 1] → (B, K) int64 of 64, 128, 256, 384 or 400, together at most `budget`.

    Where the levels wished for exceed the budget, the least relevant patches step down first, rung by rung to the
    lowest, until the total fits.
    """
    check_classic_budget(budget, scores.shape[1])
    ladder = torch.tensor(CLASSIC_TOKENS, device=scores.device)
    wish = LEAST + (MOST - LEAST) * map_score(scores, mapping)
    level = (wish[..., None] - ladder).abs().argmin(-1)
    excess = (ladder[level].sum(1) - budget).clamp_min(0)
    # All possible steps down in the order they would be taken: patch by rising score, rung by falling height.
    patch = scores.argsort(dim=1, stable=True)
    rungs = torch.arange(len(CLASSIC_TOKENS) - 1, 0, -1, device=scores.device)
    possible = level.gather(1, patch)[..., None] >= rungs
    saving = ((ladder[rungs] - ladder[rungs - 1]) * possible).flatten(1)
    # The shortest prefix that saves enough.
    needed = (saving.cumsum(1) - saving < excess[:, None]).view_as(possible) & possible
    down = torch.zeros_like(level).scatter(1, patch, needed.sum(-1))
    return ladder[level - down]


def map_score(scores: Tensor, mapping: Mapping) -> Tensor:
    """Score → share of the way from 64 to 400."""
    scores = scores.clamp(0, 1)
    if mapping == "linear":
        return scores
    if mapping == "square":
        return scores.square()
    if mapping == "sigmoid":
        return torch.sigmoid(10 * (scores - 0.5))
    raise InputError(f"unknown mapping {mapping!r}; choose linear, square or sigmoid")
