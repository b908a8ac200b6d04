"""What stage 2 studies: clips with their motion and scores, an album of clips, and still pictures beside them.

Painting clips and finding their motion costs more than reading them once. So a thread prepares lessons ahead
(`prefetch`), and the reader studies each clip a few times, under other allocations every time.
"""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, fields

import numpy as np
import torch
from torch import Tensor

from ...errors import InputError
from ...knowing.scorer import Scorer
from ...video.clip_motion import ClipMotion, clip_motion
from ...video.settings import TemporalSettings
from ...video.sources import relevance_alone, source_of
from ...video.temporal_model import TemporalBlend
from ..needle.clips import NeedleClip, render_clip
from .album import Album, Pages, print_pages
from .allocations import Kind
from .clip_systems import ClipMaps, carry_scores, to_grid
from .evaluate import FAMILIES
from .pool import choose_difficulty
from .reading_clips import Clips
from .schedule import STAGES, draw_step

VIDEO_STAGES = ("temporal", "reader")
# Whose maps of single frames are carried: a stream runs on either, and the same few numbers serve both.
SCORER, LOOK = MAP_SOURCES = ("scorer", "look")
# An album holds the clips of so many lessons, and as many still pictures of each canvas.
LESSONS_KEPT = 16


@dataclass(frozen=True)
class VideoPlan:
    """clips a step, of `frames` frames with up to `most_cuts` cuts. look_cost: what looking at a place again costs, in
    units of the loss. cut_weight: of the cuts' loss. look_share: of the temporal lessons, those with the maps that a
    stream finds without a model instead of the scorer's. stills: single pictures a step, and still_share: their share
    of the reader's loss, so that they are not forgotten. largest: side of their canvases. reuse: how often a clip is
    read on average. seconds: of this run; steps: stop after so many instead, all runs together. evaluate: validation
    clips, and still pictures of each family."""

    stage: str = "temporal"
    seconds: float = 240
    steps: int = 0
    clips: int = 16
    frames: int = 8
    most_cuts: int = 2
    size: tuple[int, int] = (512, 512)
    families: tuple[str, ...] = FAMILIES
    learning_rate: float = 0.0
    look_cost: float = 0.02
    cut_weight: float = 0.5
    look_share: float = 0.5
    stills: int = 64
    still_share: float = 0.5
    largest: int = 1024
    reuse: float = 4.0
    checkpoint_every: float = 60
    evaluate: int = 256
    threads: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.stage not in VIDEO_STAGES:
            raise InputError(f"unknown stage {self.stage!r}; choose {' or '.join(VIDEO_STAGES)}")
        if not 0 <= self.look_share <= 1:
            raise InputError(f"--look-share {self.look_share} is not a share; give 0 to 1")

    @property
    def rate(self) -> float:
        return self.learning_rate or {"temporal": 0.03, "reader": 3e-4}[self.stage]


@dataclass(frozen=True)
class Lesson:
    """One batch of clips: what was rendered, how it moves, and maps of each frame on its own (N, T, rows, cols)."""

    clip: NeedleClip
    motion: ClipMotion
    scores: Tensor

    @property
    def clips(self) -> Clips:
        frames = self.clip.cuts.shape[1]
        batch = self.clip.frames
        return Clips(self.clip.pictures, batch.question_ids[::frames], batch.answer_ids[::frames])


def make_lesson(
    plan: VideoPlan,
    scorer: Scorer,
    settings: TemporalSettings,
    device: torch.device,
    number: int,
    split: str = "train",
    maps: str = SCORER,
) -> Lesson:
    """Lesson `number`: a function of the plan and the number alone, so that a resumed run goes on as it would.

    maps: whose, one of `MAP_SOURCES`.
    """
    chance = random.Random(f"{plan.seed}/{split}/{number}")
    cuts = min(chance.randint(0, plan.most_cuts), plan.frames - 1)
    family = plan.families[number % len(plan.families)]
    clip = render_clip(
        family, plan.clips, plan.frames, plan.size, plan.seed, split, None, device, number * plan.clips, cuts=cuts
    )
    scores = look_scores(clip, plan.threads) if maps == LOOK else scorer_scores(scorer, clip)
    return Lesson(clip, clip_motion(clip.pictures, settings, plan.threads), scores)


