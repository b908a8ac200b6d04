"""AdaptiveTensionBalancer: it starts at one half, and it can learn what no fixed balance can."""

from __future__ import annotations

import cv2
import numpy as np
import torch

from arr_coc.balancing.choosing import relevance_for
from arr_coc.balancing.tensions import TENSION_NAMES, adaptive_balance
from arr_coc.core.folders import CLASSIC_WEIGHTS
from arr_coc.knowing.scene import Scene
from arr_coc.pictures.kind import is_photograph
from arr_coc_lab.classic.balancers import AdaptiveTensionBalancer
from arr_coc_lab.classic.selectors import QuestionWords


def maps(batch: int = 2, seed: int = 0) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    return [torch.rand(batch, 6, 6, generator=generator) for _ in range(3)]


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
