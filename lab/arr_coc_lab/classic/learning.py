"""Learning from outcomes as the source describes it: rewards on four timescales, a policy gradient, a critic.

These rules were measured against the derivative of the reader's answer (`train.outcomes`) and lost; they stay as small
living code. Of what boxes teach in the same seconds, at a quarter of the tokens: derivative 88.8 % [86.0, 91.7], policy
gradient 86.6 % [83.5, 89.4] (with a start by boxes and a baseline for every leaf; from nothing it was chance), critic
40.8 % [37.5, 44.3]. Version 0.3.0 trained scorers by them (commit 88c7617).

A policy draws which nodes of the quadtree are split, one after the other, under an exact budget. Where no edge is odd
every split costs 3 tokens, so a budget of T is exactly k = (T − floor) / 3 splits, each drawn among the open nodes
(roots, and children of nodes split before) in proportion to exp(logit): Plackett–Luce with precedence.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.attending.tree import Tree, gather_leaves
from arr_coc.core.errors import InputError

from .scale import LEAST, MOST

# ---- what an outcome is worth ----------------------------------------------------------------------------------------

WRONG, PARTLY, RIGHT = 0, 1, 2
OUTCOME_VALUE = (-1000.0, 500.0, 1000.0)
SAVED, QUICK, MOST_PASSES = 0.01 * 0.01, 0.05 * 100.0, 4
TIMESCALES = ("immediate", "short", "medium", "long")
DISCOUNTS = (0.99, 0.95, 0.90, 0.80)
WEIGHTS = (0.1, 0.2, 0.3, 0.4)


def outcome_reward(outcome: Tensor, tokens: Tensor, full: int, passes: int = 1) -> Tensor:
    """Right +1000, partly +500, wrong −1000; + .01 × (tokens saved × .01); + .05 × (4 − passes) × 100 when right."""
    worth = torch.tensor(OUTCOME_VALUE, device=outcome.device)[outcome]
    return worth + SAVED * (full - tokens) + QUICK * max(0, MOST_PASSES - passes) * (outcome == RIGHT)


def discounted(timescale: str, rewards: Tensor) -> Tensor:
    """(…, N) rewards of one timescale, in order → (…) their discounted sum.

    >>> float(discounted("long", torch.tensor([200.0, 10_000.0])))
    8200.0
    """
    if timescale not in TIMESCALES:
        raise InputError(f"unknown timescale {timescale!r}; choose from {', '.join(TIMESCALES)}")
    discount = DISCOUNTS[TIMESCALES.index(timescale)]
    factors = discount ** torch.arange(rewards.shape[-1], dtype=torch.float64, device=rewards.device)
    return (rewards.double() * factors).sum(-1).to(rewards.dtype)


def fractal_reward(rewards: Mapping[str, Tensor]) -> Tensor:
    """{timescale: (…, N)}, each at its own pace → (…) the weighted sum of their discounted sums."""
    if not rewards:
        raise InputError(f"no rewards given; name at least one of {', '.join(TIMESCALES)}")
    parts = [discounted(name, value) * WEIGHTS[TIMESCALES.index(name)] for name, value in rewards.items()]
    return torch.stack(parts).sum(0)


# Missing what matters is not the same as wasting tokens: (weight of missing, weight of wasting).
STAKES = {"threat": (1000.0, 1.0), "medical": (1000.0, 1.0), "invoice": (100.0, 5.0), "casual": (1.0, 1.0)}
THRESHOLD, SOFTNESS = 200.0, 10.0


def expected_tokens(logits: Tensor) -> Tensor:
    """Relevance logits (…) → tokens (…) on the classic scale, differentiable: 64 + 336 · sigmoid."""
    return LEAST + (MOST - LEAST) * torch.sigmoid(logits)


def asymmetric_loss(tokens: Tensor, matters: Tensor, stakes: str = "casual") -> Tensor:
    """Tokens (…) on the classic scale, matters (…) in [0, 1] → the loss in [0, 1].

    Missed: it matters and got fewer than 200 tokens, squared distance to 400. Wasted: it does not matter and got more,
    squared distance to 64. Each is averaged over its own places, so that neither depends on how much matters, and the
    threshold is crossed by a sigmoid, so that moving a place across it is itself rewarded."""
    if stakes not in STAKES:
        raise InputError(f"unknown stakes {stakes!r}; choose from {', '.join(STAKES)}")
    few = torch.sigmoid((THRESHOLD - tokens) / SOFTNESS)
    span = float(MOST - LEAST) ** 2
    missed = (few * F.relu(MOST - tokens).square() / span * matters).sum() / matters.sum().clamp_min(1e-6)
    wasted = ((1 - few) * F.relu(tokens - LEAST).square() / span * (1 - matters)).sum()
    wasted = wasted / (1 - matters).sum().clamp_min(1e-6)
    miss, waste = STAKES[stakes]
    return (miss * missed + waste * wasted) / (miss + waste)


# ---- the policy ------------------------------------------------------------------------------------------------------


def number_of_splits(tree: Tree, budget: int) -> int:
    """k: how many splits a budget buys."""
    if (tree.costs != 3).any():
        raise InputError(
            f"a grid of {tree.rows}×{tree.cols} cells has an odd edge at {tree.levels} levels; use canvases whose "
            f"sides are multiples of {1 << tree.levels} cells, or fewer levels"
        )
    return (tree.reach(budget) - tree.floor) // 3


def node_logits(cell_logits: Tensor, tree: Tree) -> Tensor:
    """(B, rows, cols) logits of the cells' relevance → (B, M) logits of the nodes: log of the relevance mass inside, by
    which the quadtree splits too."""
    mass, levels = F.logsigmoid(cell_logits.float()), []
    for _ in range(tree.levels):
        batch, rows, cols = mass.shape
        mass = mass.view(batch, rows // 2, 2, cols // 2, 2).logsumexp(dim=(2, 4))
        levels.append(mass.flatten(1))
    return torch.cat(levels[::-1], dim=1)


@torch.no_grad()
def sample_splits(logits: Tensor, tree: Tree, budget: int, group: int, generator: torch.Generator) -> Tensor:
    """(B, M) node logits → (B, G, k) split nodes in the order in which they were drawn, exactly on budget.

    Without a loop over draws: every node has an exponential clock of rate exp(logit) that starts when the node opens.
    Clocks forget how long they have run, so the k first to ring are the very law of the draws.
    """
    count = number_of_splits(tree, budget)
    noise = torch.empty(len(logits), group, logits.shape[1], device=logits.device).exponential_(generator=generator)
    parents = torch.from_numpy(tree.parents).to(logits.device)
    times = noise.clamp_min(torch.finfo(noise.dtype).tiny).log() - logits[:, None]
    for level in range(tree.levels - 1, 0, -1):
        nodes = tree.nodes(level)
        times[..., nodes] = torch.logaddexp(times[..., nodes], times[..., parents[nodes]])
    # Rounding can give a child its parent's very time; a stable sort then keeps the parent, which stands first, first.
    return times.argsort(dim=-1, stable=True)[..., :count]


def leaves_of(order: Tensor, tree: Tree) -> Tensor:
    """(B, G, k) split nodes → (B, G, N, 3) leaves in raster order."""
    batch, group, _ = order.shape
    selected = torch.zeros(batch * group, len(tree.costs), dtype=torch.bool, device=order.device)
    selected.scatter_(1, order.flatten(0, 1), True)
    blank = torch.zeros(batch * group, tree.rows, tree.cols, device=order.device)
    return gather_leaves(selected, blank, tree).cells.unflatten(0, (batch, group))


def log_chances(logits: Tensor, order: Tensor, tree: Tree) -> Tensor:
    """(B, G, k): exact log-probability of each ordered draw under node logits (B, M), differentiable.

    A draw contributes logit(drawn) − logsumexp(logits of the nodes open at that moment). A node is open from the draw
    after its parent's to its own.
    """
    count = order.shape[2]
    drawn = order.new_full((*order.shape[:2], logits.shape[1]), count)
    drawn.scatter_(2, order, torch.arange(count, device=order.device).expand_as(order))
    parents = torch.from_numpy(tree.parents).to(order.device)
    opened = torch.where(parents < 0, 0, (drawn[..., parents.clamp_min(0)] + 1).clamp_max(count))
    step = torch.arange(count, device=order.device)[:, None]
    is_open = (opened[:, :, None] <= step) & (step <= drawn[:, :, None])
    total = logits[:, None, None].masked_fill(~is_open, -torch.inf).logsumexp(-1)
    return logits.gather(1, order.flatten(1)).view_as(order) - total


@torch.no_grad()
def leaf_advantages(rewards: Tensor, order: Tensor, nodes: int) -> Tensor:
    """(B, G) rewards and (B, G, k) drawn splits → (B, G, k): what the siblings with a split earned beyond those without
    it; 0 where all or none of them have it, which says nothing of it."""
    drawn = torch.zeros(*rewards.shape, nodes, dtype=rewards.dtype, device=rewards.device).scatter_(2, order, 1.0)
    count, group = drawn.sum(1), rewards.shape[1]
    earned = (drawn * rewards[..., None]).sum(1)
    rest = rewards.sum(1, keepdim=True) - earned
    gain = earned / count.clamp_min(1) - rest / (group - count).clamp_min(1)
    gain = torch.where((count > 0) & (count < group), gain, 0.0)
    return gain[:, None].expand(-1, group, -1).gather(2, order)


def policy_loss(cell_logits: Tensor, tree: Tree, order: Tensor, rewards: Tensor) -> Tensor:
    """Logits (B, rows, cols), G drawn allocations of each picture and what they earned (B, G) → a scalar whose gradient
    is minus the policy gradient, every split held against the siblings without it."""
    if rewards.ndim != 2 or rewards.shape[1] < 2:
        raise InputError(f"rewards must be (pictures, group of at least 2), got shape {tuple(rewards.shape)}")
    chances = log_chances(node_logits(cell_logits, tree), order, tree)
    return -(leaf_advantages(rewards, order, len(tree.costs)) * chances).sum(-1).mean()


# ---- the critic ------------------------------------------------------------------------------------------------------

CREDIT = 0.9  # of what comes a step later


def returns_to_go(rewards: Tensor, discount: float = CREDIT) -> Tensor:
    """(B, T) rewards → (B, T): the discounted rest from each step on: credit falls by a tenth for every step back."""
    found, rest = [], torch.zeros_like(rewards[:, 0])
    for step in range(rewards.shape[1] - 1, -1, -1):
        rest = rewards[:, step] + discount * rest
        found.append(rest)
    return torch.stack(found[::-1], 1)


class ActorCriticLoss(NamedTuple):
    """total = policy + value / 2 − entropy / 100. advantages: (B, T)."""

    total: Tensor
    policy: Tensor
    value: Tensor
    advantages: Tensor


class ActorCritic(nn.Module):
    """States (B, T, D) → logits of the actions (B, T, A), and what is still to come (B, T)."""

    def __init__(self, states: int, actions: int, hidden: int = 64) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(states, hidden), nn.GELU(), nn.Linear(hidden, hidden), nn.GELU())
        self.actor, self.critic = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, states: Tensor) -> tuple[Tensor, Tensor]:
        features = self.trunk(states)
        return self.actor(features), self.critic(features)[..., 0]

    def loss(self, states: Tensor, actions: Tensor, rewards: Tensor) -> ActorCriticLoss:
        """States (B, T, D), actions (B, T) int64, rewards (B, T) → the loss of actor and critic."""
        if rewards.shape != actions.shape:
            raise InputError(f"rewards must fit actions of shape {tuple(actions.shape)}, got {tuple(rewards.shape)}")
        logits, values = self(states)
        returns = returns_to_go(rewards)
        # The critic is judged, not followed: no gradient of the policy's term passes through it.
        advantages = (returns - values).detach()
        chances = logits.log_softmax(-1)
        policy = -(chances.gather(-1, actions[..., None])[..., 0] * advantages).mean()
        entropy = -(chances.exp() * chances).sum(-1).mean()
        value = F.mse_loss(values, returns)
        return ActorCriticLoss(policy + 0.5 * value - 0.01 * entropy, policy, value, advantages)
