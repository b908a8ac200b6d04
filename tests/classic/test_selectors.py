"""The selectors of the first phases: they read the question, know red from blue, and keep to budgets."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.balancing.choosing import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc_lab.classic.phases import picture_maps
from arr_coc_lab.classic.query_aware_lod import CLASSIC_TOKENS, choose_levels, concave_envelope
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
    assert (total[wished > budget] > budget - LADDER.diff().max()).all(), "less than one rung is left"


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
