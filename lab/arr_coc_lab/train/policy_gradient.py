"""Sampling allocations: which nodes of the quadtree are split, one after the other, under an exact budget.

Where no edge is odd every split costs 3 tokens, so a budget of T is exactly k = (T − floor) / 3 splits. The policy
draws them one by one, each time among the open nodes (roots, and children of nodes split before) with probability
proportional to exp(logit). That is Plackett–Luce with precedence: a child cannot come before its parent.

The draws need no loop. Give every node an exponential clock of rate exp(logit) that starts when the node opens. Clocks
forget how long they have run, so whichever open clock rings next is open node u with probability rate(u) / sum of open
rates: the very law above. So the time at which a node is split is its parent's time plus its own exponential, a sum
along the tree (one step a level), and the k smallest times, in order, are a sample. (Plain Gumbel keys, drawn once and
compared among the open nodes, would not do: what a waiting node's key has already lost against is not forgotten.)

Node logits are log relevance mass: log of the sum of sigmoid(cell logit) inside the node, over a temperature. Mass is
also what `quadtree` splits by, so the most likely next split is always the one that the allocator in use
would make, and training moves the very numbers that are used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.quadtree import gather_leaves
from arr_coc.attending.tree import Tree
from arr_coc.core.errors import InputError


@dataclass(frozen=True)
class Sampled:
    """Allocations drawn from the policy, `G` for each of `B` pictures.

    order: (B, G, k) int64, flat indices of the split nodes, in the order in which they were drawn.
    leaves: (B, G, N, 3) int64, row, col, level of every leaf in raster order; N is the budget, the same for all.
    """

    order: Tensor
    leaves: Tensor


@dataclass(frozen=True)
class Likelihood:
    """log_probability: (B, G) of the ordered draws; steps: (B, G, k) of each of them. entropy: (B, G) mean over the
    draws of each draw's entropy, as a share of the greatest it could have (log of the number of open nodes): 1 = blind,
    0 = decided."""

    log_probability: Tensor
    entropy: Tensor
    steps: Tensor


def node_logits(cell_logits: Tensor, tree: Tree, temperature: float = 1.0) -> Tensor:
    """(B, rows, cols) logits of the cells' relevance → (B, M) logits of the nodes: log mass over temperature."""
    if cell_logits.ndim != 3 or cell_logits.shape[1:] != (tree.rows, tree.cols):
        raise InputError(f"logits must be (batch, {tree.rows}, {tree.cols}), got {tuple(cell_logits.shape)}")
    if temperature <= 0:
        raise InputError(f"temperature must be above 0, got {temperature}; 1 draws in proportion to relevance mass")
    check_even(tree)
    mass = F.logsigmoid(cell_logits.float())
    levels = []
    for _ in range(tree.levels):
        batch, rows, cols = mass.shape
        mass = mass.view(batch, rows // 2, 2, cols // 2, 2).logsumexp(dim=(2, 4))
        levels.append(mass.flatten(1))
    flat = torch.cat(levels[::-1], dim=1) if levels else mass.flatten(1)[:, :0]
    return flat / temperature


def check_even(tree: Tree) -> None:
    """Every split must cost 3, else a budget does not fix the number of draws."""
    if (tree.costs != 3).any():
        raise InputError(
            f"a grid of {tree.rows}×{tree.cols} cells has an odd edge at {tree.levels} levels; sample on canvases "
            f"whose sides are multiples of {1 << tree.levels} cells, or with fewer levels"
        )


def number_of_splits(tree: Tree, budget: int) -> int:
    """k: how many splits a budget buys."""
    check_even(tree)
    return (tree.reach(budget) - tree.floor) // 3


def draw_noise(batch: int, group: int, tree: Tree, generator: torch.Generator) -> Tensor:
    """(B, G, M) standard exponentials on the generator's device: all the chance that a sample takes."""
    noise = torch.empty(batch, group, len(tree.costs), device=generator.device)
    return noise.exponential_(generator=generator)


@torch.no_grad()
def sample_allocations(logits: Tensor, tree: Tree, budget: int, noise: Tensor) -> Sampled:
    """(B, M) node logits, (B, G, M) noise of `draw_noise` → G allocations of each picture, exactly on budget."""
    count = number_of_splits(tree, budget)
    batch, _, number = noise.shape
    if logits.shape != (batch, number):
        raise InputError(f"noise of shape {tuple(noise.shape)} does not fit logits of shape {tuple(logits.shape)}")
    parents = torch.from_numpy(tree.parents).to(logits.device)
    # Times in logarithms: rates may differ by many orders of magnitude.
    times = noise.clamp_min(torch.finfo(noise.dtype).tiny).log() - logits[:, None]
    for level in range(tree.levels - 1, 0, -1):
        nodes = tree.nodes(level)
        times[..., nodes] = torch.logaddexp(times[..., nodes], times[..., parents[nodes]])
    # Rounding can give a child its parent's very time; a stable sort then keeps the parent, which stands first, first.
    order = times.argsort(dim=-1, stable=True)[..., :count]
    return Sampled(order, leaves_of(order, tree))


def leaves_of(order: Tensor, tree: Tree) -> Tensor:
    """(B, G, k) split nodes → (B, G, N, 3) leaves in raster order."""
    batch, group, _ = order.shape
    flat = order.flatten(0, 1)
    selected = torch.zeros(batch * group, len(tree.costs), dtype=torch.bool, device=order.device)
    selected.scatter_(1, flat, True)
    blank = torch.zeros(batch * group, tree.rows, tree.cols, device=order.device)
    return gather_leaves(selected, blank, tree).cells.unflatten(0, (batch, group))


def likelihood(logits: Tensor, order: Tensor, tree: Tree) -> Likelihood:
    """Exact log-probability of ordered draws (B, G, k) under node logits (B, M), differentiable in the logits.

    Each draw contributes logit(drawn) − logsumexp(logits of the nodes open at that moment). A node is open from the
    draw after its parent's to its own.
    """
    check_even(tree)
    batch, group, count = order.shape
    if count == 0:
        zero = logits.sum(1, keepdim=True).expand(batch, group) * 0
        return Likelihood(zero, zero, zero[..., None][..., :0])
    opened, drawn = open_span(order, tree)
    step = torch.arange(count, device=order.device)[:, None]
    is_open = (opened[:, :, None] <= step) & (step <= drawn[:, :, None])
    available = logits[:, None, None].masked_fill(~is_open, -torch.inf)
    log_total = available.logsumexp(-1)
    chosen = logits.gather(1, order.flatten(1)).view_as(order)
    steps = chosen - log_total
    # Entropy of a draw: log total − expected logit; a draw without choice has none and does not count.
    share = (available - log_total[..., None]).exp()
    expected = (share * logits[:, None, None]).sum(-1)
    choices = is_open.sum(-1)
    most = choices.clamp_min(2).log()
    free = choices > 1
    entropy = ((log_total - expected) / most * free).sum(-1) / free.sum(-1).clamp_min(1)
    return Likelihood(steps.sum(-1), entropy, steps)


def open_span(order: Tensor, tree: Tree) -> tuple[Tensor, Tensor]:
    """(B, G, k) → opened, drawn, both (B, G, M): the draws from which on and up to which each node could be chosen.

    A node that never opens has opened = k; one that is never drawn has drawn = k.
    """
    batch, group, count = order.shape
    number = len(tree.costs)
    drawn = order.new_full((batch, group, number), count)
    drawn.scatter_(2, order, torch.arange(count, device=order.device).expand_as(order))
    parents = torch.from_numpy(tree.parents).to(order.device)
    after_parent = (drawn[..., parents.clamp_min(0)] + 1).clamp_max(count)
    return torch.where(parents < 0, torch.zeros_like(after_parent), after_parent), drawn


# ---- Group-relative policy gradient: several allocations of one picture, each judged against its siblings ------------
# What one allocation earned says little (the picture may be easy); what it earned beyond the others of its group says
# where looking helped. No critic is needed, the group is the baseline. Two terms keep the policy alive, because plain
# group-relative training collapses (always zoom, or never): a bonus for the entropy of the draws, and a balance term
# that holds the entropy of the relevance map inside a band.

Baseline = Literal["leave_one_out", "group", "leaf", "none"]


@dataclass(frozen=True)
class PolicySettings:
    """temperature: of the draws; 1 draws in proportion to relevance mass.
    baseline: leave_one_out (mean of the siblings, unbiased), group (mean with oneself), leaf (every split by what the
        siblings with it earned beyond those without it) or none.
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
        raise InputError(f"unknown baseline {baseline!r}; choose leave_one_out, group, leaf, none, or give values")
    if spread_floor is None or group < 2:
        return centred
    return centred / (rewards.std(1, keepdim=True) + spread_floor)


@torch.no_grad()
def leaf_advantages(rewards: Tensor, order: Tensor, nodes: int, spread_floor: float | None = 0.1) -> Tensor:
    """(B, G) rewards and (B, G, k) drawn splits → (B, G, k): what the siblings with a split earned beyond those without
    it; 0 where all or none of them have it, which says nothing of it."""
    drawn = torch.zeros(*rewards.shape, nodes, dtype=rewards.dtype, device=rewards.device).scatter_(2, order, 1.0)
    count, group = drawn.sum(1), rewards.shape[1]
    earned = (drawn * rewards[..., None]).sum(1)
    rest = rewards.sum(1, keepdim=True) - earned
    gain = earned / count.clamp_min(1) - rest / (group - count).clamp_min(1)
    gain = torch.where((count > 0) & (count < group), gain, 0.0)
    if spread_floor is not None:
        gain = gain / (rewards.std(1, keepdim=True) + spread_floor)
    return gain[:, None].expand(-1, group, -1).gather(2, order)


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
    """loss: to be minimised. rewards, advantages: (B, G); ones where every leaf has its own.
    draw_entropy, map_entropy: means. silent: share of pictures
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
    judge: Callable[[Sampled], Tensor],
    settings: PolicySettings,
    weights: Tensor | None = None,
) -> OutcomeStep:
    """One step from logits (B, rows, cols) to a loss, through sampled allocations and what came of them.

    noise: (B, G, M) of `policy.draw_noise`. judge: what was sampled → rewards (B, G); nothing else about the
    pictures reaches the scorer. weights: (B,) of the pictures, mean 1.
    """
    logits = node_logits(cell_logits, tree, settings.temperature)
    sampled = sample_allocations(logits.detach(), tree, budget, noise)
    with torch.no_grad():
        rewards = judge(sampled).to(logits.dtype)
    found = likelihood(logits, sampled.order, tree)
    if settings.baseline == "leaf":
        of_leaves = leaf_advantages(rewards, sampled.order, len(tree.costs), settings.spread_floor)
        followed, advantages = (of_leaves * found.steps).sum(-1), torch.ones_like(rewards)
    else:
        advantages = group_advantages(rewards, settings.baseline, settings.spread_floor)
        followed = found.log_probability
    entropies = map_entropy(cell_logits)
    loss = (
        policy_loss(followed, advantages, weights)
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
