"""Semantic channels on tiny random encoders of the stock classes, saved and loaded like real ones."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tiny_encoders import save_encoder

from arr_coc.core.errors import InputError
from arr_coc.texture.batch import sense
from arr_coc.texture.pyramid import pyramid
from arr_coc.texture.semantic import SemanticEncoder, SemanticProjection

TEXTS = ["where is the red car", "a blue sign", "the number", "a tree", "the red sign is blue"]


@pytest.fixture(scope="module", params=["clip", "siglip", "siglip2"])
def encoder(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> SemanticEncoder:
    return SemanticEncoder.from_pretrained(save_encoder(request.param, tmp_path_factory.mktemp(request.param)))


def pictures(count: int = 4) -> torch.Tensor:
    return torch.rand((count, 3, 40, 60), generator=torch.Generator().manual_seed(5))


def test_features_projection_channels_and_query_share_sixteen_dimensions(encoder: SemanticEncoder):
    projection = encoder.fit(pictures(), TEXTS)
    assert 0.3 < projection.variance_kept <= 1
    assert projection.components.shape[1] == 16
    texture = sense(pictures()[0], "full40", encoder=encoder)
    torch.testing.assert_close(texture.semantic.norm(dim=0), torch.ones(40, 60), atol=1e-4, rtol=0)
    assert not any("semantic" in note for note in texture.notes)
    tokens, counts = encoder.text_features(["where is the red car"])
    query = projection.text(tokens)
    assert query.shape == (1, counts.shape[1], 16)
    assert counts[0, -1]
    assert 2 <= counts.sum() < counts.numel()
    coarse = pyramid(texture, levels=3)[2].semantic
    torch.testing.assert_close(coarse.norm(dim=0), torch.ones(coarse.shape[1:]), atol=1e-4, rtol=0)


def test_a_batch_is_the_pictures_one_by_one(encoder: SemanticEncoder):
    encoder.fit(pictures(), TEXTS)
    together = encoder.dense(pictures(3), (20, 30))
    torch.testing.assert_close(together[2:], encoder.dense(pictures(3)[2:], (20, 30)), atol=1e-4, rtol=0)


def test_the_dense_path_of_one_patch_is_what_the_model_pools_from_one_patch(encoder: SemanticEncoder):
    """With a single patch there is nothing to choose between: pooling by attention must equal our path."""
    if not encoder.pools_by_attention or encoder._packs_patches():
        pytest.skip("only the attention-pooling family has this identity")
    hidden = torch.randn((1, 1, 32), generator=torch.Generator().manual_seed(0))
    with torch.no_grad():
        pooled = encoder.model.vision_model.head(hidden)
        torch.testing.assert_close(encoder._attention_value_path(hidden)[:, 0], pooled, atol=1e-5, rtol=0)


def test_an_encoder_without_projection_or_with_an_empty_query_says_so(tmp_path: Path):
    fresh = SemanticEncoder.from_pretrained(save_encoder("clip", tmp_path))
    with pytest.raises(InputError, match="fit"):
        sense(pictures()[0], "full40", encoder=fresh)
    with pytest.raises(InputError, match="empty"):
        fresh.text_features(["  "])
    with pytest.raises(InputError, match="cannot load"):
        SemanticEncoder.from_pretrained(tmp_path / "nowhere")


def test_projection_keeps_what_varies_ignores_the_gap_and_comes_back_from_disk(tmp_path: Path):
    generator = torch.Generator().manual_seed(2)
    basis = torch.linalg.qr(torch.randn((40, 16), generator=generator)).Q
    gap = torch.nn.functional.normalize(torch.randn(40, generator=generator), dim=0) * 5
    image = torch.randn((300, 16), generator=generator) @ basis.T + 0.01 * torch.randn((300, 40), generator=generator)
    text = torch.randn((60, 16), generator=generator) @ basis.T + gap
    projection = SemanticProjection.fit(image, text)
    assert projection.variance_kept > 0.97
    identity = projection.components.T @ projection.components
    torch.testing.assert_close(identity, torch.eye(16), atol=1e-5, rtol=0)
    # No dimension is spent on the gap: the basis spans the content's.
    assert torch.linalg.svdvals(projection.components.T @ basis).min() > 0.9
    # The same content in both modalities meets, although the modalities are far apart.
    content = torch.randn((50, 16), generator=generator) @ basis.T
    matched = (projection.image(content) * projection.text(content + gap)).sum(1)
    crossed = (projection.image(content) * projection.text(content.roll(1, 0) + gap)).sum(1)
    assert matched.mean() > crossed.mean() + 0.4
    projection.save(tmp_path / "projection.safetensors")
    again = SemanticProjection.load(tmp_path / "projection.safetensors")
    assert torch.equal(again.components, projection.components)
    assert again.variance_kept == projection.variance_kept
    with pytest.raises(InputError, match="dimensions"):
        again.image(torch.zeros(3, 7))
    with pytest.raises(InputError, match="no projection"):
        SemanticProjection.load(tmp_path / "missing.safetensors")
