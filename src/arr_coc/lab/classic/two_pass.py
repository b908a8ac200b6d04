"""The two-pass preset on the classic scale of 64 to 400 tokens for each place.

First pass: every place gets a fifth more than its score earned; below an uncertainty of .3 that is the end. Second
pass: places that the answer was unsure of (above .5) get half as much again, those it was sure of give some back.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...attending.classic import LEAST, MOST, check_classic_budget, power_curve_tokens
from ...esper.settings import ENOUGH, LESS, MORE, SURE_UP_TO, UNSURE_ABOVE

FIRST_FACTOR = 1.2


def within_budget(wish: Tensor, budget: int) -> Tensor:
    """(B, K) wished tokens → (B, K) int64, each 64 to 400, together at most `budget`; too large a sum is shared out.

    What exceeds 64 is scaled by the one factor that makes the sum fit, so places keep their order.
    """
    check_classic_budget(budget, wish.shape[1])
    wish = wish.clamp(LEAST, MOST)
    above = wish - LEAST
    room = budget - LEAST * wish.shape[1]
    factor = (room / above.sum(1, keepdim=True).clamp_min(1e-9)).clamp(max=1.0)
    return (LEAST + above * factor + 1e-4).floor().long()


def first_pass_tokens(scores: Tensor, budget: int, steepness: float = 2.0) -> Tensor:
    """(B, K) scores in [0, 1] → (B, K) int64: the power curve's tokens × 1.2, within [64, 400] and the budget."""
    return within_budget(FIRST_FACTOR * power_curve_tokens(scores, budget, steepness), budget)


def second_pass_tokens(tokens: Tensor, place_uncertainty: Tensor, budget: int) -> Tensor:
    """(B, K) tokens and uncertainties of places → (B, K): × 1.5 above .5, × .7 at or below .2, within the limits."""
    factor = torch.where(place_uncertainty > UNSURE_ABOVE, MORE, 1.0)
    factor = torch.where(place_uncertainty <= SURE_UP_TO, LESS, factor)
    return within_budget(tokens * factor, budget)


def needs_second_pass(uncertainty: Tensor) -> Tensor:
    """(B,) bool."""
    return uncertainty >= ENOUGH
