"""`arr-coc train scorer --from outcomes`: the scorer learns where to look from what came of looking there.

The reader is frozen. The scorer's map is turned into several sampled allocations of each picture, the reader answers
from each, and the scorer follows what paid (`policy_gradient`). It never sees a box. Before that, and beside it, it
follows where the answer hung on detail (`credit`): one reading with its derivative weighs every cell of a picture,
where a group of sampled allocations compares a handful of trees. `--from boxes` is the same loop with the boxes as
labels, for comparison: by cross entropy, or by what a mistake costs (`asymmetric`).

The reward is the outcome (right +1, partly +0.5, wrong −1: `rewards.outcome_reward` over 1000) plus `likelihood_weight`
times the mean log-likelihood of the right answer's characters under the reader; 0 leaves the bare outcome.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.tree import Tree
from ...backbones.qwen3_vl_attention import dense_vision_attention
from ...errors import InputError
from ...files import write_json
from ...knowing.scorer import Scorer, ScorerConfig
from .allocations import target_cells, tree_of
from .asymmetric import PRESETS, asymmetric_loss, expected_tokens
from .checkpoints import export, load_export, load_state, save_state
from .credit import credit_loss, credit_shares, detail_credit
from .curriculum import STATIC_ONLY, Curriculum
from .distributed import Devices
from .evaluate import FAMILIES, format_table, table
from .judging import RewardForm, judge, load_reader
from .monitors import Monitors
from .pictures import TrainingBatch
from .policy import draw_noise
from .policy_gradient import Settings, balance_penalty, map_entropy, outcome_step
from .pool import cut
from .probe import Probe, run_scorer
from .replay import CreditReplay, Judged
from .sources import Sources
from .train_mini import SHARES

if TYPE_CHECKING:
    from transformers import PreTrainedModel


# How often small canvases return once the large ones are practised.
SMALL_LATER = 0.2


@dataclass(frozen=True)
class ScorerPlan:
    """source: outcomes or boxes. stakes: with boxes, `cross_entropy` or a preset of `asymmetric`.

    keeps: shares of the full token count that are practised, one a step; the first of them alone up to
    `all_keeps_from`, because on a small budget a blind policy shows almost nothing at level 0 (0.1 % of the ground at
    1/16), so that there is nothing to learn from.
    credit_weight: of `credit_loss`; 0 leaves the policy gradient alone. policy_weight: of the policy gradient, whose
    norm is several times the credit's, so that its noise does not drown it. policy_from: the share of the training from
    which on allocations are sampled and judged; before it the credit, much cheaper, leads alone, and every judged batch
    is followed by `replays` steps on earlier ones.
    small, small_until: the canvas of the first share of the steps, and of one in five later on; as many pixels a step
    as on the large one.
    probe: validation pictures on which the allocation in use is judged every `probe_every` seconds; `say_every` is the
    curve's. seconds, total, steps: as in `train_mini.Plan`.
    """

    source: str = "outcomes"
    stakes: str = "cross_entropy"
    seconds: float = 480
    total: float = 480
    steps: int = 0
    batch: int = 64
    group: int = 8
    size: tuple[int, int] = (512, 512)
    keeps: tuple[float, ...] = (1 / 4, 1 / 8, 1 / 16)
    all_keeps_from: float = 0.3
    learning_rate: float = 1e-3
    warm_up: int = 50
    decay_from: float = 0.6
    reward: RewardForm = "outcome"
    likelihood_weight: float = 1.0
    credit_weight: float = 1.0
    policy_weight: float = 0.2
    policy_from: float = 0.7
    replays: int = 2
    small: tuple[int, int] = (256, 256)
    small_until: float = 0.45
    settings: Settings = field(default_factory=Settings)
    curriculum: bool = True
    readings_at_once: int = 2048
    probe: int = 448
    probe_every: float = 60
    say_every: float = 15
    checkpoint_every: float = 120
    evaluate: int = 2048
    seed: int = 0

    def __post_init__(self) -> None:
        if self.source not in ("outcomes", "boxes"):
            raise InputError(f"a scorer can learn from outcomes or from boxes, not from {self.source!r}")
        if self.stakes != "cross_entropy" and self.stakes not in PRESETS:
            raise InputError(f"unknown stakes {self.stakes!r}; choose cross_entropy or one of {', '.join(PRESETS)}")

    def canvas(self, progress: float, chance: random.Random) -> tuple[tuple[int, int], int]:
        """Size and number of pictures of a step."""
        times = max(1, (self.size[0] * self.size[1]) // (self.small[0] * self.small[1]))
        replay = chance.random() < SMALL_LATER
        is_small = times > 1 and (progress < self.small_until or (self.small_until > 0 and replay))
        return (self.small, self.batch * times) if is_small else (self.size, self.batch)

    def samples(self, progress: float) -> bool:
        """Whether allocations are sampled at this point of the training."""
        return self.source == "outcomes" and (self.credit_weight == 0 or progress >= self.policy_from)


def rate_at(progress: float, step: int, plan: ScorerPlan) -> float:
    """Share of the full learning rate: warm-up, plateau, cosine to a twentieth."""
    fall = min(1.0, max(0.0, (progress - plan.decay_from) / (1 - plan.decay_from)))
    return min(1.0, (step + 1) / plan.warm_up) * (0.05 + 0.95 * 0.5 * (1 + math.cos(math.pi * fall)))


def box_loss(cell_logits: Tensor, batch: TrainingBatch, stakes: str, weights: Tensor) -> Tensor:
    """The labelled alternative: what matters is what the boxes cover."""
    truth = target_cells(batch, *cell_logits.shape[1:])
    if stakes == "cross_entropy":
        each = F.binary_cross_entropy_with_logits(
            cell_logits.float(), truth, pos_weight=truth.new_tensor(3.0), reduction="none"
        )
        return (each.mean((1, 2)) * weights).mean()
    tokens = expected_tokens(cell_logits.float())
    return asymmetric_loss(tokens, truth, PRESETS[stakes], importance=weights[:, None, None]).loss


def learn_from_outcomes(
    plan: ScorerPlan,
    model: PreTrainedModel,
    batch: TrainingBatch,
    cell_logits: Tensor,
    tree: Tree,
    budget: int,
    noise: Tensor,
    weights: Tensor,
) -> tuple[Tensor, dict[str, Tensor]]:
    """Sample, read, reward: the loss and what the record keeps. Of the batch the scorer learns right and wrong only."""
    right: list[Tensor] = []

    def reward(leaves: Tensor) -> Tensor:
        found = judge(model, batch, leaves, plan.readings_at_once)
        right.append(found.right.float().mean())
        return found.reward(leaves.shape[2], tree.full, plan.reward, plan.likelihood_weight)

    result = outcome_step(cell_logits, tree, budget, noise, reward, plan.settings, weights)
    return plan.policy_weight * result.loss, {
        "right": right[0],
        "reward": result.rewards.mean(),
        "draw entropy": result.draw_entropy,
        "silent": result.silent,
        "budget share": result.loss.new_tensor(result.sampled.leaves.shape[2] / budget),
    }


def train(
    plan: ScorerPlan,
    config: ScorerConfig,
    reader: Path,
    folder: Path,
    start_from: Path | None = None,
    cpu: bool = False,
) -> dict[str, Any]:
    """Run for `plan.seconds` (or `plan.steps` steps); returns the record, with the scorer under `scorer`."""
    devices = Devices(cpu=cpu)
    device = devices.device
    torch.manual_seed(plan.seed)
    torch.set_float32_matmul_precision("high")
    bare = Scorer(config).to(device)
    optimizer: Any = torch.optim.AdamW(bare.parameters(), lr=plan.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
    done: dict[str, Any] = {"step": 0, "seconds": 0.0, "pictures": 0, "rendered": {}, "curve": [], "monitors": None}
    if (folder / "state.pt").exists():
        done = load_state(folder, {"scorer": bare}, [optimizer])
    elif start_from is not None:
        load_export(start_from, {"scorer": bare})
    scorer, optimizer = devices.prepare(bare, optimizer)
    monitors = Monitors(entropy_band=plan.settings.band)
    if done["monitors"]:
        monitors = Monitors.from_json(done["monitors"])
    model = load_reader(reader, device)
    curriculum = Curriculum() if plan.curriculum else STATIC_ONLY
    sources = Sources(curriculum, FAMILIES, SHARES, plan.seed, device, done["rendered"])
    probe = Probe.render(plan.probe, plan.size, plan.keeps[0], device) if plan.probe and devices.is_main else None
    chance = random.Random(plan.seed + done["step"])
    generator = torch.Generator(device=device).manual_seed(plan.seed + done["step"])
    recent: dict[str, list[Tensor]] = {}
    replay = CreditReplay()
    first_step, seconds_before = done["step"], done["seconds"]
    began = time.time()
    last_said = last_saved = 0.0
    last_probed = -math.inf
    with dense_vision_attention(model):
        while True:
            elapsed = devices.agree(time.time() - began)
            done["seconds"] = seconds_before + elapsed
            step = done["step"]
            ended = elapsed >= plan.seconds or (plan.steps and step - first_step >= plan.steps)
            if probe is not None and (elapsed - last_probed >= plan.probe_every or ended):
                last_probed = elapsed
                add_probe(done, probe, model, devices.unwrap(scorer), plan)
            if ended or (step > first_step and elapsed - last_saved >= plan.checkpoint_every):
                last_saved = elapsed
                if devices.is_main:
                    progress_now = {**done, "monitors": monitors.to_json()}
                    save_state(folder, {"scorer": devices.unwrap(scorer)}, [optimizer], progress_now)
            if ended:
                break
            progress = (step - first_step) / plan.steps if plan.steps else min(1.0, done["seconds"] / plan.total)
            for group in optimizer.param_groups:
                group["lr"] = plan.learning_rate * rate_at(progress, step, plan)
            size, number = plan.canvas(progress, chance)
            # Small canvases practise the first budget only: a step of the tree is a large part of the others there.
            several = progress >= plan.all_keeps_from and size == plan.size
            keep = chance.choice(plan.keeps if several else plan.keeps[:1])
            tree = tree_of(size)
            budget = max(tree.floor, round(keep * tree.full))
            batch, weights = sources.take(number, size, progress, chance)
            # Chance is drawn for the whole batch everywhere, so that the slices fit together however many there are.
            noise = draw_noise(len(batch), plan.group, tree, generator)
            own = devices.slice_of(len(batch))
            batch, weights, noise = cut(batch, own.start, own.stop), weights[own], noise[own]
            cell_logits = run_scorer(scorer, batch)
            loss = cell_logits.new_zeros(())
            seen = {"budget share": loss.new_tensor(tree.reach(budget) / budget)}
            if plan.samples(progress):
                loss, seen = learn_from_outcomes(plan, model, batch, cell_logits, tree, budget, noise, weights)
                seen[f"right {keep:.3g}"] = seen["right"]
            if plan.source == "outcomes" and plan.credit_weight:
                credit = detail_credit(model, batch)
                replay.add(Judged(batch, credit_shares(credit.cells), weights))
                seen["credit"] = credit_loss(cell_logits, replay.kept[-1].shares, weights)
                seen["right full"] = credit.right.float().mean()
                # Without the sampled allocations, the balance term still holds the map open.
                outside = balance_penalty(map_entropy(cell_logits), plan.settings.band)
                held = 0.0 if plan.samples(progress) else plan.settings.balance_weight
                loss = loss + plan.credit_weight * seen["credit"] + held * outside
            if plan.source == "boxes":
                loss = box_loss(cell_logits, batch, plan.stakes, weights)
            seen["map entropy"] = map_entropy(cell_logits.detach()).mean()
            devices.backward(loss)
            seen |= {"loss": loss.detach(), "gradient": torch.as_tensor(devices.clip(scorer.parameters()))}
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            for older in replay.draw(0 if plan.samples(progress) else plan.replays, chance):
                again = run_scorer(scorer, older.batch)
                devices.backward(plan.credit_weight * credit_loss(again, older.shares, older.weights))
                devices.clip(scorer.parameters())
                optimizer.step()
                optimizer.zero_grad(set_to_none=True)
            done["step"] += 1
            done["pictures"] += number
            done["rendered"] = sources.rendered
            for name, value in seen.items():
                recent.setdefault(name, []).append(value.detach().to(device))
            if elapsed - last_said >= plan.say_every or plan.steps:
                last_said = elapsed
                point = {name: float(devices.mean(torch.stack(values).mean())) for name, values in recent.items()}
                recent.clear()
                monitors.observe(
                    done["step"],
                    [bare],
                    budget_share=point["budget share"],
                    map_entropy=point["map entropy"],
                    **({"draw_entropy": point["draw entropy"]} if "draw entropy" in point else {}),
                )
                stage = curriculum.at(progress).name
                say(done, {"stage": stage, **{name: round(value, 4) for name, value in point.items()}}, devices.is_main)
    done["monitors"] = monitors.to_json()
    result_scorer = devices.unwrap(scorer)
    devices.wait()
    return {**done, "scorer": result_scorer, "reader": model, "is_main": devices.is_main, "devices": devices}


def say(done: dict[str, Any], values: dict[str, Any], aloud: bool = True) -> None:
    """Add a point to the learning curve."""
    point = {"step": done["step"], "seconds": round(done["seconds"], 1), **values}
    done["curve"].append(point)
    if aloud:
        print(json.dumps(point), flush=True)


def add_probe(done: dict[str, Any], probe: Probe, model: PreTrainedModel, scorer: Scorer, plan: ScorerPlan) -> None:
    """The learning curve's own point: how often the reader is right with the tree that would be used."""
    values: dict[str, Any] = {"probe keep": probe.keep, "probe number": len(probe.batch)}
    if done["step"] == 0:
        values["probe random"] = round(probe.accuracy(model, None, plan.readings_at_once), 4)
    values["probe right"] = round(probe.accuracy(model, scorer, plan.readings_at_once), 4)
    say(done, values)


