"""Stage 2 of the curriculum: decay, boost and thresholds, and reading video prompts, learned on moving Needle World.

python -m arr_coc.learning.train_video temporal --weights DIR --out DIR --seconds 240     a handful of numbers
python -m arr_coc.learning.train_video reader   --weights DIR --out DIR --seconds 900     mini on video prompts

`temporal` leaves OUT/video, which `load_settings` reads; `reader` leaves OUT/mini and OUT/scorer, the stock checkpoint
that says `trained_on_video` in its configuration (calibrate it again). Both go on from the checkpoint in
OUT/STAGE-checkpoint, and write OUT/record-STAGE.json with every number.
"""

from __future__ import annotations

import argparse
import os
import random
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import perf_counter
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ..backbones.qwen3_vl_attention import dense_vision_attention
from ..bundled import MINI, SCORER, part_folder
from ..errors import InputError
from ..files import write_json
from ..knowing.scorer import Scorer
from ..needle.clips import NeedleClip, render_clip
from ..video.clip_motion import ClipMotion, clip_motion
from ..video.settings import SETTINGS_NAME, load_settings
from ..video.temporal_model import TemporalBlend
from .allocations import target_cells, tree_of
from .checkpoints import load_state, save_state, ship
from .clip_systems import carry_scores, clip_leaves, enlarge, to_grid
from .judging import load_reader
from .reading_clips import Clips, read_pictures, read_video, take_frames

STAGES = ("temporal", "reader")
FAMILIES = ("cards", "signs", "forms", "scenes", "receipts", "charts", "zoo")
# How a clip's tokens are shared while reading is learned: every control gets its fair chance.
SYSTEM_SHARES = {"temporal": 0.4, "frame by frame": 0.2, "uniform": 0.15, "random": 0.1, "one frame": 0.15}
KEEPS = (1 / 40, 1 / 16, 1 / 8, 1 / 4)
EXPECTED = {"decay": [0.7, 0.9], "boost": [1.2, 1.8]}


@dataclass(frozen=True)
class VideoPlan:
    """clips a step, of `frames` frames with up to `most_cuts` cuts. look_cost: what looking at a place again costs, in
    units of the loss. cut_weight: of the cuts' loss. still_share: of single pictures in the reader's loss, so that
    they are not forgotten. seconds: of this run; steps: stop after so many instead, all runs together."""

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
    still_share: float = 0.3
    checkpoint_every: float = 120
    evaluate: int = 64
    threads: int = 2
    seed: int = 0

    def __post_init__(self) -> None:
        if self.stage not in STAGES:
            raise InputError(f"unknown stage {self.stage!r}; choose {' or '.join(STAGES)}")

    @property
    def rate(self) -> float:
        return self.learning_rate or {"temporal": 0.03, "reader": 1e-4}[self.stage]


@dataclass(frozen=True)
class Lesson:
    """One batch of clips: what was rendered, how it moves (cuts known), the frozen scorer's maps (N, T, rows, cols)."""

    clip: NeedleClip
    motion: ClipMotion
    scores: Tensor

    @property
    def clips(self) -> Clips:
        frames = self.clip.cuts.shape[1]
        batch = self.clip.frames
        return Clips(self.clip.pictures, batch.question_ids[::frames], batch.answer_ids[::frames])


def make_lesson(
    plan: VideoPlan, scorer: Scorer, temporal: TemporalBlend, device: torch.device, step: int, split: str = "train"
) -> Lesson:
    """The clips of one step: a function of the plan and the step alone, so that a resumed run goes on as it would."""
    chance = random.Random(f"{plan.seed}/{split}/{step}")
    clip = render_clip(
        chance.choice(plan.families),
        plan.clips,
        plan.frames,
        plan.size,
        plan.seed,
        split,
        None,
        device,
        step * plan.clips,
        cuts=min(chance.randint(0, plan.most_cuts), plan.frames - 1),
    )
    with torch.no_grad():
        scores = scorer.score(clip.frames.pictures, clip.frames.question_ids)
    motion = clip_motion(clip.pictures, temporal.settings, plan.threads, known_cuts=clip.cuts)
    return Lesson(clip, motion, scores.unflatten(0, (plan.clips, plan.frames)))


