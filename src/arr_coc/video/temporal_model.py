"""Temporal mips in a stream: what has mattered for a while, read from a pyramid in time over the last frames."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..sensing.reducers import temporal_mips
from ..sensing.texture import Layout
from .motion import warp_planes

# So many frames are kept for their temporal mips, whose coarsest level is one frame of a quarter of the side.
PAST, PAST_LEVELS = 4, 3
PAST_LAYOUT = Layout.of("past", ("previous_relevance",))


def slow_relevance(past: Tensor) -> Tensor:
    """(N, 4, h, w) relevance of the last frames, at its ground's present places → (N, h, w): what the coarsest of their
    temporal mips says, where something has mattered for a while and not in one frame alone."""
    coarse = temporal_mips(past[:, :, None], PAST_LAYOUT, PAST_LEVELS)[-1][:, :, 0]
    return F.interpolate(coarse, size=past.shape[2:], mode="bilinear", align_corners=False)[:, 0]


def remembered(
    relevance: np.ndarray, earlier: tuple[np.ndarray | None, np.ndarray] | None, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """For one stream: (h, w) relevance with the share that the temporal mips of its last frames have in it, and those
    frames (4, h, w). earlier: those of the frame before, and the flow from there; None where a scene begins."""
    past = np.repeat(relevance[None], PAST, axis=0)
    if earlier is not None and earlier[0] is not None:
        past = np.stack([*warp_planes(list(earlier[0]), earlier[1])[1:], relevance])
    slow = slow_relevance(torch.from_numpy(past)[None])[0].numpy()
    return relevance + share * (slow - relevance), past
