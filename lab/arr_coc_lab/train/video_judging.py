"""Stage 2, judged on validation: what was learned about clips, and whether still pictures are still read as well.

The same clips and pictures are read before and after, so that the difference is taken one by one; from it one can
decide whether to ship what was trained.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from arr_coc.video.settings import TemporalSettings, same_ground

from ..classic.scorer import Scorer
from ..statistics import paired, wilson
from .allocations import target_cells, tree_of
from .clip_allocations import (
    STANDING,
    ClipMaps,
    carry_and_look,
    carry_scores,
    clip_leaves,
    neighbour_similarity,
    to_grid,
)
from .clip_examples import LOOK, MAP_SOURCES, SCORER, ClipExamples, VideoOptions, look_scores, make_clip_examples
from .clip_reader import Clips, evidence_of, read_clearest, read_video
from .evaluate import evaluation_leaves
from .pictures import render_family
from .reader import read
from .temporal_model import TemporalBlend

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Right or wrong, picture by picture or clip by clip, under the name of a cell.
Rights = dict[str, list[bool]]
STILLS = (("full", 1.0), ("uniform", 1 / 4), ("scorer", 1 / 4))
# (system, share of the tokens, how it is read)
CLIPS = (
    ("temporal", 1 / 16, "clearest"),
    ("frame by frame", 1 / 16, "clearest"),
    ("temporal", 1 / 16, "video"),
    ("frame by frame", 1 / 16, "video"),
    ("uniform", 1 / 16, "video"),
    ("temporal", 1 / 8, "video"),
)
VALIDATION_SEED = 11


def validation_examples(
    plan: VideoOptions, scorer: Scorer, settings: TemporalSettings, device: torch.device
) -> Iterator[ClipExamples]:
    """As many as hold `plan.evaluate` clips; the same ones every time."""
    for number in range(-(-plan.evaluate // plan.clips)):
        yield make_clip_examples(plan, scorer, settings, device, number, "validation")


def read_clips(mini: PreTrainedModel, system: str, keep: float, reading: str, clips: Clips, maps: ClipMaps) -> Tensor:
    """(N,) bool: which clips are answered right."""
    leaves = clip_leaves(system, maps, keep, torch.Generator().manual_seed(VALIDATION_SEED))
    if reading == "video":
        return read_video(mini, clips, leaves).right
    return read_clearest(mini, clips, leaves, evidence_of(maps.relevance, leaves)).right


@torch.inference_mode()
def judge_reader(
    mini: PreTrainedModel, scorer: Scorer, temporal: TemporalBlend, plan: VideoOptions, device: torch.device
) -> Rights:
    """Stills of every family under three allocations, and clips by system and reading."""
    found: Rights = {}
    tree, generator = tree_of(plan.size), torch.Generator().manual_seed(VALIDATION_SEED)
    with dense_vision_attention(mini), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for family in plan.families if plan.evaluate else ():
            batch = render_family(
                family, plan.evaluate, plan.size, VALIDATION_SEED, 0, device, None, split="validation"
            )
            for strategy, keep in STILLS:
                leaves = evaluation_leaves(strategy, keep, batch, tree, scorer, generator)
                name = f"still, {strategy} 1/{round(1 / keep)}"
                found.setdefault(name, []).extend(read(mini, batch, leaves).right.tolist())
        for examples in validation_examples(plan, scorer, temporal.settings, device):
            maps = carry_scores(examples.scores, examples.motion, temporal)
            for system, keep, reading in CLIPS:
                right = read_clips(mini, system, keep, reading, examples.clips, maps)
                found.setdefault(f"clip, {system} 1/{round(1 / keep)}, {reading}", []).extend(right.tolist())
    return found


def summary(right: Rights) -> dict[str, dict[str, float]]:
    """Accuracy of each cell, with its interval and number."""
    result = {}
    for name, each in right.items():
        low, high = wilson(sum(each), len(each))
        result[name] = {"accuracy": sum(each) / len(each), "low": low, "high": high, "n": len(each)}
    return result


def changes(before: Rights, after: Rights) -> dict[str, dict[str, float]]:
    """What each cell gained, one by one on the same pictures, with the 95 % interval of the mean."""
    result = {}
    for name, now in after.items():
        change = paired(np.array(now, dtype=float), np.array(before[name], dtype=float))
        result[name] = {"gained": change.value, "low": change.low, "high": change.high, "n": len(now)}
    return result


@torch.inference_mode()
def judge_temporal(
    mini: PreTrainedModel | None, scorer: Scorer, temporal: TemporalBlend, plan: VideoOptions, device: torch.device
) -> dict[str, object]:
    """Settings on validation clips: which cuts are found, and by the source of the maps what carrying them is worth."""
    temporal.eval()
    counts = torch.zeros(4, dtype=torch.int64)
    sources = {name: CarriedMaps() for name in MAP_SOURCES}
    for examples in validation_examples(plan, scorer, temporal.settings, device):
        true = examples.clip.cuts[:, 1:]
        cuts = temporal.cut_logits(examples.motion.excess[:, 1:]) > 0
        counts += torch.stack([(cuts & true).sum(), true.sum(), (cuts & ~true).sum(), (~true).sum()]).cpu()
        sources[SCORER].add(examples, temporal, mini)
        sources[LOOK].add(replace(examples, scores=look_scores(examples.clip, plan.threads)), temporal, mini)
    temporal.train()
    names = ("cuts_found", "cuts", "false_cuts", "frames_inside")
    return {
        "settings": temporal.settings.to_json(),
        **dict(zip(names, counts.tolist(), strict=True)),
        "maps": {name: found.to_json() for name, found in sources.items()},
    }


class CarriedMaps:
    """One source's maps: the loss of carried ones (looking where trust is weak, and everywhere) and of lone ones, the
    share looked at again, how alike the allocations of neighbouring frames are, and what `mini` reads from the clearest
    frame at a sixteenth of the tokens."""

    def __init__(self) -> None:
        self.losses: dict[str, list[Tensor]] = {"carried": [], "everywhere": [], "alone": [], "looked": []}
        self.similar: dict[str, list[float]] = {"inside": [], "at cuts": []}
        self.right: Rights = {}

    def add(self, examples: ClipExamples, temporal: TemporalBlend, mini: PreTrainedModel | None) -> None:
        grid = examples.scores.shape[2], examples.scores.shape[3]
        truth = target_cells(examples.clip.frames, *grid).view_as(examples.scores)
        true = examples.clip.cuts[:, 1:]
        carried, looks = carry_and_look(examples.scores, examples.motion, temporal, False, examples.clip.cuts)
        self.losses["carried"].append(needed_loss(carried.relevance, truth))
        everywhere = carry_scores(examples.scores, examples.motion, temporal, examples.clip.cuts)
        self.losses["everywhere"].append(needed_loss(everywhere.relevance, truth))
        self.losses["alone"].append(needed_loss(examples.scores, truth))
        self.losses["looked"].append(looks[:, 1:].mean())
        maps = carry_scores(examples.scores, examples.motion, temporal)
        ground = to_grid(same_ground(examples.motion.unexplained), grid)
        alike = neighbour_similarity(maps.relevance, STANDING, ground)
        self.similar["inside"] += alike[~true].tolist()
        self.similar["at cuts"] += alike[true].tolist()
        if mini is None:
            return
        device = examples.scores.device.type
        with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
            for system in ("temporal", "frame by frame"):
                found = read_clips(mini, system, 1 / 16, "clearest", examples.clips, maps)
                self.right.setdefault(system, []).extend(found.tolist())

    def to_json(self) -> dict[str, object]:
        inside, at_cuts = self.similar["inside"], self.similar["at cuts"]
        return {
            **{name: float(torch.stack(values).mean()) for name, values in self.losses.items()},
            "similarity_inside": sum(inside) / max(1, len(inside)),
            "apart_at_cuts": sum(value < 0.5 for value in at_cuts),
            "read": summary(self.right),
        }


def needed_loss(relevance: Tensor, truth: Tensor) -> Tensor:
    """Relevance (N, T, rows, cols) against the cells that the question needs; those count three times.

    Each frame's relevance is first brought to the sum of what is needed: tokens follow how the cells of a frame
    compare, not how loud a map is. The maps of `look` are no probabilities and sum to a quarter of the truth; taken as
    they are, a gain of 4 on everything would seem a merit, and the boost of what moves be learned as a volume knob.
    """
    louder = truth.sum((2, 3), keepdim=True) / relevance.sum((2, 3), keepdim=True).clamp(min=1e-6)
    return F.binary_cross_entropy((relevance * louder).clamp(1e-4, 1 - 1e-4), truth, weight=1 + 2 * truth)
