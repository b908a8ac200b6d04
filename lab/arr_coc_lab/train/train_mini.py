"""`arr-coc train mini`: train the bundled model on drawn pictures. Rerun the same command to resume.

    arr-coc train mini --seconds 520 --total 1040 --folder runs/mini --out runs/mini/export
    arr-coc train lora --data FOLDER         adapters on your own pictures, of mini by default

The recipe: small canvases first, a target in every visual token, Muon for the matrices, mixed allocations from the
start. Large canvases alone never left chance. Measure the result by `arr-coc bench needle --weights OUT`.
"""

from __future__ import annotations

import json
import random
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from arr_coc.core.folders import SCORER, part_folder
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer

from ..options import option
from ..worlds.print.layouts import SMALLEST
from .allocations import Kind, coarsest_of, even_tree_of, looks
from .evaluate import FAMILIES
from .mini_model import MiniConfig, TrainingState, build_mini, load_shipped
from .pictures import board_targets, vary
from .print_world import PrintWorld
from .reader import DenseHeads, PictureWindow, Reader, cut_blocks, named_letters, reader_losses
from .reader_examples import (
    PIXELS_A_BUFFER,
    PIXELS_A_RENDERING,
    PRINT,
    QUESTIONS,
    SHARES,
    SMALLEST_PAGE,
    STAGES,
    Origin,
    ReaderBatch,
    RingBuffer,
    choose_difficulty,
    draw_step,
    misheard,
    next_stage,
    pictures_a_step,
    render_reader_batch,
    whose_turn,
)
from .run import Moment, Notes, RunOptions, Schedule, Training, command
from .swift import Prefetcher, Twin, compile_pieces, make_optimizers

if TYPE_CHECKING:
    from accelerate import Accelerator

Size = tuple[int, int]

# A canvas may be a part of a picture with at most this number of cells on a side, and starts at a multiple of the step.
LARGEST_GRID, GRID_STEP = 64, 8
# Number of pictures for judging letters.
JUDGED = 96


@dataclass(frozen=True, kw_only=True)
class MiniOptions(RunOptions):
    """Options of `train mini`."""

    total: float = option(960.0, "Seconds of the whole training, over all runs.")
    folder: Path = option(Path("runs/mini"), "Folder for the checkpoint and the curve.")
    start_from: Path | None = option(None, "Start from the export of an earlier training of the same width.")
    learning_rate: float = option(2e-3, "Learning rate of the reader.")
    warm_up: int = option(200, "Steps over which the learning rate rises.")
    decay_from: float = option(0.4, "Share of the training after which the learning rates fall.")
    scale: float = option(1.0, "Factor on batch size and buffer; below 1 for machines with little memory.")
    reuse: float = option(5.0, "How often a drawn picture is used, on average.")
    largest: int = option(1024, "Longest side of canvases in pixels; larger ones are left out.")
    width: int = option(MiniConfig.width, "Width of the reader.")
    print: str = option("", "Atlas of typefaces for printed pages besides Needle World; needle: its own.")
    print_share: float = option(0.6, "Share of printed pages among the pictures.")
    smallest_type: float = option(SMALLEST, "Smallest type to learn from, em in pixels; evaluation starts at 6.")
    window_share: float = option(0.3, "Share of steps on a part of a larger picture.")
    eager: bool = option(False, "Do not compile the reader; compiling takes a minute and doubles the speed of a GPU.")
    misheard: float = option(0.12, "Share of an answer's letters replaced by wrong ones in training.")


