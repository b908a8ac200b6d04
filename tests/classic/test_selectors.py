"""The selectors of the first phases: they read the question, know red from blue, and keep to budgets and padding."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from arr_coc.balancing.choosing import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc_lab.classic.patch_trunk import TrunkConfig
from arr_coc_lab.classic.phases import picture_maps
from arr_coc_lab.classic.query_aware_lod import CLASSIC_TOKENS, choose_levels, concave_envelope
from arr_coc_lab.classic.realizer import RelevanceRealizer
from arr_coc_lab.worlds.needle import render

LADDER = torch.tensor(CLASSIC_TOKENS)
NAMES = ("edge_lod", "query_aware_lod", "realizer", "patch_trunk", "participatory")
ASKING = NAMES[1:]


@pytest.fixture(scope="module")
def signs():
    """Signs in a street, drawn; the questions and where their answers are."""
    batch = render("signs", 12, (384, 384), 5, "validation", None, "cpu")
    pixels = batch.pictures.permute(0, 2, 3, 1).contiguous().numpy()
    middles = (batch.boxes[:, 0, :2] + batch.boxes[:, 0, 2:]) / 2
    return list(zip(pixels, batch.questions, middles.tolist(), strict=True))


@pytest.mark.parametrize("name", ASKING)
def test_two_questions_give_two_maps_and_most_find_their_sign(name: str, signs):
    ranks = []
    for pixels, question, (x, y) in signs:
        found = relevance_for(name, Scene(pixels), question).map
        rows, cols = found.shape
        there = found[min(int(y * rows), rows - 1), min(int(x * cols), cols - 1)]
        ranks.append(float((found < there).mean()))
    assert np.mean(ranks) > 0.8, "what is asked for is among the most relevant places"
    pixels = signs[0][0]
    maps = [relevance_for(name, Scene(pixels), f"What does the {colour} sign say?").map for colour in ("red", "blue")]
    assert not np.allclose(*maps, atol=1e-3)


def test_edges_alone_do_not_hear_the_question(signs):
    pixels = signs[0][0]
    maps = [relevance_for("edge_lod", Scene(pixels), text).map for text in ("the red sign", "the blue car")]
    assert np.array_equal(*maps)
    blank = np.full((64, 96, 3), 200, np.uint8)
    blank[:, 48::6] = 0
    blank[:, 49::6] = 0
    blank[:, 50::6] = 0
    found = relevance_for("edge_lod", Scene(blank), "?").map
    assert found[:, : found.shape[1] // 2 - 1].max() < found[:, found.shape[1] // 2 + 1 :].min()


def test_a_batch_sees_what_one_picture_does(signs):
    """`bench classic` on a GPU against `look --relevance NAME`."""
    pictures = torch.from_numpy(np.stack([pixels for pixels, *_ in signs[:2]])).permute(0, 3, 1, 2)
    questions = [question for _, question, _ in signs[:2]]
    for name, found in picture_maps(NAMES, pictures, questions).items():
        for number, (pixels, question, _) in enumerate(signs[:2]):
            np.testing.assert_allclose(found[number], relevance_for(name, Scene(pixels), question).map, atol=1e-4)


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 10_000), st.integers(0, 3000), st.booleans())
def test_the_budget_is_never_exceeded_and_hardly_left(patches: int, seed: int, spare: int, sampled: bool):
    logits = 2 * random(2, patches, 5, seed=seed)
    budget = patches * 64 + spare
    choice = choose_levels(logits, budget=budget, generator=torch.Generator().manual_seed(seed) if sampled else None)
    total, wished = choice.tokens.sum(1), LADDER[choice.wished].sum(1)
    assert (total <= budget).all()
    assert (choice.levels <= choice.wished).all()
    assert (total[wished <= budget] == wished[wished <= budget]).all()
    assert (total[wished > budget] > budget - 128).all()


@pytest.mark.parametrize("seed", range(5))
def test_cutting_to_the_budget_keeps_the_most_likely_choice_of_its_cost(seed: int):
    """Against a search through all 5⁴ choices; logits concave in tokens, so that every rung can be bought alone."""
    logits = concave_envelope(2 * random(1, 4, 5, seed=seed))
    every = torch.tensor(list(product(range(5), repeat=4)))
    worth, cost = logits[0].gather(1, every.T).sum(0), LADDER[every].sum(1)
    for spare in (0, 100, 300, 500, 900):
        ours = choose_levels(logits, budget=4 * 64 + spare)
        value = logits[0].gather(1, ours.levels[0][:, None]).sum()
        torch.testing.assert_close(value, worth[cost <= ours.tokens.sum()].max())


@pytest.mark.parametrize("seed", range(3))
def test_attention_over_a_single_key_gives_every_patch_the_same_score(seed: int):
    torch.manual_seed(seed)
    attention, head = nn.MultiheadAttention(16, 2, batch_first=True), nn.Linear(16, 1)
    patches, question = 5 * random(1, 9, 16, seed=seed), random(1, 1, 16, seed=9)
    mixed, weights = attention(patches, question, question)
    assert torch.equal(weights, torch.ones(1, 9, 1))
    scores = head(mixed)[0, :, 0]
    assert scores.std() < 1e-6  # nine different patches, one score
    # The same patches and the same single word, with the residual and the key that is always there:
    own = RelevanceRealizer(TrunkConfig(16, 16, width=16, layers=1, heads=2))(patches, question)[0]
    assert own.std() > 1e-2
    assert len(own.unique()) == 9


@pytest.mark.parametrize("junk", [100.0, torch.nan])
def test_padding_changes_nothing_on_either_side_of_the_question(junk: float):
    torch.manual_seed(0)
    module = RelevanceRealizer(TrunkConfig(patch_width=6, query_width=5, width=16, layers=2, heads=2)).eval()
    patches, words = random(1, 9, 6), random(1, 4, 5)
    plain = module(patches, words)
    extra = torch.full((1, 3, 5), junk)
    padding = torch.tensor([[False] * 4 + [True] * 3])
    right = module(patches, torch.cat([words, extra], 1), padding)
    left = module(patches, torch.cat([extra, words], 1), padding.flip(1))
    torch.testing.assert_close(right, plain, atol=1e-5, rtol=0)
    torch.testing.assert_close(left, plain, atol=1e-5, rtol=0)
    if junk == junk:  # unmasked, the same words do change it
        assert (module(patches, torch.cat([words, extra], 1)) - plain).abs().max() > 1e-3
