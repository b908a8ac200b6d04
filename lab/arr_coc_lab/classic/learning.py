"""Learning from outcomes as the source describes it: what an outcome is worth, rewards on four timescales, and credit
for earlier steps. What a scorer is taught by is the reader's own answer (`train.outcomes`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor

from arr_coc.core.errors import InputError

WRONG, PARTLY, RIGHT = 0, 1, 2
OUTCOME_VALUE = (-1000.0, 500.0, 1000.0)
SAVED, QUICK, MOST_PASSES = 0.01 * 0.01, 0.05 * 100.0, 4
TIMESCALES = ("immediate", "short", "medium", "long")
DISCOUNTS = (0.99, 0.95, 0.90, 0.80)
WEIGHTS = (0.1, 0.2, 0.3, 0.4)


def outcome_reward(outcome: Tensor, tokens: Tensor, full: int, passes: int = 1) -> Tensor:
    """Compute a reward: right +1000, partly +500, wrong −1000; tokens saved × .0001; if right, 5 × (4 − passes)."""
    worth = torch.tensor(OUTCOME_VALUE, device=outcome.device)[outcome]
    return worth + SAVED * (full - tokens) + QUICK * max(0, MOST_PASSES - passes) * (outcome == RIGHT)


def discounted(timescale: str, rewards: Tensor) -> Tensor:
    """Convert (…, N) rewards of one timescale, in order → (…) their discounted sum.

    >>> float(discounted("long", torch.tensor([200.0, 10_000.0])))
    8200.0
    """
    if timescale not in TIMESCALES:
        raise InputError(f"unknown timescale {timescale!r}; choose from {', '.join(TIMESCALES)}")
    discount = DISCOUNTS[TIMESCALES.index(timescale)]
    factors = discount ** torch.arange(rewards.shape[-1], dtype=torch.float64, device=rewards.device)
    return (rewards.double() * factors).sum(-1).to(rewards.dtype)


def fractal_reward(rewards: Mapping[str, Tensor]) -> Tensor:
    """Return the weighted sum (…) of the discounted sums of {timescale: (…, N)}, each at its own pace."""
    if not rewards:
        raise InputError(f"no rewards given; name at least one of {', '.join(TIMESCALES)}")
    parts = [discounted(name, value) * WEIGHTS[TIMESCALES.index(name)] for name, value in rewards.items()]
    return torch.stack(parts).sum(0)


CREDIT = 0.9  # of what comes a step later


def returns_to_go(rewards: Tensor, discount: float = CREDIT) -> Tensor:
    """Return the discounted sum of rewards (B, T) from each step on: credit falls by a tenth for every step back."""
    found, rest = [], torch.zeros_like(rewards[:, 0])
    for step in range(rewards.shape[1] - 1, -1, -1):
        rest = rewards[:, step] + discount * rest
        found.append(rest)
    return torch.stack(found[::-1], 1)
