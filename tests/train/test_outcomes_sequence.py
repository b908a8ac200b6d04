"""Four critics, three stages, and the monitors."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.balancers import TensionBalancer
from arr_coc_lab.train.actor_critic import HierarchicalActorCritic, returns_to_go
from arr_coc_lab.train.monitors import Monitors
from arr_coc_lab.train.rewards import DISCOUNTS, TIMESCALES, FractalReward
from arr_coc_lab.train.scorer_examples import STATIC_ONLY, Curriculum, CurriculumStage


def test_returns_are_the_fractal_rewards_from_the_first_step():
    """Two routes: the critics' targets at step 0, and `FractalReward` on the same rewards."""
    rewards = torch.randn(3, 4, 4, generator=torch.Generator().manual_seed(0))
    returns = returns_to_go(rewards, torch.tensor(DISCOUNTS))
    reward = FractalReward()
    for place, name in enumerate(TIMESCALES):
        assert torch.allclose(returns[:, 0, place], reward.discounted(name, rewards[..., place]), atol=1e-5)
        assert torch.allclose(returns[:, 1, place], reward.discounted(name, rewards[:, 1:, place]), atol=1e-5)


def test_what_lies_behind_the_end_of_an_episode_counts_nothing():
    rewards = torch.ones(1, 3, 4)
    mask = torch.tensor([[True, True, False]])
    returns = returns_to_go(rewards, torch.tensor(DISCOUNTS), mask)
    assert returns[0, 0].tolist() == pytest.approx([1.99, 1.95, 1.9, 1.8])
    model = HierarchicalActorCritic(states=2, actions=3)
    states, actions = torch.randn(1, 3, 2), torch.tensor([[0, 1, 2]])
    changed = rewards.clone()
    changed[:, 2] = 1e6
    first, second = (model.loss(states, actions, item, mask).total.detach() for item in (rewards, changed))
    assert float(first) == pytest.approx(float(second))


def test_advantages_are_the_weighted_sum_over_timescales():
    model = HierarchicalActorCritic(states=1, actions=2)
    found = model.advantages(torch.tensor([[[1.0, 2.0, 3.0, 4.0]]]), torch.zeros(1, 1, 4))
    assert float(found) == pytest.approx(0.1 * 1 + 0.2 * 2 + 0.3 * 3 + 0.4 * 4)


def test_the_critics_share_a_trunk_and_the_policy_does_not_train_them():
    model = HierarchicalActorCritic(states=2, actions=3)
    states, actions, rewards = torch.randn(4, 3, 2), torch.zeros(4, 3, dtype=torch.long), torch.randn(4, 3, 4)
    loss = model.loss(states, actions, rewards)
    loss.policy.backward(retain_graph=True)
    assert all(critic.weight.grad is None for critic in model.critics.values())
    first = model.trunk[0]
    assert isinstance(first, nn.Linear)
    before = first.weight.grad.clone()  # type: ignore[union-attr]
    loss.value.backward()
    assert not torch.equal(before, first.weight.grad)  # type: ignore[arg-type]
    assert all(critic.weight.grad is not None for critic in model.critics.values())


def test_it_learns_a_sequence_whose_reward_comes_at_the_end():
    """The first of two actions decides, the reward comes with the second, on the long timescale only."""
    torch.manual_seed(0)
    model = HierarchicalActorCritic(states=3, actions=2, hidden=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    generator = torch.Generator().manual_seed(0)
    for _ in range(150):
        signal = torch.randint(2, (64,), generator=generator)
        states = torch.zeros(64, 2, 3)
        states[:, 0, 0] = signal * 2.0 - 1
        states[:, 0, 1], states[:, 1, 2] = 1, 1
        actions = model.act(states, generator)
        rewards = torch.zeros(64, 2, 4)
        rewards[:, 1, 3] = (actions[:, 0] == signal).float()
        # The second step cannot see what the first did; what it is told is the reward alone.
        optimizer.zero_grad()
        model.loss(states, actions, rewards).total.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    with torch.no_grad():
        logits, values = model(states)
    assert (logits[:, 0].argmax(-1) == signal).float().mean() > 0.95
    assert float(values[:, 0, 3].mean()) == pytest.approx(0.8, abs=0.12), "the discounted reward of a good policy"
    assert values[:, 0, 0].abs().max() < 0.15, "nothing ever came on the immediate timescale"


def test_wrong_shapes_are_refused():
    model = HierarchicalActorCritic(states=2, actions=3)
    with pytest.raises(InputError, match="episodes, steps, 4"):
        model.loss(torch.zeros(1, 2, 2), torch.zeros(1, 2, dtype=torch.long), torch.zeros(1, 2))


def test_the_curriculum_goes_static_video_adversarial():
    plan = Curriculum()
    assert [plan.at(progress).name for progress in (-1, 0, 0.39, 0.4, 0.7, 1, 2)] == (
        ["static"] * 3 + ["video"] + ["adversarial"] * 3
    )
    assert plan.counts(0.0, 10) == {"static": 10}
    assert plan.counts(0.5, 10) == {"static": 5, "video": 5}
    assert set(plan.counts(0.9, 10)) == {"static", "video", "adversarial"}
    assert all(sum(plan.counts(0.9, number).values()) == number for number in range(1, 30))
    assert plan.weights["adversarial"] == 2 * plan.weights["static"]
    assert STATIC_ONLY.at(0.9).name == "static"
    with pytest.raises(InputError, match="begin at 0"):
        Curriculum(stages=(CurriculumStage("late", 0.5, {"static": 1.0}),))


def test_monitors_see_what_modules_learn_and_survive_a_round_trip():
    balancer, beside = TensionBalancer(), nn.Identity()
    beside.decay = 0.7
    monitors = Monitors()
    monitors.observe(1, [nn.ModuleList([balancer, beside])], budget_share=1.0, map_entropy=0.5, boost=1.5)
    assert monitors.points[0]["compress_particularize"] == pytest.approx(0.5)
    assert monitors.points[0]["decay"] == pytest.approx(0.7)
    with torch.no_grad():
        balancer.raw += 1
    monitors.observe(2, [balancer], budget_share=0.97, map_entropy=0.4)
    assert monitors.series("exploit_explore")[1] == pytest.approx([0.5, 0.731], abs=1e-3)
    kept = json.loads(json.dumps(monitors.to_json()))
    assert Monitors.from_json(kept) == monitors
    assert kept["alarms"] == []
    with pytest.raises(InputError, match="forward"):
        monitors.observe(2)
    with pytest.raises(InputError, match="diverged"):
        monitors.observe(3, map_entropy=float("nan"))
    with pytest.raises(InputError, match="not a record"):
        Monitors.from_json({})


def test_the_alarm_rings_for_a_collapse_in_the_last_half_only():
    early, late, spent = Monitors(), Monitors(), Monitors()
    for step in range(10):
        early.observe(step, map_entropy=0.01 if step < 4 else 0.5, budget_share=1.0)
        late.observe(step, map_entropy=0.5 if step < 8 else 0.01, budget_share=1.0)
        spent.observe(step, map_entropy=0.5, budget_share=0.5)
    assert early.alarms() == []
    assert len(late.alarms()) == 1
    assert "map_entropy" in late.alarms()[0]
    assert "2 of the last 5" in late.alarms()[0]
    assert "budget_share" in spent.alarms()[0]
