"""The policy gradient: exact on a bandit, calmer with a baseline, held open by its two terms; and it really learns."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import nn

from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc.core.errors import InputError
from arr_coc_lab.train.devices import LARGEST_GRADIENT, Devices
from arr_coc_lab.train.policy_gradient import (
    PolicySettings,
    Sampled,
    balance_penalty,
    draw_noise,
    group_advantages,
    leaf_advantages,
    likelihood,
    map_entropy,
    outcome_step,
    policy_loss,
    sample_allocations,
)

BANDIT = build_tree(2, 4, 1)  # two roots, one split: two actions


def gradients(logits: torch.Tensor, rewards: tuple[float, float], baseline: str, group: int):
    """Every possible group of draws: its probability and the gradient (2,) that it would give."""
    result = []
    for actions in itertools.product((0, 1), repeat=group):
        order = torch.tensor(actions).view(1, group, 1)
        point = logits.clone().requires_grad_()
        log_probability = likelihood(point[None], order, BANDIT).log_probability
        earned = torch.tensor([[rewards[action] for action in actions]])
        loss = policy_loss(log_probability, group_advantages(earned, baseline, None))  # type: ignore[arg-type]
        result.append((float(log_probability.detach().sum().exp()), -torch.autograd.grad(loss, point)[0]))
    return result


@pytest.mark.parametrize(("baseline", "group"), [("none", 1), ("none", 3), ("leave_one_out", 2), ("leave_one_out", 4)])
def test_the_expected_gradient_of_a_bandit_is_its_closed_form(baseline, group):
    """d E[r] / d logit 0 = p (1 − p) (r0 − r1), over all groups that could be drawn, so without noise."""
    logits, rewards = torch.tensor([0.7, -0.2]), (3.0, 1.0)
    found = sum(chance * gradient for chance, gradient in gradients(logits, rewards, baseline, group))
    chance = float(logits.softmax(0)[0])
    wanted = chance * (1 - chance) * (rewards[0] - rewards[1])
    assert found.tolist() == pytest.approx([wanted, -wanted], abs=1e-5)  # type: ignore[union-attr]


def test_a_leaf_is_worth_what_siblings_with_it_earned_beyond_those_without():
    order = torch.tensor([[[0, 1], [0, 2], [0, 2], [0, 3]]])
    rewards = torch.tensor([[4.0, 1.0, 2.0, 0.0]])
    found = leaf_advantages(rewards, order, 4, None)
    # Split 0 is in all of them and says nothing; 1: 4 − 1; 2: 1.5 − 2; 3: 0 − 7/3.
    assert found[0].tolist() == [pytest.approx(row) for row in ([0, 3], [0, -0.5], [0, -0.5], [0, -7 / 3])]


def test_leaves_of_their_own_worth_are_followed():
    """What is paid for is drawn more often after a step along the gradient, and the loss knows it."""
    cells, noise = torch.zeros(1, 2, 4, requires_grad=True), draw_noise(1, 16, BANDIT, torch.Generator().manual_seed(3))

    def paid(sampled: Sampled) -> torch.Tensor:
        return (sampled.order[..., 0] == 0).float()

    settings = PolicySettings(baseline="leaf", entropy_weight=0, balance_weight=0)
    step = outcome_step(cells, BANDIT, 5, noise, paid, settings)
    (slope,) = torch.autograd.grad(step.loss, cells)
    assert slope[0, :, :2].sum() < 0 < slope[0, :, 2:].sum()


def test_the_group_mean_only_shrinks_the_gradient():
    logits, rewards = torch.tensor([0.7, -0.2]), (3.0, 1.0)
    own = sum(chance * gradient for chance, gradient in gradients(logits, rewards, "group", 4))
    others = sum(chance * gradient for chance, gradient in gradients(logits, rewards, "leave_one_out", 4))
    assert torch.allclose(own, others * 3 / 4, atol=1e-5)  # type: ignore[arg-type]


def test_the_baseline_takes_the_variance_away():
    """Rewards that are all large and nearly equal: without a baseline the noise is of the size of the rewards."""

    def variance(baseline: str, rewards: tuple[float, float]) -> float:
        found = gradients(torch.tensor([0.3, 0.0]), rewards, baseline, 4)
        mean = sum(chance * float(gradient[0]) for chance, gradient in found)
        return sum(chance * (float(gradient[0]) - mean) ** 2 for chance, gradient in found)

    assert variance("leave_one_out", (11.0, 10.0)) < variance("none", (11.0, 10.0)) / 100
    assert variance("none", (11.0, 10.0)) == pytest.approx(6.7, rel=0.15), "about r² p (1 − p) / 4"


def test_advantages_compare_siblings_and_nothing_else():
    rewards = torch.tensor([[1.0, 0.0, 0.0, 1.0], [5.0, 5.0, 5.0, 5.0]])
    plain = group_advantages(rewards, "leave_one_out", None)
    assert plain[0].tolist() == pytest.approx([2 / 3, -2 / 3, -2 / 3, 2 / 3])
    assert plain[1].tolist() == [0, 0, 0, 0]
    tiny = group_advantages(rewards * 1e-6, "leave_one_out", 0.1)
    assert tiny.abs().max() < 1e-4, "differences of rounding size must not be blown up"
    large = group_advantages(rewards * 1e3, "leave_one_out", 0.1)
    assert torch.allclose(large, group_advantages(rewards * 1e4, "leave_one_out", 0.1), atol=1e-3)
    critic = group_advantages(rewards, torch.tensor([[0.5], [4.0]]), None)
    assert critic[1].tolist() == [1, 1, 1, 1]
    with pytest.raises(InputError, match="at least 2"):
        group_advantages(torch.ones(3, 1))


def test_the_balance_term_pushes_the_map_back_into_its_band():
    flat, sharp = torch.zeros(1, 8, 8), torch.full((1, 8, 8), -30.0)
    sharp[0, 3, 3] = 10
    assert float(map_entropy(flat)) == pytest.approx(1)
    assert float(map_entropy(sharp)) < 1e-3
    inside = torch.full((1, 8, 8), -5.0)
    inside[0, :2, :2] = 3
    assert 0.15 < float(map_entropy(inside)) < 0.98
    assert float(balance_penalty(map_entropy(inside), (0.15, 0.98))) == 0
    narrow = torch.full((1, 8, 8), -9.0)
    narrow[0, 3, 3] = 3
    before = float(map_entropy(narrow))
    point = narrow.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(balance_penalty(map_entropy(point), (0.5, 0.98)), point)
    assert float(map_entropy(narrow - 50 * gradient / gradient.norm())) > before
    with pytest.raises(InputError, match="band"):
        PolicySettings(band=(0.9, 0.2))


def test_the_gradient_is_clipped_at_one():
    weight = nn.Parameter(torch.zeros(4))
    weight.grad = torch.full((4,), 100.0)
    assert float(Devices("cpu").clip([weight])) == pytest.approx(200)
    assert float(weight.grad.norm()) == pytest.approx(1, rel=1e-4)


# --- a stand-in task: one bright cell is planted among distractors; it is found when a level-0 leaf lies over it. ---
SIDE, BUDGET = 8, 16
FINDER = build_tree(SIDE, SIDE, 2)


def plant(number: int, generator: torch.Generator) -> tuple[torch.Tensor, torch.Tensor]:
    """Pictures (B, 3, 8, 8): noise, six distractors bright in two channels, one target bright in one; its cell (B,)."""
    pictures = 0.3 * torch.rand(number, 3, SIDE, SIDE, generator=generator)
    places = torch.rand(number, SIDE * SIDE, generator=generator).argsort(1)[:, :7]
    flat = pictures.flatten(2)
    flat[:, 0].scatter_(1, places, 1.0)
    flat[:, 1].scatter_(1, places[:, 1:], 1.0)
    return flat.unflatten(2, (SIDE, SIDE)), places[:, 0]


def found(leaves: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Leaves (B, G, N, 3), cells (B,) → (B, G) 1.0 where a leaf of level 0 lies over the target. All that is told."""
    cell = leaves[..., 0] * SIDE + leaves[..., 1]
    return ((leaves[..., 2] == 0) & (cell == target[:, None, None])).any(-1).float()


