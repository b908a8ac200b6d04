"""The batched, differentiable form of what a stream does: the same maps, gradients where they are needed."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from clip_scenes import pan, scene

from arr_coc import InputError
from arr_coc.options import Options
from arr_coc.texture.motion import view_of
from arr_coc.video.settings import TemporalSettings, load_settings
from arr_coc.video.stream import VideoStream
from arr_coc_lab.train.temporal_model import TemporalBlend, clip_motion, clip_views

FRAMES = pan(3, 3, 4) + scene(2, 3, step=3)


def tensor_of(frames: list[np.ndarray]) -> torch.Tensor:
    return torch.from_numpy(np.stack(frames)).permute(0, 3, 1, 2)[None]


def test_the_batch_is_the_stream() -> None:
    """Looking at everything in every frame: SPEC's decay · warped + (1 − decay) · current, boosted."""
    settings = TemporalSettings(keyframe=1, decay=0.7, boost=1.6)
    random = np.random.default_rng(0)
    coarse = random.random((len(FRAMES), 8, 8)).astype(np.float32)
    maps = torch.nn.functional.interpolate(torch.from_numpy(coarse)[None], (128, 128), mode="bilinear")[0]
    given = iter(maps.numpy())
    stream = VideoStream("a card", budget=0.3, settings=settings, options=Options(relevance=lambda *_: next(given)))
    seen = [stream.see(frame) for frame in FRAMES]
    motion = clip_motion(tensor_of(FRAMES), settings)
    assert motion.cuts[0].tolist() == [one.cut for one in seen] == [False] * 3 + [True] + [False] * 2
    carried = TemporalBlend.of(settings).eval()(maps[None], motion)
    for number, one in enumerate(seen):
        # OpenCV warps in steps of 1/32 pixel, torch does not.
        difference = np.abs(one.relevance.map - carried.relevance[0, number].detach().numpy())
        assert difference.max() < 0.03, f"frame {number}"


@torch.no_grad()
def test_looking_only_where_it_is_weak_carries_the_rest() -> None:
    motion = clip_motion(tensor_of(FRAMES), TemporalSettings())
    current = torch.rand(1, len(FRAMES), 128, 128)
    model = TemporalBlend.of(TemporalSettings()).eval()
    carried = model(current, motion, every_frame=False)
    assert torch.equal(carried.looked[:, 0], torch.ones(1, 128, 128))
    assert torch.equal(carried.looked[:, 3], torch.ones(1, 128, 128)), "a cut is looked at in full"
    assert float(carried.looked[:, 1].mean()) < 0.2
    assert torch.equal(carried.same_ground[:, 3], torch.zeros(1, 128, 128))
    assert float(carried.same_ground[:, 5].mean()) > 0.8


def test_every_learned_number_gets_a_gradient() -> None:
    motion = clip_motion(tensor_of(FRAMES), TemporalSettings())
    model = TemporalBlend()
    carried = model(torch.rand(1, len(FRAMES), 128, 128), motion, every_frame=False)
    loss = (carried.relevance - 0.3).square().mean() + carried.looked.mean() + model.cut_logits(motion.excess).mean()
    loss.backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert bool((parameter.grad != 0).any()), name


def test_settings_travel_with_the_weights(tmp_path) -> None:
    settings = TemporalSettings(decay=0.75, boost=1.3, weak=0.4, agree=0.02, disagree=0.2, cut_bias=-4.0, keyframe=20)
    TemporalBlend.of(settings).save_pretrained(tmp_path)
    read, loaded = load_settings(tmp_path), TemporalBlend.from_pretrained(tmp_path).settings
    for found in (read, loaded):
        for name, value in settings.to_json().items():
            assert getattr(found, name) == pytest.approx(value, abs=2e-4), name
    (tmp_path / "settings.json").write_text("{}x")
    with pytest.raises(InputError, match="sha256"):
        load_settings(tmp_path)
    (tmp_path / "SHA256SUMS").unlink()
    with pytest.raises(InputError, match="no temporal settings"):
        load_settings(tmp_path)


@pytest.mark.parametrize("side", [512, 384, 256, 128])
def test_views_of_a_batch_are_those_of_the_stream(side: int) -> None:
    """Made small where they are, or by OpenCV where the size does not divide: to the last bit either way."""
    frames = np.random.default_rng(side).integers(0, 256, (2, side, side, 3)).astype(np.uint8)
    views = clip_views(torch.from_numpy(frames).permute(0, 3, 1, 2)[None])
    assert np.array_equal(views[0], np.stack([view_of(frame) for frame in frames]))
