"""`power_curve`: 64 to 400 tokens for each patch by score ** steepness, the total enforced by water-filling."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .classic import LEAST, MOST, check_classic_budget


def power_curve_tokens(scores: Tensor, budget: int, steepness: float | Tensor = 2.0) -> Tensor:
    """(B, K) scores in [0, 1] → (B, K) int64 tokens, each 64 to 400, together at most `budget`.

    Where the wish exceeds the budget a water level is found that caps the largest wishes, so that every patch keeps its
    least and nothing is dropped; the tokens that rounding leaves over go to the best-scored patches.
    """
    check_classic_budget(budget, scores.shape[1])
    wish = desired_tokens(scores, steepness)
    cap = _water_level(wish, budget)
    capped = torch.minimum(wish, cap)
    tokens = capped.floor().long()
    allowed = torch.minimum(capped.sum(1).round().long(), torch.full_like(tokens[:, 0], budget))
    left = (allowed - tokens.sum(1)).clamp_min(0)
    room = tokens < MOST
    order = scores.masked_fill(~room, -1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    return tokens + ((rank < left[:, None]) & room)


def desired_tokens(scores: Tensor, steepness: float | Tensor) -> Tensor:
    """The wish before any budget: 64 + 336 · score ** steepness. Differentiable in both."""
    return LEAST + (MOST - LEAST) * scores.clamp(0, 1).clamp_min(1e-6) ** steepness


def _water_level(wish: Tensor, budget: int) -> Tensor:
    """(B, 1) the level c with sum(min(wish, c)) = budget, or the largest wish where that is affordable.

    Sorted ascending, the level between the i-th and (i+1)-th wish costs prefix(i) + (K − i) · c: linear, so it is
    solved for every i at once and the first consistent one is taken.
    """
    ordered = wish.sort(dim=1).values
    number = wish.shape[1]
    below = ordered.cumsum(1) - ordered
    remaining = number - torch.arange(number, device=wish.device)
    level = (budget - below) / remaining
    consistent = level <= ordered
    first = consistent.int().argmax(1, keepdim=True)
    return torch.where(consistent.any(1, keepdim=True), level.gather(1, first), ordered[:, -1:])


class PowerCurve(nn.Module):
    """A learnable steepness in [0.5, 4.5]; starts in the middle, at 2.5."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(()))

    @property
    def steepness(self) -> Tensor:
        return 0.5 + 4.0 * torch.sigmoid(self.raw)

    def forward(self, scores: Tensor) -> Tensor:
        """(B, K) scores → (B, K) wished tokens, differentiable."""
        return desired_tokens(scores, self.steepness)

    @torch.no_grad()
    def allocate(self, scores: Tensor, budget: int) -> Tensor:
        return power_curve_tokens(scores, budget, self.steepness)
