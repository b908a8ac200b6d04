"""`arr-coc train video`: search the settings that carry relevance through a clip, on moving Needle World.

    arr-coc train video --out runs/video

Motion and maps of all clips are measured once; then scipy searches the numbers of `TemporalSettings`. Half of the
examples have the bundled scorer's maps, half those of a stream without a model. `load_settings` reads OUT/video;
OUT/record.json has the loss on validation clips, before and after.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.core.arrays import sized
from arr_coc.core.folders import SCORER, part_folder, whole_folder, write_json
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.texture.motion import (
    FEATURES,
    MAP,
    agreement,
    cut_features,
    cut_score,
    measure_motion,
    next_level,
    view_of,
)
from arr_coc.video.sources import StreamSource
from arr_coc.video.stream import SETTINGS_NAME, TemporalSettings, blend, boosted, carried_trust

from ..options import option, parse, plain
from ..worlds.needle import FAMILIES
from ..worlds.needle.clips import NeedleClip, render_clip
from .allocations import target_cells

LOOK = "look"  # maps of a stream without a model; both sources use the same settings
SEARCHED = {"decay": (0.0, 1.0), "boost": (1.0, 3.0), "weak": (0.0, 1.0), "agree": (0.0, 0.1), "disagree": (0.1, 0.4)}
LOOK_COST = 0.02  # cost of looking at a place again, in units of the loss


@dataclass(frozen=True, kw_only=True)
class VideoOptions:
    """Options of the search."""

    out: Path = option(Path("runs/video"), "Folder for the settings and the record.")
    clips: int = option(4, "Clips of each family.")
    frames: int = option(8, "Frames of a clip.")
    side: int = option(256, "Side of the square canvas in pixels.")
    tries: int = option(120, "Maximum number of settings to try.")
    seed: int = option(0, "Seed of the clips.")
    threads: int = option(2, "Threads for the motion of clips.")


# ---- clips, measured and carried -------------------------------------------------------------------------------------


class ClipMotion(NamedTuple):
    """The motion of N clips of T frames; in a clip's first frame everything is unexplained.

    flow: (N, T, 2, h, w) backward, x first, in pixels of the maps. unexplained, moving: (N, T, h, w). excess:
    (N, T, 2), the features of `motion.FEATURES` above the clip's own level. cuts: (N, T) bool, detected cuts.
    """

    flow: Tensor
    unexplained: Tensor
    moving: Tensor
    excess: Tensor
    cuts: Tensor


def clip_motion(pictures: Tensor, settings: TemporalSettings, threads: int = 1) -> ClipMotion:
    """Measure the motion of (N, T, 3, H, W) uint8 for its device; the flow uses the CPU, a thread for each clip."""
    frames = pictures.permute(0, 1, 3, 4, 2).contiguous().cpu().numpy()
    with ThreadPoolExecutor(max(1, threads)) as pool:
        measured = list(pool.map(lambda one: _one_clip(one, settings), frames))
    columns = (torch.from_numpy(np.stack(column)) for column in zip(*measured, strict=True))
    return ClipMotion(*(column.to(pictures.device) for column in columns))


def _one_clip(frames: np.ndarray, settings: TemporalSettings) -> tuple[np.ndarray, ...]:
    """Return the fields of `ClipMotion` of one clip of frames (T, H, W, 3)."""
    views = [view_of(frame) for frame in frames]
    number, (height, width) = len(views), sized((views[0].shape[0], views[0].shape[1]), MAP)
    flow = np.zeros((number, 2, height, width), dtype=np.float32)
    unexplained, moving = np.ones((number, height, width), np.float32), np.zeros((number, height, width), np.float32)
    excess, cuts = np.zeros((number, len(FEATURES)), dtype=np.float32), np.zeros(number, dtype=bool)
    level = np.zeros(len(FEATURES), dtype=np.float32)
    for time in range(1, number):
        before, view = views[time - 1], views[time]
        motion = measure_motion(before, view, settings.agree, settings.disagree)
        features = cut_features(motion, before, view)
        excess[time] = features - level
        cuts[time] = cut_score(features, level, settings.cut_weights, settings.cut_bias) > 0
        flow[time], unexplained[time] = motion.flow.transpose(2, 0, 1), motion.unexplained
        moving[time] = motion.moving
        level = next_level(features, level)
    return flow, unexplained, moving, excess, cuts


class ClipMaps(NamedTuple):
    """The relevance of N clips before tokens are spent, all (N, T, rows, cols). scores: each frame on its own.
    relevance: carried through time. same_ground: share of each cell that was seen before. looked: (N, T, h, w), 1 where
    a place was looked at again, at the motion's size."""

    scores: Tensor
    relevance: Tensor
    same_ground: Tensor
    looked: Tensor


