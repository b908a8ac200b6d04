"""Learn how much to explore, from outcomes: was the answer right after looking again?

The policy's exploration is a number in (0, 1); in training its log-odds are drawn from a normal distribution around
what the policy says, several times for the same pictures. What did better than the rest of its
group becomes likelier.

Below `tempering.BLEND_ABOVE` all exploration is the same: none. A policy whose centre has drifted far below it draws
nothing else, learns nothing from it and never comes back; so the centre of what is drawn stays within reach of it
(`within_reach`), and what the policy says in the end is a judgement of both sides.

    arr-coc train tempering --data invoices --out my-tempering      ask … --passes 4 --tempering my-tempering

With `--data` on one's own records, of which only the answers are needed; `bench esper --train` learns on drawn worlds.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from PIL import Image, ImageOps
from torch import Tensor
from torch.nn import functional as F

from arr_coc.answering.eye import Eye
from arr_coc.answering.pass_settings import EsperSettings
from arr_coc.answering.passes import Explore, MemoryReader, PassJob, PassRecord, Prompts, pass_loop
from arr_coc.attending.tree import build_tree
from arr_coc.balancing.tempering import BLEND_ABOVE, TemperingConfig, TemperingPolicy
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI
from arr_coc.looking import prepare
from arr_coc.realizing.qwen3_vl.adapter import Qwen3VL

from ..train.devices import Devices
from ..train.options import RunOptions, option
from ..train.own_data import HELD_OUT, OwnRecord, read_own, split_by_picture, write_records
from ..train.run import Moment, Notes, Training, command, door, train

if TYPE_CHECKING:
    from transformers import PreTrainedModel


CELL = 32


def run_passes(
    model: PreTrainedModel,
    job: PassJob,
    budgets: tuple[int | Tensor, int],
    settings: EsperSettings,
    explore: Explore,
    *,
    temperature: float = 1.0,
    most: int = 64,
    stop_early: bool = True,
) -> list[PassRecord]:
    """`pass_loop` with a model that remembers what it saw. most: the longest answer, in tokens."""
    reader = MemoryReader(model, job, settings, temperature, most)
    return pass_loop(reader, job, budgets, settings, explore, stop_early)


@dataclass(frozen=True)
class TemperingExamples:
    """Pictures with their questions, and the true answers' tokens (B, A) int64, 0 = padding."""

    job: PassJob
    answers: Tensor

    def repeated(self, times: int) -> TemperingExamples:
        """The same pictures several times over, one after the other; their pixels are kept once."""
        job = self.job
        several = torch.arange(len(job.relevance), device=job.relevance.device).repeat(times)
        table = job.pyramid
        job = replace(
            job,
            pyramid=replace(
                table, start=table.start[several], height=table.height[several], width=table.width[several]
            ),
            prompts=job.prompts.select(several),
            relevance=job.relevance[several],
            glance=None if job.glance is None else job.glance[several],
            stakes=None if job.stakes is None else job.stakes[several],
        )
        return TemperingExamples(job, self.answers.repeat(times, 1))


@dataclass(frozen=True)
class Trial:
    """One run: what the policy was told, (passes, B) each, the log-odds that were drawn, the reward (B,)."""

    told: tuple[Tensor, Tensor, Tensor]
    drawn: Tensor
    reward: Tensor

    def parts(self, number: int) -> list[Trial]:
        """A run over examples repeated so often → one trial for each time."""
        told = zip(*(item.chunk(number, 1) for item in self.told), strict=True)
        return [
            Trial((first, second, third), drawn, reward)
            for (first, second, third), drawn, reward in zip(
                told, self.drawn.chunk(number, 1), self.reward.chunk(number), strict=True
            )
        ]


def answers_right(record: PassRecord, answers: Tensor, ends: Iterable[int]) -> Tensor:
    """(B,) bool: is what was said the true answer, token for token?"""
    said = record.generated.ids.masked_fill(~record.generated.within, 0)
    said = said.masked_fill(torch.isin(said, torch.tensor(list(ends), device=said.device)), 0)
    length = max(said.shape[1], answers.shape[1])
    said, answers = (torch.nn.functional.pad(item, (0, length - item.shape[1])) for item in (said, answers))
    return (said == answers).all(1)


def group_advantages(rewards: Tensor) -> Tensor:
    """(group, B) → the same, relative to the group's mean: what the same pictures got with other draws."""
    if len(rewards) < 2:
        raise InputError("a group needs at least two trials; with one there is nothing to compare it with")
    return rewards - rewards.mean(0, keepdim=True)


def log_odds(policy: TemperingPolicy, *told: Tensor) -> Tensor:
    """The centre of what is drawn; in full precision, though the models around it may run in half."""
    with torch.autocast(told[0].device.type, enabled=False):
        return torch.logit(policy(*(item.float() for item in told)), eps=1e-4)


