"""Looks in sequence: passes on twice the tokens each, an actor that says when to stop, and a critic for each timescale.

`arr-coc train scorer --from outcomes --credit critic`. The splits that the policy draws for the largest budget, one
after the other, are at every smaller budget an allocation too: so an episode is one draw, looked at a pass at a time.
No siblings are compared with; each critic of `HierarchicalActorCritic` predicts the discounted rest of its timescale's
rewards (`rewards.scale_rewards`), and what came beyond that teaches the draws of the pass, and the actor.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree
from arr_coc.core.errors import InputError
from arr_coc.realizing.tokens.depth import DepthRouting

from .allocations import fine_cells, target_cells
from .outcomes import judge
from .pictures import TrainingBatch
from .policy_gradient import (
    PolicySettings,
    balance_penalty,
    leaves_of,
    likelihood,
    map_entropy,
    node_logits,
    number_of_splits,
    sample_allocations,
)
from .rewards import (
    DISCOUNTS,
    PRESETS,
    TIMESCALES,
    WEIGHTS,
    Passes,
    RewardPlan,
    answer_worth,
    asymmetric_loss,
    expected_tokens,
    scale_rewards,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel


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


# ---- an episode ------------------------------------------------------------------------------------------------------

STATES, ACTIONS = 6, 2  # stop, go on
GO_ON = 1
DAYS = 16  # batches that are "lately"


def pass_budgets(tree: Tree, budget: int, passes: int) -> list[int]:
    """Tokens of each pass: the last has the budget, each before it half of the next one's, none below the floor."""
    return [max(tree.floor, budget >> later) for later in range(passes - 1, -1, -1)]


@dataclass(frozen=True)
class PassPlan:
    """Passes over a tree. budgets: tokens of each. rewards: what counts in them."""

    tree: Tree
    budgets: Sequence[int]
    rewards: RewardPlan

    @classmethod
    def of(cls, tree: Tree, budget: int, rewards: RewardPlan) -> PassPlan:
        return cls(tree, pass_budgets(tree, budget, rewards.passes), rewards)


def look_through(
    reader: PreTrainedModel,
    batch: TrainingBatch,
    order: Tensor,
    passes: PassPlan,
    *,
    relevance: Tensor,
    follows: Tensor,
    days: Sequence[float] = (),
    most: int = 2048,
) -> Passes:
    """Splits (B, G, k) in the order they were drawn → what came of every pass; of the plan's terms those that are on.

    relevance: (B, rows, cols) in [0, 1]. follows: (B,) bool, whether a picture is the next frame of the one before it.
    """
    tree, plan = passes.tree, passes.rewards
    leaves = [leaves_of(order[..., : number_of_splits(tree, budget)], tree) for budget in passes.budgets]
    judged = [judge(reader, batch, each, most) for each in leaves]

    def stacked(name: str) -> Tensor:
        return torch.stack([getattr(one, name) for one in judged], -1)

    tokens = torch.tensor([each.shape[2] for each in leaves], device=order.device)
    seen = Passes(stacked("outcome"), stacked("log_likelihood"), stacked("confidence"), tokens, tree.full)
    rows, cols = tree.rows, tree.cols
    fine = [fine_cells(each.flatten(0, 1), rows, cols).unflatten(0, each.shape[:2]) for each in leaves]
    found: dict[str, object] = {}
    if plan.depth:
        found["depth"] = torch.stack([depth_cost(relevance, each) for each in leaves], -1)
    if plan.stakes:
        matters = target_cells(batch, rows, cols)[:, None].expand_as(fine[0])
        spent = [expected_tokens(20 * one - 10) for one in fine]  # 400 tokens where it is fine, 64 elsewhere
        costs = [asymmetric_loss(one, matters, PRESETS[plan.preset], over=(-2, -1)).loss for one in spent]
        found["mistakes"] = torch.stack(costs, -1)
    if plan.regret:
        by_boxes = overlay(target_cells(batch, rows, cols), [int(tokens[-1])] * len(batch)).cells
        found["oracle"] = judge(reader, batch, by_boxes[:, None], most).log_likelihood[:, 0]
    if plan.coherence:
        before = fine[-1].roll(1, 0)
        both, either = (fine[-1] * before).sum((2, 3)), torch.maximum(fine[-1], before).sum((2, 3))
        found["overlap"] = both / either.clamp_min(1) * follows[:, None]
    if days:
        found["days"] = torch.tensor(days, device=order.device)
    return replace(seen, **found)


