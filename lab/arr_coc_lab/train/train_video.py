"""Stage 2 of the curriculum: decay, boost and thresholds, and reading video prompts, learned on moving Needle World.

python -m arr_coc_lab.train.train_video temporal --weights DIR --out DIR --seconds 100     a handful of numbers
python -m arr_coc_lab.train.train_video reader   --weights DIR --out DIR --seconds 100     mini on video prompts
arr-coc train video temporal --data clips --out my-video                                   with one's own clips

`temporal` leaves OUT/video, which `load_settings` reads; `reader` leaves OUT/mini and OUT/scorer, the stock checkpoint,
to be calibrated again; its configuration says `trained_on_video` if it reads video prompts as well as single frames.
Both go on from the checkpoint in OUT/STAGE-checkpoint, and write OUT/record-STAGE.json with every number, validation
before and after among them.
"""

from __future__ import annotations

import copy
import json
from collections import deque
from collections.abc import Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.video.settings import SETTINGS_NAME, TemporalSettings, load_settings

from .acceleration import Prefetcher, Twin
from .allocations import Kind, LeafTable, coarsest_of, even_tree_of
from .checkpoints import TrainingState, ship
from .clip_allocations import carry_and_look, clip_leaves
from .clip_examples import (
    EXAMPLES_KEPT,
    ClipBatch,
    ClipExamples,
    OwnClip,
    Stills,
    VideoOptions,
    by_clip,
    make_clip_examples,
    maps_of_examples,
    own_clips,
    require_opencv,
)
from .clip_reader import read_video
from .devices import Devices
from .options import parse
from .outcomes import load_reader
from .own_data import read_own, split_by_picture
from .pictures import vary
from .reader import picture_loss
from .reader_examples import ReaderBatch, RingBuffer
from .run import Moment, Notes, Schedule, Training, door, train
from .temporal_model import TemporalBlend
from .video_judging import changes, judge_reader, judge_temporal, needed_loss, summary

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# How a clip's tokens are shared while reading is learned: every control gets its fair chance.
SYSTEM_SHARES = {"temporal": 0.4, "frame by frame": 0.2, "uniform": 0.15, "random": 0.1, "one frame": 0.15}
KEEPS = (1 / 40, 1 / 16, 1 / 8, 1 / 4)
EXPECTED = {"decay": [0.7, 0.9], "boost": [1.2, 1.8]}
WARM_UP = 50
DECAY_FROM = 1 / 3


class VideoTraining(Training[VideoOptions]):
    """What both stages share: the frozen scorer, the temporal numbers, and batches of clips by number."""

    def __init__(self, options: VideoOptions, devices: Devices) -> None:
        require_opencv()
        super().__init__(options, devices)
        weights = options.weights
        scorer = load_scorer(part_folder(SCORER, weights))
        self.scorer = scorer.float().to(self.device).eval().requires_grad_(False)
        self.mini: Any = load_reader(part_folder(MINI, weights), torch.device("cpu")).float().to(self.device)
        self.started_from = settings_beside(weights, options.target, neutral=options.stage == "temporal")
        self.temporal = TemporalBlend.of(self.started_from).to(self.device)
        self.done |= {"stage": options.stage, "examples": 0}
        self.chance["chance"].seed(f"{options.seed}/{options.stage}/0")
        self.number = count()
        self.ahead: Prefetcher[Any] = Prefetcher(self.make, self.device, ahead=2)

    def make(self) -> Any:
        """For the background thread: the next batch."""
        raise NotImplementedError

    def running(self) -> AbstractContextManager[object]:
        self.number = count(self.done["examples"])
        return self.ahead

    def judge(self, at: Moment) -> None:
        """Only before the first step; afterwards `finish` does it."""
        if at.step == 0 and self.options.evaluate:
            self.done["before"] = self.evaluate()

    def evaluate(self) -> object:
        raise NotImplementedError

    def write(self, **more: object) -> None:
        """The record so far."""
        kept = {name: value for name, value in self.record().items() if name != "before"}
        record = {**kept, "settings": self.temporal.settings.to_json(), **more}
        write_json(self.options.target / f"record-{self.options.stage}.json", record)


# ---- decay, boost, thresholds ----------------------------------------------------------------------------------------


def temporal_loss(
    temporal: TemporalBlend, examples: ClipExamples | OwnClip, plan: VideoOptions
) -> tuple[Tensor, Notes]:
    """Carried relevance against what the question needs in each frame, plus what looking again and cuts cost.

    Carried both ways: with a look only where trust is weak, which saves time, and with a look at everything, as on
    keyframes and for the cheap maps. Without the second, decay would never meet a past that is still trusted.
    """
    scenes, truth = examples.cuts, examples.truth
    weak, looks = carry_and_look(examples.scores, examples.motion, temporal, False, scenes)
    everywhere, _ = carry_and_look(examples.scores, examples.motion, temporal, True, scenes)
    seen = 0.5 * (needed_loss(weak.relevance, truth) + needed_loss(everywhere.relevance, truth))
    looked = looks[:, 1:].mean()
    if scenes is None:
        return seen + plan.look_cost * looked, {"seen": seen, "looked": looked}
    logits = temporal.cut_logits(examples.motion.excess[:, 1:])
    cuts = scenes[:, 1:].to(logits.dtype)
    cut = F.binary_cross_entropy_with_logits(logits, cuts, weight=1 + 4 * cuts)
    return seen + plan.look_cost * looked + plan.cut_weight * cut, {"seen": seen, "looked": looked, "cut": cut}


