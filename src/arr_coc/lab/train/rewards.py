"""What an outcome is worth: two forms of the reward, and its reading on four timescales.

All functions are batched and know nothing of boxes: right or wrong, tokens spent, passes made, confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor

from ...errors import InputError


class Outcome(IntEnum):
    """How the answer came out."""

    WRONG = 0
    PARTLY = 1
    RIGHT = 2


OUTCOME_VALUE = (-1000.0, 500.0, 1000.0)
SAVED_VALUE, SAVED_WEIGHT = 0.01, 0.01
MOST_PASSES, PASS_VALUE, PASS_WEIGHT = 4, 100.0, 0.05
SIMPLE_VALUE = (-100.0, 50.0, 100.0)
SIMPLE_SAVED, SIMPLE_FULL = 0.1, 2400
OVERCONFIDENT, CONFIDENT = -50.0, 0.8


@dataclass(frozen=True)
class Reward:
    """total and the parts it is the sum of, weights included; all of one shape."""

    total: Tensor
    outcome: Tensor
    saved: Tensor
    quick: Tensor
    overconfident: Tensor


def _value(outcome: Tensor, values: tuple[float, ...]) -> Tensor:
    if outcome.is_floating_point() or bool(((outcome < 0) | (outcome > 2)).any()):
        raise InputError("outcomes must be whole numbers: 0 wrong, 1 partly, 2 right")
    return torch.tensor(values, device=outcome.device)[outcome.long()]


def outcome_reward(outcome: Tensor, tokens: Tensor, full: Tensor | int, passes: Tensor | int = 1) -> Reward:
    """Right +1000, partly +500, wrong −1000; + .01 × (tokens saved × .01); + .05 × (4 − passes) × 100 when right.

    outcome: (…) int of `Outcome`. tokens: (…) spent, all passes together; full: what level 0 everywhere costs.
    """
    worth = _value(outcome, OUTCOME_VALUE)
    saved = SAVED_WEIGHT * SAVED_VALUE * (full - tokens).to(worth.dtype)
    left = (MOST_PASSES - torch.as_tensor(passes, device=outcome.device)).clamp_min(0).to(worth.dtype)
    quick = PASS_WEIGHT * PASS_VALUE * left * (outcome == Outcome.RIGHT)
    return Reward(worth + saved + quick, worth, saved.expand_as(worth), quick, torch.zeros_like(worth))


def simple_reward(outcome: Tensor, tokens: Tensor, confidence: Tensor | None = None) -> Reward:
    """Right +100, partly +50, wrong −100; + 0.1 for each token saved against 2400; −50 for confident and wrong.

    confidence: (…) in [0, 1]; above 0.8 is confident. None: nobody is accused.
    """
    worth = _value(outcome, SIMPLE_VALUE)
    saved = SIMPLE_SAVED * (SIMPLE_FULL - tokens).to(worth.dtype)
    penalty = torch.zeros_like(worth)
    if confidence is not None:
        penalty = OVERCONFIDENT * ((confidence > CONFIDENT) & (outcome == Outcome.WRONG)).to(worth.dtype)
    return Reward(worth + saved + penalty, worth, saved.expand_as(worth), torch.zeros_like(worth), penalty)


TIMESCALES = ("immediate", "short", "medium", "long")
DISCOUNTS = (0.99, 0.95, 0.90, 0.80)
WEIGHTS = (0.1, 0.2, 0.3, 0.4)


class FractalReward:
    """The same kind of sum on four timescales: each a discounted sum of its own rewards, then a weighted mean.

    The rewards of a timescale come at its own pace: [50, 30] at `medium` is 50 now and 30 one medium step later.

    >>> float(FractalReward().discounted("long", torch.tensor([200.0, 10_000.0])))
    8200.0
    """

    def __init__(self, discounts: tuple[float, ...] = DISCOUNTS, weights: tuple[float, ...] = WEIGHTS) -> None:
        if len(discounts) != len(TIMESCALES) or len(weights) != len(TIMESCALES):
            raise InputError(f"give one discount and one weight for each of {', '.join(TIMESCALES)}")
        if not all(0 <= discount <= 1 for discount in discounts):
            raise InputError(f"discounts must lie in [0, 1], got {discounts}")
        self.discounts = dict(zip(TIMESCALES, discounts, strict=True))
        self.weights = dict(zip(TIMESCALES, weights, strict=True))

    def discounted(self, timescale: str, rewards: Tensor) -> Tensor:
        """(…, N) rewards of one timescale, in order → (…) their discounted sum."""
        if timescale not in self.discounts:
            raise InputError(f"unknown timescale {timescale!r}; choose from {', '.join(TIMESCALES)}")
        powers = torch.arange(rewards.shape[-1], device=rewards.device, dtype=torch.float64)
        factors = torch.as_tensor(self.discounts[timescale], dtype=torch.float64, device=rewards.device) ** powers
        return (rewards.double() * factors).sum(-1).to(rewards.dtype)

    def __call__(self, rewards: Mapping[str, Tensor]) -> Tensor:
        """{timescale: (…, N)}, any subset, N as each has it → (…) the weighted sum."""
        if not rewards:
            raise InputError(f"no rewards given; name at least one of {', '.join(TIMESCALES)}")
        parts = [(name, self.discounted(name, value)) for name, value in rewards.items()]
        return torch.stack([self.weights[name] * value for name, value in parts]).sum(0)
