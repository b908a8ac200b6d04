"""Clusters through time: identifiers follow their ground and are never used twice."""

from __future__ import annotations

import numpy as np
from clip_scenes import pan, scene

from arr_coc.texture.motion import measure_motion, view_of
from arr_coc.video.clusters import TrackedClusters, carry_clusters, find_clusters
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.stream import VideoStream

SETTINGS = TemporalSettings()


def carried(frames: list[np.ndarray], keyframe: bool) -> tuple[TrackedClusters, TrackedClusters]:
    views = [view_of(frame) for frame in frames]
    motion = measure_motion(views[0], views[1], SETTINGS)
    before = find_clusters(views[0], motion.agreement.shape, 7)
    return before, carry_clusters(before, motion.flow, motion.agreement, views[1], keyframe)


def test_identifiers_follow_the_ground() -> None:
    before, after = carried(pan(5, 2, 8), keyframe=False)
    # 8 pixels of 256 are 4 of the maps' 128: the same identifier stands 4 places to the left.
    same = after.labels[8:-8, 8:-16] == before.labels[8:-8, 12:-12]
    still = after.labels[8:-8, 8:-16] == before.labels[8:-8, 8:-16]
    assert same.mean() > 0.9 > still.mean()


def test_a_keyframe_keeps_most_identifiers_of_a_still_scene() -> None:
    before, after = carried(scene(2, 2), keyframe=True)
    assert (before.labels == after.labels).mean() > 0.9
    assert after.following >= before.following


def test_identifiers_are_never_used_twice() -> None:
    stream = VideoStream("the red card", keep=0.3, settings=TemporalSettings(keyframe=3))
    first = [stream.see(frame).clusters for frame in scene(1, 5, step=3)]
    second = [stream.see(frame).clusters for frame in scene(2, 3, step=3)]
    old, new = (set(np.unique(np.stack(group)).tolist()) for group in (first, second))
    assert not old & new
    assert len(old) > 10


def test_new_ground_gets_identifiers_that_were_never_used() -> None:
    before, after = carried(pan(5, 2, 40), keyframe=True)
    used, now = set(np.unique(before.labels).tolist()), set(np.unique(after.labels).tolist())
    fresh = now - used
    assert fresh
    assert min(fresh) >= before.following
    assert after.following > max(now)
    assert now & used, "ground that stayed keeps its name"