class TemporalTraining(VideoTraining):
    """A handful of numbers, on the maps of frozen sources."""

    def __init__(self, options: VideoOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        self.modules["temporal"] = self.temporal
        # The cuts' weights live on a scale of tens, everything else on one of units.
        cuts = [self.temporal.cut_weights, self.temporal.cut_bias]
        rest = [one for one in self.temporal.parameters() if all(one is not other for other in cuts)]
        groups = [{"params": rest, "lr": options.rate}, {"params": cuts, "lr": 10 * options.rate}]
        self.optimizers.append(torch.optim.Adam(groups, lr=options.rate))
        self.schedule = Schedule(decay_from=DECAY_FROM)
        self.pool: deque[ClipExamples] = deque(maxlen=16)
        self.own, self.aside = self.own_data()

    def own_data(self) -> tuple[list[OwnClip], list[OwnClip]]:
        """One's own clips to learn from, and those held out; none without --data."""
        options = self.options
        if options.data is None:
            return [], []
        data = read_own(options.data, strict=options.strict)
        parts = split_by_picture(by_clip(data.records), options.held_out, options.seed)
        learned, aside = (own_clips(one, options, self.scorer, self.started_from, self.device) for one in parts)
        self.done |= {"records": len(data.records), "skipped": len(data.bad), "own": [len(learned), len(aside)]}
        return learned, aside

    @torch.no_grad()
    def own_loss(self) -> float | None:
        """On one's own clips that are held out."""
        losses = [float(temporal_loss(self.temporal, one, self.options)[0]) for one in self.aside]
        return sum(losses) / len(losses) if losses else None

    def make(self) -> ClipExamples:
        number = next(self.number)
        maps = maps_of_examples(self.options, number)
        return make_clip_examples(self.options, self.scorer, self.started_from, self.device, number, maps=maps)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        if self.own and self.chance["chance"].random() >= self.options.mix:
            return temporal_loss(self.temporal, self.chance["chance"].choice(self.own), self.options)
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
        if at.step == 0:
            self.done["own_before"] = self.own_loss()
        super().judge(at)

    def evaluate(self) -> dict[str, object]:
        return judge_temporal(self.mini, self.scorer, self.temporal, self.options, self.device)

    def export(self) -> None:
        self.temporal.save_pretrained(self.options.target / "video")
        self.write(expected=EXPECTED, validation_before=self.done.get("before"))

    def finish(self) -> None:
        after = self.evaluate() if self.options.evaluate else None
        own = {"own_held_out_loss": self.own_loss()} if self.aside else {}
        self.write(expected=EXPECTED, validation_before=self.done.get("before"), validation=after, **own)


# ---- reading video prompts -------------------------------------------------------------------------------------------


class ReaderTraining(VideoTraining):
    """`mini` on clips through the video prompt and on still pictures, each from a buffer."""

    def __init__(self, options: VideoOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        self.modules["mini"] = self.mini.requires_grad_(True)
        cuda = self.device.type == "cuda"
        self.twin = Twin(self.mini, torch.bfloat16 if cuda else torch.float32)
        self.optimizers.append(
            torch.optim.AdamW(self.mini.parameters(), lr=options.rate, weight_decay=0.01, betas=(0.9, 0.98), fused=cuda)
        )
        self.schedule = Schedule(WARM_UP, DECAY_FROM)
        self.frozen = copy.deepcopy(self.temporal).eval().requires_grad_(False)
        self.clips: RingBuffer[ClipBatch] = RingBuffer(EXAMPLES_KEPT * options.clips)
        self.stills = Stills(options, self.device)
        self.tables: dict[tuple[int, int], LeafTable] = {}
        self.pick = self.generator("pick", options.seed)
        self.drawing = self.generator("drawing", options.seed, torch.device("cpu"))
        self.read = 0.0

    def clip_batch(self, number: int) -> ClipBatch:
        examples = make_clip_examples(self.options, self.scorer, self.started_from, self.device, number)
        return ClipBatch.of(examples, self.frozen)

    def make(self) -> tuple[int, ClipBatch, ReaderBatch]:
        number = next(self.number)
        return number, self.clip_batch(number), self.stills.make(number)

    def refill(self) -> None:
        """New clips when the ones at hand were read often enough; a few of every family before the first step."""
        fewest = 1 if self.options.steps else len(self.options.families)
        due = self.read >= self.options.reuse * self.clips.added
        while self.clips.added < fewest or (due and self.ahead.ready):
            number, clips, pictures = self.ahead.next()
            self.clips.add(clips, number)
            self.stills.add(pictures, number)
            self.done["examples"] += 1
            due = False
        self.read += 1

    def blocks(self, pages: ReaderBatch, kind: Kind) -> tuple[list[Tensor], int]:
        """Leaves of every look at still pictures, as `train mini` makes them, and the mip levels that they need."""
        if pages.size not in self.tables:
            self.tables[pages.size] = LeafTable(even_tree_of(pages.size), self.device)
        table, truth, scores = self.tables[pages.size], pages.targets[:, 0].float(), None
        if kind.name == "scorer" or (kind.name == "again" and self.chance["chance"].random() < 0.5):
            device = self.device
            with torch.no_grad(), torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                scores = self.scorer(pages.pictures, pages.questions[:, 0].long()).float().sigmoid()
        # Tokens dropped after the tower are no matter of clips: those pictures are read whole.
        return table.looks(kind, truth, self.pick, scores)[0], coarsest_of(pages.size) + 1

    def video_loss(self, mini: PreTrainedModel) -> tuple[Tensor, Tensor]:
        batch, chance = self.clips.draw(self.options.clips, self.pick), self.chance["chance"]
        system = chance.choices(list(SYSTEM_SHARES), list(SYSTEM_SHARES.values()))[0]
        leaves = clip_leaves(system, batch.maps, chance.choice(KEEPS), self.drawing)
        reading = read_video(mini, batch.clips, leaves)
        return reading.loss, reading.right

    def picture_loss(self, mini: object) -> tuple[Tensor, Tensor]:
        batch, kind = self.stills.draw(self.chance["chance"], self.pick)
        batch = replace(batch, pictures=vary(batch.pictures, self.pick))
        return picture_loss(mini, batch, *self.blocks(batch, kind))

    def step(self, at: Moment) -> Notes:
        self.refill()
        video, right = self.video_loss(self.twin.worker)
        still, still_right = self.picture_loss(self.twin.worker)
        share = self.options.still_share
        ((1 - share) * video + share * still).backward()
        self.twin.pull_gradients()
        nn.utils.clip_grad_norm_(self.mini.parameters(), 1.0)
        self.optimizers[0].step()
        self.twin.push_weights()
        shares = {"right": right.float().mean(), "still right": still_right.float().mean()}
        return {"video": video, "still": still, **shares}

    def data_state(self) -> dict[str, object]:
        return {"clips": self.clips.state(), "stills": self.stills.state(), "read": self.read}

    def load_data_state(self, state: TrainingState) -> None:
        self.clips, self.read = RingBuffer.of_state(state["clips"], self.clip_batch), state["read"]
        self.stills.load_state(state["stills"])
        self.twin.push_weights()

    def evaluate(self) -> dict[str, list[bool]]:
        return judge_reader(self.mini.eval(), self.scorer, self.temporal, self.options, self.device)

    def judge(self, at: Moment) -> None:
        super().judge(at)
        if at.step == 0 and self.options.evaluate:
            self.write(validation_before=summary(self.done["before"]))

    def export(self) -> None:
        # What a run has learned is kept before it is judged: judging takes a while, and time may be over.
        self.ship(reads_video=not self.options.evaluate)
        self.write()

    def ship(self, reads_video: bool) -> None:
        """OUT/mini and OUT/scorer. reads_video: whether clips are read through the video prompt by default: only where
        that is no worse than the clearest frame."""
        self.mini.config.trained_on_video = reads_video
        ship({"mini": self.mini, "scorer": self.scorer}, self.options.target)

    def finish(self) -> None:
        before = self.done.get("before")
        if before is None:
            return
        after = self.evaluate()
        video, clearest = (sum(after[f"clip, temporal 1/16, {reading}"]) for reading in ("video", "clearest"))
        if video >= clearest:
            self.ship(reads_video=True)
        self.write(
            reads_video=video >= clearest,
            validation_before=summary(before),
            validation=summary(after),
            validation_change=changes(before, after),
        )


# ---- the command -----------------------------------------------------------------------------------------------------


def train_video(options: VideoOptions) -> VideoTraining:
    """One stage; goes on from its checkpoint where there is one. Leaves OUT/record-STAGE.json."""
    return train(TemporalTraining if options.stage == "temporal" else ReaderTraining, options)


def settings_beside(weights: Path | None, out: Path, neutral: bool) -> TemporalSettings:
    """What an earlier stage left in OUT, else what lies beside the weights, else the package's.

    neutral: the defaults instead of the package's, which are to be learned anew and not to be learned from.
    """
    for folder in (out, weights):
        if folder is not None and (folder / "video" / SETTINGS_NAME).exists():
            return load_settings(folder / "video")
    return TemporalSettings() if neutral else load_settings()


def main(arguments: Iterable[str] | None = None) -> None:
    options = parse(VideoOptions, arguments, __doc__)
    train_video(options)
    record = json.loads((options.target / f"record-{options.stage}.json").read_text(encoding="utf-8"))
    for name in ("validation_before", "validation", "validation_change", "reads_video", "settings"):
        print(name, record.get(name), flush=True)


if __name__ == "__main__":
    door(main)
