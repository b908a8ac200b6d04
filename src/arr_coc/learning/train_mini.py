"""`arr-coc train mini`: one resumable run that makes the reader and, beside it, the scorer.

Small canvases first, a dense target in every visual token, Muon for the matrices, mixed allocations from the start: the
recipe that worked. Straight questions on large canvases never left chance.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ..backbones.qwen3_vl_attention import dense_vision_attention
from ..files import write_json
from ..knowing.scorer import Scorer, ScorerConfig
from .allocations import KINDS, NURSERY_KINDS, SCORER_KINDS, Kind, make_leaves, target_cells, tree_of
from .checkpoints import export, load_export, load_state, save_state
from .evaluate import FAMILIES, format_table, table
from .mini_model import MiniConfig, build_mini
from .muon import BatchedMuon
from .pictures import TrainingBatch
from .pool import PicturePool
from .prefetch import Prefetcher
from .reading import DenseHeads, Reader, read
from .twin import Twin


@dataclass(frozen=True)
class Plan:
    """seconds: of this run. total: of the whole training, over which learning rate and canvases move."""

    seconds: float = 480
    total: float = 960
    learning_rate: float = 2e-3
    scorer_rate: float = 1e-3
    warm_up: int = 150
    decay_from: float = 0.55
    scale: float = 1.0
    seed: int = 0
    glyph_weight: float = 1.0
    thing_weight: float = 1.0
    checkpoint_every: float = 120
    evaluate: int = 2048
    steps: int = 0
    compile: bool = False
    largest: int = 1024


@dataclass(frozen=True)
class Stage:
    """canvases: {(height, width): weight}. A stage ends when its largest canvas is read this well (share of glyphs read
    right), or at the latest after this share of the training."""

    canvases: dict[tuple[int, int], float]
    read_well: float = 1.1
    at_latest: float = 1.1


STAGES = (
    Stage({(128, 128): 1.0}, read_well=0.93, at_latest=0.2),
    Stage({(128, 128): 0.12, (256, 256): 0.68, (128, 256): 0.1, (256, 128): 0.1}, read_well=0.93, at_latest=0.45),
    Stage(
        {
            (128, 128): 0.04,
            (256, 256): 0.16,
            (512, 512): 0.60,
            (384, 512): 0.06,
            (512, 384): 0.06,
            (768, 1024): 0.04,
            (1024, 768): 0.04,
        }
    ),
)
# Pictures per step, so that a step costs about the same on every canvas.
PIXELS_A_STEP = 144 * 512 * 512
LARGEST_BATCH = 1024
SAY_EVERY = 10.0
SHARES = (1.0, 1.4, 1.2, 1.2, 1.0, 1.2, 1.0)


def next_stage(stage: int, progress: float, glyphs_right: float) -> int:
    """Small canvases first, until they are read well: a run that left them too early never caught up."""
    here = STAGES[stage]
    return stage + 1 if glyphs_right >= here.read_well or progress >= here.at_latest else stage


def draw_step(stage: int, progress: float, chance: random.Random, largest: int = 1024) -> tuple[tuple[int, int], Kind]:
    """The canvas of a step, no side above `largest`, and the kind of its allocations."""
    weights = {size: weight for size, weight in STAGES[stage].canvases.items() if max(size) <= largest}
    size = chance.choices(list(weights), list(weights.values()))[0]
    return size, kind_at(size, progress, chance)


def kind_at(size: tuple[int, int], progress: float, chance: random.Random) -> Kind:
    kinds: tuple[Kind, ...] = NURSERY_KINDS if min(size) <= 128 else KINDS
    if min(size) >= 256 and progress > 0.5:
        kinds = (*kinds, *SCORER_KINDS)
    return chance.choices(kinds, [kind.weight for kind in kinds])[0]


def rate_at(progress: float, step: int, plan: Plan) -> float:
    """Share of the full learning rate: warm-up, plateau, cosine to zero."""
    fall = max(0.0, (progress - plan.decay_from) / (1 - plan.decay_from))
    return min(1.0, (step + 1) / plan.warm_up) * 0.5 * (1 + math.cos(math.pi * min(1.0, fall)))


def make_optimizers(model: nn.Module, heads: nn.Module, scorer: nn.Module, plan: Plan) -> list[Any]:
    """Muon for the matrices of the blocks, AdamW for everything else."""
    matrices = [
        value
        for name, value in model.named_parameters()
        if value.ndim == 2 and not any(part in name for part in ("embed", "lm_head"))
    ]
    known = {id(value) for value in matrices}
    rest = [value for value in [*model.parameters(), *heads.parameters()] if id(value) not in known]
    return [
        BatchedMuon(matrices, lr=plan.learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=plan.learning_rate, weight_decay=0.01, betas=(0.9, 0.98)),
        torch.optim.AdamW(scorer.parameters(), lr=plan.scorer_rate, weight_decay=0.01, betas=(0.9, 0.98)),
    ]


@dataclass(frozen=True)
class Step:
    """One step's work, made ahead: pictures, their canvas, and how they will be allocated."""

    batch: TrainingBatch
    size: tuple[int, int]
    kind: Kind