def maps_of_lesson(plan: VideoPlan, number: int) -> str:
    """Whose maps lesson `number` shows. Every family has its share of either, as evenly spread as can be: families
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
class ClipPages:
    """Clips ready to be read: what `Clips` and `ClipMaps` hold, as tensors whose first dimension is the clip."""

    pictures: Tensor
    question_ids: Tensor
    answer_ids: Tensor
    scores: Tensor
    relevance: Tensor
    same_ground: Tensor

    @classmethod
    def of(cls, lesson: Lesson, temporal: TemporalBlend) -> ClipPages:
        """Carried with the cuts known: how cuts are found is not the reader's business."""
        clips = lesson.clips
        maps = carry_scores(lesson.scores, lesson.motion, temporal, scenes=lesson.clip.cuts)
        return cls(clips.pictures, clips.question_ids, clips.answer_ids, maps.scores, maps.relevance, maps.same_ground)

    @property
    def clips(self) -> Clips:
        return Clips(self.pictures, self.question_ids, self.answer_ids)

    @property
    def maps(self) -> ClipMaps:
        return ClipMaps(self.scores, self.relevance, self.same_ground)


class ClipAlbum:
    """Clips of one shape in a ring with room for `LESSONS_KEPT` lessons: new ones overwrite the oldest."""

    def __init__(self) -> None:
        self.lessons = 0
        self._pages: ClipPages | None = None

    def add(self, pages: ClipPages) -> None:
        number = len(pages.pictures)
        if self._pages is None:
            parts = (getattr(pages, item.name) for item in fields(pages))
            self._pages = ClipPages(*(part.new_empty(LESSONS_KEPT * number, *part.shape[1:]) for part in parts))
        start = self.lessons % LESSONS_KEPT * number
        for item in fields(pages):
            getattr(self._pages, item.name)[start : start + number] = getattr(pages, item.name)
        self.lessons += 1

    def draw(self, number: int, generator: torch.Generator) -> ClipPages:
        """`number` clips at random, of all lessons that are kept."""
        pages = self._pages
        assert pages is not None, "an album must be filled before it is read"
        filled = len(pages.pictures) * min(self.lessons, LESSONS_KEPT) // LESSONS_KEPT
        index = torch.randint(filled, (number,), generator=generator, device=pages.pictures.device)
        return ClipPages(*(getattr(pages, item.name).index_select(0, index) for item in fields(pages)))


class Stills:
    """Still pictures as `train mini` shows them: the canvases, difficulties and kinds of allocation of its last stage.

    `make` is for the background thread, everything else for the training's own.
    """

    def __init__(self, plan: VideoPlan, device: torch.device) -> None:
        self.plan, self.device = plan, device
        self.albums: dict[tuple[int, int], Album] = {}

    def make(self, number: int) -> Pages:
        """The pictures that come with lesson `number`."""
        plan = self.plan
        chance = random.Random(f"{plan.seed}/stills/{number}")
        size, _ = draw_step(len(STAGES) - 1, 1.0, chance, plan.largest)
        count = max(2, min(2 * plan.stills, plan.stills * 512 * 512 // (size[0] * size[1])))
        # Another seed than that of the clips; numbers never meet, since no lesson prints more than twice its share.
        family = plan.families[(number + chance.randrange(len(plan.families))) % len(plan.families)]
        difficulty = choose_difficulty(size, chance)
        start = number * 2 * max(2, plan.stills)
        return print_pages(family, count, size, plan.seed + 1, start, self.device, difficulty, 1)

    def add(self, pages: Pages) -> None:
        if pages.size not in self.albums:
            self.albums[pages.size] = Album(LESSONS_KEPT * len(pages))
        self.albums[pages.size].add(pages)

    def draw(self, chance: random.Random, generator: torch.Generator) -> tuple[Pages, Kind]:
        """Pictures of one canvas that was printed before, and how they are to be allocated."""
        while True:
            size, kind = draw_step(len(STAGES) - 1, 1.0, chance, self.plan.largest)
            if size in self.albums:
                return self.albums[size].draw(self.plan.stills, generator), kind


def require_opencv() -> None:
    """One line where the optical flow would fail later, in a thread."""
    import importlib.util

    if importlib.util.find_spec("cv2") is None:
        raise InputError("the motion of clips needs OpenCV: pip install opencv-contrib-python-headless")