def arguments_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--from", dest="source", choices=("outcomes", "boxes"), default="outcomes")
    parser.add_argument("--reader", type=Path, required=True, help="an export of `train mini`, or a checkpoint folder")
    parser.add_argument("--stakes", default="cross_entropy", help="with boxes: cross_entropy or " + ", ".join(PRESETS))
    parser.add_argument("--seconds", type=float, default=ScorerPlan.seconds, help="how long this run may train")
    parser.add_argument("--total", type=float, help="seconds of the whole training, all runs together")
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps instead")
    parser.add_argument("--batch", type=int, default=ScorerPlan.batch, help="pictures a step, all processes together")
    parser.add_argument("--group", type=int, default=ScorerPlan.group, help="allocations sampled for each picture")
    parser.add_argument("--size", type=int, default=ScorerPlan.size[0], help="side of the square canvas in pixels")
    parser.add_argument(
        "--keeps", type=float, nargs="+", default=list(ScorerPlan.keeps), help="budgets practised, largest first"
    )
    parser.add_argument("--learning-rate", type=float, default=ScorerPlan.learning_rate)
    parser.add_argument("--reward", choices=("outcome", "simple"), default="outcome")
    parser.add_argument("--likelihood-weight", type=float, default=ScorerPlan.likelihood_weight)
    parser.add_argument("--credit-weight", type=float, default=ScorerPlan.credit_weight, help="0: policy gradient only")
    parser.add_argument("--policy-from", type=float, default=ScorerPlan.policy_from, help="share of the training")
    parser.add_argument("--replays", type=int, default=ScorerPlan.replays, help="steps on earlier batches, of each")
    parser.add_argument("--small-until", type=float, default=ScorerPlan.small_until, help="share of the training")
    parser.add_argument("--temperature", type=float, default=Settings.temperature)
    parser.add_argument("--baseline", choices=("leave_one_out", "group", "none"), default=Settings.baseline)
    parser.add_argument("--entropy-weight", type=float, default=Settings.entropy_weight)
    parser.add_argument("--balance-weight", type=float, default=Settings.balance_weight)
    parser.add_argument("--static-only", action="store_true", help="no curriculum: static pictures throughout")
    parser.add_argument("--probe", type=int, default=ScorerPlan.probe, help="pictures of the learning curve's probe")
    parser.add_argument("--probe-every", type=float, default=ScorerPlan.probe_every, help="seconds")
    parser.add_argument("--evaluate", type=int, default=ScorerPlan.evaluate, help="test questions for each cell")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--width", type=int, default=ScorerConfig.width, help="features of the scorer")
    parser.add_argument("--folder", type=Path, default=Path("runs/scorer"), help="where the checkpoint is kept")
    parser.add_argument("--start-from", type=Path, help="an export with a scorer to go on from")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/scorer/export")))
    return parser


