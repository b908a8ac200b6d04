"""Tempering: the rule, the learned policy that starts from it, and exploration that does not vanish."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from arr_coc.balancing.tempering import TemperingConfig, TemperingPolicy, exploration_rule, temper
from arr_coc.core.errors import InputError


@pytest.mark.parametrize(
    ("uncertainties", "exploration"),
    [
        ([], 0.1),
        ([0.9], 0.5),
        ([0.7], 0.3),
        ([0.41], 0.3),
        ([0.4], 0.05),
        ([0.1], 0.05),
        ([0.1, 0.9], 0.5),
        ([0.9, 0.1], 0.05),
    ],
)
def test_the_rule(uncertainties: list[float], exploration: float):
    assert TemperingPolicy().explore(uncertainties) == pytest.approx(exploration)


def test_an_untrained_policy_is_the_rule():
    torch.manual_seed(0)
    policy = TemperingPolicy(TemperingConfig(learned=True))
    number, uncertainty = torch.randint(1, 5, (50,)), torch.rand(50)
    torch.testing.assert_close(policy(number, uncertainty, torch.randn(50)), exploration_rule(number, uncertainty))


def test_a_learned_policy_can_use_pass_uncertainty_and_trend(tmp_path: Path):
    torch.manual_seed(0)
    policy = TemperingPolicy(TemperingConfig(learned=True, hidden=16))
    generator = torch.Generator().manual_seed(0)
    number = torch.randint(1, 5, (256,), generator=generator).float()
    uncertainty = torch.rand(256, generator=generator)
    trend = torch.rand(256, generator=generator) - 0.5
    target = (0.5 * uncertainty + 0.6 * trend.clamp(min=0) + 0.05 * number).clamp(0.02, 0.98)
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.02)
    before = (policy(number, uncertainty, trend) - target).square().mean()
    for _ in range(250):
        optimizer.zero_grad()
        loss = (policy(number, uncertainty, trend) - target).square().mean()
        loss.backward()
        optimizer.step()
    assert loss < 0.15 * before
    stuck, improving = policy.explore([0.3, 0.6]), policy.explore([0.9, 0.6])
    assert stuck > improving  # the rule cannot tell them apart
    policy.save_pretrained(tmp_path)
    again = TemperingPolicy.from_pretrained(tmp_path)
    assert torch.equal(again(number, uncertainty, trend), policy(number, uncertainty, trend))
    TemperingPolicy().save_pretrained(tmp_path / "rule")
    assert TemperingPolicy.from_pretrained(tmp_path / "rule").explore([0.9]) == pytest.approx(0.5)


def test_little_exploration_leaves_the_map_alone():
    relevance = torch.rand(1, 8, 8)
    assert torch.equal(temper(relevance, torch.zeros(1, 8, 8), 0.2), relevance)
    assert not torch.equal(temper(relevance, torch.zeros(1, 8, 8), 0.21), relevance)


def test_exploration_lifts_fresh_ground_by_as_much_as_it_says():
    relevance = torch.full((1, 64, 64), 0.1)
    relevance[0, :4, :4] = 0.9  # found and examined
    examined = torch.zeros(1, 64, 64)
    examined[0, :32] = 1
    tempered = temper(relevance, examined, 0.5)
    # Half of the way to the range's top on fresh ground, half of the way to its bottom where all was seen. A map
    # divided by its sum would have moved 4 096 places by some 0.0002 each.
    assert tempered[0, 40, 40] == pytest.approx(0.5)
    assert tempered[0, 0, 0] == pytest.approx(0.5)
    assert tempered[0, 20, 20] == pytest.approx(0.1)
    full = temper(relevance, examined, 1.0)
    assert full[0, 40, 40] == pytest.approx(0.9)
    assert full[0, 0, 0] == pytest.approx(0.1)


def test_the_range_of_the_map_is_kept_picture_by_picture():
    torch.manual_seed(0)
    relevance = torch.rand(3, 8, 8) * torch.tensor([1.0, 0.5, 0.1]).view(3, 1, 1)
    exploration = torch.tensor([0.1, 0.3, 0.9])
    tempered = temper(relevance, torch.rand(3, 8, 8), exploration)
    assert torch.equal(tempered[0], relevance[0])
    assert (tempered.amax((1, 2)) <= relevance.amax((1, 2)) + 1e-6).all()
    assert (tempered.amin((1, 2)) >= relevance.amin((1, 2)) - 1e-6).all()


def test_numpy_and_torch_agree():
    random = np.random.default_rng(0)
    relevance, examined = random.random((2, 6, 6), dtype=np.float32), random.random((2, 6, 6), dtype=np.float32)
    for exploration in (0.1, 0.5, [0.1, 0.5]):
        in_numpy = temper(relevance, examined, exploration)
        in_torch = temper(torch.from_numpy(relevance), torch.from_numpy(examined), exploration)
        assert in_numpy.dtype == np.float32
        np.testing.assert_allclose(in_numpy, in_torch.numpy(), atol=1e-6)


def test_a_learned_exploration_gets_a_gradient_through_the_blend():
    policy = TemperingPolicy(TemperingConfig(learned=True))
    exploration = policy(torch.tensor([2.0]), torch.tensor([0.9]), torch.tensor([0.0]))
    temper(torch.rand(1, 4, 4), torch.rand(1, 4, 4), exploration).square().sum().backward()
    assert policy.network is not None
    assert policy.network[-1].bias.grad.abs() > 0


def test_bad_input_is_named():
    with pytest.raises(InputError, match=r"\[0, 1\]"):
        TemperingPolicy().explore([1.4])
    with pytest.raises(InputError, match="examined"):
        temper(torch.zeros(1, 4, 4), torch.zeros(1, 5, 4), 0.5)
