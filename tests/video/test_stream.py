"""`VideoStream`: holds still while the scene does, jumps when it does, keeps all its memory in one value."""

from __future__ import annotations

import cv2
import numpy as np
import pytest
from clip_scenes import ground, pan, scene

from arr_coc import InputError
from arr_coc.core.folders import EXAMPLES
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture
from arr_coc.texture.motion import measure_motion, quick_pan, view_of
from arr_coc.video.stream import TemporalSettings, VideoStream

QUERY = "What number is on the red card?"
TWO_SCENES = scene(1, 5, step=2) + scene(2, 4, step=2)


def test_a_cut_gets_a_full_look_and_repeated_ground_next_to_nothing() -> None:
    stream = VideoStream(QUERY, budget=25)
    seen = [stream.see(frame) for frame in scene(1, 4) + scene(2, 3)]
    assert [one.cut for one in seen] == [False] * 4 + [True] + [False] * 2
    assert [one.scene for one in seen] == [0] * 4 + [1] * 3
    assert seen[0].tokens == seen[4].tokens == 25
    assert all(one.tokens == 1 or one.tokens == 4 for one in seen[1:4] + seen[5:])
    assert [one.looked for one in seen] == [True, False, False, False, True, False, False]


def test_two_interleaved_streams_are_each_alone() -> None:
    clips = TWO_SCENES, pan(5, 9, 3)
    queries = QUERY, "What number is on the blue card?"

    def alone(clip: list[np.ndarray], query: str) -> list[object]:
        stream = VideoStream(query, budget=0.3)
        return [stream.see(frame).allocation.to_json() for frame in clip]

    streams = [VideoStream(query, budget=0.3) for query in queries]
    woven = [
        [stream.see(frame).allocation.to_json() for stream, frame in zip(streams, pair, strict=True)]
        for pair in zip(*clips, strict=True)
    ]
    for place in range(2):
        assert [row[place] for row in woven] == alone(clips[place], queries[place])


def test_a_moving_camera_is_no_cut() -> None:
    stream = VideoStream(QUERY, budget=0.3)
    assert not any(stream.see(frame).cut for frame in pan(7, 8, 6))


def test_a_frame_is_looked_at_again_once_what_is_carried_is_weak() -> None:
    """Other ground comes to lie over the relevant place, and over an irrelevant one."""
    place = np.zeros((16, 24), dtype=np.float32)
    place[12:, :8] = 1
    options = Options(relevance=lambda pixels, query: place)
    for corner, looks in ((slice(10, 90), True), (slice(290, 370), False)):
        frames = [ground(3) for _ in range(3)]
        frames[2][200:240, corner] = 255 - frames[2][200:240, corner]
        stream = VideoStream(QUERY, budget=0.3, options=options)
        assert [stream.see(frame).looked for frame in frames] == [True, False, looks]


def test_a_function_is_asked_only_when_it_has_to_be() -> None:
    asked = []

    def relevance(pixels: np.ndarray, query: str) -> np.ndarray:
        asked.append(len(asked))
        return np.eye(8, dtype=np.float32)

    settings = TemporalSettings(keyframe=4)
    stream = VideoStream(QUERY, budget=0.3, settings=settings, options=Options(relevance=relevance))
    counts = []
    for frame in scene(1, 6) + scene(2, 2):
        stream.see(frame)
        counts.append(len(asked))
    assert counts == [1, 1, 1, 1, 2, 2, 3, 3]  # the first frame, the keyframe, the cut


def test_frames_that_cannot_be_used_are_said_in_a_line() -> None:
    stream = VideoStream(QUERY)
    for bad in (np.zeros((8, 8)), np.zeros((8, 8, 3)), np.zeros((0, 8, 3), dtype=np.uint8)):
        with pytest.raises(InputError, match="a frame must be"):
            stream.see(bad)
    with pytest.raises(InputError, match="question is empty"):
        VideoStream(" ")
    with pytest.raises(InputError, match="boost"):
        TemporalSettings(boost=0.5)


def test_another_size_starts_afresh() -> None:
    stream = VideoStream(QUERY, budget=0.3)
    stream.see(scene(1, 1)[0])
    seen = stream.see(np.ascontiguousarray(scene(1, 1)[0][:, :192]))
    assert seen.cut
    assert (seen.allocation.height, seen.allocation.width) == (256, 192)


def window(step: int, frames: int = 6) -> list[np.ndarray]:
    """The street through a window that moves on by `step` pixels a frame."""
    street = load_picture(EXAMPLES / "street.png").pixels
    return [np.ascontiguousarray(street[:, step * time : step * time + 700]) for time in range(frames)]


def test_a_quick_pan_is_no_cut_and_a_cut_within_one_is():
    clip = window(43)
    stream = VideoStream(QUERY, budget=0.2)
    seen = [stream.see(frame) for frame in clip]
    assert not any(one.cut for one in seen[1:])
    assert min(one.same_ground.mean() for one in seen[1:]) > 0.8, "all but the strip that is new is the same ground"
    assert not all(one.looked for one in seen[1:])
    views = [view_of(frame) for frame in clip]
    motion = measure_motion(views[0], views[1], 0.03, 0.11)
    assert abs(motion.pan[0] + 43 * 256 / 768) <= 1
    assert motion.pan[1] == 0
    assert quick_pan(*(cv2.cvtColor(view, cv2.COLOR_RGB2GRAY) for view in (views[0], views[0]))) == (0, 0)
    other = np.ascontiguousarray(clip[5][::-1, ::-1])
    assert stream.see(other).cut
    assert stream.see(other).cut is False