def depth_cost(relevance: Tensor, leaves: Tensor) -> Tensor:
    """(B, rows, cols) and leaves (B, G, N, 3) → (B, G): tokens, each by how deep `DepthRouting` would let it go."""
    shares = relevance / relevance.amax((1, 2), keepdim=True).clamp_min(1e-9)
    row, col, level = leaves.flatten(1, 2).unbind(-1)
    under = torch.zeros_like(row, dtype=shares.dtype)
    for depth in range(int(level.max()) + 1):
        means = F.avg_pool2d(shares[:, None], 1 << depth, ceil_mode=True)[:, 0]
        place = (row >> depth).clamp(max=means.shape[1] - 1) * means.shape[2] + (col >> depth).clamp(
            max=means.shape[2] - 1
        )
        under = torch.where(level == depth, means.flatten(1).gather(1, place), under)
    costs = DepthRouting().cost(under.flatten().expand(3, -1))
    return costs.view(leaves.shape[:3]).sum(-1)


def episode_states(confidence: Tensor, tokens: Tensor, full: int, cell_logits: Tensor) -> Tensor:
    """(B, G, T) confidences, (T,) tokens and the map → (B, G, T, 6): all that the actor knows. No answer, no box."""
    number = confidence.shape[-1]
    share = F.logsigmoid(cell_logits.float().flatten(1)).softmax(1)
    of_map = torch.stack([map_entropy(cell_logits), share.amax(1).sqrt()], -1)[:, None, None]
    before = F.pad(confidence[..., :-1], (1, 0))
    place = torch.arange(number, device=confidence.device) / max(1, number - 1)
    parts = [
        confidence,
        confidence - before,
        *(one.to(confidence).expand_as(confidence) for one in (tokens / full, place)),
    ]
    return torch.cat([torch.stack(parts, -1), of_map.expand(*confidence.shape, 2)], -1).detach()


def episode_ends(actions: Tensor) -> Tensor:
    """(…, T) actions → (…, T) bool: the first pass behind which it stops; the last one at the latest."""
    stops = actions != GO_ON
    stops = torch.cat([stops[..., :-1], torch.ones_like(stops[..., -1:])], -1)
    return stops & (stops.cumsum(-1) == 1)


@dataclass(frozen=True)
class CriticStep:
    """loss: of scorer, actor and critics. worth: (B, G) of the answers given. tokens: mean spent over an episode."""

    loss: Tensor
    worth: Tensor
    right: Tensor
    tokens: Tensor
    value: Tensor


def critic_step(
    cell_logits: Tensor,
    passes: PassPlan,
    noise: Tensor,
    look: Callable[[Tensor], Passes],
    actor: HierarchicalActorCritic,
    settings: PolicySettings,
    generator: torch.Generator,
    weights: Tensor,
) -> CriticStep:
    """One step from logits (B, rows, cols) through G episodes of each picture. look: splits (B, G, k) → `Passes`."""
    tree, plan = passes.tree, passes.rewards
    logits = node_logits(cell_logits, tree, settings.temperature)
    order = sample_allocations(logits.detach(), tree, passes.budgets[-1], noise).order
    with torch.no_grad():
        seen = look(order)
        states = episode_states(seen.confidence, seen.tokens, seen.full, cell_logits)
        actions = actor.act(states, generator)
        ends = episode_ends(actions)
        rewards = scale_rewards(plan, seen, ends)
        happened = ends.flip(-1).cumsum(-1).flip(-1) > 0
    judged = actor.loss(states.flatten(0, 1), actions.flatten(0, 1), rewards.flatten(0, 1), happened.flatten(0, 1))
    found = likelihood(logits, order, tree)
    counts = [number_of_splits(tree, budget) for budget in passes.budgets]
    draws = F.pad(found.steps.cumsum(-1), (1, 0))[..., [0, *counts]].diff(dim=-1)  # (B, G, T): of each pass
    advantages = judged.advantages.view_as(happened) * happened
    advantages = (
        advantages / (advantages[happened].std() + (settings.spread_floor or 0.0)) if happened.sum() > 1 else advantages
    )
    each = -(advantages.detach() * draws).sum(-1).mean(1)
    loss = (each * weights).mean() - settings.entropy_weight * found.entropy.mean() + judged.total
    loss = loss + settings.balance_weight * balance_penalty(map_entropy(cell_logits), settings.band)
    spent = (seen.tokens * happened).sum(-1).float().mean()
    right = ((seen.outcome == 2) & ends).any(-1).float().mean()
    return CriticStep(loss, (answer_worth(plan, seen) * ends).sum(-1), right, spent, judged.value.detach())


@torch.no_grad()
def own_stops(
    actor: HierarchicalActorCritic, confidence: Tensor, tokens: Sequence[int], full: int, cell_logits: Tensor
) -> Tensor:
    """Confidences (B, T) in what was said behind every pass → (B,) int64: the pass behind which the actor stops."""
    spent = torch.tensor(tokens, device=confidence.device)
    chosen = actor(episode_states(confidence[:, None], spent, full, cell_logits))[0].argmax(-1)
    return episode_ends(chosen)[:, 0].long().argmax(-1)