@torch.no_grad()
def carry(
    scores: Tensor,
    motion: ClipMotion,
    settings: TemporalSettings,
    every_frame: bool = True,
    scenes: Tensor | None = None,
) -> ClipMaps:
    """Carry the scores of every frame (N, T, rows, cols) along the motion, as a stream does: all clips at once.

    every_frame: look at everything in every frame; otherwise only at places with little trust, and at keyframes.
    scenes: (N, T) bool, first frames of scenes; by default those detected from motion.
    """
    same = agreement(motion.unexplained, settings.agree, settings.disagree)
    current = F.interpolate(scores, tuple(same.shape[2:]), mode="bilinear", align_corners=False)
    begins = motion.cuts if scenes is None else scenes
    relevance, trust = current[:, 0], torch.ones_like(current[:, 0])
    since, ones = torch.zeros(len(current), device=current.device), torch.ones_like(trust)
    frames = [(relevance, torch.zeros_like(trust), ones)]
    for time in range(1, current.shape[1]):
        new = begins[:, time, None, None]
        since = torch.where(begins[:, time] | (since + 1 >= settings.keyframe), 0, since + 1)
        warped, believed = warp_batch(torch.stack([relevance, trust], 1), motion.flow[:, time]).unbind(1)
        known = carried_trust(believed, same[:, time], settings.fade)
        again = ones if every_frame else torch.where(since[:, None, None] == 0, ones, (known < settings.weak).float())
        mixed = blend(warped, current[:, time], known, settings.decay)
        relevance = torch.where(new, current[:, time], again * mixed + (1 - again) * warped)
        trust = torch.where(new, ones, again + (1 - again) * known)
        shown = boosted(relevance, motion.moving[:, time].masked_fill(new, 0), settings.boost)
        frames.append((shown, same[:, time].masked_fill(new, 0), torch.where(new, ones, again)))
    carried, ground, looked = (torch.stack(part, 1) for part in zip(*frames, strict=True))
    grid = scores.shape[2], scores.shape[3]
    return ClipMaps(scores, to_grid(carried, grid), to_grid(ground, grid), looked)