def within_reach(centre: Tensor, spread: float) -> Tensor:
    """Centres at most one spread from where blending starts: at least one draw in six falls on the other side of it.

    The value is held, the gradient is not: a policy beyond reach still learns to come back.
    """
    edge = float(np.log(BLEND_ABOVE / (1 - BLEND_ABOVE)))
    return centre + (centre.clamp(edge - spread, edge + spread) - centre).detach()


def attempt(
    task: TemperingTask, examples: TemperingExamples, policy: TemperingPolicy, spread: float, generator: torch.Generator
) -> Trial:
    """Run all passes with exploration drawn around the policy's; the reward is the share of later passes that were
    right, so that finding it early counts more than finding it late."""
    from arr_coc.answering.decoding import end_tokens

    told: list[tuple[Tensor, Tensor, Tensor]] = []
    drawn: list[Tensor] = []

    def explore(number: Tensor, uncertainty: Tensor, trend: Tensor) -> Tensor:
        centre = within_reach(log_odds(policy, number, uncertainty, trend), spread)
        noise = torch.randn(len(centre), generator=generator).to(centre)
        told.append((number, uncertainty, trend))
        drawn.append(centre + spread * noise)
        return torch.sigmoid(drawn[-1])

    how = {"temperature": task.temperature, "most": task.most}
    records = run_passes(task.model, examples.job, task.budgets, task.settings, explore, stop_early=False, **how)
    right = torch.stack([answers_right(record, examples.answers, end_tokens(task.model)) for record in records[1:]])
    inputs = [torch.stack(item) for item in zip(*told[: len(records)], strict=True)]
    return Trial((inputs[0], inputs[1], inputs[2]), torch.stack(drawn[: len(records)]), right.float().mean(0))


def policy_loss(policy: TemperingPolicy, trials: list[Trial], spread: float) -> Tensor:
    """Minus the advantage-weighted log-probability of what was drawn; the first pass explores nothing: left out."""
    advantages = group_advantages(torch.stack([trial.reward for trial in trials]))
    losses = []
    for trial, advantage in zip(trials, advantages, strict=True):
        told = (item[1:].flatten() for item in trial.told)
        centre = within_reach(log_odds(policy, *told), spread).view(trial.drawn[1:].shape)
        likely = -((trial.drawn[1:] - centre) ** 2) / (2 * spread**2)
        losses.append(-(advantage * likely.sum(0)).mean())
    return torch.stack(losses).mean()


@dataclass(frozen=True, kw_only=True)
class TemperingOptions(RunOptions):
    """How a policy is trained."""

    folder: Path = option(Path("runs/tempering"), "where the checkpoint and the curve are kept")
    group: int = option(4, "draws for the same pictures")
    spread: float = option(1.0, "of the log-odds that are drawn, around the policy's")
    learning_rate: float = option(0.02, "of Adam")


@dataclass(frozen=True)
class TemperingTask:
    """What the policy is trained on. examples: by number of the step. budgets: of the first pass and of later ones.
    temperature, most: of `run_passes`."""

    model: PreTrainedModel
    examples: Callable[[int], TemperingExamples]
    budgets: tuple[int, int]
    settings: EsperSettings
    temperature: float = 1.0
    most: int = 64


class TemperingTraining(Training[TemperingOptions]):
    """A policy that starts from the rule, on a frozen model. watch: told of the policy and all rewards, every step."""

    aloud = False

    def __init__(
        self,
        options: TemperingOptions,
        devices: Devices,
        task: TemperingTask,
        policy: TemperingPolicy | None = None,
        watch: Callable[[TemperingPolicy, list[float]], object] = lambda policy, rewards: None,
    ) -> None:
        super().__init__(options, devices)
        self.task, self.watch = task, watch
        self.policy = (policy or TemperingPolicy(TemperingConfig(learned=True))).to(self.device)
        self.modules["policy"] = self.policy
        self.optimizers.append(torch.optim.Adam(self.policy.parameters(), lr=options.learning_rate))
        self.noise = self.generator("noise", options.seed, torch.device("cpu"))
        self.done["rewards"] = []

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options, task = self.options, self.task
        # All draws of the group in one batch: several small runs would cost several times as long on a GPU.
        examples = task.examples(at.step).repeated(options.group)
        trials = attempt(task, examples, self.policy, options.spread, self.noise).parts(options.group)
        reward = torch.stack([trial.reward for trial in trials]).mean()
        self.done["rewards"].append(float(reward))
        return policy_loss(self.policy, trials, options.spread), {"reward": reward}

    def step(self, at: Moment) -> Notes:
        notes = super().step(at)
        self.watch(self.policy, self.done["rewards"])
        return notes


def train_tempering(
    task: TemperingTask,
    options: TemperingOptions,
    policy: TemperingPolicy | None = None,
    watch: Callable[[TemperingPolicy, list[float]], object] = lambda policy, rewards: None,
) -> tuple[TemperingPolicy, list[float]]:
    """A learned policy and the mean reward of every step; goes on from a checkpoint where there is one."""
    options = replace(options, device=str(next(task.model.parameters()).device))
    training = train(
        partial(TemperingTraining, task=task, policy=policy, watch=watch), options, ships=False, matmul=None
    )
    return training.policy, training.done["rewards"]


