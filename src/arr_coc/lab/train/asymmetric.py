"""What a mistake costs: missing what matters is not the same as wasting tokens on what does not.

Per place, on the classic scale of 64 to 400 tokens:

- missed: it matters and got fewer than 200 tokens: squared distance to 400;
- wasted: it does not matter and got more than 200: squared distance to 64.

Normalisation, so that presets can be compared: each squared distance is divided by (400 − 64)², so that it lies in
[0, 1]; misses are averaged over what matters, waste over what does not (so neither depends on how much of a picture
matters); the two are weighted by shares that sum to 1 (1000:1 is 0.999 : 0.001). Every preset's loss is then in [0, 1],
0 is perfect under all of them, and only the price of a miss in waste differs.

The thresholds are crossed by a sigmoid a few tokens wide rather than a step, so that the loss is smooth and moving a
place across 200 is itself rewarded. Both terms stay monotone in the tokens given.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...attending.classic import LEAST, MOST
from ...errors import InputError

THRESHOLD = 200.0
# (weight of missing, weight of wasting)
PRESETS: dict[str, tuple[float, float]] = {
    "threat": (1000.0, 1.0),
    "medical": (1000.0, 1.0),
    "invoice": (100.0, 5.0),
    "casual": (1.0, 1.0),
}


@dataclass(frozen=True)
class Stakes:
    """loss: scalar. missed, wasted: the two normalised terms before weighting, each in [0, 1]."""

    loss: Tensor
    missed: Tensor
    wasted: Tensor


def asymmetric_loss(
    tokens: Tensor,
    matters: Tensor,
    weights: tuple[float, float],
    softness: float = 10.0,
    normalise: bool = True,
    importance: Tensor | None = None,
) -> Stakes:
    """tokens (…) on the classic scale, matters (…) in [0, 1] → the loss and its parts.

    softness: width in tokens of the crossing at 200; 0 is the hard step. normalise=False gives raw weights and raw
    squared tokens, as the classic formula has them; the parts stay normalised. importance: what each place or picture
    counts in the averages, broadcast to the shape of tokens; None: all the same.
    """
    if tokens.shape != matters.shape:
        raise InputError(f"tokens {tuple(tokens.shape)} and what matters {tuple(matters.shape)} must have one shape")
    if min(weights) < 0 or sum(weights) <= 0:
        raise InputError(f"weights of missing and wasting must not be negative and not both 0, got {weights}")
    if softness > 0:
        few = torch.sigmoid((THRESHOLD - tokens) / softness)
        many = 1 - few
    else:
        few, many = (tokens < THRESHOLD).to(tokens.dtype), (tokens > THRESHOLD).to(tokens.dtype)
    scale = float(MOST - LEAST) ** 2
    counts = torch.ones_like(tokens) if importance is None else importance
    missed = mean_over(few * F.relu(MOST - tokens).square() / scale, matters * counts)
    wasted = mean_over(many * F.relu(tokens - LEAST).square() / scale, (1 - matters) * counts)
    miss, waste = weights
    if normalise:
        return Stakes((miss * missed + waste * wasted) / (miss + waste), missed, wasted)
    return Stakes((miss * missed + waste * wasted) * scale, missed, wasted)


def mean_over(values: Tensor, weight: Tensor) -> Tensor:
    """Weighted mean; 0 where nothing has weight."""
    return (values * weight).sum() / weight.sum().clamp_min(1e-6)


def expected_tokens(logits: Tensor) -> Tensor:
    """Relevance logits (…) → tokens (…) on the classic scale, differentiable: 64 + 336 · sigmoid."""
    return LEAST + (MOST - LEAST) * torch.sigmoid(logits)


class AsymmetricRelevanceLoss(nn.Module):
    """The loss with the weights of a preset (`threat`, `medical`, `invoice`, `casual`) or one's own (miss, waste)."""

    def __init__(
        self, preset: str | tuple[float, float] = "casual", softness: float = 10.0, normalise: bool = True
    ) -> None:
        super().__init__()
        if isinstance(preset, str) and preset not in PRESETS:
            raise InputError(f"unknown stakes {preset!r}; choose from {', '.join(PRESETS)} or give (miss, waste)")
        self.weights = PRESETS[preset] if isinstance(preset, str) else preset
        self.softness, self.normalise = softness, normalise

    def forward(self, tokens: Tensor, matters: Tensor) -> Tensor:
        """tokens (…) in [64, 400], matters (…) in [0, 1] → scalar."""
        return self.parts(tokens, matters).loss

    def parts(self, tokens: Tensor, matters: Tensor) -> Stakes:
        return asymmetric_loss(tokens, matters, self.weights, self.softness, self.normalise)
