"""The flow between two frames recovers a known shift."""

from __future__ import annotations

import numpy as np
from PIL import Image

from arr_coc.texture.motion import backward_flow


def test_flow_recovers_a_shift_in_pixels_and_tiny_frames_do_not_move():
    coarse = np.random.default_rng(0).integers(0, 256, (20, 25), dtype=np.uint8)
    world = np.asarray(Image.fromarray(coarse).resize((200, 160), Image.Resampling.BICUBIC))
    earlier, later = world[10:140, 10:180].copy(), world[7:137, 5:175].copy()  # all moves right by 5 and down by 3
    middle = backward_flow(earlier, later)[30:100, 30:140].reshape(-1, 2)
    np.testing.assert_allclose(np.median(middle, 0), [-5, -3], atol=0.2)
    assert not backward_flow(np.zeros((4, 4), np.uint8), np.ones((4, 4), np.uint8)).any()
