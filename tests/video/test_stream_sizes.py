"""Frames of any shape can be followed: every map of a frame has the size of its motion."""

from __future__ import annotations

import numpy as np
import pytest

from arr_coc.video import VideoStream


@pytest.mark.parametrize("size", [(256, 384), (384, 256), (250, 390)])
def test_a_moving_frame_is_carried_with_its_clusters(size):
    """256×384 is 171×256 as a view, whose maps have 86 rows, where the frame itself would have 85."""
    wide = np.kron(np.random.default_rng(0).integers(0, 256, (40, 60, 3)), np.ones((12, 12, 1))).astype(np.uint8)
    stream = VideoStream("the red patch", total=24, frames=2, relevance="look:fixed")
    for step in range(2):
        seen = stream.see(np.ascontiguousarray(wide[: size[0], 4 * step : 4 * step + size[1]]))
    assert seen.clusters.shape == stream.memory()["previous_relevance"].shape
    assert seen.tokens > 0
