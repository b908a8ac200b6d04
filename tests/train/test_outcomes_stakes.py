"""What mistakes cost and what outcomes are worth, against numbers worked out by hand."""

from __future__ import annotations

import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc_lab.train.rewards import (
    PRESETS,
    TIMESCALES,
    AsymmetricRelevanceLoss,
    FractalReward,
    Outcome,
    asymmetric_loss,
    expected_tokens,
    outcome_reward,
    simple_reward,
)


def test_the_raw_loss_is_the_classic_formula():
    """Hard thresholds at 200, squared distance to 400 or 64, weights as given."""
    tokens = torch.tensor([100.0, 300.0, 300.0, 100.0])
    matters = torch.tensor([1.0, 1.0, 0.0, 0.0])
    loss = AsymmetricRelevanceLoss("invoice", softness=0, normalise=False)(tokens, matters)
    assert float(loss) == pytest.approx(100 * 300**2 / 2 + 5 * 236**2 / 2, rel=1e-5)


@pytest.mark.parametrize("preset", PRESETS)
def test_every_preset_lies_between_nothing_and_one(preset):
    matters = torch.tensor([1.0, 0.0])
    loss = AsymmetricRelevanceLoss(preset)
    assert float(loss(torch.tensor([400.0, 64.0]), matters)) < 1e-3
    assert float(loss(torch.tensor([64.0, 400.0]), matters)) == pytest.approx(1, abs=1e-3)


def test_presets_differ_in_the_price_of_a_miss_only():
    matters = torch.tensor([1.0, 0.0])
    miss, waste = torch.tensor([64.0, 64.0]), torch.tensor([400.0, 400.0])
    ratio = {}
    for preset in PRESETS:
        loss = AsymmetricRelevanceLoss(preset)
        ratio[preset] = float(loss(miss, matters) / loss(waste, matters))
    assert ratio["medical"] == pytest.approx(1000, rel=1e-2)
    assert ratio["threat"] == pytest.approx(1000, rel=1e-2)
    assert ratio["invoice"] == pytest.approx(20, rel=1e-2)
    assert ratio["casual"] == pytest.approx(1, rel=1e-2)


def test_the_loss_does_not_depend_on_how_much_of_the_picture_matters():
    loss = AsymmetricRelevanceLoss("invoice")
    few = loss(torch.tensor([100.0] + [300.0] * 9), torch.tensor([1.0] + [0.0] * 9))
    many = loss(torch.tensor([100.0] * 9 + [300.0]), torch.tensor([1.0] * 9 + [0.0]))
    assert float(few) == pytest.approx(float(many), rel=1e-5)
    nothing_matters = loss(torch.tensor([64.0, 64.0]), torch.zeros(2))
    assert float(nothing_matters) < 1e-6


def test_more_tokens_never_hurt_where_it_matters_nor_help_where_it_does_not():
    tokens = torch.linspace(64, 400, 200)
    for matters, sign in ((1.0, -1), (0.0, 1)):
        each = torch.stack([asymmetric_loss(t[None], torch.tensor([matters]), (1, 1)).loss for t in tokens])
        assert (sign * each.diff() >= -1e-7).all()


def test_training_by_stakes_moves_a_map_as_they_say():
    """Half sure whether it matters: high stakes look, casual ones stay in the middle or below."""
    found = {}
    for preset in ("medical", "casual"):
        logit = torch.zeros(1, requires_grad=True)
        optimizer = torch.optim.Adam([logit], lr=0.1)
        for _ in range(200):
            optimizer.zero_grad()
            tokens = expected_tokens(logit).expand(10)
            loss = AsymmetricRelevanceLoss(preset)(tokens, torch.tensor([1.0] + [0.0] * 9))
            loss.backward()
            optimizer.step()
        found[preset] = expected_tokens(logit).item()
    assert found["medical"] > 230
    assert found["medical"] > found["casual"] + 20


def test_importance_is_counting_a_place_that_often():
    tokens, matters = torch.tensor([100.0, 180.0, 300.0]), torch.tensor([1.0, 1.0, 0.0])
    counted = asymmetric_loss(tokens, matters, (1, 1), importance=torch.tensor([2.0, 1.0, 1.0]))
    repeated = asymmetric_loss(tokens[[0, 0, 1, 2]], matters[[0, 0, 1, 2]], (1, 1))
    assert float(counted.loss) == pytest.approx(float(repeated.loss))
    assert float(counted.loss) != pytest.approx(float(asymmetric_loss(tokens, matters, (1, 1)).loss))


def test_bad_stakes_are_refused():
    with pytest.raises(InputError, match="threat"):
        AsymmetricRelevanceLoss("unheard of")
    with pytest.raises(InputError, match="shape"):
        AsymmetricRelevanceLoss()(torch.zeros(3), torch.zeros(2))


def test_outcome_rewards_by_hand():
    outcome = torch.tensor([Outcome.RIGHT, Outcome.PARTLY, Outcome.WRONG])
    found = outcome_reward(outcome, torch.tensor([64, 64, 64]), full=256, passes=torch.tensor([2, 2, 2]))
    saved = 0.01 * 0.01 * 192
    assert found.total.tolist() == pytest.approx([1000 + saved + 0.05 * 200, 500 + saved, -1000 + saved])
    late = outcome_reward(outcome[:1], torch.tensor([64]), full=256, passes=5)
    assert float(late.quick) == 0


def test_simple_rewards_by_hand():
    outcome = torch.tensor([[2, 1, 0, 0]])
    found = simple_reward(outcome, torch.tensor([[400, 2400, 2500, 0]]), torch.tensor([[0.9, 0.9, 0.95, 0.5]]))
    assert found.total.tolist() == [pytest.approx([100 + 200, 50, -100 - 10 - 50, -100 + 240])]
    parts = found.outcome + found.saved + found.quick + found.overconfident
    assert torch.allclose(parts, found.total)
    with pytest.raises(InputError, match="2 right"):
        simple_reward(torch.tensor([3]), torch.tensor([1]))


def test_fractal_rewards_at_the_two_checks():
    reward = FractalReward()
    assert float(reward.discounted("long", torch.tensor([200.0, 10_000.0]))) == pytest.approx(8200)
    assert float(reward.discounted("medium", torch.tensor([50.0, 30.0]))) == pytest.approx(77)
    total = reward({"long": torch.tensor([200.0, 10_000.0]), "medium": torch.tensor([50.0, 30.0])})
    assert float(total) == pytest.approx(0.4 * 8200 + 0.3 * 77)
    batched = reward({name: torch.ones(2, 3, 4) for name in TIMESCALES})
    assert batched.shape == (2, 3)
    with pytest.raises(InputError, match="immediate"):
        reward({"eternal": torch.ones(1)})
