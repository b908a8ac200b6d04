"""Optical flow recovers a known shift; the two warps agree."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.texture.flow import optical_flow


def ground(height: int = 160, width: int = 200) -> np.ndarray:
    coarse = np.random.default_rng(0).integers(0, 256, (height // 8, width // 8), dtype=np.uint8)
    return np.asarray(Image.fromarray(coarse).resize((width, height), Image.Resampling.BICUBIC), dtype=np.float32) / 255


@pytest.mark.parametrize("scale", [1, 4])
def test_flow_recovers_a_shift_in_pixels_of_the_picture(scale: int):
    world = np.asarray(Image.fromarray(ground()).resize((200 * scale, 160 * scale)))
    earlier = world[10 * scale : 140 * scale, 10 * scale : 180 * scale]
    later = world[7 * scale : 137 * scale, 5 * scale : 175 * scale]  # everything moves right by 5 and down by 3
    flow = optical_flow(earlier, later)
    middle = flow[30 * scale : 100 * scale, 30 * scale : 140 * scale].reshape(-1, 2)
    np.testing.assert_allclose(np.median(middle, 0), [5 * scale, 3 * scale], atol=0.15 * scale)


def test_tiny_frames_do_not_move_and_unequal_ones_are_refused():
    assert optical_flow(np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32)).shape == (4, 4, 2)
    with pytest.raises(InputError, match="one size"):
        optical_flow(np.zeros((20, 20), np.float32), np.zeros((20, 21), np.float32))
