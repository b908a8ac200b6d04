"""`HierarchicalActorCritic`: one trunk, one policy, and a critic for each timescale of `FractalReward`.

For decisions that come in sequence (how to look in each of up to four passes), where no group of siblings exists to
compare with. Each critic predicts the discounted rest of its own timescale's rewards; each timescale's advantage is
what came minus what was predicted; the policy follows their weighted sum.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...errors import InputError
from .rewards import DISCOUNTS, TIMESCALES, WEIGHTS


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
