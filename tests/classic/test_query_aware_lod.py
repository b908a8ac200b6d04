"""QueryAwareLOD: samples with exact log-probabilities, the budget to the token, learning."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.patch_trunk import TrunkConfig
from arr_coc_lab.classic.query_aware_lod import (
    CLASSIC_TOKENS,
    QueryAwareLOD,
    choose_levels,
    concave_envelope,
    fit_levels,
)

CONFIG = TrunkConfig(patch_width=3, query_width=4, width=16, layers=1, heads=2)
LADDER = torch.tensor(CLASSIC_TOKENS)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_logits(pictures: int, patches: int, seed: int = 0, spread: float = 2.0) -> torch.Tensor:
    return spread * torch.randn(pictures, patches, 5, generator=seeded(seed))


def test_in_use_the_most_likely_level_in_training_a_sample_that_a_seed_repeats():
    torch.manual_seed(0)
    module = QueryAwareLOD(CONFIG)
    torch.nn.init.normal_(module.head.weight)
    patches, words = torch.randn(2, 7, 3), torch.randn(2, 4, 4)
    with pytest.raises(InputError, match="generator"):
        module.choose(patches, words)
    first, second, other = (module.choose(patches, words, generator=seeded(seed)) for seed in (1, 1, 2))
    assert torch.equal(first.levels, second.levels)
    assert not torch.equal(first.levels, other.levels)
    used = module.eval().choose(patches, words)
    assert torch.equal(used.levels, module(patches, words).argmax(-1))
    assert torch.equal(used.tokens, LADDER[used.levels])


def test_log_probabilities_are_the_categorical_ones_and_samples_follow_them():
    logits = random_logits(1, 1).expand(20_000, 1, 5)
    choice = choose_levels(logits, generator=seeded())
    categorical = torch.distributions.Categorical(logits=logits)
    torch.testing.assert_close(choice.log_probability, categorical.log_prob(choice.wished))
    shares = torch.bincount(choice.levels.flatten(), minlength=5) / len(logits)
    torch.testing.assert_close(shares, categorical.probs[0, 0], atol=0.015, rtol=0)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 9), st.integers(0, 10_000), st.integers(0, 3000), st.booleans())
def test_the_budget_is_never_exceeded_and_hardly_left(patches: int, seed: int, spare: int, sampled: bool):
    logits = random_logits(2, patches, seed)
    budget = patches * 64 + spare
    choice = choose_levels(logits, budget=budget, generator=seeded(seed) if sampled else None)
    total, wished = choice.tokens.sum(1), LADDER[choice.wished].sum(1)
    assert (total <= budget).all()
    assert (choice.levels <= choice.wished).all()
    assert (total[wished <= budget] == wished[wished <= budget]).all()
    assert (total[wished > budget] > budget - 128).all()


@pytest.mark.parametrize("seed", range(5))
def test_cutting_to_the_budget_keeps_the_most_likely_choice_of_its_cost(seed: int):
    """Against a search through all 5⁴ choices; logits concave in tokens, so that every rung can be bought alone."""
    logits = concave_envelope(random_logits(1, 4, seed))
    every = torch.tensor(list(product(range(5), repeat=4)))
    worth, cost = logits[0].gather(1, every.T).sum(0), LADDER[every].sum(1)
    for spare in (0, 100, 300, 500, 900):
        ours = choose_levels(logits, budget=4 * 64 + spare)
        value = logits[0].gather(1, ours.levels[0][:, None]).sum()
        torch.testing.assert_close(value, worth[cost <= ours.tokens.sum()].max())


def test_the_patch_that_wants_detail_most_gets_it_and_ties_go_by_position():
    eager, modest = torch.tensor([-16.0, -8, 0, 8, 16]), torch.tensor([-2.0, -1, 0, 1, 2])
    logits = torch.stack([modest, eager, modest])[None]
    wished = torch.full((1, 3), 4)
    assert fit_levels(wished, logits, 3 * 64 + 336).tolist() == [[0, 4, 0]]
    equal = modest.expand(1, 3, 5)
    assert fit_levels(wished, equal, 3 * 64 + 2 * 36).tolist() == [[1, 1, 0]]
    with pytest.raises(InputError, match="at least 192 tokens or at most 2 patches"):
        choose_levels(equal, budget=191)


def test_it_learns_detail_for_what_is_asked_for_from_sampled_rewards_only(tmp_path: Path):
    """Two kinds of patches, the question names one: detail there is rewarded, tokens cost. No label is shown."""
    torch.manual_seed(0)
    module, generator = QueryAwareLOD(CONFIG), seeded()
    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)

    def batch() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kinds, asked = torch.randint(2, (32, 6), generator=generator), torch.randint(2, (32, 1), generator=generator)
        patches, words = (torch.nn.functional.one_hot(item, size).float() for item, size in ((kinds, 3), (asked, 4)))
        return patches, words, (kinds == asked).float()

    for _ in range(150):
        patches, words, wanted = batch()
        choice = module.choose(patches, words, generator=generator)
        reward = (2 * wanted - 1) * choice.tokens / 400
        optimizer.zero_grad()
        (-(reward - reward.mean()) * choice.log_probability).mean().backward()
        optimizer.step()
    module.eval().save_pretrained(tmp_path)
    patches, words, wanted = batch()
    tokens = QueryAwareLOD.from_pretrained(tmp_path).choose(patches, words).tokens.float()
    assert tokens[wanted == 1].mean() > 350
    assert tokens[wanted == 0].mean() < 130