def make_finder() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Conv2d(3, 16, 3, padding=1), nn.GELU(), nn.Conv2d(16, 1, 1))


def accuracy(model: nn.Module) -> float:
    with torch.no_grad():
        pictures, target = plant(1000, torch.Generator().manual_seed(99))
        leaves = quadtree(model(pictures)[:, 0].sigmoid(), FINDER, BUDGET).cells
    return float(found(leaves[:, None], target).mean())


def train_finder(
    steps: int, settings: PolicySettings, group: int = 8, sign: float = 1.0
) -> tuple[nn.Module, list[float]]:
    model = make_finder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    generator = torch.Generator().manual_seed(1)
    entropies = []
    for _ in range(steps):
        pictures, target = plant(64, generator)
        noise = draw_noise(64, group, FINDER, generator)

        def judge(sampled: Sampled, target: torch.Tensor = target) -> torch.Tensor:
            return sign * found(sampled.leaves, target)

        step = outcome_step(model(pictures)[:, 0], FINDER, BUDGET, noise, judge, settings)
        step.loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), LARGEST_GRADIENT)
        optimizer.step()
        optimizer.zero_grad()
        entropies.append(float(step.map_entropy))
    return model, entropies


def random_accuracy() -> float:
    """What trees drawn blindly find: every open node as likely as any other."""
    _, target = plant(1000, torch.Generator().manual_seed(99))
    noise = draw_noise(1000, 8, FINDER, torch.Generator().manual_seed(3))
    leaves = sample_allocations(torch.zeros(1000, len(FINDER.costs)), FINDER, BUDGET, noise).leaves
    return float(found(leaves, target).mean())


def test_a_scorer_learns_from_outcomes_alone_where_to_look():
    """Right or wrong is all it hears; from the level of chance to above 90 % on pictures it never saw."""
    start, blind = accuracy(make_finder()), random_accuracy()
    model, entropies = train_finder(150, PolicySettings())
    assert start < 0.2
    assert 0.05 < blind < 0.25
    assert accuracy(model) > 0.9
    low, high = PolicySettings().band
    assert all(low <= value <= high for value in entropies[len(entropies) // 2 :]), "the map must not collapse"


def test_without_the_balance_term_the_map_collapses():
    _, entropies = train_finder(80, PolicySettings(balance_weight=0))
    assert max(entropies[-20:]) < PolicySettings().band[0]


def test_with_the_sign_turned_it_learns_to_look_away():
    model, _ = train_finder(40, PolicySettings(), sign=-1.0)
    assert accuracy(model) < 0.05
