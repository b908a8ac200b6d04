"""`TemporalBlend`: the numbers of `TemporalSettings` as parameters, and a whole batch of clips carried at once.

The stream carries one clip in numpy, frame by frame; this carries N clips in torch, with gradients. A test holds the
two equal. Only a handful of numbers is learned: how much of the past to keep, how much motion counts, what is still
the same ground, when to look again, and what makes a cut. `clip_motion` measures the motion of all clips beforehand.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, fields, replace
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.arrays import sized
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.manifest import whole_folder
from arr_coc.core.pretrained import Pretrained
from arr_coc.texture.motion import (
    FEATURES,
    MAP,
    VIEW,
    Motion,
    cut_features,
    cut_score,
    measure_motion,
    next_level,
    rule_says_cut,
    view_of,
)
from arr_coc.video.settings import SETTINGS_NAME, TemporalSettings, agreement, blend, boosted, carried_trust


@dataclass(frozen=True, eq=False)
class ClipMotion:
    """N clips of T frames; in a clip's first frame everything is unexplained.

    flow: (N, T, 2, h, w) backward, x first, in pixels of the maps. unexplained, moving: (N, T, h, w). features:
    (N, T, 2), as named in `motion.FEATURES`. excess: the same above the clip's own level. cuts: (N, T) bool: first
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


def require_opencv() -> None:
    """Fail in one line where the optical flow would fail later, in a thread."""
    if find_spec("cv2") is None:
        raise InputError("the motion of clips needs OpenCV: pip install opencv-python-headless")


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
    height, width = sized((pictures.shape[3], pictures.shape[4]), VIEW)
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
    height, width = sized((views.shape[1], views.shape[2]), MAP)
    flow = np.zeros((number, 2, height, width), dtype=np.float32)
    unexplained = np.ones((number, height, width), dtype=np.float32)
    moving = np.zeros((number, height, width), dtype=np.float32)
    features = np.zeros((number, len(FEATURES)), dtype=np.float32)
    excess = np.zeros_like(features)
    cuts, rule = np.zeros(number, dtype=bool), np.zeros(number, dtype=bool)
    level = np.zeros(len(FEATURES), dtype=np.float32)
    before = views[0]
    for time in range(1, number):
        view = views[time]
        motion: Motion = measure_motion(before, view, settings.agree, settings.disagree)
        features[time] = cut_features(motion, before, view)
        excess[time] = features[time] - level
        rule[time] = rule_says_cut(motion)
        cuts[time] = cut_score(features[time], level, settings.cut_weights, settings.cut_bias) > 0
        flow[time], unexplained[time] = motion.flow.transpose(2, 0, 1), motion.unexplained
        moving[time] = motion.moving
        level = next_level(features[time], level)
        before = view
    return flow, unexplained, moving, features, excess, cuts, rule


# How sharply "look again" begins below the threshold of trust, while it is learned; in use it is a step.
SOFTNESS = 0.05


class Carried(NamedTuple):
    """relevance, trust, same_ground: (N, T, h, w). looked: (N, T, h, w): 1 where a place was looked at again."""

    relevance: Tensor
    trust: Tensor
    same_ground: Tensor
    looked: Tensor


@dataclass(frozen=True)
class TemporalConfig:
    """What is not learned."""

    fade: float = 0.98
    keyframe: int = 30


