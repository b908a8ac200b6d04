"""What stage 2 learns from: clips with their motion and scores, and still pictures beside them.

Painting clips and finding their motion costs more than reading them once. So a thread prepares batches ahead
(`prefetch`), and the reader reads each clip a few times, under other allocations every time.
"""

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from arr_coc.core.errors import InputError
from arr_coc.knowing.scorer.source import question_ids
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.sources import relevance_alone, source_of

from ..classic.scorer import Scorer
from ..worlds.needle.clips import NeedleClip, render_clip
from .allocations import Kind, target_cells
from .checkpoints import TrainingState
from .clip_allocations import ClipMaps, carry_scores, to_grid
from .clip_reader import Clips
from .evaluate import FAMILIES
from .options import RunOptions, option
from .own_data import HELD_OUT, OwnRecord, ground_of
from .reader_examples import STAGES, ReaderBatch, RingBuffer, choose_difficulty, draw_step, render_reader_batch
from .temporal_model import ClipMotion, TemporalBlend, clip_motion

VIDEO_STAGES = ("temporal", "reader")
# Whose maps of single frames are carried: a stream runs on either, and the same few numbers serve both.
SCORER, LOOK = MAP_SOURCES = ("scorer", "look")
# A buffer holds the clips of so many batches, and as many still pictures of each canvas.
EXAMPLES_KEPT = 16
CELL = 32


@dataclass(frozen=True, kw_only=True)
class VideoOptions(RunOptions):
    """What both stages are asked. The checkpoint lies in OUT/STAGE-checkpoint."""

    data: Path | None = option(None, "temporal: one's own records, frames of clips (docs/how-to/own-data.md), mixed in")
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(HELD_OUT, "share of one's own clips that are judged on and never learned from")
    mix: float = option(0.5, "with --data: share of the steps that are drawn")
    stage: str = option("temporal", "what is learned", choices=VIDEO_STAGES, positional=True)
    weights: Path | None = option(None, "folder with scorer and mini; the package's if none")
    folder: Path = option(Path(), hidden=True)
    seconds: float = option(240.0, "how long this run may train")
    clips: int = option(16, "clips a step")
    frames: int = option(8, "frames of a clip")
    most_cuts: int = option(2, "cuts in a clip, at most")
    size: tuple[int, int] = option((512, 512), "canvas in pixels: height and width, or one number for both")
    families: tuple[str, ...] = option(FAMILIES, "of Needle World")
    learning_rate: float = option(0.0, "0: 0.03 for temporal, 3e-4 for reader")
    look_cost: float = option(0.02, "what looking at a place again costs, in units of the loss")
    cut_weight: float = option(0.5, "of the cuts' loss")
    look_share: float = option(0.5, "of the temporal examples, those with the maps of a stream without a model")
    stills: int = option(64, "single pictures a step, so that they are not forgotten")
    still_share: float = option(0.5, "their share of the reader's loss")
    largest: int = option(1024, "side of their canvases")
    reuse: float = option(4.0, "how often a clip is read on average")
    checkpoint_every: float = option(60.0, "seconds between checkpoints; 0: after every step")
    say_every: float = option(2.0, "seconds between points of the curve; with --steps every step is one")
    evaluate: int = option(256, "validation clips, and still pictures of each family")
    threads: int = option(2, "for the motion of clips")

    def __post_init__(self) -> None:
        if self.stage not in VIDEO_STAGES:
            raise InputError(f"unknown stage {self.stage!r}; choose {' or '.join(VIDEO_STAGES)}")
        if self.data is not None and self.stage != "temporal":
            raise InputError("train video reader takes no --data; use train mini --data or train lora")
        if not 0 <= self.mix < 1 or not 0 < self.held_out < 1:
            raise InputError(f"--mix {self.mix} must be below 1 and --held-out {self.held_out} between 0 and 1")
        if not 0 <= self.look_share <= 1:
            raise InputError(f"--look-share {self.look_share} is not a share; give 0 to 1")
        object.__setattr__(self, "folder", self.target / f"{self.stage}-checkpoint")

    @property
    def target(self) -> Path:
        return self.out or Path(os.environ.get("OUT") or "runs/video")

    @property
    def rate(self) -> float:
        return self.learning_rate or {"temporal": 0.03, "reader": 3e-4}[self.stage]


