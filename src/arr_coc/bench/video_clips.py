"""Moving Needle World: what a clip's tokens buy, how steady allocations are, and which cuts are found."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attending.gains import node_sums
from ..attending.quadtree import select_splits
from ..attending.tree import Tree
from ..backbones.qwen3_vl_attention import dense_vision_attention
from ..learning.allocations import tree_of
from ..learning.clip_systems import ClipMaps, carry_scores, clip_leaves
from ..learning.reading_clips import Clips, evidence_of, read_clearest, read_pooled, read_video
from ..needle.clips import render_clip
from ..video.clip_motion import ClipMotion, clip_motion
from ..video.temporal_model import TemporalBlend
from .needle import Weights

KEEPS = (1 / 16, 1 / 8, 1 / 4)
# Temporal allocation is also given this share of the others' tokens: the accuracy should be the same.
FEWER = 0.4
STANDING = 1 / 8
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

    inside, at_cuts: similarity of standing allocations. found, rule: (cuts found, true cuts, false cuts, other frames)
    by the learned features and by the rule of thumb.
    """

    right: dict[tuple[str, float, str], list[bool]] = field(default_factory=lambda: defaultdict(list))
    tokens: dict[tuple[str, float], list[int]] = field(default_factory=lambda: defaultdict(list))
    inside: list[float] = field(default_factory=list)
    at_cuts: list[float] = field(default_factory=list)
    alone_inside: list[float] = field(default_factory=list)
    found: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))
    rule: np.ndarray = field(default_factory=lambda: np.zeros(4, dtype=np.int64))


@torch.inference_mode()
def measure_clips(
    weights: Weights, temporal: TemporalBlend, plan: ClipPlan, advance: Callable[[int], None] | None = None
) -> ClipOutcomes:
    """Every system on the same clips."""
    device = next(weights.mini.parameters()).device
    outcomes, tree = ClipOutcomes(), tree_of(plan.size)
    generator = torch.Generator().manual_seed(plan.seed)
    with (
        dense_vision_attention(weights.mini),
        torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"),
    ):
        for start in range(0, plan.number, plan.batch):
            count = min(plan.batch, plan.number - start)
            family = plan.families[start // plan.batch % len(plan.families)]
            # Half of the clips have cuts: a detector must also leave a scene alone.
            cuts = plan.cuts if start // plan.batch % 2 == 0 else 0
            clip = render_clip(
                family, count, plan.frames, plan.size, plan.seed, plan.split, None, device, start, cuts=cuts
            )
            motion = clip_motion(clip.pictures, temporal.settings, plan.threads)
            clips = Clips(
                clip.pictures, clip.frames.question_ids[:: plan.frames], clip.frames.answer_ids[:: plan.frames]
            )
            scores = weights.scorer.score(clip.frames.pictures, clip.frames.question_ids)
            maps = carry_scores(scores.unflatten(0, (count, plan.frames)), motion, temporal)
            _count_cuts(outcomes, motion, clip.cuts)
            _similarities(outcomes, maps, clip.cuts, tree)
            for system, keep in cells(plan.keeps):
                leaves = clip_leaves(system, maps, keep, generator, tree)
                evidence = evidence_of(maps.relevance, leaves)
                outcomes.tokens[system, keep] += leaves.lengths.view(count, plan.frames).sum(1).tolist()
                for reading in plan.readings:
                    right = _read(weights.mini, reading, clips, leaves, evidence)
                    outcomes.right[system, keep, reading] += right.tolist()
            if advance is not None:
                advance(start + count)
    return outcomes


def cells(keeps: Sequence[float]) -> list[tuple[str, float]]:
    """(system, share of the full tokens) of every cell of the table."""
    found = [("temporal", share * keep) for keep in keeps for share in (FEWER, 1.0)]
    return [*found, *((system, keep) for keep in keeps for system in CONTROLS if system != "full"), ("full", 1.0)]


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


def _similarities(outcomes: ClipOutcomes, maps: ClipMaps, cuts: Tensor, tree: Tree) -> None:
    """Standing allocations of neighbouring frames: from carried relevance, and from each frame's own to compare."""
    later = cuts[:, 1:]
    similar = neighbour_similarity(maps.relevance, tree, STANDING)
    outcomes.inside += similar[~later].tolist()
    outcomes.at_cuts += similar[later].tolist()
    outcomes.alone_inside += neighbour_similarity(maps.scores, tree, STANDING)[~later].tolist()


def neighbour_similarity(relevance: Tensor, tree: Tree, keep: float) -> Tensor:
    """(N, T, rows, cols) → (N, T − 1): `values.compare(…).similarity` of each frame's allocation and the next one's."""
    flat = relevance.flatten(0, 1)
    budget = max(tree.floor, round(keep * tree.full))
    selected = select_splits(node_sums(flat, tree)[:, : len(tree.costs)], tree, budget)
    density = cell_density(selected, tree).unflatten(0, relevance.shape[:2])
    moved = (density[:, 1:] - density[:, :-1]).abs().sum((2, 3)) / 2
    return 1 - moved / density.sum((2, 3)).amax(1, keepdim=True)


def cell_density(selected: Tensor, tree: Tree) -> Tensor:
    """(B, M) splits → (B, rows, cols): tokens per level-0 cell; a leaf at the edge counts on the cells it has."""
    number, device = len(selected), selected.device
    areas = torch.from_numpy(tree.areas).to(device)
    density = torch.zeros(number, tree.rows, tree.cols, device=device)
    exists = torch.ones(number, *tree.shape(tree.levels), dtype=torch.bool, device=device)
    start = 0
    for level in range(tree.levels, -1, -1):
        rows, cols = tree.shape(level)
        area = areas[start : start + rows * cols].view(rows, cols)
        start += rows * cols
        split = torch.zeros_like(exists)
        if level:
            split = exists & selected[:, tree.nodes(level)].view(number, rows, cols)
        leaf = (exists & ~split) / area
        density += _spread(leaf, level)[:, : tree.rows, : tree.cols]
        if level:
            below = tree.shape(level - 1)
            exists = _spread(split, 1)[:, : below[0], : below[1]]
    return density


def _spread(grid: Tensor, level: int) -> Tensor:
    """Every node's value on all of its cells `level` steps below."""
    return grid.repeat_interleave(1 << level, 1).repeat_interleave(1 << level, 2)