class MiniTraining(Training[MiniOptions]):
    """The reader, and buffers of pictures by canvas that are refilled while they are read."""

    def __init__(self, options: MiniOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.mini_config = MiniConfig(width=options.width, heads=options.width // 64)
        self.model: Any = build_mini(self.mini_config)
        self.scorer = ReadingScorer.from_pretrained(part_folder(SCORER))
        self.heads = DenseHeads(self.mini_config.width)
        modules: dict[str, nn.Module] = {"mini": self.model, "heads": self.heads}
        self.modules = {name: module.to(self.device) for name, module in modules.items()}
        self.optimizers = make_optimizers(
            self.model, ("embed", "lm_head"), self.heads.parameters(), options.learning_rate, 0.01
        )
        # A run of a few steps, such as in tests, warms up in a part of them.
        warm_up = min(options.warm_up, 1 + options.steps // 4) if options.steps else options.warm_up
        self.schedule = Schedule(warm_up, options.decay_from)
        self.done |= {"pictures": 0, "rendered": 0, "stage": 0, "glyphs": 0.0}
        if options.start_from is not None:
            load_shipped(options.start_from, self.modules)
            record = options.start_from / "record.json"
            # The package's own folder has no record: a finished reader, which has passed all stages.
            earlier = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {"stage": len(STAGES) - 1}
            kept = {name: earlier[name] for name in self.done if name != "first" and name in earlier}
            self.done |= kept | {"first": self.done["step"] if "step" not in kept else kept["step"]}
        # The reader works in bfloat16 where that is fast; its master copy keeps float32.
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.twin = Twin(Reader(self.model, self.heads), self.dtype)
        if self.device.type == "cuda":
            compile_pieces(not options.eager)
        first = self.done["first"]
        self.chance["chance"].seed(options.seed + first)
        self.pick = self.generator("pick", options.seed + first)
        # The background thread has its own random source: a shared one would make runs depend on timing.
        self.chance["source"] = random.Random(f"{options.seed}/{first}")
        self.print = self.print_world() if options.print else None
        # Numbers of the next pictures under the seed: a resumed training continues there, and sees none twice.
        self.number = self.done["rendered"]
        self.ahead: Prefetcher[tuple[Origin, ReaderBatch]] = Prefetcher(self.render_next, self.device)
        self.buffers: dict[Size, RingBuffer[ReaderBatch]] = {}
        # Batches rendered and stored so far, and pictures read so far, by canvas; they decide which canvas comes next.
        self.rendered: dict[Size, int] = {}
        self.stored: dict[Size, int] = {}
        self.read: dict[Size, int] = {}
        self.judged: ReaderBatch | None = None
        million = sum(value.numel() for value in self.model.parameters()) / 1e6
        print(f"mini {million:.2f} M parameters, {self.device}", flush=True)

    def running(self) -> AbstractContextManager[object]:
        return self.ahead

    def print_world(self, split: str = "train") -> PrintWorld:
        """Draw printed pages; by default with Needle World's own typefaces."""
        options = self.options
        atlas = None if options.print == "needle" else options.print
        smallest = options.smallest_type if split == "train" else SMALLEST
        return PrintWorld(atlas, self.device, options.seed, options.print_share, split, smallest)

    def canvases(self) -> list[Size]:
        return [size for size in STAGES[self.done["stage"]].canvases if max(size) <= self.options.largest]

    def pictures_at_once(self, size: Size) -> int:
        return max(1, round(min(2048, PIXELS_A_RENDERING // (size[0] * size[1])) * self.options.scale))

    def missing(self, size: Size, batches: dict[Size, int]) -> float:
        """Return the number of pictures still to draw: a few of each family first, then by use."""
        due = len(FAMILIES) * self.pictures_at_once(size) + self.read.get(size, 0) / self.options.reuse
        return due - batches.get(size, 0) * self.pictures_at_once(size)

    def render_next(self) -> tuple[Origin, ReaderBatch]:
        """Draw pictures for later steps, for the canvas that needs them most."""
        # Small canvases first if the buffers are empty: the first steps wait for them.
        size = max(self.canvases(), key=lambda one: self.missing(one, self.rendered) / self.pictures_at_once(one))
        turn, number = self.rendered.get(size, 0), self.pictures_at_once(size)
        self.rendered[size] = turn + 1
        difficulty = choose_difficulty(size, self.chance["source"])
        families, shares = list(FAMILIES), list(SHARES)
        if self.print is not None and min(size) >= SMALLEST_PAGE:
            families.append(PRINT)
            shares.append(sum(shares) * self.print.share / (1 - self.print.share))
        family = families[whose_turn(tuple(shares), len(FAMILIES), turn)]
        origin = Origin(family, number, size, self.number, difficulty)
        self.number += number
        return origin, self.render(origin)

    def render(self, origin: Origin) -> ReaderBatch:
        family, number, size, start, difficulty = origin
        if family == PRINT:
            assert self.print is not None, "earlier runs had printed pages (--print), this one has none"
            return self.print.render(number, size, start)
        seed = self.options.seed
        return render_reader_batch(family, number, size, seed, start, self.device, difficulty, QUESTIONS)

    def store(self, origin: Origin, batch: ReaderBatch) -> None:
        """Add pictures to the buffer of their canvas."""
        size = batch.size
        if size not in self.buffers:
            # Canvases that are read less often need fewer pictures.
            share = min(1.0, 2 * STAGES[self.done["stage"]].canvases[size])
            space = min(16_384, share * PIXELS_A_BUFFER / (size[0] * size[1]))
            self.buffers[size] = RingBuffer(max(len(FAMILIES) * len(batch), round(space * self.options.scale)))
        self.buffers[size].add(batch, tuple(origin))
        self.stored[size] = self.stored.get(size, 0) + 1

    def next_batch(self, at: Moment) -> tuple[ReaderBatch, Kind]:
        """Draw varied pictures of one canvas, with all their questions or one of them, and their allocations."""
        size, kind = draw_step(self.done["stage"], at.progress, self.chance["chance"], self.options.largest)
        while self.stored.get(size, 0) < len(FAMILIES):
            self.store(*self.ahead.next())
        due = any(self.missing(each, self.stored) > 0 for each in self.canvases())
        if (self.ahead.ready or self.options.steps) and due:
            self.store(*self.ahead.next())
        number = max(2, round(pictures_a_step(size, kind) * self.options.scale))
        self.read[size] = self.read.get(size, 0) + number
        pages = self.buffers[size].draw(number, self.pick)
        if kind.name != "full":
            which = torch.randint(QUESTIONS, (number,), generator=self.pick, device=self.device)
            pages = pages.one_question(which)
        pages = misheard(pages, self.options.misheard, self.pick)
        return replace(pages, pictures=vary(pages.pictures, self.pick, self.dtype)), kind

    def data_state(self) -> dict[str, object]:
        buffers = {size: buffer.state() for size, buffer in self.buffers.items()}
        return {"buffers": buffers, "stored": self.stored, "read": self.read}

    def load_data_state(self, state: TrainingState) -> None:
        # Pictures that the thread had rendered ahead are lost, and their numbers stay used.
        self.number = self.done["rendered"]
        self.twin.push_weights()
        if not self.options.steps:
            return  # a run with a time limit is not repeatable: new pictures are as good, and faster
        self.stored, self.read = state["stored"], state["read"]
        self.rendered = dict(self.stored)
        for size, kept in state["buffers"].items():
            self.buffers[size] = RingBuffer.of_state(kept, lambda origin: self.render(Origin(*origin)))

    def step(self, at: Moment) -> Notes:
        """Make one update. The accuracy of letters limits everything else: at 90 %, a third of the answers of ten
        letters are right."""
        self.chance["chance"].random()  # not used: keeps runs of a seed what they were in 0.3.0
        self.chance["chance"].random()  # not used either
        pages, kind = self.next_batch(at)
        size = pages.size
        targets = pages.targets[:, 0].float()
        blocks, kept = looks(kind, targets, even_tree_of(size), self.pick)
        patches = cut_blocks(pages, blocks, 1 if kind.whole else coarsest_of(size) + 1, self.dtype)
        found = reader_losses(self.twin.worker, pages, blocks, patches, kept, self.window(size))
        found.total().backward()
        self.twin.pull_gradients()
        self.update()
        self.twin.push_weights()
        self.done["pictures"] += len(pages)
        self.done["rendered"] = self.number
        notes = {
            f"right {size[0]} {kind.name}": found.answers.right.float().mean(),
            "thing": found.dense.thing,
            **{f"{name} {size[0]}": getattr(found.answers, name) for name in ("answer", "pointing", "copying")},
        }
        return notes | ({f"glyph {size[0]}": found.dense.glyph_right} if kind.name == "full" else {})

    def window(self, size: Size) -> PictureWindow:
        """Choose the place of a canvas: mostly alone, sometimes in a larger picture."""
        chance, rows, cols = self.chance["chance"], size[0] // 32, size[1] // 32
        if chance.random() >= self.options.window_share or min(rows, cols) < GRID_STEP:
            return PictureWindow(0, 0, rows, cols)
        steps = [chance.randint(0, (LARGEST_GRID - side) // GRID_STEP) for side in (rows, cols)]
        top, left = (GRID_STEP * chance.randint(0, most) for most in steps)
        return PictureWindow(top, left, rows + GRID_STEP * steps[0], cols + GRID_STEP * steps[1])

    def judge(self, at: Moment) -> JsonObject | None:
        """Return the share of right letters on print in held-out typefaces."""
        if not self.options.print:
            return None
        if self.judged is None:
            number, side = max(2, round(JUDGED * self.options.scale)), min(512, self.options.largest)
            self.judged = self.print_world("val").render(number, (side, side), 0)
        named, leaves = named_letters(self.twin.worker, self.judged.pictures, self.dtype)
        target = board_targets(self.judged.boards(), leaves)
        asked = target > 0
        return {"judged all": float(((named == target) & asked).sum() / asked.sum().clamp_min(1))}

    def point(self, at: Moment, means: dict[str, float]) -> JsonObject:
        """Judge, and decide whether a stage is over."""
        stage = self.done["stage"]
        weights = STAGES[stage].canvases
        largest = max(weights, key=lambda size: weights[size])[0]
        self.done["glyphs"] = means.get(f"glyph {largest}", self.done["glyphs"])
        following = next_stage(stage, at.progress, self.done["glyphs"])
        if following != stage:
            self.done |= {"stage": following, "glyphs": 0.0}
        return {"stage": stage, **means}

    def record(self) -> JsonObject:
        return {**super().record(), "mini": asdict(self.mini_config)}

    def exports(self) -> dict[str, nn.Module]:
        # The bundled scorer goes next to the reader, where `ask` and `attach` look for it.
        return {**self.modules, SCORER: self.scorer}


main = command(MiniTraining, MiniOptions, __doc__)