def to_grid(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """Average (N, T, h, w) over cells: (N, T, rows, cols)."""
    return F.adaptive_avg_pool2d(maps, grid)


def warp_batch(images: Tensor, backward: Tensor) -> Tensor:
    """Carry (B, C, H, W) along backward flows (B, 2, H, W), bilinearly."""
    height, width = images.shape[2:]
    y = torch.arange(height, device=images.device, dtype=torch.float32)[:, None]
    x = torch.arange(width, device=images.device, dtype=torch.float32)[None, :]
    # grid_sample takes coordinates in [-1, 1] from outer edge to outer edge (align_corners=False).
    places = (x + backward[:, 0] + 0.5) * (2 / width) - 1, (y + backward[:, 1] + 0.5) * (2 / height) - 1
    return F.grid_sample(images, torch.stack(places, -1), padding_mode="border", align_corners=False)


# ---- the search ------------------------------------------------------------------------------------------------------


class ClipExamples(NamedTuple):
    """Clips of one family: their motion, maps of each frame on its own, and cells that the question needs, both (N, T,
    rows, cols). cuts: (N, T) bool, the true ones."""

    motion: ClipMotion
    scores: Tensor
    truth: Tensor
    cuts: Tensor


def drawn_examples(options: VideoOptions, split: str) -> list[ClipExamples]:
    """Make clips of every family with the maps of both sources; every other family has cuts."""
    scorer, examples = load_scorer(part_folder(SCORER)).float().eval(), []
    for place, family in enumerate(FAMILIES):
        size, cuts = (options.side, options.side), min(place % 3, options.frames - 1)
        clip = render_clip(family, range(options.clips), options.frames, size, options.seed, split, cuts=cuts)
        motion = clip_motion(clip.pictures, TemporalSettings(), options.threads)
        with torch.no_grad():
            found = scorer.score(clip.frames.pictures, clip.frames.question_ids).float()
        for scores in (found.unflatten(0, tuple(clip.cuts.shape)), look_maps(clip)):
            truth = target_cells(clip.frames, *scores.shape[2:]).view_as(scores)
            examples.append(ClipExamples(motion, scores, truth, clip.cuts))
    return examples


def look_maps(clip: NeedleClip) -> Tensor:
    """Make maps (N, T, rows, cols) of a stream without a model and without the object detector, so that the result does
    not depend on an extra."""
    frames = clip.frames.pictures.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    sources = [StreamSource(LOOK, question, photos=False) for question in clip.frames.questions]
    looks = [source.look(frame).map for source, frame in zip(sources, frames, strict=True)]
    maps = torch.from_numpy(np.stack(looks))
    rows, cols = clip.frames.cell_labels.shape[1:3]
    return to_grid(maps.unflatten(0, tuple(clip.cuts.shape)), (rows, cols))


def needed_loss(relevance: Tensor, truth: Tensor) -> Tensor:
    """Return the error of relevance (N, T, rows, cols) against the cells that the question needs, with weight three.

    Each frame's relevance is first scaled to the sum of its target, because tokens depend on the relative values of
    cells; otherwise the search would use the boost to scale whole maps.
    """
    louder = truth.sum((2, 3), keepdim=True) / relevance.sum((2, 3), keepdim=True).clamp(min=1e-6)
    return F.binary_cross_entropy((relevance * louder).clamp(1e-4, 1 - 1e-4), truth, weight=1 + 2 * truth)


def carrying_loss(settings: TemporalSettings, examples: Sequence[ClipExamples]) -> float:
    """Return the loss: error of the carried relevance plus the cost of looking again.

    Relevance is carried both ways: with looks only where trust is low, and with looks everywhere, as on keyframes.
    Without the second, decay would never be applied to trusted relevance.
    """
    losses = []
    for one in examples:
        weak, every = (carry(one.scores, one.motion, settings, way, one.cuts) for way in (False, True))
        seen = 0.5 * (needed_loss(weak.relevance, one.truth) + needed_loss(every.relevance, one.truth))
        losses.append(float(seen + LOOK_COST * weak.looked[:, 1:].mean()))
    return float(np.mean(losses))


def search(options: VideoOptions, examples: Sequence[ClipExamples]) -> TemporalSettings:
    """Search the settings with the least loss, and the weights that separate cuts from other frames."""
    from scipy.optimize import minimize

    start = TemporalSettings()

    def settings_of(numbers: np.ndarray) -> TemporalSettings:
        return replace(start, **dict(zip(SEARCHED, map(float, numbers), strict=True)))

    found = minimize(
        lambda numbers: carrying_loss(settings_of(numbers), examples),
        [getattr(start, name) for name in SEARCHED],
        method="Nelder-Mead",
        bounds=list(SEARCHED.values()),
        options={"maxfev": options.tries, "xatol": 1e-3, "fatol": 1e-5},
    )
    excess = np.concatenate([one.motion.excess[:, 1:].flatten(0, 1).numpy() for one in examples])
    cuts = np.concatenate([one.cuts[:, 1:].flatten().numpy() for one in examples])

    def surprise(numbers: np.ndarray) -> float:
        logits = excess @ numbers[:-1] + numbers[-1]
        return float(np.mean(np.logaddexp(0, np.where(cuts, -logits, logits)) * (1 + 4 * cuts)))

    edges = [*[(0.0, 200.0)] * len(FEATURES), (-20.0, 0.0)]
    *weights, bias = minimize(surprise, [*start.cut_weights, start.cut_bias], bounds=edges).x.tolist()
    return replace(settings_of(found.x), cut_weights=tuple(weights), cut_bias=bias)


def main(arguments: Sequence[str]) -> None:
    options = parse(VideoOptions, arguments, __doc__)
    settings = search(options, drawn_examples(options, "train"))
    aside = drawn_examples(options, "validation")
    validation = {
        name: carrying_loss(one, aside) for name, one in (("before", TemporalSettings()), ("after", settings))
    }
    with whole_folder(options.out / "video") as made:
        write_json(made / SETTINGS_NAME, settings.to_json())
    write_json(options.out / "record.json", {"plan": plain(options), "validation": validation})
    print(f"settings {settings.to_json()}\nvalidation {validation}", flush=True)
