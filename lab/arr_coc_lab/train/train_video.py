"""`arr-coc train video temporal`: learn how relevance is carried through a clip, on moving Needle World.

    arr-coc train video temporal --out runs/video --seconds 100

A handful of numbers is learned (`temporal_model.TemporalBlend`) over the maps of frozen sources: the bundled scorer's,
and those of a stream without a model. OUT/video is what `load_settings` reads; OUT/record.json has the validation.
"""

from __future__ import annotations

import os
import random
from collections import Counter, deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import SCORER, part_folder
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.sources import relevance_alone, source_of

from ..options import option
from ..worlds.needle.clips import NeedleClip, render_clip
from .acceleration import Prefetcher
from .allocations import target_cells
from .evaluate import FAMILIES, MapScorer
from .run import Moment, Notes, RunOptions, Schedule, Training, command, door
from .temporal_model import (
    ClipMotion,
    TemporalBlend,
    carry_and_look,
    carry_scores,
    clip_motion,
    require_opencv,
    to_grid,
)

if TYPE_CHECKING:
    from accelerate import Accelerator

LOOK = "look"  # maps of a stream without a model; the same few numbers serve both sources
KEPT = 16  # batches that are learned from again while no new one is ready


@dataclass(frozen=True, kw_only=True)
class VideoOptions(RunOptions):
    """Options of the temporal training."""

    stage: str = option("temporal", "what is learned", choices=("temporal",), positional=True)
    weights: Path | None = option(None, "folder with a scorer; the package's if none")
    seconds: float = option(240.0, "how long this run may take, drawing included")
    clips: int = option(16, "clips a step")
    frames: int = option(8, "frames of a clip")
    most_cuts: int = option(2, "cuts in a clip, at most")
    size: tuple[int, int] = option((512, 512), "canvas in pixels: height and width, or one number for both")
    families: tuple[str, ...] = option(FAMILIES, "of Needle World")
    learning_rate: float = option(0.03, "of Adam; ten times as much for the cuts")
    look_cost: float = option(0.02, "what looking at a place again costs, in units of the loss")
    cut_weight: float = option(0.5, "of the cuts' loss")
    look_share: float = option(0.5, "of the examples, those with the maps of a stream without a model")
    say_every: float = option(2.0, "seconds between points of the curve; with --steps every step is one")
    evaluate: int = option(256, "validation clips; 0: none")
    threads: int = option(2, "for the motion of clips")
    folder: Path = option(Path("runs/video"), "where the checkpoint and the curve are kept")

    def __post_init__(self) -> None:
        if not 0 <= self.look_share <= 1:
            raise InputError(f"--look-share {self.look_share} is not a share; give 0 to 1")

    @property
    def target(self) -> Path:
        return self.out or Path(os.environ.get("OUT") or self.folder)


@dataclass(frozen=True)
class ClipExamples:
    """N clips of T frames: how they move, maps of each frame on its own, and cells that the question needs, both (N, T,
    rows, cols). cuts: (N, T) bool."""

    motion: ClipMotion
    scores: Tensor
    truth: Tensor
    cuts: Tensor


# ---- drawn clips -----------------------------------------------------------------------------------------------------


def drawn_clip(plan: VideoOptions, device: torch.device, number: int, split: str = "train") -> NeedleClip:
    """Batch `number`: a function of the plan and the number alone, so that a resumed run goes on as it would."""
    chance = random.Random(f"{plan.seed}/{split}/{number}")
    cuts = min(chance.randint(0, plan.most_cuts), plan.frames - 1)
    family = plan.families[number % len(plan.families)]
    numbers = range(number * plan.clips, (number + 1) * plan.clips)
    return render_clip(family, numbers, plan.frames, plan.size, plan.seed, split, device, cuts=cuts)


def source_at(plan: VideoOptions, number: int) -> str:
    """Whose maps batch `number` shows, spread evenly over every family: families take turns, and so an even and odd of
    the number would give some only the one and some only the other."""
    turn = number // len(plan.families) + number % len(plan.families)
    return LOOK if int((turn + 1) * plan.look_share) > int(turn * plan.look_share) else SCORER


