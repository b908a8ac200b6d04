"""Frames of any shape can be followed: every map of a frame has the size of its motion."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from arr_coc.options import Options
from arr_coc.video.stream import VideoStream


@pytest.mark.parametrize("size", [(256, 384), (384, 256), (250, 390)])
def test_a_moving_frame_of_any_shape_is_carried(size):
    """256×384 is 171×256 as a view, whose maps have 86 rows, where the frame itself would have 85."""
    small = np.random.default_rng(0).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    wide = cv2.resize(small, (size[1] + 16, size[0]), interpolation=cv2.INTER_CUBIC)
    stream = VideoStream("the red patch", options=Options(relevance="look"))
    for step in range(2):
        seen = stream.see(np.ascontiguousarray(wide[:, 4 * step : 4 * step + size[1]]))
    assert stream.state.scene == 0, "carried, not started again"
    assert seen.relevance.map.shape == stream.state.relevance.shape == seen.same_ground.shape
    assert seen.tokens > 0
