"""Stage 2 of the curriculum: decay, boost and thresholds, and reading video prompts, learned on moving Needle World.

python -m arr_coc.lab.train.train_video temporal --weights DIR --out DIR --seconds 100     a handful of numbers
python -m arr_coc.lab.train.train_video reader   --weights DIR --out DIR --seconds 100     mini on video prompts

`temporal` leaves OUT/video, which `load_settings` reads; `reader` leaves OUT/mini and OUT/scorer, the stock checkpoint,
to be calibrated again; its configuration says `trained_on_video` if it reads video prompts as well as single frames.
Both go on from the checkpoint in OUT/STAGE-checkpoint, and write OUT/record-STAGE.json with every number, validation
before and after among them.
"""

from __future__ import annotations

import argparse
import copy
import math
import os
import random
import sys
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...bundled import MINI, SCORER, part_folder
from ...errors import InputError
from ...files import write_json
from ...knowing.scorer import Scorer
from ...video.settings import SETTINGS_NAME, TemporalSettings, load_settings
from ...video.temporal_model import TemporalBlend
from .album import Pages
from .allocations import Kind, LeafTable, even_tree_of, target_cells
from .checkpoints import load_state, save_state, ship
from .clip_lessons import (
    VIDEO_STAGES,
    ClipAlbum,
    ClipPages,
    Lesson,
    Stills,
    VideoPlan,
    make_lesson,
    maps_of_lesson,
    require_opencv,
)
from .clip_systems import carry_and_look, clip_leaves
from .judging import load_reader
from .pictures import IGNORE
from .prefetch import Prefetcher
from .reading_clips import read_video
from .swift import cut_patches, run_language, run_tower, together
from .twin import Twin
from .varying import vary
from .video_judging import changes, judge_reader, judge_temporal, needed_loss, summary

# How a clip's tokens are shared while reading is learned: every control gets its fair chance.
SYSTEM_SHARES = {"temporal": 0.4, "frame by frame": 0.2, "uniform": 0.15, "random": 0.1, "one frame": 0.15}
KEEPS = (1 / 40, 1 / 16, 1 / 8, 1 / 4)
EXPECTED = {"decay": [0.7, 0.9], "boost": [1.2, 1.8]}
WARM_UP = 50
SAY_EVERY = 10
Notes = dict[str, Tensor]


class Training:
    """What both stages share: the frozen scorer, the temporal numbers, where the run stands, and its checkpoint."""

    def __init__(self, plan: VideoPlan, out: Path, weights: Path | None, device: str) -> None:
        require_opencv()
        self.plan, self.out, self.device = plan, out, torch.device(device)
        torch.set_float32_matmul_precision("high")
        scorer = Scorer.from_pretrained(part_folder(SCORER, weights))
        self.scorer = scorer.float().to(self.device).eval().requires_grad_(False)
        self.mini: Any = load_reader(part_folder(MINI, weights), torch.device("cpu")).float().to(self.device)
        self.started_from = settings_beside(weights, out, neutral=plan.stage == "temporal")
        self.temporal = TemporalBlend.of(self.started_from).to(self.device)
        self.progress: dict[str, Any] = {"stage": plan.stage, "step": 0, "lessons": 0, "seconds": 0.0, "curve": []}
        self.modules: dict[str, nn.Module] = {}
        self.optimizers: list[torch.optim.Optimizer] = []
        self.began = perf_counter()

    @property
    def folder(self) -> Path:
        return self.out / f"{self.plan.stage}-checkpoint"

    def resume(self) -> None:
        """From the checkpoint, where there is one."""
        if (self.folder / "state.pt").exists():
            self.progress = load_state(self.folder, self.modules, self.optimizers)
        self.earlier = self.progress["seconds"]

    def save(self) -> None:
        self.progress["seconds"] = self.earlier + perf_counter() - self.began
        save_state(self.folder, self.modules, self.optimizers, self.progress)

    @property
    def share(self) -> float:
        """How much of the run is over: of the steps, or of the time where steps are not counted."""
        if self.plan.steps:
            return self.progress["step"] / self.plan.steps
        return (perf_counter() - self.began) / self.plan.seconds

    def run(self, step: Callable[[], Notes]) -> None:
        """Steps until the time or their number is over; what they say is kept on the device until it is written."""
        plan, progress = self.plan, self.progress
        recent: dict[str, list[Tensor]] = {}
        self.began = saved = perf_counter()
        while self.share < 1 and perf_counter() - self.began < plan.seconds:
            for group in (group for optimizer in self.optimizers for group in optimizer.param_groups):
                warm = min(1.0, (progress["step"] + 1) / WARM_UP) if plan.stage == "reader" else 1.0
                group["lr"] = group.setdefault("highest", plan.rate) * warm * fall(self.share)
            for name, value in step().items():
                recent.setdefault(name, []).append(value.detach())
            progress["step"] += 1
            if progress["step"] % SAY_EVERY == 0 or progress["step"] == 1:
                means = {name: round(float(torch.stack(values).mean()), 5) for name, values in recent.items()}
                point = {"step": progress["step"], "seconds": round(perf_counter() - self.began, 1), **means}
                progress["curve"].append(point)
                recent.clear()
                print(point, flush=True)
            if perf_counter() - saved > plan.checkpoint_every:
                self.save()
                saved = perf_counter()
        self.save()

    def write(self, **more: Any) -> dict[str, Any]:
        """The record so far."""
        hidden = {"before"}
        kept = {name: value for name, value in self.progress.items() if name not in hidden}
        record = {"plan": asdict(self.plan), **kept, "settings": self.temporal.settings.to_json(), **more}
        write_json(self.out / f"record-{self.plan.stage}.json", record)
        return record


