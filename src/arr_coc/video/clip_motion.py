"""The motion of whole clips at once, as tensors: for training, and for judging many clips."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields, replace

import numpy as np
import torch
from torch import Tensor

from .cuts import FEATURES, colour_histogram, cut_features, cut_score, next_level, rule_says_cut
from .motion import MAP, VIEW, Motion, measure_motion, scaled, view_of
from .settings import TemporalSettings


@dataclass(frozen=True, eq=False)
class ClipMotion:
    """N clips of T frames; in a clip's first frame everything is unexplained.

    flow: (N, T, 2, h, w) backward, x first, in pixels of the maps. unexplained, moving: (N, T, h, w). features:
    (N, T, 2), as named in `cuts.FEATURES`. excess: the same above the clip's own level. cuts: (N, T) bool: first
    frames of scenes that were found, without the clip's first. rule: (N, T) bool, by the rule of thumb.
    """

    flow: Tensor
    unexplained: Tensor
    moving: Tensor
    features: Tensor
    excess: Tensor
    cuts: Tensor
    rule: Tensor

    def to(self, device: torch.device | str) -> ClipMotion:
        return replace(self, **{item.name: getattr(self, item.name).to(device) for item in fields(self)})

    def select(self, chosen: slice) -> ClipMotion:
        """Some of the clips."""
        return replace(self, **{item.name: getattr(self, item.name)[chosen] for item in fields(self)})


def clip_motion(pictures: Tensor, settings: TemporalSettings, threads: int = 1) -> ClipMotion:
    """(N, T, 3, H, W) uint8 → `ClipMotion` on the same device; DIS works on the CPU, one pair of frames at a time."""
    views = clip_views(pictures)
    with ThreadPoolExecutor(max(1, threads)) as pool:
        found = list(pool.map(lambda one: _one_clip(one, settings), views))
    columns = [torch.from_numpy(np.stack(column)) for column in zip(*found, strict=True)]
    return ClipMotion(*columns).to(pictures.device)


@torch.no_grad()
def clip_views(pictures: Tensor) -> np.ndarray:
    """(N, T, 3, H, W) uint8 → (N, T, h, w, 3) uint8: `view_of` every frame.

    Where the size allows, frames are made small where they are: moving and turning whole ones takes longer than the
    flow. Sums of whole numbers, rounded half up, are what OpenCV makes of them too.
    """
    height, width = scaled((pictures.shape[3], pictures.shape[4]), VIEW)
    side = pictures.shape[3] // height
    if (height * side, width * side) == tuple(pictures.shape[3:]):
        parts = pictures.unflatten(4, (width, side)).unflatten(3, (height, side))
        small = (parts.sum((4, 6), dtype=torch.int32) + side * side // 2) // (side * side)
        return small.to(torch.uint8).permute(0, 1, 3, 4, 2).contiguous().cpu().numpy()
    frames = pictures.detach().permute(0, 1, 3, 4, 2).contiguous().cpu().numpy()
    return np.stack([[view_of(frame) for frame in clip] for clip in frames])


def _one_clip(views: np.ndarray, settings: TemporalSettings) -> tuple[np.ndarray, ...]:
    """(T, h, w, 3) views → the fields of `ClipMotion` of one clip."""
    number = len(views)
    height, width = scaled((views.shape[1], views.shape[2]), MAP)
    flow = np.zeros((number, 2, height, width), dtype=np.float32)
    unexplained = np.ones((number, height, width), dtype=np.float32)
    moving = np.zeros((number, height, width), dtype=np.float32)
    features = np.zeros((number, len(FEATURES)), dtype=np.float32)
    excess = np.zeros_like(features)
    cuts, rule = np.zeros(number, dtype=bool), np.zeros(number, dtype=bool)
    level = np.zeros(len(FEATURES), dtype=np.float32)
    before = views[0]
    histogram = colour_histogram(before)
    for time in range(1, number):
        view = views[time]
        motion: Motion = measure_motion(before, view, settings)
        colours = colour_histogram(view)
        features[time] = cut_features(motion, histogram, colours)
        excess[time] = features[time] - level
        rule[time] = rule_says_cut(motion)
        cuts[time] = cut_score(features[time], level, settings) > 0
        flow[time], unexplained[time] = motion.flow.transpose(2, 0, 1), motion.unexplained
        moving[time] = motion.moving
        level = next_level(features[time], level)
        before, histogram = view, colours
    return flow, unexplained, moving, features, excess, cuts, rule
