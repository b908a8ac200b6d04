"""Answers from all frames that got tokens, and clips of which no frame alone has the answer."""

from __future__ import annotations

import numpy as np
from clip_scenes import scene
from tiny_models import tiny_model, tiny_processor

from arr_coc.answering.eye import Eye
from arr_coc.attending.allocate import allocate
from arr_coc.video.answering import answer_clip, side_by_side
from arr_coc.video.watching import watch

QUERY = "What number is on the red card?"


def test_frames_side_by_side_keep_their_regions() -> None:
    frames = [np.full((96, 160, 3), shade, np.uint8) for shade in (40, 90, 200)]
    maps = np.random.default_rng(0).random((3, 3, 5)).astype(np.float32)
    made = [allocate(one, 6, image_size=(96, 160)) for one in maps]
    sheet, allocation = side_by_side(frames, made)
    leaf = 32 << max(int(one.levels.max()) for one in made)
    assert sheet.shape[0] % leaf == sheet.shape[1] % leaf == 0
    high, wide = sheet.shape[0] // 2, sheet.shape[1] // 2
    places = [(0, 0), (0, wide), (high, 0)]
    assert [int(sheet[y, x, 0]) for y, x in places] == [40, 90, 200]
    for one, (y, x) in zip(made, places, strict=True):
        there = allocation.level_map()[y // 32 : y // 32 + 3, x // 32 : x // 32 + 5]
        assert np.array_equal(there, one.level_map())
    assert allocation.tokens == allocation.budget == 18
    _, same = side_by_side(frames[:1], made[:1])
    assert same.tokens == 6
    assert not same.notes


def test_every_frame_that_got_tokens_has_a_say(monkeypatch) -> None:
    monkeypatch.setattr("arr_coc.video.answering.knows_video", lambda eye: False)
    frames = scene(1, 3) + scene(2, 3)
    watched = watch(iter(frames), QUERY, budget=0.3)
    funded = watched.funded(4)
    assert {watched.frames[number].scene for number in funded} == {0, 1}
    assert max(watched.frames[number].tokens for number in set(range(6)) - set(funded)) < max(
        watched.frames[number].tokens for number in funded
    )
    eye = Eye(tiny_model(), tiny_processor(), relevance="look")
    doubts = {}
    for blank in (None, *funded):
        shown = [np.zeros_like(one) if number == blank else one for number, one in enumerate(frames)]
        answer = answer_clip(eye, watched, shown, max_new_tokens=2)
        doubts[blank] = answer.uncertainty
        assert answer.tokens == sum(watched.frames[number].tokens for number in funded)
        assert any("side by side" in note for note in answer.passes[-1].allocation.notes)
    assert all(doubts[blank] != doubts[None] for blank in funded)
