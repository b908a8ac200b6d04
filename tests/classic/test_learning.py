"""Rewards of the source, and credit for earlier steps."""

from __future__ import annotations

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.learning import (
    discounted,
    fractal_reward,
    outcome_reward,
    returns_to_go,
)


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


def test_a_step_is_credited_for_what_it_led_to():
    rewards = torch.tensor([[0.0, 0.0, 1.0]])
    assert returns_to_go(rewards)[0].tolist() == pytest.approx([0.81, 0.9, 1.0])
