"""Optical flow recovers a known shift; the two warps agree."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image

from arr_coc.core.errors import InputError
from arr_coc.texture.flow import FULL_MOTION, backward_flow, motion, motion_batch, optical_flow, warp, warp_batch


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


def test_warping_by_the_backward_flow_brings_the_earlier_frame_onto_the_later():
    world = ground()
    earlier, later = world[10:140, 10:180], world[7:137, 5:175]
    warped = warp(earlier, backward_flow(earlier, later))
    inner = (slice(15, -15), slice(15, -15))
    assert np.abs(warped - later)[inner].mean() < 0.25 * np.abs(earlier - later)[inner].mean()


def test_the_two_warps_agree_and_the_torch_one_has_gradients():
    generator = np.random.default_rng(1)
    image = generator.random((20, 30, 3), dtype=np.float32)
    flow = generator.normal(0, 4, (20, 30, 2)).astype(np.float32)
    images = torch.from_numpy(image).permute(2, 0, 1)[None].requires_grad_()
    flows = torch.from_numpy(flow).permute(2, 0, 1)[None].requires_grad_()
    moved = warp_batch(images, flows)
    # OpenCV interpolates with fixed-point fractions of 1/32 pixel.
    np.testing.assert_allclose(moved[0].detach().permute(1, 2, 0).numpy(), warp(image, flow), atol=0.06)
    assert np.abs(moved[0].detach().permute(1, 2, 0).numpy() - warp(image, flow)).mean() < 0.01
    moved.sum().backward()
    assert flows.grad is not None
    assert torch.isfinite(flows.grad).all()


def test_no_flow_means_no_change_and_no_motion():
    image = ground(24, 24)
    np.testing.assert_allclose(warp(image, np.zeros((24, 24, 2), np.float32)), image, atol=1e-6)
    assert motion(np.zeros((24, 24, 2), np.float32)).max() == 0


def test_motion_is_full_at_its_stated_share_of_the_picture():
    flow = np.zeros((50, 100, 2), np.float32)
    flow[:, 50:, 0] = FULL_MOTION * 100
    flow[:, 75:, 1] = 50
    found = motion(flow)
    assert found[0, 0] == 0
    assert found[0, 60] == pytest.approx(1)
    assert found.max() == 1
    batch = motion_batch(torch.from_numpy(flow).permute(2, 0, 1)[None])[0].numpy()
    np.testing.assert_allclose(batch, found, atol=1e-5)


def test_tiny_frames_do_not_move_and_unequal_ones_are_refused():
    assert optical_flow(np.zeros((4, 4), np.float32), np.ones((4, 4), np.float32)).shape == (4, 4, 2)
    with pytest.raises(InputError, match="one size"):
        optical_flow(np.zeros((20, 20), np.float32), np.zeros((20, 21), np.float32))
