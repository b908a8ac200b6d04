"""Tensions: where they start, which way each pulls, and that they can be learned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from arr_coc import look
from arr_coc.balancing.tensions import balance, normalise, sharpen
from arr_coc_lab.classic.balancers import FixedTensionBalancer
from arr_coc_lab.train.train_balancing import asked_by_kind


def spot(row: int, col: int, size: int = 8) -> torch.Tensor:
    maps = torch.zeros(1, size, size)
    maps[0, row, col] = 1
    return maps


NOTHING = torch.zeros(1, 8, 8)


def test_particularize_pulls_from_the_readable_to_the_asked_for():
    readable, asked = spot(1, 1), spot(6, 6)
    towards_reading = balance(readable, NOTHING, asked, {"compress_particularize": 0.1})
    towards_question = balance(readable, NOTHING, asked, {"compress_particularize": 0.9})
    assert towards_reading[0, 1, 1] > towards_reading[0, 6, 6]
    assert towards_question[0, 6, 6] > towards_question[0, 1, 1]


def test_explore_pulls_away_from_what_stands_out():
    salient = spot(2, 2)
    exploit = balance(NOTHING, salient, NOTHING, {"exploit_explore": 0.0, "focus_diversify": 0.0})
    explore = balance(NOTHING, salient, NOTHING, {"exploit_explore": 1.0, "focus_diversify": 0.0})
    assert exploit[0, 2, 2] == 1
    assert explore[0, 2, 2] == 0


def test_diversify_lifts_what_is_far_from_the_top():
    readable = spot(0, 0) + 0.2 * spot(0, 1) + 0.2 * spot(7, 7)
    focused = balance(readable, NOTHING, NOTHING, {"focus_diversify": 0.0})
    diverse = balance(readable, NOTHING, NOTHING, {"focus_diversify": 1.0})
    assert focused[0, 7, 7] == pytest.approx(float(focused[0, 0, 1]))
    assert diverse[0, 4, 4] > focused[0, 4, 4]


def test_tensions_learn_what_the_target_needs():
    torch.manual_seed(0)
    balancer = FixedTensionBalancer()
    readable, asked = torch.rand(4, 8, 8), torch.rand(4, 8, 8)
    optimizer = torch.optim.Adam([balancer.raw], lr=0.05)  # the network alone could do it too
    for _ in range(150):
        optimizer.zero_grad()
        loss = (balancer(readable, torch.zeros(4, 8, 8), asked) - normalise(asked)).square().mean()
        loss.backward()
        optimizer.step()
    assert balancer.named_tensions()["compress_particularize"] > 0.7
    assert float(loss.detach()) < 0.03


def test_tensions_may_differ_from_place_to_place():
    readable, asked = torch.rand(1, 8, 8), torch.rand(1, 8, 8)
    particularize = torch.zeros(1, 8, 8)
    particularize[:, :, 4:] = 1
    found = balance(readable, NOTHING, asked, {"compress_particularize": particularize, "focus_diversify": 0.0})
    only = balance(readable, NOTHING, NOTHING, {"compress_particularize": 0.0, "focus_diversify": 0.0})
    assert found.shape == (1, 8, 8)
    assert found[0, :, :4].flatten().argsort().equal(only[0, :, :4].flatten().argsort())


@pytest.mark.parametrize("shape", [(8, 8), (1, 1), (7, 33), (192, 256)])
@pytest.mark.parametrize("flat", [False, True])
def test_numpy_and_torch_balance_alike(shape: tuple[int, int], flat: bool):
    generator = np.random.default_rng(shape[1])
    maps = [generator.random((2, *shape), dtype=np.float32) * (not flat) for _ in range(3)]
    for tensions in ({}, {"focus_diversify": 1.0, "exploit_explore": 0.7}):
        in_numpy = balance(*maps, tensions)
        in_torch = balance(*map(torch.from_numpy, maps), tensions).numpy()
        assert in_numpy.dtype == np.float32
        np.testing.assert_allclose(sharpen(in_numpy), sharpen(in_torch), atol=2e-6)


def test_each_question_moves_the_tensions_and_none_saturates():
    kinds = asked_by_kind(12, 256, 5, "test")
    stood = {
        kind: [look(picture, query, 16, relevance="detail").tensions for picture, query in several]
        for kind, several in kinds.items()
    }
    assert len(stood) == 5
    for name in ("compress_particularize", "exploit_explore", "focus_diversify"):
        values = np.array([one[name] for several in stood.values() for one in several])
        assert values.std() >= 0.1
        assert np.quantile(values, 0.05) > 0.03
        assert np.quantile(values, 0.95) < 0.97