# ---- decay, boost, thresholds ----------------------------------------------------------------------------------------


def temporal_loss(temporal: TemporalBlend, lesson: Lesson, plan: VideoPlan) -> tuple[Tensor, dict[str, float]]:
    """Carried relevance against what the question needs in each frame, plus what looking again and cuts cost."""
    grid = (lesson.scores.shape[2], lesson.scores.shape[3])
    size = (lesson.motion.flow.shape[-2], lesson.motion.flow.shape[-1])
    carried = temporal(enlarge(lesson.scores, size), lesson.motion, every_frame=False, scenes=lesson.clip.cuts)
    truth = target_cells(lesson.clip.frames, *grid).view_as(lesson.scores)
    relevance = to_grid(carried.relevance, grid).clamp(1e-4, 1 - 1e-4)
    seen = F.binary_cross_entropy(relevance, truth, weight=1 + 2 * truth)
    looked = carried.looked[:, 1:].mean()
    logits = temporal.cut_logits(lesson.motion.excess[:, 1:])
    cuts = lesson.clip.cuts[:, 1:].to(logits.dtype)
    cut = F.binary_cross_entropy_with_logits(logits, cuts, weight=1 + 4 * cuts)
    values = {"seen": float(seen.detach()), "looked": float(looked.detach()), "cut": float(cut.detach())}
    return seen + plan.look_cost * looked + plan.cut_weight * cut, values


def temporal_optimizer(temporal: TemporalBlend, rate: float) -> torch.optim.Optimizer:
    """The cuts' weights live on a scale of tens, everything else on one of units."""
    cuts = [temporal.cut_weights, temporal.cut_bias]
    rest = [one for one in temporal.parameters() if all(one is not other for other in cuts)]
    return torch.optim.Adam([{"params": rest, "lr": rate}, {"params": cuts, "lr": 10 * rate}])


@torch.no_grad()
def judge_temporal(temporal: TemporalBlend, lessons: Iterator[Lesson], plan: VideoPlan) -> dict[str, Any]:
    """On clips that were not trained on: the loss of carried and of lone scores, cuts found and false cuts."""
    temporal.eval()
    carried_loss, alone_loss, looked = [], [], []
    counts = torch.zeros(4, dtype=torch.int64)
    for lesson in lessons:
        _, values = temporal_loss(temporal, lesson, plan)
        carried_loss.append(values["seen"])
        looked.append(values["looked"])
        truth = target_cells(lesson.clip.frames, *lesson.scores.shape[2:]).view_as(lesson.scores)
        alone = lesson.scores.clamp(1e-4, 1 - 1e-4)
        alone_loss.append(float(F.binary_cross_entropy(alone, truth, weight=1 + 2 * truth)))
        cuts = (temporal.cut_logits(lesson.motion.excess[:, 1:]) > 0).cpu()
        true = lesson.clip.cuts[:, 1:].cpu()
        counts += torch.tensor(
            [int((cuts & true).sum()), int(true.sum()), int((cuts & ~true).sum()), int((~true).sum())]
        )
    temporal.train()
    names = ("cuts_found", "cuts", "false_cuts", "frames_inside")
    return {
        "carried": sum(carried_loss) / len(carried_loss),
        "alone": sum(alone_loss) / len(alone_loss),
        "looked": sum(looked) / len(looked),
        **dict(zip(names, counts.tolist(), strict=True)),
    }


# ---- reading video prompts -------------------------------------------------------------------------------------------