def fall(share: float) -> float:
    """Of the learning rate: full for a third, then half a cosine down to nothing."""
    return 0.5 * (1 + math.cos(math.pi * min(1.0, max(0.0, share - 1 / 3) * 1.5)))


# ---- decay, boost, thresholds ----------------------------------------------------------------------------------------


def temporal_loss(temporal: TemporalBlend, lesson: Lesson, plan: VideoPlan) -> tuple[Tensor, Notes]:
    """Carried relevance against what the question needs in each frame, plus what looking again and cuts cost.

    Carried both ways: with a look only where trust is weak, which saves time, and with a look at everything, as on
    keyframes and for the cheap maps. Without the second, decay would never meet a past that is still trusted.
    """
    scenes = lesson.clip.cuts
    truth = target_cells(lesson.clip.frames, *lesson.scores.shape[2:]).view_as(lesson.scores)
    weak, looks = carry_and_look(lesson.scores, lesson.motion, temporal, False, scenes)
    everywhere, _ = carry_and_look(lesson.scores, lesson.motion, temporal, True, scenes)
    seen = 0.5 * (needed_loss(weak.relevance, truth) + needed_loss(everywhere.relevance, truth))
    looked = looks[:, 1:].mean()
    logits = temporal.cut_logits(lesson.motion.excess[:, 1:])
    cuts = scenes[:, 1:].to(logits.dtype)
    cut = F.binary_cross_entropy_with_logits(logits, cuts, weight=1 + 4 * cuts)
    return seen + plan.look_cost * looked + plan.cut_weight * cut, {"seen": seen, "looked": looked, "cut": cut}


def temporal_optimizer(temporal: TemporalBlend, rate: float) -> torch.optim.Optimizer:
    """The cuts' weights live on a scale of tens, everything else on one of units."""
    cuts = [temporal.cut_weights, temporal.cut_bias]
    rest = [one for one in temporal.parameters() if all(one is not other for other in cuts)]
    groups = [{"params": rest, "highest": rate}, {"params": cuts, "highest": 10 * rate}]
    return torch.optim.Adam(groups, lr=rate)


def train_temporal(training: Training) -> dict[str, Any]:
    plan, temporal, device = training.plan, training.temporal, training.device
    optimizer = temporal_optimizer(temporal, plan.rate)
    training.modules["temporal"] = temporal
    training.optimizers.append(optimizer)
    before = judge_temporal(training.mini, training.scorer, temporal, plan, device) if plan.evaluate else None
    training.resume()
    number = count(training.progress["lessons"])
    pool: deque[Lesson] = deque(maxlen=16)
    chance = random.Random(f"{plan.seed}/temporal/{training.progress['step']}")

    def make() -> Lesson:
        turn = next(number)
        maps = maps_of_lesson(plan, turn)
        return make_lesson(plan, training.scorer, training.started_from, device, turn, maps=maps)

    with Prefetcher(make, device, ahead=2) as ahead:

        def step() -> Notes:
            # A lesson that is not ready is not waited for: an earlier one teaches nearly as much.
            if ahead.ready or len(pool) < 4:
                pool.append(ahead.next())
                training.progress["lessons"] += 1
                lesson = pool[-1]
            else:
                lesson = chance.choice(pool)
            loss, notes = temporal_loss(temporal, lesson, plan)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(temporal.parameters(), 1.0)
            optimizer.step()
            return notes | {name: getattr(temporal, name) for name in ("decay", "boost", "weak")}

        training.run(step)
    temporal.save_pretrained(training.out / "video")
    training.write(expected=EXPECTED, validation_before=before)
    after = judge_temporal(training.mini, training.scorer, temporal, plan, device) if plan.evaluate else None
    return training.write(expected=EXPECTED, validation_before=before, validation=after)