@dataclass(frozen=True)
class ClipExamples:
    """One batch of clips: what was rendered, how it moves, and maps of each frame on its own (N, T, rows, cols)."""

    clip: NeedleClip
    motion: ClipMotion
    scores: Tensor

    @property
    def cuts(self) -> Tensor:
        return self.clip.cuts

    @property
    def truth(self) -> Tensor:
        """(N, T, rows, cols) in {0, 1}: the cells that the question needs."""
        return target_cells(self.clip.frames, *self.scores.shape[2:]).view_as(self.scores)

    @property
    def clips(self) -> Clips:
        return Clips.of(self.clip)


@dataclass(frozen=True)
class OwnClip:
    """One clip of the user's, as a batch of one: as `ClipExamples`, but nobody knows where it was cut."""

    motion: ClipMotion
    scores: Tensor
    truth: Tensor
    cuts: Tensor | None = None


def by_clip(records: Sequence[OwnRecord]) -> list[OwnRecord]:
    """Records that are frames, their clip and question in place of the picture: what a split must keep together."""
    framed = [replace(one, picture=f"{one.clip} {one.query}") for one in records if one.clip]
    number = Counter(one.picture for one in framed)
    return [one for one in framed if number[one.picture] > 1]


def own_clips(
    records: Sequence[OwnRecord], plan: VideoOptions, scorer: Scorer, settings: TemporalSettings, device: torch.device
) -> list[OwnClip]:
    """Every clip of `by_clip`, in pieces of the plan's frames, on the plan's canvas; a last piece ends with a still."""
    clips: dict[str, list[OwnRecord]] = {}
    for record in sorted(records, key=lambda one: (one.picture, one.frame)):
        clips.setdefault(record.picture, []).append(record)
    pieces = [one[start : start + plan.frames] for one in clips.values() for start in range(0, len(one), plan.frames)]
    rows, cols = plan.size[0] // CELL, plan.size[1] // CELL
    found = []
    for number, piece in enumerate(one for one in pieces if len(one) > 1):
        piece += piece[-1:] * (plan.frames - len(piece))
        shown = [Image.fromarray(one.load().pixels).resize(plan.size[::-1], Image.Resampling.BOX) for one in piece]
        frames, query = np.stack([np.asarray(one) for one in shown]), piece[0].query
        pictures = torch.from_numpy(frames).permute(0, 3, 1, 2).to(device)
        if maps_of_examples(plan, number) == LOOK:
            source = source_of("look", query, photos=False)
            maps = torch.from_numpy(np.stack([relevance_alone(source, frame) for frame in frames]))[None].to(device)
            scores = to_grid(maps, (rows, cols))
        else:
            with torch.no_grad():
                scores = scorer.score(pictures, question_ids(query).to(device).expand(len(frames), -1)).float()[None]
        cells = np.stack([ground_of(np.concatenate([one.boxes, one.context]), rows, cols) for one in piece])
        truth = torch.from_numpy((cells > 0.02).astype(np.float32))[None].to(device)
        found.append(OwnClip(clip_motion(pictures[None], settings, plan.threads), scores, truth))
    return found


def make_clip_examples(
    plan: VideoOptions,
    scorer: Scorer,
    settings: TemporalSettings,
    device: torch.device,
    number: int,
    split: str = "train",
    maps: str = SCORER,
) -> ClipExamples:
    """Batch `number`: a function of the plan and the number alone, so that a resumed run goes on as it would.

    maps: whose, one of `MAP_SOURCES`.
    """
    chance = random.Random(f"{plan.seed}/{split}/{number}")
    cuts = min(chance.randint(0, plan.most_cuts), plan.frames - 1)
    family = plan.families[number % len(plan.families)]
    numbers = range(number * plan.clips, (number + 1) * plan.clips)
    clip = render_clip(family, numbers, plan.frames, plan.size, plan.seed, split, device, cuts=cuts)
    scores = look_scores(clip, plan.threads) if maps == LOOK else scorer_scores(scorer, clip)
    return ClipExamples(clip, clip_motion(clip.pictures, settings, plan.threads), scores)


def maps_of_examples(plan: VideoOptions, number: int) -> str:
    """Whose maps batch `number` shows. Every family has its share of either, as evenly spread as can be: families
    take turns, and so an even and odd of the number would give some only the one and some only the other."""
    turn = number // len(plan.families) + number % len(plan.families)
    return LOOK if int((turn + 1) * plan.look_share) > int(turn * plan.look_share) else SCORER


