"""Policy, rewards, stakes and critic of the source: exact laws, and the signs of their gradients."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.attending.tree import Tree, build_tree
from arr_coc.core.errors import InputError
from arr_coc_lab.classic.learning import (
    ActorCritic,
    asymmetric_loss,
    discounted,
    fractal_reward,
    leaves_of,
    log_chances,
    node_logits,
    outcome_reward,
    policy_loss,
    returns_to_go,
    sample_splits,
)


def enumerate_draws(logits: list[float], tree: Tree, count: int) -> dict[tuple[int, ...], float]:
    """Every ordered sequence of draws with its probability, by the definition: choose among the open, one by one."""
    parents = tree.parents.tolist()
    result: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(count):
        longer = {}
        for before, chance in result.items():
            is_open = [
                node
                for node in range(len(parents))
                if node not in before and (parents[node] < 0 or parents[node] in before)
            ]
            total = sum(math.exp(logits[node]) for node in is_open)
            for node in is_open:
                longer[(*before, node)] = chance * math.exp(logits[node]) / total
        result = longer
    return result


@pytest.mark.parametrize(("rows", "cols", "budget"), [(4, 4, 10), (4, 8, 11)])
def test_draws_follow_the_enumerated_law(rows, cols, budget):
    """Exact log-probabilities, and a chi-square of 40 000 samples against the law."""
    tree = build_tree(rows, cols, 2)
    logits = 1.5 * torch.randn(1, len(tree.costs), generator=torch.Generator().manual_seed(4))
    wanted = enumerate_draws(logits[0].tolist(), tree, (budget - tree.floor) // 3)
    found = log_chances(logits, torch.tensor(list(wanted))[None], tree).sum(-1).exp()
    assert torch.allclose(found[0], torch.tensor(list(wanted.values())), atol=1e-6)
    number = 40_000
    order = sample_splits(logits, tree, budget, number, torch.Generator().manual_seed(0))
    seen, counts = order[0].unique(dim=0, return_counts=True)
    drawn = dict(zip(map(tuple, seen.tolist()), counts.tolist(), strict=True))
    assert set(drawn) <= set(wanted)
    expected = {draws: chance * number for draws, chance in wanted.items() if chance * number >= 5}
    statistic = sum((drawn.get(draws, 0) - count) ** 2 / count for draws, count in expected.items())
    assert statistic < len(expected) - 1 + 4 * math.sqrt(2 * len(expected))


@settings(max_examples=25, deadline=None)
@given(st.sampled_from([4, 8]), st.sampled_from([4, 8, 16]), st.floats(0, 1), st.integers(0, 999))
def test_every_sample_tiles_the_picture_on_the_budget(rows, cols, keep, seed):
    tree, generator = build_tree(rows, cols, 2), torch.Generator().manual_seed(seed)
    budget = max(tree.floor, round(keep * tree.full))
    logits = node_logits(3 * torch.randn(2, rows, cols, generator=generator), tree)
    leaves = leaves_of(sample_splits(logits, tree, budget, 3, generator), tree)
    assert leaves.shape == (2, 3, tree.reach(budget), 3)
    side = 1 << leaves[..., 2]
    assert (side * side).sum(-1).eq(rows * cols).all()


def test_the_policy_gradient_raises_what_paid():
    tree, cells = build_tree(8, 8, 2), torch.zeros(1, 8, 8, requires_grad=True)
    order = sample_splits(node_logits(cells.detach(), tree), tree, 22, 64, torch.Generator().manual_seed(0))
    leaves = leaves_of(order, tree)
    policy_loss(cells, tree, order, ((leaves[..., 2] == 0) & (leaves[..., 0] < 4)).float().mean(-1)).backward()
    assert cells.grad[0, :4].mean() < 0 < cells.grad[0, 4:].mean()


def test_rewards_are_the_sources():
    outcome = torch.tensor([0, 1, 2])
    found = outcome_reward(outcome, torch.tensor(100), 1100, passes=2)
    assert found.tolist() == pytest.approx([-999.9, 500.1, 1010.1])
    assert float(discounted("long", torch.tensor([200.0, 10_000.0]))) == 8200
    assert float(discounted("medium", torch.tensor([50.0, 30.0]))) == pytest.approx(77)
    both = {"long": torch.tensor([200.0, 10_000.0]), "medium": torch.tensor([50.0, 30.0])}
    assert float(fractal_reward(both)) == pytest.approx(0.4 * 8200 + 0.3 * 77)
    for wrong, words in (({}, "no rewards"), ({"soon": torch.ones(1)}, "soon")):
        with pytest.raises(InputError, match=words):
            fractal_reward(wrong)


@given(st.floats(64, 400), st.floats(64, 400))
def test_missing_and_wasting_cost_what_the_stakes_say(needed, other):
    tokens, matters = torch.tensor([needed, other]), torch.tensor([1.0, 0.0])
    dear, even = asymmetric_loss(tokens, matters, "medical"), asymmetric_loss(tokens, matters)
    assert 0 <= float(even) <= 1
    perfect = asymmetric_loss(torch.tensor([400.0, 64.0]), matters, "medical")
    assert float(perfect) < 1e-6
    missed = asymmetric_loss(torch.tensor([64.0, 64.0]), matters, "medical")
    assert float(missed) > 0.99 > float(asymmetric_loss(torch.tensor([400.0, 400.0]), matters, "medical"))
    assert float(dear) <= 1


def test_the_critic_credits_a_step_for_what_it_led_to():
    rewards = torch.tensor([[0.0, 0.0, 1.0]])
    assert returns_to_go(rewards)[0].tolist() == pytest.approx([0.81, 0.9, 1.0])
    torch.manual_seed(0)
    actor, generator = ActorCritic(2, 2), torch.Generator().manual_seed(0)
    optimizer = torch.optim.Adam(actor.parameters(), 0.02)
    for _ in range(60):
        states = torch.eye(2)[torch.randint(2, (64, 3), generator=generator)]
        chances = actor(states)[0].softmax(-1).detach()
        actions = torch.multinomial(chances.flatten(0, 1), 1, generator=generator).view(64, 3)
        earned = (actions == states.argmax(-1)).float()
        optimizer.zero_grad()
        actor.loss(states, actions, earned).total.backward()
        optimizer.step()
    assert actor(torch.eye(2))[0].argmax(-1).tolist() == [0, 1]
    with pytest.raises(InputError, match="must fit"):
        actor.loss(states, actions, earned[:, :2])