# ---- one's own records -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class OwnTemperingOptions(TemperingOptions):
    """The same on one's own records."""

    data: Path = option(help="one's own records: a folder with records.jsonl, a .jsonl or a .parquet file")
    model: str = option(MINI, "the frozen model that answers, a Qwen3-VL: mini, a folder or a name on the hub")
    relevance: str = option("auto", "where its looks begin: a source, or the folder of a scorer")
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(HELD_OUT, "share of the pictures that are judged on and never learned from")
    batch: int = option(8, "records a step")
    judged: int = option(64, "records held out at each judgement, at most")
    canvas: int = option(512, "side in pixels on which every picture is shown")
    first: int = option(32, "tokens of the first look")
    later: int = option(16, "tokens of each later one")
    passes: int = option(4, "how often it looks")
    new_tokens: int = option(24, "longest answer")

    def __post_init__(self) -> None:
        if self.canvas < 2 * CELL or self.canvas % CELL or min(self.batch, self.first, self.later) < 1:
            raise InputError(
                f"--canvas {self.canvas} must be a multiple of {CELL}; --batch, --first, --later at least 1"
            )
        if self.passes < 2 or not 0 < self.held_out < 1:
            raise InputError("--passes must be at least 2, --held-out between 0 and 1")


def own_examples(eye: Eye, records: Sequence[OwnRecord], options: OwnTemperingOptions) -> TemperingExamples:
    """Records as `run_passes` takes them: every picture whole on a canvas of one size, with its map."""
    side, cells = options.canvas, options.canvas // CELL
    pictures, maps = [], []
    for record in records:
        image = Image.fromarray(record.load().pixels)
        pixels = np.array(ImageOps.pad(image, (side, side), color=(255, 255, 255), centering=(0, 0)))
        found = prepare(pixels).look(record.query, keep=1.0, relevance=options.relevance).relevance
        plane = torch.as_tensor(np.array(found.map), dtype=torch.float32)[None, None]
        pictures.append(torch.from_numpy(pixels).permute(2, 0, 1))
        maps.append(F.interpolate(plane, (cells, cells), mode="area")[0, 0])
    shown = eye.processor.image_processor
    mean, std = (torch.tensor(values)[:, None, None] for values in (shown.image_mean, shown.image_std))
    device = next(eye.model.parameters()).device
    job = PassJob.of(
        eye.model,
        ((torch.stack(pictures).float() / 255 - mean) / std).to(device),
        Prompts.of(eye.processor, [record.query for record in records], device),
        torch.stack(maps).to(device),
        build_tree(cells, cells, 3 if eye.levels is None else eye.levels),
    )
    tokens = [torch.tensor(eye.processor.tokenizer(record.answer).input_ids) for record in records]
    return TemperingExamples(job, torch.nn.utils.rnn.pad_sequence(tokens, batch_first=True).to(device))


class OwnTemperingTraining(TemperingTraining):
    """The policy on records that are split by picture; judged against the rule on those held out."""

    options: OwnTemperingOptions
    title = "tempering"

    def __init__(self, options: OwnTemperingOptions, devices: Devices) -> None:
        data = read_own(options.data, "outcomes", strict=options.strict)
        self.eye = Eye.from_pretrained(options.model, device=str(devices.device))
        if not isinstance(self.eye.backbone, Qwen3VL):
            raise InputError(f"--model {options.model} cannot look again cheaply; tempering is learned on a Qwen3-VL")
        learned, self.held = split_by_picture(data.records, options.held_out, options.seed)
        self.aside = own_examples(self.eye, self.held[: options.judged], options)

        def examples(step: int) -> TemperingExamples:
            chosen = random.Random(f"{options.seed} {step}").choices(learned, k=options.batch)
            return own_examples(self.eye, chosen, options)

        settings, how = EsperSettings(passes=options.passes), (self.eye.temperature, options.new_tokens)
        task = TemperingTask(self.eye.model, examples, (options.first, options.later), settings, *how)
        super().__init__(options, devices, task)
        self.done |= {"records": len(data.records), "skipped": len(data.bad), "held_out": len(self.held)}

    @torch.no_grad()
    def rewarded(self, policy: TemperingPolicy) -> float:
        """The mean reward on what is held out, nothing drawn by chance."""
        return float(attempt(self.task, self.aside, policy, 0.0, torch.Generator()).reward.mean())

    def judge(self, at: Moment) -> dict[str, object]:
        if "rule" not in self.done:
            self.done["rule"] = self.rewarded(TemperingPolicy().to(self.device))
        return {"held out reward": self.rewarded(self.policy), "held out reward of the rule": self.done["rule"]}

    def export(self) -> None:
        self.policy.save_pretrained(self.options.target)
        write_json(self.options.target / "record.json", self.record())
        write_records(self.options.target / "held_out.jsonl", self.held)


main = command(OwnTemperingTraining, OwnTemperingOptions, __doc__)

if __name__ == "__main__":
    door(main)