def scorer_scores(scorer: Scorer, clip: NeedleClip) -> Tensor:
    """(N, T, rows, cols): the frozen scorer's maps."""
    device = clip.cuts.device
    with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        scores = scorer.score(clip.frames.pictures, clip.frames.question_ids).float()
    return scores.unflatten(0, tuple(clip.cuts.shape))


def look_scores(clip: NeedleClip, threads: int = 1) -> Tensor:
    """(N, T, rows, cols): the maps of a stream that has no model, each frame on its own; the mean of each cell.

    Without the photo map: what is learned must not depend on an extra being installed.
    """
    frames = clip.frames.pictures.permute(0, 2, 3, 1).contiguous().cpu().numpy()
    sources = [source_of("look", question, photos=False) for question in clip.frames.questions]
    with ThreadPoolExecutor(max(1, threads)) as pool:
        found = list(pool.map(relevance_alone, sources, frames))
    maps = torch.from_numpy(np.stack(found)).to(clip.cuts.device)
    rows, cols = clip.frames.cell_labels.shape[1:3]
    return to_grid(maps.unflatten(0, tuple(clip.cuts.shape)), (rows, cols))


@dataclass(frozen=True)
class ClipBatch:
    """Clips ready to be read: what `Clips` and `ClipMaps` hold, as tensors whose first dimension is the clip."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor
    scores: Tensor
    relevance: Tensor
    same_ground: Tensor

    @classmethod
    def of(cls, examples: ClipExamples, temporal: TemporalBlend) -> ClipBatch:
        """Carried with the cuts known: how cuts are found is not the reader's business."""
        clips = examples.clips
        maps = carry_scores(examples.scores, examples.motion, temporal, scenes=examples.clip.cuts)
        return cls(clips.pictures, clips.question_ids, clips.answer_ids, maps.scores, maps.relevance, maps.same_ground)

    @property
    def clips(self) -> Clips:
        return Clips(self.pictures, self.question_ids, self.answer_ids)

    @property
    def maps(self) -> ClipMaps:
        return ClipMaps(self.scores, self.relevance, self.same_ground)


class Stills:
    """Still pictures as `train mini` shows them: the canvases, difficulties and kinds of allocation of its last stage.

    `make` is for the background thread, everything else for the training's own.
    """

    def __init__(self, plan: VideoOptions, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.buffers: dict[tuple[int, int], RingBuffer[ReaderBatch]] = {}

    def make(self, number: int) -> ReaderBatch:
        """The pictures that come with batch `number`."""
        plan = self.plan
        chance = random.Random(f"{plan.seed}/stills/{number}")
        size, _ = draw_step(len(STAGES) - 1, 1.0, chance, plan.largest)
        count = max(2, min(2 * plan.stills, plan.stills * 512 * 512 // (size[0] * size[1])))
        # Another seed than that of the clips; numbers never meet, since no batch renders more than twice its share.
        family = plan.families[(number + chance.randrange(len(plan.families))) % len(plan.families)]
        difficulty = choose_difficulty(size, chance)
        start = number * 2 * max(2, plan.stills)
        return render_reader_batch(family, count, size, plan.seed + 1, start, self.device, difficulty, 1)

    def add(self, batch: ReaderBatch, number: int) -> None:
        if batch.size not in self.buffers:
            self.buffers[batch.size] = RingBuffer(EXAMPLES_KEPT * len(batch))
        self.buffers[batch.size].add(batch, number)

    def state(self) -> dict[tuple[int, int], dict[str, object]]:
        return {size: buffer.state() for size, buffer in self.buffers.items()}

    def load_state(self, state: dict[tuple[int, int], TrainingState]) -> None:
        self.buffers = {size: RingBuffer.of_state(kept, self.make) for size, kept in state.items()}

    def draw(self, chance: random.Random, generator: torch.Generator) -> tuple[ReaderBatch, Kind]:
        """Pictures of one canvas that was printed before, and how they are to be allocated."""
        while True:
            size, kind = draw_step(len(STAGES) - 1, 1.0, chance, self.plan.largest)
            if size in self.buffers:
                return self.buffers[size].draw(self.plan.stills, generator), kind


def require_opencv() -> None:
    """One line where the optical flow would fail later, in a thread."""
    import importlib.util

    if importlib.util.find_spec("cv2") is None:
        raise InputError("the motion of clips needs OpenCV: pip install opencv-contrib-python-headless")
