"""`arr-coc train mini`: one resumable run that makes the reader and, beside it, the scorer.

Small canvases first, a dense target in every visual token, Muon for the matrices, mixed allocations from the start: the
recipe that worked. Straight questions on large canvases never left chance, and large batches left too few steps.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F

from ...alphabet import NUMBER_OF_IDS
from ...files import write_json
from ...knowing.scorer import Scorer, ScorerConfig
from ..needle.difficulty import Difficulty
from .album import Album, Pages, Printer
from .allocations import Kind, LeafTable, even_tree_of
from .captured import Captured
from .checkpoints import export, load_export, load_state, save_state, ship
from .evaluate import FAMILIES, format_table, table
from .mini_model import MiniConfig, build_mini
from .optimizers import make_optimizers
from .pool import choose_difficulty
from .prefetch import Prefetcher
from .reading import DenseHeads, Reader, glyph_loss
from .schedule import (
    PIXELS_A_GLANCE,
    PIXELS_A_PRINT,
    PIXELS_AN_ALBUM,
    QUESTIONS,
    SAY_EVERY,
    SHARES,
    STAGES,
    Plan,
    draw_step,
    next_stage,
    pictures_a_step,
    rate_at,
)
from .studying import cut_blocks, pack_lesson, study, unpack_lesson
from .twin import Twin
from .varying import vary


class ScorerHeads(nn.Module):
    """What the scorer's finest features are asked for in training: the character in each 8 pixels."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.glyphs = nn.Linear(width, NUMBER_OF_IDS)


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
        self.scorer_heads = ScorerHeads(scorer.width // 2)
        modules: dict[str, nn.Module] = {
            "mini": self.model, "scorer": self.scorer, "heads": self.heads, "scorer_heads": self.scorer_heads
        }  # fmt: skip
        self.modules = {name: module.to(self.device) for name, module in modules.items()}
        self.searching = nn.ModuleList([self.scorer, self.scorer_heads])
        self.optimizers = make_optimizers(
            self.model, self.heads, self.searching, plan, fused=self.device.type == "cuda"
        )
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
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.twin = Twin(Reader(self.model, self.heads), self.dtype)
        self.teach = Captured(self.read_and_weigh, self.device)
        self.teach_search = Captured(self.search_and_weigh, self.device)
        self.first_step = self.done["step"]
        self.earlier = self.done["seconds"]
        self.began = time.time()
        # The background thread has a source of chance of its own: a shared one would make runs depend on timing.
        self.chance = random.Random(plan.seed + self.first_step)
        self.generator = torch.Generator(device=self.device).manual_seed(plan.seed + self.first_step)
        self.printer = Printer(
            FAMILIES, SHARES, plan.seed, self.device, random.Random(f"{plan.seed}/{self.first_step}"), QUESTIONS,
            printed=self.done["rendered"],
        )  # fmt: skip
        self.albums: dict[tuple[int, int], Album] = {}
        self.tables: dict[tuple[int, int], LeafTable] = {}
        # Prints so far and pictures studied so far, by canvas: what decides which canvas is printed next.
        self.prints: dict[tuple[int, int], int] = {}
        self.shelved: dict[tuple[int, int], int] = {}
        self.studied: dict[tuple[int, int], int] = {}
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

    def canvases(self) -> list[tuple[int, int]]:
        return [size for size in STAGES[self.done["stage"]].canvases if max(size) <= self.plan.largest]

    def pictures_a_print(self, size: tuple[int, int]) -> int:
        return max(1, round(min(2048, PIXELS_A_PRINT // (size[0] * size[1])) * self.plan.scale))

    def missing(self, size: tuple[int, int], prints: dict[tuple[int, int], int]) -> float:
        """How many pictures of a canvas are due, beyond those printed: a few of each family first, then by use."""
        due = len(FAMILIES) * self.pictures_a_print(size) + self.studied.get(size, 0) / self.plan.reuse
        return due - prints.get(size, 0) * self.pictures_a_print(size)

    def make(self) -> Pages:
        """Pages for lessons to come, of the canvas that misses them most."""
        # Small canvases first where nothing is there yet: those are the ones that are waited for.
        size = max(self.canvases(), key=lambda size: self.missing(size, self.prints) / self.pictures_a_print(size))
        turn = self.prints.get(size, 0)
        self.prints[size] = turn + 1
        difficulty: Difficulty | str | None = choose_difficulty(size, self.printer.chance)
        return self.printer.print(self.pictures_a_print(size), size, difficulty, turn)

    def shelve(self, pages: Pages) -> None:
        """Put pages into the album of their canvas."""
        if pages.size not in self.albums:
            # Canvases that are studied less often need fewer pictures, and there are many of them.
            share = min(1.0, 2 * STAGES[self.done["stage"]].canvases[pages.size])
            room = min(16_384, share * PIXELS_AN_ALBUM / (pages.size[0] * pages.size[1]))
            self.albums[pages.size] = Album(max(len(FAMILIES) * len(pages), round(room * self.plan.scale)))
            self.tables[pages.size] = LeafTable(even_tree_of(pages.size), self.device)
        self.albums[pages.size].add(pages)
        self.shelved[pages.size] = self.shelved.get(pages.size, 0) + 1

    def lesson(self, ahead: Prefetcher[Pages]) -> tuple[Pages, Kind]:
        """What to study next: pictures of one canvas and how they are allocated."""
        size, kind = draw_step(self.done["stage"], self.progress, self.chance, self.plan.largest)
        while self.shelved.get(size, 0) < len(FAMILIES):
            self.shelve(ahead.next())
        if (ahead.ready or self.plan.steps) and any(self.missing(each, self.shelved) > 0 for each in self.canvases()):
            self.shelve(ahead.next())
        number = max(2, round(pictures_a_step(size, kind) * self.plan.scale))
        self.studied[size] = self.studied.get(size, 0) + number
        return self.draw(size, number, every_question=kind.name == "full"), kind

    def draw(self, size: tuple[int, int], number: int, every_question: bool = False) -> Pages:
        """Pictures of a canvas, varied, with all their questions or one of them."""
        pages = self.albums[size].draw(number, self.generator)
        if not every_question:
            which = torch.randint(QUESTIONS, (number,), generator=self.generator, device=self.device)
            pages = pages.one_question(which)
        return replace(pages, pictures=vary(pages.pictures, self.generator, self.dtype))

    def learn(self, pages: Pages, kind: Kind) -> dict[str, torch.Tensor]:
        """One update of the reader, and every few steps one of the scorer; returns what to write down about it."""
        step, size = self.done["step"], pages.size
        self.set_rates()
        blocks = self.blocks(pages, kind)
        patches = cut_blocks(pages, blocks, self.tables[size].tree.levels + 1, self.dtype)
        # Every recording keeps memory: only for the canvases that come often.
        teach = self.teach if size[0] == size[1] else self.read_and_weigh
        found = teach(pack_lesson(pages, blocks, patches))
        nn.utils.clip_grad_norm_([*self.model.parameters(), *self.heads.parameters()], 1.0)
        for optimizer in self.optimizers[:2]:
            optimizer.step()
        self.twin.push_weights()
        notes = {
            f"right {size[0]} {kind.name}": found["right"],
            "thing": found["thing"],
            **{f"{name} {size[0]}": found[name] for name in ("answer", "pointing", "copying")},
        }
        if kind.name == "full":
            notes[f"glyph {size[0]}"] = found["glyph"]
        if min(size) >= 256 and step % self.plan.scorer_every == 0:
            notes |= self.learn_to_search(size)
        self.done["step"] += 1
        self.done["pictures"] += len(pages)
        self.done["rendered"] = self.printer.printed
        return {name: value.detach() for name, value in notes.items()}

    def read_and_weigh(self, material: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """One lesson's losses and their gradients, which are left with the master; recorded and replayed on a GPU."""
        pages, blocks, patches = unpack_lesson(material)
        plan, lesson = self.plan, study(self.twin.worker, pages, blocks, patches)
        reading = lesson.reading
        loss = (
            reading.answer
            + plan.glyph_weight * reading.glyph
            + plan.patch_weight * lesson.patches
            + plan.point_weight * (lesson.pointing + lesson.copying)
            + plan.thing_weight * reading.thing
        )
        loss.backward()
        self.twin.pull_gradients()
        notes = {
            "answer": reading.answer,
            "right": reading.right.float().mean(),
            "glyph": reading.glyph_right,
            "thing": reading.thing,
            "pointing": lesson.pointing,
            "copying": lesson.copying,
        }
        return {name: value.detach() for name, value in notes.items()}

    def blocks(self, pages: Pages, kind: Kind) -> list[torch.Tensor]:
        """The leaves of every look of this kind at these pages."""
        leaf_table, truth = self.tables[pages.size], pages.targets[:, 0].float()
        # Every other time a first look follows chance: the scorer must not be the only guide that the reader knows.
        guided = kind.name == "scorer" or (kind.name == "again" and self.chance.random() < 0.5)
        scores = None
        if guided:
            with torch.no_grad(), self.autocast():
                scores = self.scorer(pages.pictures, pages.questions[:, 0].long()).float().sigmoid()
        if kind.name == "again":
            return leaf_table.again(truth, self.generator, scores, leaf_table.tree.full // 16)
        return [leaf_table.leaves(kind, truth, self.generator, scores)]

    def learn_to_search(self, size: tuple[int, int]) -> dict[str, torch.Tensor]:
        """One update of the scorer: where the question's cells are, and what stands in the finest places."""
        number = max(2, round(min(512, PIXELS_A_GLANCE // (size[0] * size[1])) * self.plan.scale))
        pages = self.draw(size, number)
        rows, cols = pages.targets.shape[2:]
        board = pages.boards()[0][:, : 4 * rows, : 4 * cols].flatten(1)
        teach = self.teach_search if size[0] == size[1] else self.search_and_weigh
        found = teach([pages.pictures, pages.questions[:, 0].long(), pages.targets[:, 0].float(), board])
        weights = list(self.searching.parameters())
        parts = found.pop("gradient").split([weight.numel() for weight in weights])
        for weight, part in zip(weights, parts, strict=True):
            weight.grad = part.view_as(weight)
        nn.utils.clip_grad_norm_(weights, 1.0)
        self.optimizers[2].step()
        self.optimizers[2].zero_grad(set_to_none=True)
        return found

    def search_and_weigh(self, material: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
        """The scorer's losses, and their gradients as one vector; recorded and replayed on a GPU."""
        pictures, questions, truth, board = material
        with self.autocast():
            logits, fine = self.scorer.with_features(pictures, questions)
            glyphs = self.scorer_heads.glyphs(fine.flatten(2).transpose(1, 2))
        found = F.binary_cross_entropy_with_logits(logits.float(), truth, weight=1 + 2 * truth)
        read = glyph_loss(glyphs, board)
        gradients = torch.autograd.grad(found + 0.1 * read, list(self.searching.parameters()))
        whole = torch.cat([gradient.flatten() for gradient in gradients])
        return {"scorer": found.detach(), "scorer glyph": read.detach(), "gradient": whole}

    def autocast(self) -> torch.autocast:
        # What is recorded must not hang on weights that were cast, and kept, outside of the recording.
        cuda = self.device.type == "cuda"
        return torch.autocast(self.device.type, torch.bfloat16, enabled=cuda, cache_enabled=False)

    def set_rates(self) -> None:
        share = rate_at(self.progress, self.done["step"] - self.first_step, self.plan)
        rates = (self.plan.learning_rate, self.plan.learning_rate, self.plan.scorer_rate)
        for optimizer, rate in zip(self.optimizers, rates, strict=True):
            for group in optimizer.param_groups:
                group["lr"] = rate * share

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
        with Prefetcher(self.make, self.device) as ahead:
            while not self.over:
                for name, value in self.learn(*self.lesson(ahead)).items():
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
    parser.add_argument("--scorer-rate", type=float, default=Plan.scorer_rate, help="learning rate of the scorer")
    parser.add_argument("--width", type=int, default=MiniConfig.width)
    parser.add_argument("--evaluate", type=int, default=Plan.evaluate, help="test questions for each cell of the table")
    parser.add_argument("--folder", type=Path, default=Path("runs/mini"), help="where the checkpoint is kept")
    parser.add_argument("--start-from", type=Path, help="an export of an earlier training")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/mini/export")))
    parser.add_argument("--ship", type=Path, help="also write mini and scorer there, as the package has them")
    given = parser.parse_args(arguments)
    plan = Plan(
        seconds=given.seconds,
        total=given.total,
        steps=given.steps,
        scale=given.scale,
        largest=given.largest,
        seed=given.seed,
        learning_rate=given.learning_rate,
        scorer_rate=given.scorer_rate,
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
    if given.ship:
        ship(modules, given.ship)


if __name__ == "__main__":
    main()