def main(arguments: list[str] | None = None) -> None:
    given = arguments_parser().parse_args(arguments)
    plan = ScorerPlan(
        source=given.source,
        stakes=given.stakes,
        seconds=given.seconds,
        total=given.total or given.seconds,
        steps=given.steps,
        batch=given.batch,
        group=given.group,
        size=(given.size, given.size),
        keeps=tuple(given.keeps),
        learning_rate=given.learning_rate,
        reward=given.reward,
        likelihood_weight=given.likelihood_weight,
        credit_weight=given.credit_weight,
        policy_from=given.policy_from,
        replays=given.replays,
        small_until=given.small_until,
        settings=Settings(
            temperature=given.temperature,
            baseline=given.baseline,
            entropy_weight=given.entropy_weight,
            balance_weight=given.balance_weight,
        ),
        curriculum=not given.static_only,
        probe=given.probe,
        probe_every=given.probe_every,
        evaluate=given.evaluate,
        seed=given.seed,
    )
    config = ScorerConfig(width=given.width)
    given.folder.mkdir(parents=True, exist_ok=True)
    result = train(plan, config, given.reader, given.folder, given.start_from, given.cpu)
    devices, model, scorer = result.pop("devices"), result.pop("reader"), result.pop("scorer").eval()
    if result.pop("is_main"):
        record: dict[str, Any] = {"plan": asdict(plan), "scorer": asdict(config), **result, "rows": []}
        export(given.out, {"scorer": scorer}, record)
        for line in result["monitors"]["alarms"]:
            print(f"alarm: {line}", flush=True)
        if plan.evaluate:
            cells = tuple((strategy, keep) for keep in plan.keeps for strategy in ("random", "scorer"))
            number = plan.evaluate
            record["rows"] = table(model, scorer, cells=cells, number=number, split="validation", size=plan.size)
            write_json(given.out / "record.json", record)
            print(format_table(record["rows"]), flush=True)
    devices.close()


if __name__ == "__main__":
    main()
