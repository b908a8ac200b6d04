"""The pyramid: true centres, honest reducers, any size; and the three other ways down."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from arr_coc.core.errors import InputError
from arr_coc.texture.batch import sense
from arr_coc.texture.pyramid import majority, pyramid
from arr_coc.texture.reducers import LearnedDownsampler, attention_weighted, temporal_mips
from arr_coc.texture.texture import FULL40, Texture


def texture_of(height: int, width: int, seed: int = 0, batch: int = 0) -> Texture:
    """Random channels, true x and y, patchy clusters, unit semantic vectors."""
    generator = torch.Generator().manual_seed(seed)
    shape = (max(batch, 1), 40, height, width)
    data = torch.rand(shape, generator=generator)
    place = FULL40.index
    data[:, place("y")] = ((torch.arange(height) + 0.5) / height)[:, None]
    data[:, place("x")] = (torch.arange(width) + 0.5) / width
    data[:, place("cluster_id")] = torch.randint(0, 6, shape[:1] + shape[2:], generator=generator).float()
    vectors = torch.randn((shape[0], 16, height, width), generator=generator)
    data[:, place("semantic_0") : place("semantic_0") + 16] = vectors / vectors.norm(dim=1, keepdim=True)
    return Texture(data if batch else data[0], FULL40, height, width)


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 75), st.integers(1, 75), st.sampled_from(["opencv", "torch"]))
def test_averaged_x_and_y_are_the_true_centres_of_what_each_cell_shows(height: int, width: int, backend: str):
    levels = pyramid(texture_of(height, width), levels=4, backend=backend).levels
    for level, texture in enumerate(levels):
        side = 2**level
        tops = np.arange(texture.height) * side
        centres = (tops + np.minimum(tops + side, height)) / 2 / height
        np.testing.assert_allclose(texture["y"][: texture.height, 0].numpy(), centres, atol=1e-5)
        lefts = np.arange(texture.width) * side
        centres = (lefts + np.minimum(lefts + side, width)) / 2 / width
        np.testing.assert_allclose(texture["x"][0, : texture.width].numpy(), centres, atol=1e-5)
        assert texture.data.shape[-2] * side == levels[0].data.shape[-2]
        assert (texture.height, texture.width) == (-(-height // side), -(-width // side))
        assert texture.padding[0] == texture.data.shape[-2] - texture.height


@pytest.mark.parametrize("backend", ["opencv", "torch"])
@pytest.mark.parametrize("size", [(32, 48), (37, 50)])
def test_every_reducer_against_a_plain_loop(backend: str, size: tuple[int, int]):
    texture = texture_of(*size, seed=3)
    level = pyramid(texture, levels=4, backend=backend)[3]
    for row in range(level.height):
        for column in range(level.width):
            block = texture.data[:, row * 8 : row * 8 + 8, column * 8 : column * 8 + 8].flatten(1)
            found = level.data[:, row, column]
            counts = torch.bincount(block[FULL40.index("cluster_id")].long())
            assert found[FULL40.index("cluster_id")] == counts.argmax()
            assert found[FULL40.index("red")] == pytest.approx(float(block[0].mean()), abs=1e-5)
            for name in ("object_boundaries", "text_regions", "gaze"):
                assert found[FULL40.index(name)] == block[FULL40.index(name)].max()
            first = FULL40.index("semantic_0")
            mean = block[first : first + 16].mean(1)
            torch.testing.assert_close(found[first : first + 16], mean / mean.norm(), atol=1e-4, rtol=0)


def test_both_back_ends_agree_on_a_real_texture_and_on_a_batch():
    picture = np.random.default_rng(0).integers(0, 256, (90, 130, 3), dtype=np.uint8)
    texture = sense(picture, "full40")
    for one, other in zip(pyramid(texture).levels, pyramid(texture, backend="torch").levels, strict=True):
        torch.testing.assert_close(one.data, other.data, atol=1e-5, rtol=0)
    batch = texture_of(33, 20, batch=3)
    whole = pyramid(batch, levels=3)
    alone = pyramid(Texture(batch.data[1], FULL40, 33, 20), levels=3)
    for one, other in zip(whole.levels, alone.levels, strict=True):
        torch.testing.assert_close(one.data[1], other.data, atol=1e-6, rtol=0)


def test_five_levels_from_1024_to_64_and_zero_semantics_stay_zero():
    data = torch.zeros((40, 1024, 1024))
    levels = pyramid(Texture(data, FULL40, 1024, 1024))
    assert [level.data.shape[-1] for level in levels.levels] == [1024, 512, 256, 128, 64]
    assert all(torch.isfinite(level.data).all() and not level.semantic.any() for level in levels.levels)


def test_gradients_pass_through_the_pyramid():
    data = texture_of(16, 16).data.clone().requires_grad_()
    sum(level.data.sum() for level in pyramid(Texture(data, FULL40, 16, 16), levels=3).levels).backward()
    assert torch.isfinite(data.grad).all()
    assert data.grad.abs().sum() > 0


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 4), min_size=1, max_size=12))
def test_majority_is_the_most_frequent_and_the_smallest_of_equals(values: list[int]):
    expected = min(set(values), key=lambda value: (-values.count(value), value))
    assert majority(torch.tensor(values, dtype=torch.float32)) == expected


def test_attention_moves_the_average_towards_what_matters():
    texture = texture_of(32, 32)
    flat = attention_weighted(texture, torch.ones(32, 32), levels=3)
    for one, other in zip(flat.levels, pyramid(texture, levels=3).levels, strict=True):
        torch.testing.assert_close(one.data, other.data, atol=1e-5, rtol=0)
    attention = torch.zeros(32, 32)
    attention[0, 0] = 1
    weighted = attention_weighted(texture, attention, levels=3, floor=1e-4)[2]
    assert weighted["red"][0, 0] == pytest.approx(float(texture["red"][0, 0]), abs=1e-2)
    assert weighted["x"][0, 0] < pyramid(texture, levels=3)[2]["x"][0, 0]
    odd = attention_weighted(texture_of(19, 21), torch.ones(19, 21), levels=3)
    torch.testing.assert_close(odd[2].data, pyramid(texture_of(19, 21), levels=3)[2].data, atol=1e-5, rtol=0)
    with pytest.raises(InputError, match="attention"):
        attention_weighted(texture, torch.ones(8, 8))


def test_learned_mips_stay_between_what_they_are_made_of():
    module = LearnedDownsampler("full40")
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter, std=2.0)
    texture = texture_of(16, 24)
    with torch.no_grad():
        levels = module.pyramid(texture, levels=3).levels
    for place, channel in enumerate(FULL40.channels):
        if channel.reducer == "unit_mean":
            continue  # unit vectors, whatever they are made of
        for fine, coarse in pairwise(levels):
            assert fine.data[place].min() <= coarse.data[place].min()
            assert coarse.data[place].max() <= fine.data[place].max()
    red, first = texture.data[0], levels[1].data[0]
    assert first[3, 4] <= red[5:8, 7:10].max()
    assert first[3, 4] >= red[5:8, 7:10].min()


def test_the_learned_downsampler_starts_as_the_mean_learns_and_comes_back_from_disk(tmp_path: Path):
    module = LearnedDownsampler("full40")
    texture = texture_of(16, 24)
    plain = pyramid(texture, levels=2)[1]
    means = [place for place, one in enumerate(FULL40.channels) if one.reducer in ("mean", "majority", "unit_mean")]
    torch.testing.assert_close(module.pyramid(texture, levels=2)[1].data[means], plain.data[means], atol=1e-5, rtol=0)
    assert set(module.convolutions) == set(FULL40.groups())
    optimiser = torch.optim.SGD(module.parameters(), lr=0.05)
    before = None
    for _ in range(5):
        loss = (module(texture.batch())[:, 0] - 0.9).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        before = float(loss.detach()) if before is None else before
    assert float(loss.detach()) < before
    module.save_pretrained(tmp_path / "down")
    again = LearnedDownsampler.from_pretrained(tmp_path / "down")
    assert torch.equal(again(texture.batch()), module(texture.batch()))
    with pytest.raises(InputError, match="save_pretrained"):
        LearnedDownsampler.from_pretrained(tmp_path)


def test_temporal_mips_reduce_time_height_and_width_each_by_its_reducer():
    frames = torch.stack([texture_of(12, 8, seed=number).data for number in range(5)])
    levels = temporal_mips(frames, "full40", levels=3)
    assert [tuple(level.shape) for level in levels] == [(5, 40, 12, 8), (3, 40, 6, 4), (2, 40, 3, 2)]
    block = frames[0:2, :, 0:2, 2:4]
    found = levels[1][0, :, 0, 1]
    assert found[0] == pytest.approx(float(block[:, 0].mean()), abs=1e-6)
    identifiers = block[:, FULL40.index("cluster_id")].flatten().long()
    assert found[FULL40.index("cluster_id")] == torch.bincount(identifiers).argmax()
    assert found[FULL40.index("gaze")] == block[:, FULL40.index("gaze")].max()
    # The fifth frame has no partner: it is paired with itself.
    assert levels[1][2, 0, 0, 0] == pytest.approx(float(frames[4, 0, :2, :2].mean()), abs=1e-6)