def maps_of(source: str, scorer: MapScorer, clip: NeedleClip, threads: int) -> Tensor:
    """(N, T, rows, cols): the frozen scorer's maps, or those of a stream without a model (and without the photo map:
    what is learned must not depend on an extra being installed)."""
    if source != LOOK:
        with torch.no_grad():
            scores = scorer.score(clip.frames.pictures, clip.frames.question_ids).float()
        return scores.unflatten(0, tuple(clip.cuts.shape))
    frames = clip.frames.pictures.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    sources = [source_of(LOOK, question, photos=False) for question in clip.frames.questions]
    with ThreadPoolExecutor(max(1, threads)) as pool:
        found = list(pool.map(relevance_alone, sources, frames))
    maps = torch.from_numpy(np.stack(found)).to(clip.cuts.device)
    rows, cols = clip.frames.cell_labels.shape[1:3]
    return to_grid(maps.unflatten(0, tuple(clip.cuts.shape)), (rows, cols))


def examples_of(clip: NeedleClip, scores: Tensor, settings: TemporalSettings, threads: int) -> ClipExamples:
    truth = target_cells(clip.frames, *scores.shape[2:]).view_as(scores)
    return ClipExamples(clip_motion(clip.pictures, settings, threads), scores, truth, clip.cuts)


# ---- the training ----------------------------------------------------------------------------------------------------


def needed_loss(relevance: Tensor, truth: Tensor) -> Tensor:
    """Relevance (N, T, rows, cols) against the cells that the question needs; those count three times.

    Each frame's relevance is first brought to the sum of what is needed: tokens follow how the cells of a frame
    compare, not how loud a map is. Otherwise the boost of what moves would be learned as a volume knob.
    """
    louder = truth.sum((2, 3), keepdim=True) / relevance.sum((2, 3), keepdim=True).clamp(min=1e-6)
    return F.binary_cross_entropy((relevance * louder).clamp(1e-4, 1 - 1e-4), truth, weight=1 + 2 * truth)


def temporal_loss(temporal: TemporalBlend, examples: ClipExamples, plan: VideoOptions) -> tuple[Tensor, Notes]:
    """Carried relevance against what the question needs in each frame, plus what looking again and cuts cost.

    Carried both ways: with a look only where trust is weak, which saves time, and with a look at everything, as on
    keyframes. Without the second, decay would never meet a past that is still trusted.
    """
    scenes, truth = examples.cuts, examples.truth
    weak, looks = carry_and_look(examples.scores, examples.motion, temporal, False, scenes)
    everywhere, _ = carry_and_look(examples.scores, examples.motion, temporal, True, scenes)
    seen = 0.5 * (needed_loss(weak.relevance, truth) + needed_loss(everywhere.relevance, truth))
    looked = looks[:, 1:].mean()
    logits = temporal.cut_logits(examples.motion.excess[:, 1:])
    cuts = scenes[:, 1:].to(logits.dtype)
    cut = F.binary_cross_entropy_with_logits(logits, cuts, weight=1 + 4 * cuts)
    return seen + plan.look_cost * looked + plan.cut_weight * cut, {"seen": seen, "looked": looked, "cut": cut}


