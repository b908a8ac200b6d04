"""`TemperingPolicy`: how much of this pass goes to ground nobody has looked at yet."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
from ..core.pretrained import Pretrained
from .arousal import for_each_picture
from .learned import silent_head

FIRST_PASS, VERY_UNSURE, UNSURE, SURE = 0.1, 0.5, 0.3, 0.05
VERY_UNSURE_ABOVE, UNSURE_ABOVE = 0.7, 0.4
# Exploration up to here is too little to be worth disturbing the map for.
BLEND_ABOVE = 0.2
MOST_PASSES = 4


def exploration_rule(pass_number: Tensor, uncertainty: Tensor) -> Tensor:
    """Pass number (first = 1) and uncertainty after the pass before, (B,) each → exploration (B,).

    First pass .1; then uncertainty > .7 → .5, > .4 → .3, else .05.
    """
    unsure = torch.where(uncertainty > UNSURE_ABOVE, UNSURE, SURE)
    later = torch.where(uncertainty > VERY_UNSURE_ABOVE, VERY_UNSURE, unsure)
    return torch.where(pass_number <= 1, FIRST_PASS, later)


def temper(relevance: Array, examined: Array, exploration: Array | float) -> Array:
    """Relevance (B, h, w), examined (B, h, w) in [0, 1], exploration, one number or (B,) → (B, h, w).

    Above .2 the map is blended with one of the ground not examined yet, which spans the same range as relevance does:
    fresh ground counts as much as the most relevant place, examined ground as little as the least. numpy or torch.
    """
    if relevance.ndim != 3 or relevance.shape != examined.shape:
        raise InputError(
            f"relevance and examined must both be (B, h, w), got {tuple(relevance.shape)} and {tuple(examined.shape)}"
        )
    library = arrays.namespace(relevance)
    share = for_each_picture("exploration", exploration, relevance)
    low = library.amin(relevance, axis=(1, 2), keepdims=True)
    high = library.amax(relevance, axis=(1, 2), keepdims=True)
    fresh = high - (high - low) * examined
    return library.where(share > BLEND_ABOVE, (1 - share) * relevance + share * fresh, relevance)


@dataclass(frozen=True)
class TemperingConfig:
    """learned: whether a network departs from the rule. hidden: its width."""

    learned: bool = False
    hidden: int = 16


class TemperingPolicy(Pretrained):
    """Pass number, uncertainty and its trend → exploration in [0, 1]: by the rule, or learned starting from it.

    The network moves the rule's log-odds and starts at zero, so that an untrained policy is the rule.
    """

    config_class = TemperingConfig
    config: TemperingConfig

    def __init__(self, config: TemperingConfig | None = None) -> None:
        super().__init__(config or TemperingConfig())
        self.network: nn.Sequential | None = None
        if self.config.learned:
            last = silent_head(self.config.hidden)
            self.network = nn.Sequential(nn.Linear(3, self.config.hidden), nn.GELU(), last)

    def forward(self, pass_number: Tensor, uncertainty: Tensor, trend: Tensor) -> Tensor:
        """(B,) each → exploration (B,), differentiable when learned.

        pass_number: 1 for the first. uncertainty: after the pass before (anything in [0, 1] before the first).
        trend: its change since the pass before that; negative = getting surer.
        """
        rule = exploration_rule(pass_number, uncertainty)
        if self.network is None:
            return rule
        inputs = torch.stack([pass_number.to(uncertainty) / MOST_PASSES, uncertainty, trend.to(uncertainty)], dim=-1)
        return torch.sigmoid(torch.logit(rule.to(uncertainty)) + self.network(inputs)[..., 0])

    @torch.no_grad()
    def explore(self, uncertainties: Sequence[float]) -> float:
        """Exploration of the next pass, from the uncertainties after each pass so far (none before the first)."""
        if not all(0 <= value <= 1 for value in uncertainties):
            raise InputError(f"uncertainties must lie in [0, 1], got {list(uncertainties)}")
        # Before the first pass nothing is known.
        last = uncertainties[-1] if uncertainties else 1.0
        trend = last - uncertainties[-2] if len(uncertainties) > 1 else 0.0
        numbers = torch.tensor([[len(uncertainties) + 1.0], [last], [trend]])
        return float(self(*numbers)[0])
