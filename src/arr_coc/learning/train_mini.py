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
from .pool import PicturePool
from .reading import DenseHeads, Reader, read
from .twin import Twin


@dataclass(frozen=True)
class Plan:
    """seconds: of this run. total: of the whole training, over which learning rate and canvases move; spent: before."""

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


# (from which share of the training on, {canvas: weight})
CANVASES: tuple[tuple[float, dict[tuple[int, int], float]], ...] = (
    (0.00, {(128, 128): 1.0}),
    (0.14, {(128, 128): 0.15, (256, 256): 0.65, (128, 256): 0.1, (256, 128): 0.1}),
    (
        0.40,
        {
            (128, 128): 0.05,
            (256, 256): 0.20,
            (512, 512): 0.55,
            (384, 512): 0.06,
            (512, 384): 0.06,
            (768, 1024): 0.04,
            (1024, 768): 0.04,
        },
    ),
)
# Pictures per step, so that a step costs about the same on every canvas.
PIXELS_A_STEP = 144 * 512 * 512
LARGEST_BATCH = 1024
SHARES = (1.0, 1.4, 1.2, 1.2, 1.0, 1.2, 1.0)


def canvas_at(progress: float, chance: random.Random) -> tuple[int, int]:
    weights = [weights for start, weights in CANVASES if progress >= start][-1]
    return chance.choices(list(weights), list(weights.values()))[0]


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


