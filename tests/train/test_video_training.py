"""How relevance is carried through clips, found by a search: the batch is the stream, and the loss asks for places."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from arr_coc.core.errors import InputError
from arr_coc.options import Options
from arr_coc.video.stream import TemporalSettings, VideoStream, cells_of, load_settings
from arr_coc_lab.train.train_video import carry, clip_motion, look_maps, main, needed_loss
from arr_coc_lab.worlds.needle.clips import render_clip


def clip_frames(cuts: int = 1, frames: int = 4) -> tuple[torch.Tensor, list[bool], list[np.ndarray]]:
    clip = render_clip("cards", range(1), frames, (128, 128), 0, "train", cuts=cuts)
    frame_list = list(clip.pictures[0].permute(0, 2, 3, 1).contiguous().numpy())
    return clip.pictures, clip.cuts[0].tolist(), frame_list


def test_the_batch_is_the_stream() -> None:
    """Looking at everything in every frame: decay · warped + (1 − decay) · current, boosted."""
    pictures, cuts, frames = clip_frames()
    settings = TemporalSettings(keyframe=1, decay=0.7, boost=1.6)
    coarse = np.random.default_rng(0).random((len(frames), 8, 8)).astype(np.float32)
    maps = torch.nn.functional.interpolate(torch.from_numpy(coarse)[None], (128, 128), mode="bilinear")[0]
    given = iter(maps.numpy())
    stream = VideoStream("a card", budget=0.3, settings=settings, options=Options(relevance=lambda *_: next(given)))
    seen = [stream.see(frame) for frame in frames]
    motion = clip_motion(pictures, settings)
    assert motion.cuts[0].tolist() == [one.cut for one in seen] == cuts
    carried = carry(maps[None], motion, settings)
    for number, one in enumerate(seen):
        # OpenCV warps in steps of 1/32 pixel, torch does not.
        assert np.abs(one.relevance.map - carried.relevance[0, number].numpy()).max() < 0.03, f"frame {number}"


def test_looking_only_where_it_is_weak_carries_the_rest() -> None:
    pictures, cuts, _ = clip_frames()
    cut = cuts.index(True)
    carried = carry(torch.rand(1, 4, 4, 4), clip_motion(pictures, TemporalSettings()), TemporalSettings(), False)
    for whole in (0, cut):
        assert bool((carried.looked[:, whole] == 1).all()), "a scene's first frame is looked at in full"
        assert not bool(carried.same_ground[:, whole].any())
    rest = [time for time in range(4) if time not in (0, cut)]
    assert float(carried.looked[:, rest].mean()) < 0.5


def test_an_example_has_the_maps_that_a_stream_begins_with() -> None:
    clip = render_clip("cards", range(2), 2, (128, 128), 0, "train", cuts=1)
    maps = look_maps(clip)
    stream = VideoStream(clip.questions[1], budget=0.25, settings=TemporalSettings(), options=Options(photos=False))
    begun = stream.see(clip.pictures[1, 0].permute(1, 2, 0).contiguous().numpy())
    cells = torch.from_numpy(cells_of(begun.relevance.map, (4, 4)))
    torch.testing.assert_close(maps[1, 0], cells, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(maps[1, 0], maps[1, 1]), "after a cut everything is elsewhere"


def test_the_loss_asks_where_and_not_how_loud() -> None:
    truth = torch.zeros(1, 1, 4, 4)
    truth[..., 1, 1] = 1
    near, far = torch.full_like(truth, 0.05), torch.full_like(truth, 0.05)
    near[..., 1, 1], far[..., 3, 3] = 0.2, 0.2
    assert needed_loss(near, truth) < needed_loss(far, truth)
    assert float(needed_loss(near / 4, truth)) == pytest.approx(float(needed_loss(near, truth)), rel=1e-5)


def test_the_search_writes_settings_that_a_stream_reads(tmp_path) -> None:
    main(["--out", str(tmp_path), "--clips", "1", "--frames", "3", "--side", "128", "--tries", "4"])
    settings = load_settings(tmp_path / "video")
    assert settings != TemporalSettings()
    assert set(json.loads((tmp_path / "record.json").read_text())["validation"]) == {"before", "after"}
    (tmp_path / "video" / "settings.json").write_text("{}x")
    with pytest.raises(InputError, match="sha256"):
        load_settings(tmp_path / "video")
