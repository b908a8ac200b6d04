"""AdaptiveTensionBalancer: it starts at one half, and it can learn what no fixed balance can."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import torch

from arr_coc.balancing.choosing import relevance_for
from arr_coc.balancing.tensions import TENSION_NAMES, adaptive_balance, balance, normalise
from arr_coc.core.errors import InputError
from arr_coc.core.folders import CLASSIC_WEIGHTS
from arr_coc.knowing.scene import Scene
from arr_coc.pictures.kind import is_photograph
from arr_coc_lab.classic.balancers import AdaptiveConfig, AdaptiveTensionBalancer, TensionBalancer
from arr_coc_lab.classic.selectors import QuestionWords


def maps(batch: int = 2, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(batch, 6, 6, generator=generator) for _ in range(3)]


def test_untrained_it_is_the_plain_function_at_exactly_one_half():
    module, scores = AdaptiveTensionBalancer(AdaptiveConfig(query_width=5)), maps()
    query = 100 * torch.randn(2, 5)
    tensions = module.tensions(*scores, query)
    assert tensions.shape == (2, 6, 6, 3)
    assert torch.equal(tensions, torch.full_like(tensions, 0.5))
    torch.testing.assert_close(module(*scores, query), balance(*scores, torch.full((3,), 0.5)))
    examined = torch.rand(2, 6, 6)
    torch.testing.assert_close(
        module(*scores, query, examined), balance(*scores, torch.full((3,), 0.5), examined=examined)
    )


def test_tensions_follow_the_query_and_differ_from_place_to_place():
    torch.manual_seed(0)
    module = AdaptiveTensionBalancer(AdaptiveConfig(query_width=5))
    torch.nn.init.normal_(module.depart[-1].weight)
    scores = maps()
    first, second = (module.tensions(*scores, torch.randn(2, 5)) for _ in range(2))
    assert (first - second).abs().mean() > 0.01
    assert first.std((1, 2)).min() > 0.001


def test_a_gradient_reaches_every_part():
    torch.manual_seed(0)
    module = AdaptiveTensionBalancer(AdaptiveConfig(query_width=5))
    # Last layers start at zero, which hides the layers before them from the very first gradient.
    for layer in (module.depart[-1], module.fixed.network[-1]):
        torch.nn.init.normal_(layer.weight)
    query = torch.randn(2, 5, requires_grad=True)
    module(*maps(), query).square().sum().backward()
    assert query.grad is not None
    assert query.grad.abs().sum() > 0
    silent = [name for name, item in module.named_parameters() if item.grad is None or not item.grad.isfinite().all()]
    assert not silent
    # What is added everywhere alike vanishes in the normalisation; everything else must move.
    still = {name for name, item in module.named_parameters() if not item.grad.abs().sum() > 1e-7}
    assert still <= {"fixed.network.2.bias"}


def test_it_learns_a_balance_that_depends_on_the_question_which_a_fixed_one_cannot(tmp_path: Path):
    """Half of the questions want what can be read, half what the question couples to."""
    torch.manual_seed(0)
    readable, asked = torch.rand(8, 6, 6), torch.rand(8, 6, 6)
    nothing = torch.zeros(8, 6, 6)
    kind = torch.arange(8) % 2
    query = torch.nn.functional.one_hot(kind, 4).float()
    target = normalise(torch.where(kind[:, None, None] == 1, asked, readable))

    def train(module: torch.nn.Module, *extra: torch.Tensor) -> float:
        optimizer = torch.optim.Adam(module.parameters(), lr=0.03)
        for _ in range(120):
            optimizer.zero_grad()
            loss = (module(readable, nothing, asked, *extra) - target).square().mean()
            loss.backward()
            optimizer.step()
        return float(loss.detach())

    adaptive = AdaptiveTensionBalancer(AdaptiveConfig(query_width=4, hidden=16))
    fixed_loss, adaptive_loss = train(TensionBalancer()), train(adaptive, query)
    assert adaptive_loss < 0.25 * fixed_loss
    particularize = adaptive.tensions(readable, nothing, asked, query)[..., 0].mean((1, 2))
    assert particularize[kind == 1].min() > particularize[kind == 0].max()
    adaptive.save_pretrained(tmp_path)
    again = AdaptiveTensionBalancer.from_pretrained(tmp_path)
    assert torch.equal(again(readable, nothing, asked, query), adaptive(readable, nothing, asked, query))


def test_a_query_of_the_wrong_width_is_named():
    with pytest.raises(InputError, match=r"must be \(2, 5\)"):
        AdaptiveTensionBalancer(AdaptiveConfig(query_width=5))(*maps(), torch.zeros(2, 4))


# ---- in `look`, without torch ---------------------------------------------------------------------------------------


def test_numpy_says_what_the_module_says():
    words = QuestionWords.from_pretrained(CLASSIC_WEIGHTS / "tension_words").float()
    module = AdaptiveTensionBalancer.from_pretrained(CLASSIC_WEIGHTS / "adaptive").float()
    ways = np.random.default_rng(0).random((3, 12, 17)).astype(np.float32)
    query = "What number is on the red sign?"
    with torch.no_grad():
        maps = [torch.from_numpy(one)[None] for one in ways]
        wanted = module(*maps, words.mean(words.rows([query]))).numpy()
    found, tensions = adaptive_balance(list(ways), query)
    assert np.allclose(found, wanted, atol=2e-5)
    assert set(tensions) == set(TENSION_NAMES)
    assert not np.allclose(found, adaptive_balance(list(ways), "Is there a dog?")[0], atol=1e-3)


def test_look_takes_learned_tensions_for_what_is_drawn_and_its_own_for_photographs():
    drawn = np.full((96, 128, 3), 230, np.uint8)
    drawn[30:60, 70:110] = (200, 30, 30)
    noise = np.random.default_rng(0)
    base = noise.normal(120, 40, (12, 16, 3)).repeat(8, 0).repeat(8, 1)
    photo = np.clip(cv2.GaussianBlur(base, (0, 0), 6) + noise.normal(0, 9, base.shape), 0, 255).astype(np.uint8)
    assert is_photograph(photo)
    for picture, other in ((drawn, "look:adaptive"), (photo, "look:fixed")):
        own, named = (relevance_for(name, Scene(picture), "the red sign") for name in ("look", other))
        assert np.array_equal(own.map, named.map)
        apart = relevance_for(
            "look:fixed" if other == "look:adaptive" else "look:adaptive", Scene(picture), "the red sign"
        )
        assert not np.allclose(own.map, apart.map, atol=1e-4)
