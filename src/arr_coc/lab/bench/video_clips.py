"""Moving Needle World: what a clip's tokens buy, how steady allocations are, and which cuts are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from ...attending.tree import Tree
from ...video.blend import same_ground
from ...video.temporal_model import ClipMotion, TemporalBlend, clip_motion
from ..needle.clips import render_clip
from ..train.allocations import tree_of
from ..train.clip_coherence import STANDING, neighbour_similarity
from ..train.clip_examples import require_opencv
from ..train.clip_systems import ClipMaps, carry_scores, clip_leaves, to_grid
from ..train.prefetch import Prefetcher
from ..train.reading_clips import Clips, evidence_of, read_clearest, read_pooled, read_video
from .needle import Weights

KEEPS = (1 / 32, 1 / 16, 1 / 8, 1 / 4)
# Temporal allocation is also given this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
CONTROLS = ("frame by frame", "uniform", "random", "shuffled", "one frame", "full")


@dataclass(frozen=True)
class ClipPlan:
    """number of clips, frames and cuts of each, their size, families in turn, and how they are read."""

    number: int = 512
    frames: int = 8
    cuts: int = 1
    size: tuple[int, int] = (512, 512)
    families: tuple[str, ...] = ("cards",)
    readings: tuple[str, ...] = ("clearest", "pooled")
    keeps: tuple[float, ...] = KEEPS
    batch: int = 8
    seed: int = 1
    split: str = "test"
    threads: int = 2


@dataclass
class ClipOutcomes:
    """right: (system, keep, reading) → one bool for each clip, the same clips everywhere. tokens: spent on each clip.

    inside, at_cuts: similarity of standing allocations, of each frame and the one before: "ground" on the same ground,
    "place" by place alone, "alone" on the same ground where each frame is allocated on its own.
    found, rule: (cuts found, true cuts, false cuts, other frames) by the learned features and by the rule of thumb.
    """

    right: dict[tuple[str, float, str], list[bool]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[tuple[str, float], list[int]] = field(default_factory=lambda: defaultdict(list))
    inside: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    at_cuts: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    found: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    rule: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    device: str = "cpu"


class Prepared(NamedTuple):
    """A batch of clips before a token is spent."""

    clips: Clips
    cuts: Tensor
    motion: ClipMotion
    maps: ClipMaps


@torch.inference_mode()
def prepare_clips(weights: Weights, temporal: TemporalBlend, plan: ClipPlan, start: int) -> Prepared:
    """Clips from number `start` on: painted, their motion found, scored, and the scores carried."""
    device = next(weights.mini.parameters()).device
    count, turn = min(plan.batch, plan.number - start), start // plan.batch
    family = plan.families[turn % len(plan.families)]
    # Half of the clips have cuts: a detector must also leave a scene alone.
    cuts = plan.cuts if turn % 2 == 0 else 0
    clip = render_clip(family, count, plan.frames, plan.size, plan.seed, plan.split, None, device, start, cuts=cuts)
    motion = clip_motion(clip.pictures, temporal.settings, plan.threads)
    clips = Clips(clip.pictures, clip.frames.question_ids[:: plan.frames], clip.frames.answer_ids[:: plan.frames])
    scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
    maps = carry_scores(scores.unflatten(0, (count, plan.frames)), motion, temporal)
    return Prepared(clips, clip.cuts, motion, maps)


@torch.inference_mode()
def measure_clips(
    weights: Weights,
    temporal: TemporalBlend,
    plan: ClipPlan,
    advance: Callable[[int, ClipOutcomes], None] | None = None,
    seconds: float | None = None,
) -> ClipOutcomes:
    """Every system on the same clips. advance: called after each batch with the number of clips done and what was found
    so far. seconds: begin no batch after so long."""
    require_opencv()
    device = next(weights.mini.parameters()).device
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else device.type
    outcomes, tree, began = ClipOutcomes(device=name), tree_of(plan.size), perf_counter()
    generator = torch.Generator().manual_seed(plan.seed)
    starts = iter(range(0, plan.number, plan.batch))

    def make() -> Prepared | None:
        start = next(starts, None)
        return None if start is None else prepare_clips(weights, temporal, plan, start)

    done = 0
    with (
        Prefetcher(make, device, ahead=2) as ahead,
        torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
    ):
        while done < plan.number and (seconds is None or perf_counter() - began < seconds):
            prepared = ahead.next()
            assert prepared is not None
            _count_cuts(outcomes, prepared.motion, prepared.cuts)
            _similarities(outcomes, prepared, tree)
            _read_cells(weights.mini, outcomes, prepared, plan, generator)
            done += len(prepared.clips)
            if advance is not None:
                advance(done, outcomes)
    return outcomes


def _read_cells(
    mini: Any, outcomes: ClipOutcomes, prepared: Prepared, plan: ClipPlan, generator: torch.Generator
) -> None:
    """Every system at every budget, by every reading."""
    for system, keep, share in cells(plan.keeps):
        leaves = clip_leaves(system, prepared.maps, keep, generator, share=share)
        evidence = evidence_of(prepared.maps.relevance, leaves)
        name = share * keep
        outcomes.tokens[system, name] += leaves.lengths.view(-1, plan.frames).sum(1).tolist()
        for reading in plan.readings:
            right = _read(mini, reading, prepared.clips, leaves, evidence)
            outcomes.right[system, name, reading] += right.tolist()


def cells(keeps: Sequence[float]) -> list[tuple[str, float, float]]:
    """(system, share of the full tokens, share of that) of every cell of the table."""
    found = [("temporal", keep, share) for keep in keeps for share in (FEWER, 1.0)]
    controls = [(system, keep, 1.0) for keep in keeps for system in CONTROLS if system != "full"]
    return [*found, *controls, ("full", 1.0, 1.0)]


def _read(model: Any, reading: str, clips: Clips, leaves: Any, evidence: Tensor) -> Tensor:
    if reading == "video":
        return read_video(model, clips, leaves).right
    return (read_clearest if reading == "clearest" else read_pooled)(model, clips, leaves, evidence).right


def _count_cuts(outcomes: ClipOutcomes, motion: ClipMotion, true: Tensor) -> None:
    inside = ~true
    inside[:, 0] = False
    for counts, cuts in ((outcomes.found, motion.cuts), (outcomes.rule, motion.rule)):
        sums = ((cuts & true).sum(), true.sum(), (cuts & inside).sum(), inside.sum())
        counts += np.array([int(one) for one in sums])


def _similarities(outcomes: ClipOutcomes, prepared: Prepared, tree: Tree) -> None:
    """Standing allocations of neighbouring frames, on the same ground and by place alone; and each frame's own."""
    later, maps = prepared.cuts[:, 1:], prepared.maps
    grid = (maps.scores.shape[2], maps.scores.shape[3])
    # Measured in the pixels, whether or not a cut was found there.
    ground = to_grid(same_ground(prepared.motion.unexplained), grid)
    found = {
        "ground": neighbour_similarity(maps.relevance, tree, STANDING, ground),
        "place": neighbour_similarity(maps.relevance, tree, STANDING),
        "alone": neighbour_similarity(maps.scores, tree, STANDING, ground),
    }
    for name, similar in found.items():
        outcomes.inside[name] += similar[~later].tolist()
        outcomes.at_cuts[name] += similar[later].tolist()