def reader_loss(mini: Any, temporal: TemporalBlend, lesson: Lesson, plan: VideoPlan, step: int) -> tuple[Tensor, dict]:
    """Cross entropy of the answers from a video prompt, and from one frame of each clip as a picture."""
    chance = random.Random(f"{plan.seed}/reader/{step}")
    generator = torch.Generator().manual_seed(chance.getrandbits(31))
    maps = carry_scores(lesson.scores, lesson.motion, temporal, scenes=lesson.clip.cuts)
    system = chance.choices(list(SYSTEM_SHARES), list(SYSTEM_SHARES.values()))[0]
    leaves = clip_leaves(system, maps, chance.choice(KEEPS), generator, tree_of(plan.size))
    clips = lesson.clips
    video = read_video(mini, clips, leaves)
    chosen = torch.arange(len(clips)) * plan.frames + torch.randint(plan.frames, (len(clips),), generator=generator)
    chosen = chosen.to(clips.pictures.device)
    stills = take_frames(clip_leaves("frame by frame", maps, chance.choice((1 / 8, 1 / 4)), generator), chosen)
    pictures = clips.pictures.flatten(0, 1)[chosen]
    chances, wanted, _ = read_pictures(mini, pictures, clips.question_ids, clips.answer_ids, stills)
    still = F.nll_loss(chances, wanted)
    values = {
        "video": float(video.loss.detach()),
        "still": float(still.detach()),
        "right": float(video.right.float().mean()),
    }
    return (1 - plan.still_share) * video.loss + plan.still_share * still, values


# ---- the loop --------------------------------------------------------------------------------------------------------


def train(plan: VideoPlan, out: Path, weights: Path | None = None, device: str = "cpu") -> dict[str, Any]:
    """One stage; goes on from its checkpoint where there is one. Returns the record."""
    place = torch.device(device)
    scorer = Scorer.from_pretrained(part_folder(SCORER, weights)).float().to(place).requires_grad_(False)
    temporal = TemporalBlend.of(_settings_beside(weights, out)).to(place)
    modules: dict[str, Any] = {"temporal": temporal}
    if plan.stage == "reader":
        modules = {"mini": load_reader(part_folder(MINI, weights), torch.device("cpu")).float().to(place)}
        modules["mini"].requires_grad_(True).train()
        temporal.eval()
        optimizer: torch.optim.Optimizer = torch.optim.AdamW(
            modules["mini"].parameters(), lr=plan.rate, weight_decay=0.01, betas=(0.9, 0.98)
        )
    else:
        optimizer = temporal_optimizer(temporal, plan.rate)
    folder = out / f"{plan.stage}-checkpoint"
    progress: dict[str, Any] = {"stage": plan.stage, "step": 0, "curve": []}
    if (folder / "state.pt").exists():
        progress = load_state(folder, modules, [optimizer])
    started = saved = perf_counter()
    while perf_counter() - started < plan.seconds and not (plan.steps and progress["step"] >= plan.steps):
        step = progress["step"]
        lesson = make_lesson(plan, scorer, temporal, place, step)
        if plan.stage == "reader":
            # Warm-up, then a straight way down over the steps, or over the time where steps are not counted.
            share = step / plan.steps if plan.steps else (perf_counter() - started) / plan.seconds
            for group in optimizer.param_groups:
                group["lr"] = plan.rate * min(1.0, (step + 1) / 50) * max(0.05, 1 - share)
            with (
                dense_vision_attention(modules["mini"]),
                torch.autocast(place.type, torch.bfloat16, enabled=place.type == "cuda"),
            ):
                loss, values = reader_loss(modules["mini"], temporal, lesson, plan, step)
        else:
            loss, values = temporal_loss(temporal, lesson, plan)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_([one for group in optimizer.param_groups for one in group["params"]], 1.0)
        optimizer.step()
        progress["step"] += 1
        if progress["step"] % 10 == 0 or step == 0:
            point = {"step": progress["step"], **{name: round(value, 5) for name, value in values.items()}}
            if plan.stage == "temporal":
                point |= {
                    name: round(float(getattr(temporal, name).detach()), 4) for name in ("decay", "boost", "weak")
                }
            progress["curve"].append(point)
            print(point, flush=True)
        if perf_counter() - saved > plan.checkpoint_every:
            save_state(folder, modules, [optimizer], progress)
            saved = perf_counter()
    save_state(folder, modules, [optimizer], progress)
    return finish(plan, out, modules, temporal, scorer, progress, place)