# ---- reading video prompts -------------------------------------------------------------------------------------------


def still_loss(mini: Any, pages: Pages, blocks: Sequence[Tensor], levels: int) -> tuple[Tensor, Tensor]:
    """Cross entropy of the answers from still pictures, by the swift path, and which are right. blocks: see `study`."""
    core = mini.model
    grid = pages.size[0] // 32, pages.size[1] // 32
    dtype = core.language_model.embed_tokens.weight.dtype
    looks = [run_tower(core.visual, cut_patches(pages.pictures, each, levels, dtype), each, grid) for each in blocks]
    hidden, _ = run_language(core, together(looks), pages.tails, torch.cat(list(blocks), 1), grid)
    logits = F.linear(hidden[:, :-1], core.language_model.embed_tokens.weight).float()
    tails, said = pages.tails.flatten(0, 1)[:, 1:], pages.said.flatten(0, 1)[:, 1:]
    wanted = torch.where(said, tails.long(), IGNORE)
    right = ~((logits.detach().argmax(-1) != wanted) & said).any(1)
    return F.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=IGNORE), right


class ReaderLessons:
    """The reader's steps: clips through the video prompt and still pictures, each from an album."""

    def __init__(self, training: Training) -> None:
        self.training, self.plan = training, training.plan
        self.temporal = copy.deepcopy(training.temporal).eval().requires_grad_(False)
        self.album, self.stills = ClipAlbum(), Stills(training.plan, training.device)
        self.tables: dict[tuple[int, int], LeafTable] = {}
        seed = self.plan.seed + training.progress["step"]
        self.chance = random.Random(f"{self.plan.seed}/reader/{training.progress['step']}")
        self.generator = torch.Generator(device=training.device).manual_seed(seed)
        self.drawing = torch.Generator().manual_seed(seed)
        self.number = count(training.progress["lessons"])
        self.read = 0.0

    def make(self) -> tuple[ClipPages, Pages]:
        """For the background thread."""
        number = next(self.number)
        lesson = make_lesson(self.plan, self.training.scorer, self.training.started_from, self.training.device, number)
        return ClipPages.of(lesson, self.temporal), self.stills.make(number)

    def refill(self, ahead: Prefetcher[tuple[ClipPages, Pages]]) -> None:
        """New clips when the ones at hand were read often enough; a few of every family before the first step."""
        fewest = 1 if self.plan.steps else len(self.plan.families)
        due = self.read >= self.plan.reuse * self.album.lessons
        while self.album.lessons < fewest or (due and ahead.ready):
            clips, pages = ahead.next()
            self.album.add(clips)
            self.stills.add(pages)
            self.training.progress["lessons"] += 1
            due = False
        self.read += 1

    def blocks(self, pages: Pages, kind: Kind) -> tuple[list[Tensor], int]:
        """Leaves of every look at still pictures, as `train mini` makes them, and the mip levels that they need."""
        if pages.size not in self.tables:
            self.tables[pages.size] = LeafTable(even_tree_of(pages.size), self.training.device)
        table, truth, scores = self.tables[pages.size], pages.targets[:, 0].float(), None
        if kind.name == "scorer" or (kind.name == "again" and self.chance.random() < 0.5):
            device = self.training.device
            with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = self.training.scorer(pages.pictures, pages.questions[:, 0].long()).float().sigmoid()
        if kind.name == "again":
            looks = table.again(truth, self.generator, scores, max(1, table.tree.full // 16))
        else:
            looks = [table.leaves(kind, truth, self.generator, scores)]
        return looks, table.tree.levels + 1

    def video_loss(self, mini: Any) -> tuple[Tensor, Tensor]:
        pages = self.album.draw(self.plan.clips, self.generator)
        system = self.chance.choices(list(SYSTEM_SHARES), list(SYSTEM_SHARES.values()))[0]
        leaves = clip_leaves(system, pages.maps, self.chance.choice(KEEPS), self.drawing)
        reading = read_video(mini, pages.clips, leaves)
        return reading.loss, reading.right

    def picture_loss(self, mini: Any) -> tuple[Tensor, Tensor]:
        pages, kind = self.stills.draw(self.chance, self.generator)
        pages = Pages(**{**vars(pages), "pictures": vary(pages.pictures, self.generator)})
        return still_loss(mini, pages, *self.blocks(pages, kind))


def train_reader(training: Training) -> dict[str, Any]:
    plan, device = training.plan, training.device
    mini = training.mini.requires_grad_(True)
    twin = Twin(mini, torch.bfloat16 if device.type == "cuda" else torch.float32)
    optimizer = torch.optim.AdamW(
        mini.parameters(), lr=plan.rate, weight_decay=0.01, betas=(0.9, 0.98), fused=device.type == "cuda"
    )
    training.modules["mini"] = mini
    training.optimizers.append(optimizer)
    training.resume()
    if training.progress["step"]:
        twin.push_weights()
    elif plan.evaluate:
        training.progress["before"] = judge_reader(mini.eval(), training.scorer, training.temporal, plan, device)
        training.write(validation_before=summary(training.progress["before"]))
    lessons = ReaderLessons(training)
    with Prefetcher(lessons.make, device, ahead=2) as ahead:

        def step() -> Notes:
            lessons.refill(ahead)
            video, right = lessons.video_loss(twin.worker)
            still, still_right = lessons.picture_loss(twin.worker)
            ((1 - plan.still_share) * video + plan.still_share * still).backward()
            twin.pull_gradients()
            nn.utils.clip_grad_norm_(mini.parameters(), 1.0)
            optimizer.step()
            twin.push_weights()
            shares = {"right": right.float().mean(), "still right": still_right.float().mean()}
            return {"video": video, "still": still, **shares}

        training.run(step)
    before = training.progress.get("before")
    if before is None:
        ship_reader(training, reads_video=True)
        return training.write()
    # What a run has learned is kept before it is judged: judging takes a while, and time may be over.
    ship_reader(training, reads_video=False)
    after = judge_reader(mini.eval(), training.scorer, training.temporal, plan, device)
    video, clearest = (sum(after[f"clip, temporal 1/16, {reading}"]) for reading in ("video", "clearest"))
    if video >= clearest:
        ship_reader(training, reads_video=True)
    return training.write(
        reads_video=video >= clearest,
        validation_before=summary(before),
        validation=summary(after),
        validation_change=changes(before, after),
    )


def ship_reader(training: Training, reads_video: bool) -> None:
    """OUT/mini and OUT/scorer. reads_video: whether the video prompt is what clips are read through by default: only
    where it is no worse than the clearest frame."""
    training.mini.config.trained_on_video = reads_video
    # Shipping halves the weights where they are; what is judged keeps its own.
    ship({"mini": copy.deepcopy(training.mini).eval(), "scorer": copy.deepcopy(training.scorer)}, training.out)


# ---- the command -----------------------------------------------------------------------------------------------------


def train(plan: VideoPlan, out: Path, weights: Path | None = None, device: str = "cpu") -> dict[str, Any]:
    """One stage; goes on from its checkpoint where there is one. Returns the record."""
    training = Training(plan, out, weights, device)
    return (train_temporal if plan.stage == "temporal" else train_reader)(training)


def settings_beside(weights: Path | None, out: Path, neutral: bool) -> TemporalSettings:
    """What an earlier stage left in OUT, else what lies beside the weights, else the package's.

    neutral: the defaults instead of the package's, which are to be learned anew and not to be learned from.
    """
    for folder in (out, weights):
        if folder is not None and (folder / "video" / SETTINGS_NAME).exists():
            return load_settings(folder / "video")
    return TemporalSettings() if neutral else load_settings()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=VIDEO_STAGES)
    parser.add_argument("--weights", type=Path, help="folder with scorer and mini; the package's if none")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/video")))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name in ("seconds", "learning_rate", "look_cost", "look_share", "still_share", "reuse", "checkpoint_every"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(VideoPlan, name))
    for name in ("steps", "clips", "frames", "stills", "largest", "evaluate", "threads", "seed", "most_cuts"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(VideoPlan, name))
    parser.add_argument("--size", type=int, default=VideoPlan.size[0], help="side of the square canvas in pixels")
    parser.add_argument("--families", nargs="+", default=list(VideoPlan.families))
    given = vars(parser.parse_args(arguments))
    out, weights, device, side = (given.pop(name) for name in ("out", "weights", "device", "size"))
    families = tuple(given.pop("families"))
    try:
        record = train(VideoPlan(**given, size=(side, side), families=families), out, weights, device)
    except InputError as error:
        sys.exit(f"error: {error}")
    shown = ("validation_before", "validation", "validation_change", "reads_video", "settings")
    for name in shown:
        print(name, record.get(name), flush=True)


if __name__ == "__main__":
    main()
