"""RelevanceRealizer: why one key is degenerate, that ours is not, and that it learns the right sign."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from arr_coc.core.errors import InputError
from arr_coc_lab.classic.patch_trunk import TrunkConfig
from arr_coc_lab.classic.realizer import RelevanceRealizer

CONFIG = TrunkConfig(patch_width=6, query_width=5, width=16, layers=2, heads=2)


def realizer(seed: int = 0) -> RelevanceRealizer:
    torch.manual_seed(seed)
    return RelevanceRealizer(CONFIG).eval()


def random(*shape: int, seed: int = 1) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


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


def test_two_queries_on_one_picture_give_two_maps_and_not_by_a_shift():
    module, patches = realizer(), random(1, 9, 6)
    first, second = (module(patches, random(1, 4, 5, seed=seed))[0] for seed in (2, 3))
    assert (first - second).std() > 1e-3


def test_permuted_patches_give_permuted_scores():
    module, patches, words = realizer(), random(2, 9, 6), random(2, 4, 5)
    order = torch.randperm(9, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(module(patches[:, order], words), module(patches, words)[:, order], atol=1e-5, rtol=0)


def test_the_order_of_the_words_matters():
    module, patches, words = realizer(), random(1, 9, 6), random(1, 4, 5)
    assert (module(patches, words) - module(patches, words.flip(1))).abs().max() > 1e-4


@pytest.mark.parametrize("junk", [100.0, torch.nan])
def test_padding_changes_nothing_on_either_side_of_the_question(junk: float):
    module, patches, words = realizer(), random(1, 9, 6), random(1, 4, 5)
    plain = module(patches, words)
    extra = torch.full((1, 3, 5), junk)
    padding = torch.tensor([[False] * 4 + [True] * 3])
    right = module(patches, torch.cat([words, extra], 1), padding)
    left = module(patches, torch.cat([extra, words], 1), padding.flip(1))
    torch.testing.assert_close(right, plain, atol=1e-5, rtol=0)
    torch.testing.assert_close(left, plain, atol=1e-5, rtol=0)
    if junk == junk:  # unmasked, the same words do change it
        assert (module(patches, torch.cat([words, extra], 1)) - plain).abs().max() > 1e-3


@pytest.mark.parametrize(
    ("patches", "words", "padding"),
    [
        ((1, 9, 5), (1, 4, 5), None),
        ((9, 6), (1, 4, 5), None),
        ((2, 9, 6), (1, 4, 5), None),
        ((1, 9, 6), (1, 5), None),
        ((1, 9, 6), (1, 4, 5), torch.zeros(1, 3, dtype=torch.bool)),
        ((1, 9, 6), (1, 4, 5), torch.zeros(1, 4)),
    ],
)
def test_wrong_shapes_are_named(patches: tuple[int, ...], words: tuple[int, ...], padding: torch.Tensor | None):
    with pytest.raises(InputError, match="must be"):
        realizer()(torch.zeros(patches), torch.zeros(words), padding)
