"""What the temporal training learns from: both sources of maps, those that a stream begins with, a loss of places."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from arr_coc.options import Options
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.spending import cells_of
from arr_coc.video.stream import VideoStream
from arr_coc_lab.train.train_video import LOOK, VideoOptions, maps_of, needed_loss, source_at
from arr_coc_lab.worlds.needle.clips import render_clip


def test_both_sources_of_maps_are_studied_in_every_family() -> None:
    """Families take turns too: none may see only the one source."""
    plan = VideoOptions(families=("cards", "forms", "signs", "zoo"))
    rounds = 10
    seen = [(plan.families[number % 4], source_at(plan, number)) for number in range(rounds * 4)]
    for family in plan.families:
        assert sum(one == (family, "look") for one in seen) == rounds / 2
    for share, expected in ((0.0, 0), (0.25, rounds), (1.0, rounds * 4)):
        shares = [source_at(replace(plan, look_share=share), number) for number in range(rounds * 4)]
        assert shares.count("look") == pytest.approx(expected, abs=2)


def test_a_lesson_has_the_maps_that_a_stream_begins_with() -> None:
    clip = render_clip("cards", range(2), 2, (128, 128), 0, "train", cuts=1)
    found = maps_of(LOOK, torch.nn.Module(), clip, 1)
    assert found.shape == (2, 2, 4, 4)
    stream = VideoStream(clip.questions[1], budget=0.25, settings=TemporalSettings(), options=Options(photos=False))
    begun = stream.see(clip.pictures[1, 0].permute(1, 2, 0).contiguous().numpy())
    cells = torch.from_numpy(cells_of(begun.relevance.map, (4, 4)))
    torch.testing.assert_close(found[1, 0], cells, atol=1e-5, rtol=1e-4)
    assert not torch.allclose(found[1, 0], found[1, 1]), "after a cut everything is elsewhere"


def test_the_loss_asks_where_and_not_how_loud() -> None:
    truth = torch.zeros(1, 1, 4, 4)
    truth[..., 1, 1] = 1
    near, far = torch.full_like(truth, 0.05), torch.full_like(truth, 0.05)
    near[..., 1, 1], far[..., 3, 3] = 0.2, 0.2
    assert needed_loss(near, truth) < needed_loss(far, truth)
    assert float(needed_loss(near / 4, truth)) == pytest.approx(float(needed_loss(near, truth)), rel=1e-5)