class TemporalBlend(Pretrained):
    """Parameters live on scales without bounds, so that no step can push a number out of its range."""

    config_class = TemporalConfig
    config: TemporalConfig

    def __init__(self, config: TemporalConfig | None = None, settings: TemporalSettings | None = None) -> None:
        super().__init__(config or TemporalConfig())
        start = settings or TemporalSettings()
        self.decay_logit = nn.Parameter(torch.tensor(start.decay).logit())
        self.weak_logit = nn.Parameter(torch.tensor(start.weak).logit())
        self.boost_raw = nn.Parameter(_inverse_softplus(start.boost - 1))
        self.agree_raw = nn.Parameter(_inverse_softplus(start.agree))
        self.disagree_raw = nn.Parameter(_inverse_softplus(start.disagree - start.agree))
        self.cut_weights = nn.Parameter(torch.tensor(start.cut_weights))
        self.cut_bias = nn.Parameter(torch.tensor(start.cut_bias))

    @classmethod
    def of(cls, settings: TemporalSettings) -> TemporalBlend:
        return cls(TemporalConfig(settings.fade, settings.keyframe), settings)

    @property
    def decay(self) -> Tensor:
        return self.decay_logit.sigmoid()

    @property
    def weak(self) -> Tensor:
        return self.weak_logit.sigmoid()

    @property
    def boost(self) -> Tensor:
        return 1 + F.softplus(self.boost_raw)

    @property
    def agree(self) -> Tensor:
        return F.softplus(self.agree_raw)

    @property
    def disagree(self) -> Tensor:
        return self.agree + F.softplus(self.disagree_raw) + 1e-4

    @property
    def settings(self) -> TemporalSettings:
        """The learned numbers as a stream takes them."""
        with torch.no_grad():
            return TemporalSettings(
                **{name: float(getattr(self, name)) for name in ("decay", "boost", "weak", "agree", "disagree")},
                fade=self.config.fade,
                keyframe=self.config.keyframe,
                cut_weights=tuple(self.cut_weights.tolist()),
                cut_bias=float(self.cut_bias),
            )

    def save_pretrained(self, folder: str | Path) -> None:
        """Also writes settings.json, which a stream reads without torch."""
        with whole_folder(folder) as made:
            super().save_pretrained(made)
            write_json(made / SETTINGS_NAME, asdict(self.settings))

    def cut_logits(self, excess: Tensor) -> Tensor:
        """(…, 2) cut features above the clip's own level → (…); above zero is a cut."""
        return excess @ self.cut_weights + self.cut_bias

    def forward(
        self, current: Tensor, motion: ClipMotion, every_frame: bool = True, scenes: Tensor | None = None
    ) -> Carried:
        """current: (N, T, h, w) relevance of each frame on its own, at the motion's size, in [0, 1].

        every_frame: everything is looked at in every frame; otherwise only what is weak, and keyframes. scenes: (N, T)
        bool, where scenes begin; as the motion found them where it is not given.
        """
        same = agreement(motion.unexplained, self.agree, self.disagree)
        begins = (motion.cuts if scenes is None else scenes).clone()
        begins[:, 0] = True
        relevance = current[:, 0]
        trust, ones = torch.ones_like(relevance), torch.ones_like(relevance)
        since = torch.zeros(len(current), device=current.device)
        found = [(relevance, trust, torch.zeros_like(relevance), ones)]
        for time in range(1, current.shape[1]):
            new = begins[:, time, None, None]
            since = torch.where(begins[:, time] | (since + 1 >= self.config.keyframe), 0, since + 1)
            warped = warp_batch(torch.stack([relevance, trust], 1), motion.flow[:, time])
            known = carried_trust(warped[:, 1], same[:, time], self.config.fade)
            again = ones if every_frame else self._again(known, since)
            mixed = blend(warped[:, 0], current[:, time], known, self.decay)
            relevance = torch.where(new, current[:, time], again * mixed + (1 - again) * warped[:, 0])
            trust = torch.where(new, ones, again + (1 - again) * known)
            shown = boosted(relevance, motion.moving[:, time].masked_fill(new, 0), self.boost)
            ground = same[:, time].masked_fill(new, 0)
            found.append((shown, trust, ground, torch.where(new, ones, again)))
        return Carried(*(torch.stack(part, 1) for part in zip(*found, strict=True)))

    def _again(self, trust: Tensor, since: Tensor) -> Tensor:
        soft = ((self.weak - trust) / SOFTNESS).sigmoid()
        if not self.training:
            soft = (trust < self.weak).to(trust.dtype)
        return torch.where(since[:, None, None] == 0, torch.ones_like(soft), soft)


def _inverse_softplus(value: float) -> Tensor:
    return torch.tensor(max(value, 1e-4)).expm1().log()


# ---- maps of single frames, carried ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ClipMaps:
    """What is known of N clips before a token is spent. All (N, T, rows, cols).

    scores: each frame on its own. relevance: carried through time. same_ground: share of each cell seen before.
    """

    scores: Tensor
    relevance: Tensor
    same_ground: Tensor


def carry_scores(scores: Tensor, motion: ClipMotion, temporal: TemporalBlend, scenes: Tensor | None = None) -> ClipMaps:
    """Scores of every frame (N, T, rows, cols) → the same carried along the motion that was found."""
    with torch.no_grad():
        return carry_and_look(scores, motion, temporal, True, scenes)[0]


def carry_and_look(
    scores: Tensor, motion: ClipMotion, temporal: TemporalBlend, every_frame: bool, scenes: Tensor | None = None
) -> tuple[ClipMaps, Tensor]:
    """As `carry_scores`, with gradients, and where it was looked again: (N, T, h, w), at the motion's size."""
    grid, size = (scores.shape[2], scores.shape[3]), (motion.flow.shape[-2], motion.flow.shape[-1])
    carried = temporal(enlarge(scores, size), motion, every_frame, scenes)
    return ClipMaps(scores, to_grid(carried.relevance, grid), to_grid(carried.same_ground, grid)), carried.looked


def enlarge(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(N, T, rows, cols) → (N, T, h, w), bilinearly."""
    return F.interpolate(maps, size, mode="bilinear", align_corners=False)


def to_grid(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, T, h, w) → (N, T, rows, cols): the mean of each cell."""
    return F.adaptive_avg_pool2d(maps, grid)


def warp_batch(images: Tensor, backward: Tensor) -> Tensor:
    """Carry (B, C, H, W) along backward flows (B, 2, H, W), bilinearly; differentiable, any device."""
    _, _, height, width = images.shape
    y = torch.arange(height, device=images.device, dtype=torch.float32)[:, None]
    x = torch.arange(width, device=images.device, dtype=torch.float32)[None, :]
    # grid_sample wants coordinates in [-1, 1] from outer edge to outer edge (align_corners=False).
    across = (x + backward[:, 0] + 0.5) * (2 / width) - 1
    down = (y + backward[:, 1] + 0.5) * (2 / height) - 1
    grid = torch.stack([across, down], dim=-1)
    return F.grid_sample(images, grid, mode="bilinear", padding_mode="border", align_corners=False)
