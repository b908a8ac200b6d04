"""RelevanceRealizer: why one key is degenerate, that ours is not, and that it learns the right sign."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import nn

from arr_coc.core.errors import InputError
from arr_coc.texture.batch import sense
from arr_coc_lab.classic.patch_trunk import TrunkConfig, patch_features, word_positions
from arr_coc_lab.classic.query_aware_lod import QueryAwareLOD
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


def test_a_question_of_nothing_but_padding_is_still_finite():
    logits = realizer()(random(1, 9, 6), random(1, 3, 5), torch.ones(1, 3, dtype=torch.bool))
    assert logits.isfinite().all()


def test_padded_patches_score_zero_and_disturb_nobody():
    module, patches, words = realizer(), random(1, 9, 6), random(1, 4, 5)
    padded = torch.cat([patches, torch.full((1, 2, 6), torch.nan)], 1)
    mask = torch.tensor([[False] * 9 + [True] * 2])
    logits = module(padded, words, patch_padding=mask)
    torch.testing.assert_close(logits[:, :9], module(patches, words), atol=1e-5, rtol=0)
    assert logits.sigmoid()[0, 9:].tolist() == [0, 0]
    loss = nn.functional.binary_cross_entropy_with_logits(logits, torch.zeros(1, 11))
    loss.backward()
    assert all(parameter.grad.isfinite().all() for parameter in module.parameters() if parameter.grad is not None)


def test_it_learns_to_look_at_what_is_asked_for_and_not_away_from_it():
    """Each patch has one of four kinds; the second word of the question names a kind."""
    torch.manual_seed(0)
    module = RelevanceRealizer(TrunkConfig(patch_width=4, query_width=6, width=16, layers=1, heads=2))
    generator = torch.Generator().manual_seed(0)

    def batch(size: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        kinds = torch.randint(4, (size, 8), generator=generator)
        asked = torch.randint(4, (size, 1), generator=generator)
        words = nn.functional.one_hot(torch.cat([torch.full_like(asked, 4), asked], 1), 6).float()
        return nn.functional.one_hot(kinds, 4).float(), words, (kinds == asked).float()

    optimizer = torch.optim.AdamW(module.parameters(), lr=1e-2)
    for _ in range(120):
        patches, words, target = batch(32)
        optimizer.zero_grad()
        nn.functional.binary_cross_entropy_with_logits(module(patches, words), target).backward()
        optimizer.step()
    patches, words, target = batch(64)
    relevance = module.relevance(patches, words, (2, 4)).flatten(1)
    assert relevance[target == 1].mean() > 0.8
    assert relevance[target == 0].mean() < 0.2


def test_saved_and_read_back_it_scores_the_same(tmp_path: Path):
    module, patches, words = realizer(), random(1, 9, 6), random(1, 4, 5)
    module.save_pretrained(tmp_path / "realizer")
    again = RelevanceRealizer.from_pretrained(tmp_path / "realizer")
    assert again.config == CONFIG
    assert torch.equal(again(patches, words), module(patches, words))
    with pytest.raises(InputError, match="not a QueryAwareLOD"):
        QueryAwareLOD.from_pretrained(tmp_path / "realizer")
    with pytest.raises(InputError, match="no RelevanceRealizer could be read"):
        RelevanceRealizer.from_pretrained(tmp_path / "nowhere")
    (tmp_path / "realizer" / "SHA256SUMS").unlink()
    (tmp_path / "realizer" / "model.safetensors").write_bytes(b"not weights")
    with pytest.raises(InputError, match="no RelevanceRealizer could be read"):
        RelevanceRealizer.from_pretrained(tmp_path / "realizer")


def test_patch_features_are_the_textures_cells_without_identifiers():
    picture = torch.rand(3, 40, 60, generator=torch.Generator().manual_seed(0))
    texture = sense(picture, "mvp13")
    features = patch_features(texture, (4, 6))
    assert features.shape == (1, 24, 13)
    columns = features[0, :, texture.layout.index("x")].reshape(4, 6)
    torch.testing.assert_close(columns[0], (torch.arange(6) + 0.5) / 6, atol=1e-5, rtol=0)
    full = sense(picture, "full40")
    assert patch_features(full, (4, 6)).shape == (1, 24, len(full.layout) - 1)  # cluster_id is a name, not a quantity


def test_word_positions_count_words_and_not_padding():
    padding = torch.tensor([[True, True, False, False]])
    torch.testing.assert_close(
        word_positions(padding, 8)[:, 2:], word_positions(torch.zeros(1, 2, dtype=torch.bool), 8)
    )
    assert word_positions(padding, 7).shape == (1, 4, 7)


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


def test_a_width_that_heads_cannot_share_is_refused():
    with pytest.raises(InputError, match="heads"):
        RelevanceRealizer(TrunkConfig(6, 5, width=10, heads=4))
