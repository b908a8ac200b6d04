"""What an outcome is worth: two forms of the reward, and its reading on four timescales.

All functions are batched and know nothing of boxes: right or wrong, tokens spent, passes made, confidence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...attending.classic import LEAST, MOST
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


def outcome_reward(
    outcome: Tensor, tokens: Tensor, full: Tensor | int, passes: Tensor | int = 1, depth: Tensor | None = None
) -> Reward:
    """Right +1000, partly +500, wrong −1000; + .01 × (tokens saved × .01); + .05 × (4 − passes) × 100 when right.

    outcome: (…) int of `Outcome`. tokens: (…) spent, all passes together; full: what level 0 everywhere costs. depth:
    (…) where leaves are routed, the sum of their `DepthRouting.cost`: a leaf that goes all the way counts as a token,
    one that leaves the encoder early as half or a tenth of one. Without it every token counts in full.
    """
    tokens = tokens if depth is None else depth
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


# ---- What a mistake costs: missing what matters is not the same as wasting tokens on what does not -------------------
# Per place, on the classic scale of 64 to 400 tokens:
#
# - missed: it matters and got fewer than 200 tokens: squared distance to 400;
# - wasted: it does not matter and got more than 200: squared distance to 64.
#
# Normalisation, so that presets can be compared: each squared distance is divided by (400 − 64)², so that it lies in
# [0, 1]; misses are averaged over what matters, waste over what does not (so neither depends on how much of a picture
# matters); the two are weighted by shares that sum to 1 (1000:1 is 0.999 : 0.001). Every preset's loss is then in [0,
# 1], 0 is perfect under all of them, and only the price of a miss in waste differs.
#
# The thresholds are crossed by a sigmoid a few tokens wide rather than a step, so that the loss is smooth and moving a
# place across 200 is itself rewarded. Both terms stay monotone in the tokens given.

THRESHOLD = 200.0
# (weight of missing, weight of wasting)
PRESETS: dict[str, tuple[float, float]] = {
    "threat": (1000.0, 1.0),
    "medical": (1000.0, 1.0),
    "invoice": (100.0, 5.0),
    "casual": (1.0, 1.0),
}


@dataclass(frozen=True)
class MistakeCosts:
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
) -> MistakeCosts:
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
        return MistakeCosts((miss * missed + waste * wasted) / (miss + waste), missed, wasted)
    return MistakeCosts((miss * missed + waste * wasted) * scale, missed, wasted)


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

    def parts(self, tokens: Tensor, matters: Tensor) -> MistakeCosts:
        return asymmetric_loss(tokens, matters, self.weights, self.softness, self.normalise)


# ---- `HierarchicalActorCritic`: one trunk, one policy, and a critic for each timescale of `FractalReward` ------------
# For decisions that come in sequence (how to look in each of up to four passes), where no group of siblings exists to
# compare with. Each critic predicts the discounted rest of its own timescale's rewards; each timescale's advantage is
# what came minus what was predicted; the policy follows their weighted sum.


@dataclass(frozen=True)
class ActorCriticLoss:
    """total = policy + value_weight · value − entropy_weight · entropy. values: (S,) loss of each critic.
    advantages: (B, T), combined."""

    total: Tensor
    policy: Tensor
    value: Tensor
    values: Tensor
    entropy: Tensor
    advantages: Tensor


def returns_to_go(rewards: Tensor, discounts: Tensor, mask: Tensor | None = None) -> Tensor:
    """(B, T, S) rewards of S timescales, (S,) discounts → (B, T, S): the discounted rest from each step on.

    mask: (B, T) bool, the steps that happened; what lies behind an episode's end counts nothing. The double sum over
    time is one product with the matrix discount ** (later − now).
    """
    steps = torch.arange(rewards.shape[1], device=rewards.device)
    ahead = steps[None, :] - steps[:, None]
    powers = discounts.to(rewards)[:, None, None] ** ahead.clamp_min(0)
    powers = powers.masked_fill(ahead < 0, 0)
    if mask is not None:
        rewards = rewards * mask[..., None]
    return torch.einsum("snl,bls->bns", powers, rewards)


class HierarchicalActorCritic(nn.Module):
    """States (B, T, D) → logits of the actions (B, T, A) and values (B, T, 4), one for each timescale."""

    def __init__(
        self,
        states: int,
        actions: int,
        hidden: int = 64,
        discounts: tuple[float, ...] = DISCOUNTS,
        weights: tuple[float, ...] = WEIGHTS,
    ) -> None:
        super().__init__()
        if len(discounts) != len(TIMESCALES) or len(weights) != len(TIMESCALES):
            raise InputError(f"give one discount and one weight for each of {', '.join(TIMESCALES)}")
        self.trunk = nn.Sequential(nn.Linear(states, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.actor = nn.Linear(hidden, actions)
        self.critics = nn.ModuleDict({name: nn.Linear(hidden, 1) for name in TIMESCALES})
        self.register_buffer("discounts", torch.tensor(discounts), persistent=False)
        self.register_buffer("weights", torch.tensor(weights), persistent=False)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(states)
        return self.actor(features), torch.cat([self.critics[name](features) for name in TIMESCALES], dim=-1)

    @torch.no_grad()
    def act(self, states: Tensor, generator: torch.Generator) -> Tensor:
        """(…, D) → (…) actions, drawn."""
        chances = self(states)[0].softmax(-1)
        return torch.multinomial(chances.flatten(0, -2), 1, generator=generator).view(states.shape[:-1])

    def advantages(self, returns: Tensor, values: Tensor) -> Tensor:
        """(B, T, 4) returns and values → (B, T): Σ weight · (return − value)."""
        return ((returns - values) * self.get_buffer("weights")).sum(-1)

    def loss(
        self,
        states: Tensor,
        actions: Tensor,
        rewards: Tensor,
        mask: Tensor | None = None,
        value_weight: float = 0.5,
        entropy_weight: float = 0.01,
    ) -> ActorCriticLoss:
        """states (B, T, D), actions (B, T) int64, rewards (B, T, 4) by timescale, mask (B, T) bool → the loss."""
        if rewards.shape != (*actions.shape, len(TIMESCALES)):
            raise InputError(
                f"rewards must be (episodes, steps, {len(TIMESCALES)}) to fit actions of shape "
                f"{tuple(actions.shape)}, got {tuple(rewards.shape)}"
            )
        there = torch.ones_like(actions, dtype=torch.bool) if mask is None else mask
        count = there.sum().clamp_min(1)
        logits, values = self(states)
        returns = returns_to_go(rewards, self.get_buffer("discounts"), there)
        # The critics are judged, not followed: no gradient of the policy's term passes through them.
        advantages = self.advantages(returns, values).detach()
        log_chances = logits.log_softmax(-1)
        taken = log_chances.gather(-1, actions[..., None])[..., 0]
        policy = -(taken * advantages * there).sum() / count
        entropy = (-(log_chances.exp() * log_chances).sum(-1) * there).sum() / count
        misses = F.mse_loss(values, returns, reduction="none") * there[..., None]
        by_critic = misses.sum((0, 1)) / count
        value = (by_critic * self.get_buffer("weights")).sum()
        total = policy + value_weight * value - entropy_weight * entropy
        return ActorCriticLoss(total, policy, value, by_critic, entropy, advantages)