class TemporalTraining(Training[VideoOptions]):
    """A handful of numbers, on the maps of frozen sources."""

    title = "temporal"

    def __init__(self, options: VideoOptions, accelerator: Accelerator) -> None:
        require_opencv()
        super().__init__(options, accelerator)
        scorer = load_scorer(part_folder(SCORER, options.weights))
        self.scorer = scorer.float().to(self.device).eval().requires_grad_(False)
        self.started_from = TemporalSettings()
        self.temporal = TemporalBlend.of(self.started_from).to(self.device)
        self.modules["temporal"] = self.temporal
        # The cuts' weights live on a scale of tens, everything else on one of units.
        cuts, rate = [self.temporal.cut_weights, self.temporal.cut_bias], options.learning_rate
        rest = [one for one in self.temporal.parameters() if all(one is not other for other in cuts)]
        groups = [{"params": rest, "lr": rate}, {"params": cuts, "lr": 10 * rate}]
        self.optimizers.append(torch.optim.Adam(groups, lr=rate))
        self.schedule = Schedule(decay_from=1 / 3)
        self.chance["chance"].seed(f"{options.seed}/temporal/0")
        self.pool: deque[ClipExamples] = deque(maxlen=KEPT)
        self.number = count()
        self.ahead: Prefetcher[ClipExamples] = Prefetcher(self.make, self.device, ahead=2)
        self.done["examples"] = 0

    def make(self) -> ClipExamples:
        """For the background thread: the next batch."""
        number = next(self.number)
        clip = drawn_clip(self.options, self.device, number)
        scores = maps_of(source_at(self.options, number), self.scorer, clip, self.options.threads)
        return examples_of(clip, scores, self.started_from, self.options.threads)

    def running(self) -> AbstractContextManager[object]:
        self.number = count(self.done["examples"])
        return self.ahead

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        # Examples that are not ready are not waited for: earlier ones teach nearly as much.
        if self.ahead.ready or len(self.pool) < 4:
            self.pool.append(self.ahead.next())
            self.done["examples"] += 1
            examples = self.pool[-1]
        else:
            examples = self.chance["chance"].choice(self.pool)
        return temporal_loss(self.temporal, examples, self.options)

    def step(self, at: Moment) -> Notes:
        return super().step(at) | {name: getattr(self.temporal, name) for name in ("decay", "boost", "weak")}

    def judge(self, at: Moment) -> None:
        """Only before the first step; afterwards `finish` does it."""
        if at.step == 0:
            self.done["validation_before"] = self.evaluated()

    @torch.inference_mode()
    def evaluated(self) -> JsonObject:
        """On validation clips: which cuts are found, and what carrying the maps of each source is worth."""
        plan, temporal = self.options, self.temporal.eval()
        counts, losses = Counter[str](), dict[str, list[float]]()
        for number in range(-(-plan.evaluate // plan.clips)):
            clip = drawn_clip(plan, self.device, number, "validation")
            for source in (SCORER, LOOK):
                scores = maps_of(source, self.scorer, clip, plan.threads)
                one = examples_of(clip, scores, temporal.settings, plan.threads)
                carried, looks = carry_and_look(scores, one.motion, temporal, False, clip.cuts)
                everywhere = carry_scores(scores, one.motion, temporal, clip.cuts)
                for name, relevance in (("carried", carried), ("everywhere", everywhere)):
                    losses.setdefault(f"{source} {name}", []).append(float(needed_loss(relevance.relevance, one.truth)))
                losses.setdefault(f"{source} alone", []).append(float(needed_loss(scores, one.truth)))
                losses.setdefault(f"{source} looked", []).append(float(looks[:, 1:].mean()))
            true, cuts = clip.cuts[:, 1:], temporal.cut_logits(one.motion.excess[:, 1:]) > 0
            counts += Counter(cuts=int(true.sum()), cuts_found=int((cuts & true).sum()))
            counts += Counter(frames_inside=int((~true).sum()), false_cuts=int((cuts & ~true).sum()))
        temporal.train()
        return {**counts, **{name: sum(values) / len(values) for name, values in losses.items()}}

    def record(self) -> JsonObject:
        return {**super().record(), "settings": self.temporal.settings.to_json()}

    def export(self) -> None:
        self.temporal.save_pretrained(self.options.target / "video")
        write_json(self.options.target / "record.json", self.record())

    def finish(self) -> None:
        found = self.evaluated()
        write_json(self.options.target / "record.json", {**self.record(), "validation": found})
        print(f"settings {self.temporal.settings.to_json()}\nvalidation {found}", flush=True)


main = command(TemporalTraining, VideoOptions, __doc__)

if __name__ == "__main__":
    door(main)
