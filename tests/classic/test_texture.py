"""The source's texture in torch: equal to the library's by OpenCV, in range, with mips, projection and superpixels."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.core.errors import InputError
from arr_coc.knowing.language.lexical import lexical
from arr_coc.knowing.ways import perspectival, propositional
from arr_coc.texture import channels as library
from arr_coc_lab.classic.texture import ops
from arr_coc_lab.classic.texture.channels40 import FULL40, LAYOUTS, LOOK, MVP13, BatchTexture, Layout, sense
from arr_coc_lab.classic.texture.mips import DownsamplerConfig, LearnedDownsampler, mips
from arr_coc_lab.classic.texture.pca import SemanticProjection
from arr_coc_lab.classic.texture.superpixels import superpixels
from arr_coc_lab.worlds.needle import render


@pytest.fixture(scope="module")
def pictures() -> torch.Tensor:
    return render("signs", 2, (192, 256), 5, "validation", None, "cpu").pictures


def test_torch_and_opencv_sense_and_know_the_same(pictures):
    texture = sense(pictures, LOOK)
    ways = {
        "propositional": propositional,
        "perspectival": perspectival,
        "lexical": lambda one: lexical(one, "What does the red sign at the top left say?").map,
    }
    in_torch = {name: way(texture.named) for name, way in ways.items()}
    for number, picture in enumerate(pictures.permute(0, 2, 3, 1).contiguous().numpy()):
        alone = library.sense(picture)
        for name in library.CHANNELS:
            np.testing.assert_allclose(texture[name][number], alone[name], atol=2e-3, err_msg=name)
        for name, way in ways.items():
            np.testing.assert_allclose(in_torch[name][number], way(alone), atol=5e-3, err_msg=name)
    mask = torch.rand(2, 19, 31, generator=torch.Generator().manual_seed(0)) > 0.97
    for one, found in zip(mask.numpy(), ops.distance_to(mask), strict=True):
        np.testing.assert_allclose(found, cv2.distanceTransform(1 - one.astype(np.uint8), cv2.DIST_L2, 5), atol=0.2)


@settings(max_examples=8)
@given(st.integers(1, 50), st.integers(1, 50), st.sampled_from(sorted(LAYOUTS)), st.integers(0, 99))
def test_every_channel_and_mip_is_in_range_for_every_size(height: int, width: int, layout: str, seed: int):
    picture = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    texture = sense(picture, layout, gaze=(0.3, 0.9), semantic=torch.randn(1, 16, 3, 4))
    kinds = ("average", "attention", *(("learned",) if layout != "look" else ()))
    for level in (texture, *(mips(texture, kind, 3)[-1] for kind in kinds)):
        assert level.data.isfinite().all()
        low = torch.tensor([-1.0 if name.startswith("semantic") else 0.0 for name in level.layout.names])
        high = torch.tensor([50.0 if name == "cluster_id" else 1.0 for name in level.layout.names])
        assert ((level.data >= low[:, None, None] - 1e-5) & (level.data <= high[:, None, None] + 1e-5)).all()
        if level is not texture:
            assert level.size == (-(-height // 4), -(-width // 4))


def test_mips_reduce_each_channel_by_its_own_rule():
    layout = Layout("some", ("red", "cluster_id", "text_regions", *FULL40.names[18:34]))
    data = torch.rand(1, len(layout), 5, 6, generator=torch.Generator().manual_seed(1))
    data[:, 1] = torch.tensor([3.0, 7, 7, 7, 2, 2])
    coarse = mips(BatchTexture(data, layout), "average", 2)[1]
    assert torch.allclose(coarse["red"][0, 2, 1], data[0, 0, 4, 2:4].mean()), "over picture only"
    assert coarse["cluster_id"][0, 2].tolist() == [3, 7, 2]
    assert coarse["text_regions"][0, 0, 0] == data[0, 2, :2, :2].max()
    assert torch.allclose(coarse.semantic.norm(dim=1), torch.ones(1, 3, 3))
    looked = torch.zeros(1, 5, 6)
    looked[0, 1, 1] = 1e6
    assert torch.allclose(mips(BatchTexture(data, layout), "attention", 2, looked)[1]["red"][0, 0, 0], data[0, 0, 1, 1])


def test_the_learned_downsampler_starts_as_the_mean_and_what_ships_differs(pictures):
    texture = sense(pictures, MVP13)
    plain = mips(texture, "average", 3)[-1].data
    untrained = LearnedDownsampler(DownsamplerConfig("mvp13", list(MVP13.names)))
    torch.testing.assert_close(untrained.mips(texture, 3)[-1].data.detach(), plain)
    assert (mips(texture, "learned", 3)[-1].data - plain).abs().max() > 1e-2


def test_pictures_and_questions_pass_one_projection(pictures):
    """Two clouds far apart, which vary along the same directions: a word lies near the place that varies as it does."""
    generator = torch.Generator().manual_seed(0)
    basis, apart = torch.randn(20, 32, generator=generator), 5 * torch.randn(2, 32, generator=generator)
    kinds = torch.randn(24, 20, generator=generator) @ basis
    projection = SemanticProjection.fit(kinds + apart[0], kinds + apart[1])
    texture = sense(
        pictures, "full40", semantic=projection.planes((kinds + apart[0]).view(1, 4, 6, 32).expand(2, -1, -1, -1))
    )
    assert torch.allclose(texture.semantic.norm(dim=1), torch.ones(2, 192, 256), atol=1e-4)
    alike = projection.image(kinds + apart[0]) @ projection.text(kinds + apart[1]).T
    assert alike.argmax(1).tolist() == list(range(24))


def test_superpixels_follow_colours_and_are_whole():
    picture = np.full((256, 256, 3), 230, np.uint8)
    cv2.circle(picture, (130, 120), 70, (200, 30, 30), -1)
    labels = superpixels(picture)
    red = picture[..., 1] < 100
    sizes = np.bincount(labels.ravel())
    inside = np.bincount(labels.ravel(), red.ravel()) / sizes
    assert np.minimum(inside, 1 - inside) @ sizes / labels.size < 0.01, "hardly a piece lies on both sides of the edge"
    assert 15 <= len(sizes) <= 60
    assert sizes.min() >= 0.01 * labels.size


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ({"given": {"motion": torch.full((4, 4), torch.nan)}}, "motion contains NaN"),
        ({"given": {"motion": torch.zeros(3, 4, 4)}}, "one per picture"),
    ],
)
def test_what_cannot_be_sensed_is_named(how: dict, words: str):
    with pytest.raises(InputError, match=words):
        sense(torch.zeros(2, 3, 8, 8), **how)
    with pytest.raises(InputError, match="divide by 255"):
        sense(torch.full((1, 3, 8, 8), 200.0))
