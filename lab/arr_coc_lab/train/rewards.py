"""What an outcome is worth: one file of weights (`RewardPlan`), two forms of the reward, four timescales, stakes.

`arr-coc train scorer --from outcomes --credit policy --reward FILE` reads the file; a term whose weight is 0 is off and
costs nothing. Regret and stakes ask for boxes, nothing else does.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import IntEnum
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError

from ..classic.scale import LEAST, MOST


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


# ---- The file --------------------------------------------------------------------------------------------------------

SCALE = {"outcome": 1000.0, "simple": 100.0}  # both forms are brought to where right is +1


@dataclass(frozen=True)
class RewardPlan:
    """Weights in units of a right answer; 0 is off.

    form: how right, partly and wrong are counted, `outcome` or `simple`. right: of that. likelihood: of the right
    answer's mean log-likelihood. tokens: of the share of all tokens that is spent. depth: the same where leaves would
    leave the encoder early (`DepthRouting`). regret: of what the boxes' own allocation would have earned more. stakes,
    preset: of what was missed and wasted (`asymmetric_loss`). coherence: of the fine ground that a frame shares with
    the one before it. passes: how often it looks, each time on twice the tokens. scales, discounts: of the step (what
    a pass costs), the pass (what it added), the episode (what came of it) and the day (beside what was earned lately).
    """

    form: str = "outcome"
    right: float = 1.0
    likelihood: float = 1.0
    tokens: float = 0.0
    depth: float = 0.0
    regret: float = 0.0
    stakes: float = 0.0
    preset: str = "casual"
    coherence: float = 0.0
    passes: int = 1
    scales: tuple[float, ...] = (1.0, 0.0, 1.0, 0.0)
    discounts: tuple[float, ...] = DISCOUNTS

    def __post_init__(self) -> None:
        if self.form not in SCALE:
            raise InputError(f"unknown form of reward {self.form!r}; choose outcome or simple")
        if self.preset not in PRESETS:
            raise InputError(f"unknown stakes {self.preset!r}; choose from {', '.join(PRESETS)}")
        if not 1 <= self.passes <= MOST_PASSES:
            raise InputError(f"passes must be 1 to {MOST_PASSES}, got {self.passes}")
        FractalReward(self.discounts, self.scales)

    @classmethod
    def named(cls, name: str) -> RewardPlan:
        """`outcome`, `simple`, or a file of these fields: JSON or TOML."""
        if name in SCALE:
            return cls(form=name)
        path = Path(name)
        try:
            text = path.read_text(encoding="utf-8")
            given = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
            known = {item.name: type(item.default) for item in fields(cls)}
            wrong = sorted(set(given) - set(known))
            if wrong:
                raise InputError(f"{name}: no reward is called {', '.join(wrong)}; there are {', '.join(known)}")
            return cls(**{key: _as(known[key], value, key) for key, value in given.items()})
        except (OSError, ValueError, TypeError, AttributeError) as error:
            if isinstance(error, InputError):
                raise
            raise InputError(f"cannot read rewards from {name!r} ({error}); give outcome, simple or a file") from error


def _as(kind: type, value: Any, key: str) -> Any:
    if kind is tuple:
        return tuple(float(one) for one in value)
    if isinstance(value, bool) or (kind is str) != isinstance(value, str):
        raise InputError(f"{key} = {value!r} is no {'name' if kind is str else 'number'}")
    return kind(value)


@dataclass(frozen=True)
class Passes:
    """What came of T passes of G allocations of B pictures, (B, G, T) where nothing else is said.

    outcome: of `Outcome`. tokens: (T,) of each pass. depth: tokens, by how deep they go. mistakes: of the stakes.
    oracle: (B,) log-likelihood with the boxes' allocation. overlap: (B, G) with the frame before. days: (D,) what the
    latest batches earned. What the plan does not ask for is None."""

    outcome: Tensor
    log_likelihood: Tensor
    confidence: Tensor
    tokens: Tensor
    full: int
    depth: Tensor | None = None
    mistakes: Tensor | None = None
    oracle: Tensor | None = None
    overlap: Tensor | None = None
    days: Tensor | None = None


def answer_worth(plan: RewardPlan, seen: Passes) -> Tensor:
    """(B, G, T): what the answer behind each pass is worth by the plan's form, right is +1."""
    spent = seen.tokens.to(seen.log_likelihood).expand_as(seen.log_likelihood)
    made = torch.arange(1, spent.shape[-1] + 1, device=spent.device).expand_as(seen.outcome)
    if plan.form == "outcome":
        worth = outcome_reward(seen.outcome, spent.cumsum(-1), seen.full, made).total
    else:
        worth = simple_reward(seen.outcome, spent.cumsum(-1), seen.confidence).total
    return plan.right * worth / SCALE[plan.form]


def scale_rewards(plan: RewardPlan, seen: Passes, ends: Tensor) -> Tensor:
    """(B, G, T, 4): the rewards of the step, the pass, the episode and the day. ends: (B, G, T) bool, the last pass of
    each; what would lie behind it earns nothing."""
    log, worth = seen.log_likelihood, answer_worth(plan, seen)
    happened = ends.flip(-1).cumsum(-1).flip(-1).to(log.dtype)
    step = -plan.tokens * (seen.tokens / seen.full).to(log).expand_as(log)
    episode = worth + plan.likelihood * log
    if seen.depth is not None:
        step = step - plan.depth * seen.depth / seen.full
    if seen.mistakes is not None:
        step = step - plan.stakes * seen.mistakes * ends
    if seen.overlap is not None:
        step = step + plan.coherence * seen.overlap[..., None] * ends
    if seen.oracle is not None:
        episode = episode - plan.regret * F.relu(seen.oracle[:, None, None] - log)
    added = F.pad(log[..., 1:] - log[..., :-1], (1, 0))
    lately = 0.0 if seen.days is None or not len(seen.days) else seen.days.mean()
    return torch.stack([step * happened, added * happened, episode * ends, (worth - lately) * ends], -1)


def total_reward(plan: RewardPlan, rewards: Tensor) -> Tensor:
    """(B, G, T, 4) → (B, G): every scale's discounted sum over the passes, weighted."""
    by_scale = dict(zip(TIMESCALES, rewards.unbind(-1), strict=True))
    return FractalReward(plan.discounts, plan.scales)(by_scale)


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
    over: tuple[int, ...] | None = None,
) -> MistakeCosts:
    """tokens (…) on the classic scale, matters (…) in [0, 1] → the loss and its parts.

    softness: width in tokens of the crossing at 200; 0 is the hard step. normalise=False gives raw weights and raw
    squared tokens, as the classic formula has them; the parts stay normalised. importance: what each place or picture
    counts in the averages, broadcast to the shape of tokens; None: all the same. over: the dimensions that are
    averaged; None: all of them.
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
    missed = mean_over(few * F.relu(MOST - tokens).square() / scale, matters * counts, over)
    wasted = mean_over(many * F.relu(tokens - LEAST).square() / scale, (1 - matters) * counts, over)
    miss, waste = weights
    if normalise:
        return MistakeCosts((miss * missed + waste * wasted) / (miss + waste), missed, wasted)
    return MistakeCosts((miss * missed + waste * wasted) * scale, missed, wasted)


def mean_over(values: Tensor, weight: Tensor, over: tuple[int, ...] | None = None) -> Tensor:
    """Weighted mean over some dimensions, or all; 0 where nothing has weight."""
    over = tuple(range(values.ndim)) if over is None else over
    return (values * weight).sum(over) / weight.expand_as(values).sum(over).clamp_min(1e-6)


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