def train(
    plan: Plan, mini: MiniConfig, scorer_config: ScorerConfig, folder: Path, start_from: Path | None
) -> dict[str, Any]:
    """Run for `plan.seconds` (or `plan.steps` steps); returns the record of the run."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(plan.seed)
    torch.set_float32_matmul_precision("high")
    model, scorer = build_mini(mini), Scorer(scorer_config)
    heads = DenseHeads(mini.width)
    modules: dict[str, nn.Module] = {"mini": model.to(device), "scorer": scorer.to(device), "heads": heads.to(device)}
    optimizers = make_optimizers(model, heads, scorer, plan)
    done: dict[str, Any] = {"step": 0, "seconds": 0.0, "pictures": 0, "rendered": 0, "curve": []}
    if (folder / "state.pt").exists():
        done = load_state(folder, modules, optimizers)
        print(f"resumed {folder} at step {done['step']}, {done['seconds']:.0f} s", flush=True)
    elif start_from is not None:
        load_export(start_from, modules)
        record = json.loads((start_from / "record.json").read_text(encoding="utf-8"))
        done = {name: record[name] for name in done}
        print(f"went on from the weights in {start_from}: step {done['step']}, {done['seconds']:.0f} s", flush=True)
    # The reader works in bfloat16 where that is fast; its master copy keeps float32.
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    twin = Twin(Reader(model, heads), dtype)
    worker, worker_heads = twin.worker.mini, twin.worker.heads
    if plan.compile:
        compile_blocks(worker)
    print(f"mini {count(model):.2f} M, scorer {count(scorer):.2f} M parameters, {device}", flush=True)
    chance = random.Random(plan.seed + done["step"])
    generator = torch.Generator(device=device).manual_seed(plan.seed + done["step"])
    pool = PicturePool(FAMILIES, SHARES, plan.seed, device, rendered=done["rendered"])
    began = last_saved = last_said = time.time()
    first_step = done["step"]
    recent: dict[str, list[torch.Tensor]] = {}
    with dense_vision_attention(worker):
        while True:
            elapsed = time.time() - began
            progress = min(1.0, (done["seconds"] + elapsed) / plan.total)
            step = done["step"]
            if elapsed >= plan.seconds or (plan.steps and step - first_step >= plan.steps):
                break
            if plan.steps:
                progress = (step - first_step) / plan.steps
            size = canvas_at(progress, chance)
            kind = kind_at(size, progress, chance)
            for optimizer, rate in zip(
                optimizers, (plan.learning_rate, plan.learning_rate, plan.scorer_rate), strict=True
            ):
                for group in optimizer.param_groups:
                    group["lr"] = rate * rate_at(progress, step - first_step, plan)
            number = min(LARGEST_BATCH, PIXELS_A_STEP // (size[0] * size[1]))
            number = max(len(FAMILIES), round(number * plan.scale * (1.5 if kind.keep <= 0.25 else 1.0)))
            batch = pool.take(number, size, chance)
            tree = tree_of(size)
            logits = None
            if min(size) >= 256 and (step % 2 == 0 or kind.name == "scorer"):
                with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
                    logits = scorer(batch.pictures, batch.question_ids)
            scores = None if logits is None else logits.detach().float().sigmoid()
            leaves = make_leaves(kind, batch, tree, generator, scores)
            reading = read(worker, batch, leaves, worker_heads)
            loss = reading.answer + plan.glyph_weight * reading.glyph + plan.thing_weight * reading.thing
            scorer_loss = loss.new_zeros(())
            if logits is not None:
                truth = target_cells(batch, tree.rows, tree.cols)
                scorer_loss = F.binary_cross_entropy_with_logits(logits.float(), truth, pos_weight=loss.new_tensor(3.0))
            (loss + scorer_loss).backward()
            twin.pull_gradients()
            nn.utils.clip_grad_norm_([*model.parameters(), *heads.parameters()], 1.0)
            if logits is not None:
                nn.utils.clip_grad_norm_(scorer.parameters(), 1.0)
            for optimizer in optimizers[: 3 if logits is not None else 2]:
                optimizer.step()
            for optimizer in optimizers:
                optimizer.zero_grad(set_to_none=True)
            twin.push_weights()
            done["step"] += 1
            done["pictures"] += len(batch)
            done["rendered"] = pool.rendered
            for name, value in (
                (f"answer {size[0]}", reading.answer),
                (f"right {size[0]} {kind.name}", reading.right.float().mean()),
                (f"glyph {size[0]}", reading.glyph_right),
                ("thing", reading.thing),
                ("scorer", scorer_loss if logits is not None else None),
            ):
                if value is not None:
                    recent.setdefault(name, []).append(value.detach())
            now = time.time()
            if now - last_said > 15 or plan.steps:
                last_said = now
                summary = {name: round(float(torch.stack(values).mean()), 4) for name, values in recent.items()}
                recent.clear()
                point = {"step": done["step"], "seconds": round(done["seconds"] + now - began, 1), **summary}
                done["curve"].append(point)
                print(json.dumps(point), flush=True)
            if now - last_saved > plan.checkpoint_every:
                last_saved = now
                save_state(folder, modules, optimizers, {**done, "seconds": done["seconds"] + now - began})
    done["seconds"] += time.time() - began
    save_state(folder, modules, optimizers, done)
    return {**done, "modules": modules}


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
        seed=given.seed,
        learning_rate=given.learning_rate,
        compile=given.compile,
        evaluate=given.evaluate,
    )
    mini = MiniConfig(width=given.width, heads=given.width // 64)
    scorer_config = ScorerConfig()
    given.folder.mkdir(parents=True, exist_ok=True)
    result = train(plan, mini, scorer_config, given.folder, given.start_from)
    modules = result.pop("modules")
    record: dict[str, Any] = {
        "plan": asdict(plan),
        "mini": asdict(mini),
        "scorer": asdict(scorer_config),
        **result,
        "rows": [],
    }
    model, scorer = modules["mini"].eval(), modules["scorer"].eval()
    export(given.out, modules, record)
    if plan.evaluate:
        cells = (("full", 1.0), ("uniform", 0.25), ("scorer", 0.25), ("oracle", 0.25))
        record["rows"] = table(model, scorer, cells=cells, number=plan.evaluate, split="validation")
        write_json(given.out / "record.json", record)
        print(format_table(record["rows"]), flush=True)


if __name__ == "__main__":
    main()
