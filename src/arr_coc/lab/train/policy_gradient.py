"""Group-relative policy gradient: several allocations of one picture, each judged against its siblings.

What one allocation earned says little (the picture may be easy); what it earned beyond the others of its group says
where looking helped. No critic is needed, the group is the baseline. Two terms keep the policy alive, because plain
group-relative training collapses (always zoom, or never): a bonus for the entropy of the draws, and a balance term that
holds the entropy of the relevance map inside a band.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.tree import Tree
from ...errors import InputError
from .policy import Sampled, likelihood, node_logits, sample_allocations

Baseline = Literal["leave_one_out", "group", "none"]


@dataclass(frozen=True)
class Settings:
    """temperature: of the draws; 1 draws in proportion to relevance mass.
    baseline: leave_one_out (mean of the siblings, unbiased), group (mean with oneself) or none.
    spread_floor: advantages are divided by the group's standard deviation plus this, in units of the reward; None does
        not divide. Without a floor, groups that differ by nothing but rounding would shout as loud as the others.
    entropy_weight: of the draws' entropy (a share of the greatest). balance_weight, band: of the map's entropy, which
        is held inside the band, as a share of log(cells)."""

    temperature: float = 1.0
    baseline: Baseline = "leave_one_out"
    spread_floor: float | None = 0.1
    entropy_weight: float = 0.01
    balance_weight: float = 3.0
    band: tuple[float, float] = (0.15, 0.98)

    def __post_init__(self) -> None:
        if not 0 <= self.band[0] < self.band[1] <= 1:
            raise InputError(f"the band of the map's entropy must be 0 <= low < high <= 1, got {self.band}")


@torch.no_grad()
def group_advantages(
    rewards: Tensor, baseline: Baseline | Tensor = "leave_one_out", spread_floor: float | None = 0.1
) -> Tensor:
    """(B, G) rewards → (B, G) advantages within each picture's group.

    baseline: how, or the values themselves (B, 1) or (B, G), for instance a critic's.
    """
    if rewards.ndim != 2:
        raise InputError(f"rewards must be (pictures, group), got shape {tuple(rewards.shape)}")
    group = rewards.shape[1]
    if isinstance(baseline, Tensor):
        centred = rewards - baseline
    elif baseline == "none":
        centred = rewards.clone()
    elif baseline in ("leave_one_out", "group"):
        if group < 2:
            raise InputError(f"a group of {group} has no siblings to compare with; sample at least 2 for each picture")
        centred = rewards - rewards.mean(1, keepdim=True)
        if baseline == "leave_one_out":
            # r − mean of the others = (r − mean of all) · G / (G − 1)
            centred = centred * (group / (group - 1))
    else:
        raise InputError(f"unknown baseline {baseline!r}; choose leave_one_out, group, none, or give values")
    if spread_floor is None or group < 2:
        return centred
    return centred / (rewards.std(1, keepdim=True) + spread_floor)


def policy_loss(log_probability: Tensor, advantages: Tensor, weights: Tensor | None = None) -> Tensor:
    """(B, G), (B, G), and (B,) weights of the pictures → a scalar whose gradient is minus the policy gradient."""
    per_picture = -(advantages.detach() * log_probability).mean(1)
    return (per_picture if weights is None else per_picture * weights).mean()


def map_entropy(cell_logits: Tensor) -> Tensor:
    """(B, rows, cols) → (B,) entropy of sigmoid(logits) taken as a distribution, as a share of log(cells).

    1 is flat: the map says nothing. 0 is a single cell: the map has collapsed.
    """
    mass = F.logsigmoid(cell_logits.float().flatten(1))
    share = mass.log_softmax(1)
    return -(share.exp() * share).sum(1) / math.log(max(2, mass.shape[1]))


def balance_penalty(entropy: Tensor, band: tuple[float, float]) -> Tensor:
    """(B,) → scalar: distance of the map's entropy from the band, zero inside it.

    The distance itself, not its square: a square gives way near the edge, and maps settle outside the band.
    """
    low, high = band
    return (F.relu(low - entropy) + F.relu(entropy - high)).mean()


@dataclass(frozen=True)
class OutcomeStep:
    """loss: to be minimised. rewards, advantages: (B, G). draw_entropy, map_entropy: means. silent: share of pictures
    whose samples all earned the same, which therefore teach nothing."""

    loss: Tensor
    sampled: Sampled
    rewards: Tensor
    advantages: Tensor
    draw_entropy: Tensor
    map_entropy: Tensor
    silent: Tensor


def outcome_step(
    cell_logits: Tensor,
    tree: Tree,
    budget: int,
    noise: Tensor,
    judge: Callable[[Tensor], Tensor],
    settings: Settings,
    weights: Tensor | None = None,
) -> OutcomeStep:
    """One step from logits (B, rows, cols) to a loss, through sampled allocations and what came of them.

    noise: (B, G, M) of `policy.draw_noise`. judge: leaves (B, G, N, 3) → rewards (B, G); nothing else about the
    pictures reaches the scorer. weights: (B,) of the pictures, mean 1.
    """
    logits = node_logits(cell_logits, tree, settings.temperature)
    sampled = sample_allocations(logits.detach(), tree, budget, noise)
    with torch.no_grad():
        rewards = judge(sampled.leaves).to(logits.dtype)
    advantages = group_advantages(rewards, settings.baseline, settings.spread_floor)
    found = likelihood(logits, sampled.order, tree)
    entropies = map_entropy(cell_logits)
    loss = (
        policy_loss(found.log_probability, advantages, weights)
        - settings.entropy_weight * found.entropy.mean()
        + settings.balance_weight * balance_penalty(entropies, settings.band)
    )
    spread = rewards.amax(1) - rewards.amin(1)
    return OutcomeStep(
        loss,
        sampled,
        rewards,
        advantages,
        found.entropy.detach().mean(),
        entropies.detach().mean(),
        (spread <= 1e-6).float().mean(),
    )