def finish(
    plan: VideoPlan,
    out: Path,
    modules: dict[str, Any],
    temporal: TemporalBlend,
    scorer: Scorer,
    progress: dict[str, Any],
    device: torch.device,
) -> dict[str, Any]:
    """Judge on validation clips, write what goes into the package, and the record."""
    record: dict[str, Any] = {"plan": asdict(plan), **progress, "settings": temporal.settings.to_json()}
    number = -(-plan.evaluate // plan.clips)
    if plan.stage == "temporal":
        temporal.save_pretrained(out / "video")
        lessons = (make_lesson(plan, scorer, temporal, device, step, "validation") for step in range(number))
        record["expected"] = EXPECTED
        if number:
            record["validation"] = judge_temporal(temporal, lessons, plan)
    else:
        mini = modules["mini"].eval()
        mini.config.trained_on_video = True
        if number:
            record["validation"] = judge_reader(mini, temporal, scorer, plan, number, device)
        ship({"mini": mini, "scorer": scorer}, out)
    write_json(out / f"record-{plan.stage}.json", record)
    return record


@torch.no_grad()
def judge_reader(
    mini: Any, temporal: TemporalBlend, scorer: Scorer, plan: VideoPlan, number: int, device: torch.device
) -> dict[str, Any]:
    """Exact match through the video prompt on validation clips, by system, at a sixteenth of the tokens."""
    right: dict[str, list[bool]] = {system: [] for system in ("temporal", "frame by frame", "uniform")}
    generator = torch.Generator().manual_seed(plan.seed)
    with dense_vision_attention(mini), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        for step in range(number):
            lesson = make_lesson(plan, scorer, temporal, device, step, "validation")
            maps = carry_scores(lesson.scores, lesson.motion, temporal)
            for system, found in right.items():
                leaves = clip_leaves(system, maps, 1 / 16, generator, tree_of(plan.size))
                found += read_video(mini, lesson.clips, leaves).right.tolist()
    return {system: {"accuracy": sum(found) / len(found), "n": len(found)} for system, found in right.items()}


def _settings_beside(weights: Path | None, out: Path) -> Any:
    """What an earlier stage left in OUT, else what lies beside the weights, else the package's."""
    for folder in (out, weights):
        if folder is not None and (folder / "video" / SETTINGS_NAME).exists():
            return load_settings(folder / "video")
    return load_settings()


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("stage", choices=STAGES)
    parser.add_argument("--weights", type=Path, help="folder with scorer, and mini for `reader`; the package's if none")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/video")))
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    for name in ("seconds", "learning_rate", "look_cost", "still_share", "checkpoint_every"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=float, default=getattr(VideoPlan, name))
    for name in ("steps", "clips", "frames", "evaluate", "threads", "seed", "most_cuts"):
        parser.add_argument(f"--{name.replace('_', '-')}", type=int, default=getattr(VideoPlan, name))
    parser.add_argument("--size", type=int, default=VideoPlan.size[0], help="side of the square canvas in pixels")
    parser.add_argument("--families", nargs="+", default=list(FAMILIES))
    given = vars(parser.parse_args(arguments))
    out, weights, device, side = (given.pop(name) for name in ("out", "weights", "device", "size"))
    families = tuple(given.pop("families"))
    record = train(VideoPlan(**given, size=(side, side), families=families), out, weights, device)
    print(record.get("validation"), record["settings"], flush=True)


if __name__ == "__main__":
    main()