class Training:
    """A run: modules, optimizers, and where it stands. `done` is all that a checkpoint must remember beside weights."""

    def __init__(
        self, plan: Plan, mini: MiniConfig, scorer: ScorerConfig, folder: Path, start_from: Path | None = None
    ) -> None:
        self.plan, self.folder = plan, folder
        self.device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        torch.manual_seed(plan.seed)
        torch.set_float32_matmul_precision("high")
        self.model, self.scorer, self.heads = build_mini(mini), Scorer(scorer), DenseHeads(mini.width)
        modules: dict[str, nn.Module] = {"mini": self.model, "scorer": self.scorer, "heads": self.heads}
        self.modules = {name: module.to(self.device) for name, module in modules.items()}
        self.optimizers = make_optimizers(self.model, self.heads, self.scorer, plan)
        self.done: dict[str, Any] = {
            "step": 0, "seconds": 0.0, "pictures": 0, "rendered": 0, "stage": 0, "glyphs": 0.0, "curve": []
        }  # fmt: skip
        if (folder / "state.pt").exists():
            self.done = load_state(folder, self.modules, self.optimizers)
            print(f"resumed {folder} at step {self.done['step']}, {self.done['seconds']:.0f} s", flush=True)
        elif start_from is not None:
            load_export(start_from, self.modules)
            record = json.loads((start_from / "record.json").read_text(encoding="utf-8"))
            self.done = {name: record[name] for name in self.done}
            print(f"went on from {start_from}: step {self.done['step']}, {self.done['seconds']:.0f} s", flush=True)
        # The reader works in bfloat16 where that is fast; its master copy keeps float32.
        dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.twin = Twin(Reader(self.model, self.heads), dtype)
        if plan.compile:
            compile_blocks(self.twin.worker.mini)
        self.first_step = self.done["step"]
        self.earlier = self.done["seconds"]
        self.began = time.time()
        # The background thread has a source of chance of its own: a shared one would make runs depend on timing.
        self.chance = random.Random(plan.seed + self.first_step)
        self.generator = torch.Generator(device=self.device).manual_seed(plan.seed + self.first_step)
        self.pool = PicturePool(FAMILIES, SHARES, plan.seed, self.device, rendered=self.done["rendered"])
        print(
            f"mini {count(self.model):.2f} M, scorer {count(self.scorer):.2f} M parameters, {self.device}", flush=True
        )

    @property
    def elapsed(self) -> float:
        return time.time() - self.began

    @property
    def progress(self) -> float:
        if self.plan.steps:
            return min(1.0, (self.done["step"] - self.first_step) / self.plan.steps)
        return min(1.0, (self.earlier + self.elapsed) / self.plan.total)

    @property
    def over(self) -> bool:
        steps = self.done["step"] - self.first_step
        return self.elapsed >= self.plan.seconds or bool(self.plan.steps and steps >= self.plan.steps)

    def make(self) -> Step:
        """Pictures for a step to come."""
        size, kind = draw_step(self.done["stage"], self.progress, self.chance, self.plan.largest)
        number = min(LARGEST_BATCH, PIXELS_A_STEP // (size[0] * size[1])) * (1.5 if kind.keep <= 0.25 else 1.0)
        batch = self.pool.take(max(len(FAMILIES), round(number * self.plan.scale)), size, self.chance)
        return Step(batch, size, kind)

    def learn(self, work: Step) -> dict[str, torch.Tensor]:
        """One update; returns what to write down about it."""
        step, batch, kind, plan = self.done["step"], work.batch, work.kind, self.plan
        share = rate_at(self.progress, step - self.first_step, plan)
        rates = (plan.learning_rate, plan.learning_rate, plan.scorer_rate)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share
        tree = tree_of(work.size)
        logits = None
        if min(work.size) >= 256 and (step % 2 == 0 or kind.name == "scorer"):
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
                logits = self.scorer(batch.pictures, batch.question_ids).float()
        scores = None if logits is None else logits.detach().sigmoid()
        leaves = make_leaves(kind, batch, tree, self.generator, scores)
        reading = read(self.twin.worker.mini, batch, leaves, self.twin.worker.heads)
        loss = reading.answer + plan.glyph_weight * reading.glyph + plan.thing_weight * reading.thing
        notes = {
            f"answer {work.size[0]}": reading.answer,
            f"right {work.size[0]} {kind.name}": reading.right.float().mean(),
            "thing": reading.thing,
        }
        if kind.name == "full":
            notes[f"glyph {work.size[0]}"] = reading.glyph_right
        if logits is not None:
            truth = target_cells(batch, tree.rows, tree.cols)
            notes["scorer"] = F.binary_cross_entropy_with_logits(logits, truth, pos_weight=loss.new_tensor(3.0))
            loss = loss + notes["scorer"]
        loss.backward()
        self.twin.pull_gradients()
        nn.utils.clip_grad_norm_([*self.model.parameters(), *self.heads.parameters()], 1.0)
        if logits is not None:
            nn.utils.clip_grad_norm_(self.scorer.parameters(), 1.0)
        for optimizer in self.optimizers[: 3 if logits is not None else 2]:
            optimizer.step()
        for optimizer in self.optimizers:
            optimizer.zero_grad(set_to_none=True)
        self.twin.push_weights()
        self.done["step"] += 1
        self.done["pictures"] += len(batch)
        self.done["rendered"] = self.pool.rendered
        return {name: value.detach() for name, value in notes.items()}

    def write_down(self, recent: dict[str, list[torch.Tensor]]) -> None:
        """The means since the last time: printed, kept in the curve, and what decides whether a stage is over."""
        summary = {name: round(float(torch.stack(values).mean()), 4) for name, values in recent.items()}
        recent.clear()
        point = {
            "step": self.done["step"],
            "seconds": round(self.earlier + self.elapsed, 1),
            "stage": self.done["stage"],
        }
        self.done["curve"].append({**point, **summary})
        print(json.dumps({**point, **summary}), flush=True)
        weights = STAGES[self.done["stage"]].canvases
        largest = max(weights, key=lambda size: weights[size])[0]
        self.done["glyphs"] = summary.get(f"glyph {largest}", self.done["glyphs"])
        stage = next_stage(self.done["stage"], self.progress, self.done["glyphs"])
        if stage != self.done["stage"]:
            self.done |= {"stage": stage, "glyphs": 0.0}

    def save(self) -> None:
        save_state(self.folder, self.modules, self.optimizers, {**self.done, "seconds": self.earlier + self.elapsed})

    def run(self) -> dict[str, Any]:
        """Train until the time or the steps are over; returns the record."""
        last_saved = last_said = time.time()
        recent: dict[str, list[torch.Tensor]] = {}
        with dense_vision_attention(self.twin.worker.mini), Prefetcher(self.make, self.device) as ahead:
            while not self.over:
                for name, value in self.learn(ahead.next()).items():
                    recent.setdefault(name, []).append(value)
                now = time.time()
                if now - last_said > SAY_EVERY or self.plan.steps:
                    last_said = now
                    self.write_down(recent)
                if now - last_saved > self.plan.checkpoint_every:
                    last_saved = now
                    self.save()
        self.save()
        self.done["seconds"] = self.earlier + self.elapsed
        return self.done


def compile_blocks(model: Any) -> None:
    """Fuse what lies between the matrix products of every block; attention itself stays the library's."""
    for block in (*model.model.visual.blocks, *model.model.language_model.layers):
        block.compile(dynamic=True)


def count(module: nn.Module) -> float:
    """Millions of parameters."""
    return sum(value.numel() for value in module.parameters()) / 1e6


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=Plan.seconds, help="how long this run may train")
    parser.add_argument(
        "--total", type=float, default=Plan.total, help="seconds of the whole training, all runs together"
    )
    parser.add_argument("--steps", type=int, default=0, help="stop after so many steps instead (for tests)")
    parser.add_argument("--largest", type=int, default=Plan.largest, help="leave out canvases with a longer side")
    parser.add_argument("--scale", type=float, default=1.0, help="share of the usual batch size")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=Plan.learning_rate)
    parser.add_argument("--compile", action="store_true", help="fuse the blocks (a minute at the start, faster after)")
    parser.add_argument("--width", type=int, default=MiniConfig.width)
    parser.add_argument("--evaluate", type=int, default=Plan.evaluate, help="test questions for each cell of the table")
    parser.add_argument("--folder", type=Path, default=Path("runs/mini"), help="where the checkpoint is kept")
    parser.add_argument("--start-from", type=Path, help="an export of an earlier training")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/mini/export")))
    given = parser.parse_args(arguments)
    plan = Plan(
        seconds=given.seconds,
        total=given.total,
        steps=given.steps,
        scale=given.scale,
        largest=given.largest,
        seed=given.seed,
        learning_rate=given.learning_rate,
        compile=given.compile,
        evaluate=given.evaluate,
    )
    mini = MiniConfig(width=given.width, heads=given.width // 64)
    scorer_config = ScorerConfig()
    given.folder.mkdir(parents=True, exist_ok=True)
    training = Training(plan, mini, scorer_config, given.folder, given.start_from)
    result, modules = training.run(), training.modules
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "mini": asdict(mini),
        "scorer": asdict(scorer_config),
        **result,
        "rows": [],
    }
    model, scorer = training.model.eval(), training.scorer.eval()
    export(given.out, modules, record)
    if plan.evaluate:
        cells = (("full", 1.0), ("uniform", 0.25), ("scorer", 0.25), ("oracle", 0.25))
        record["rows"] = table(model, scorer, cells=cells, number=plan.evaluate, split="validation")
        write_json(given.out / "record.json", record)
        print(format_table(record["rows"]), flush=True)


if __name__ == "__main__":
    main()
