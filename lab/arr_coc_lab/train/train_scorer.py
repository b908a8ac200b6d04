"""`arr-coc train scorer`: train the network that decides where to look.

    arr-coc train scorer --pages 4000 --aside 300 --print atlas.npz --seconds 1000 --out OUT
    arr-coc train scorer --data invoices --start bundled --seconds 420 --out my-scorer

Without `--data` the scorer learns from boxes of drawn pictures: Needle World, pages and print together. Small zoomed-in
canvases come first, then larger ones, and earlier ones return: a scorer that cannot read learns nothing from a whole
page. Three losses: relevant cells (as a distribution and one by one), and the letters in each block.

`--data` continues from the bundled scorer on your own pictures (records in the format of `own_data`): from boxes; from
words, which are searched for the answer; or, with `--from outcomes`, from answers alone (`outcomes`). Little data must
not ruin the scorer: a share of every batch is drawn, the layers that read letters stay frozen, and a running mean of
the weights is exported. Use the folder of `--out` by path: look(image, question, relevance="my-scorer"). This training
has other options; `--data . --help` lists them.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder, whole_folder, write_json
from arr_coc.core.plugins import load_function
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.reading_scorer import CELL, ReadingScorer

from ..options import option
from .own_data import OwnRecord, read_own, split_by_picture, write_records
from .print_world import PrintWorld
from .run import Moment, Notes, Own, RunOptions, Schedule, Training, command
from .scorer_worlds import (
    Lessons,
    Shelf,
    draw_lessons,
    joined,
    needle_shelf,
    own_page,
    page_shelf,
    print_shelf,
    shelf_of,
)
from .swift import make_optimizers

if TYPE_CHECKING:
    from accelerate import Accelerator


class ReadingStage(NamedTuple):
    """A stage. until: share of the training. canvas: side in pixels. batch: pictures a step, half of each world. zoom:
    of pages, whose type is smaller than Needle World's. drawn: Needle pictures."""

    until: float
    canvas: int
    batch: int
    zoom: tuple[float, float]
    drawn: int


STAGES = (
    ReadingStage(0.08, 128, 512, (1.1, 2.4), 28_000),
    ReadingStage(0.22, 256, 160, (0.95, 2.0), 14_000),
    ReadingStage(0.50, 512, 48, (0.75, 1.6), 5_600),
    ReadingStage(0.82, 768, 24, (0.70, 1.35), 2_100),
    ReadingStage(1.01, 1024, 14, (0.70, 1.30), 1_050),
)
NEEDLE_ZOOM = (0.9, 1.25)
AGAIN = 4  # every fourth step goes back to an earlier canvas
CONTEXT = 0.35  # weight of a cell that identifies the answer, relative to one that holds it
# The layers that read letters, independent of the question.
READING = ("stem", "fine", "down8", "read", "glyphs")
KEEPS = (1 / 4, 1 / 8, 1 / 16)
# Parts of the scorer whose matrices are not inner layers, and the weight decay.
EDGES, DECAY = ("embed", "head", "glyphs", "place"), 0.02
# Printed pages: their sizes, how many in all, and the em of their smallest type, in pixels.
PRINT_SIZES, PRINT_DRAWN, PRINT_SMALLEST = ((1024, 768), (768, 1024), (512, 512)), 6_000, 8.0
# Share of the pictures that lose their colours: few in Needle World, whose questions name colours.
NEEDLE_GREY, PAGE_GREY = 0.08, 0.45


@dataclass(frozen=True, kw_only=True)
class ScorerOptions(RunOptions):
    """Options of the scorer on drawn pictures."""

    pages: int = option(0, "Number of training pages of Office World.")
    aside: int = option(0, "Number of pages with held-out layouts for evaluation.")
    learning_rate: float = option(1.6e-3, "Highest learning rate, of both optimizers.")
    print: str = option("", "Atlas of typefaces for printed pages; needle: Needle World's own; empty: no such pages.")
    print_share: float = option(0.6, "Share of printed pages among those outside Needle World.")
    needle_share: float = option(0.5, "Share of Needle World in every batch.")
    scale: float = option(1.0, "Factor on batches and drawn pictures; below 1 for little memory.")
    workers: int = option(1, "Number of processes that draw pages.")
    start: Path | None = option(None, "Folder of a scorer to continue from.")
    skip: float = option(0.0, "Share of the first stages to skip, for a scorer that can read.")
    judged: int = option(600, "Questions about held-out pages, and as many of Needle World, at each evaluation.")
    folder: Path = option(Path("runs/scorer"), "Folder for the checkpoint and the curve.")


def cell_losses(cells: Tensor, lessons: Lessons) -> dict[str, Tensor]:
    """Return the loss of logits (B, rows, cols), as a distribution and cell by cell, if the answer is in the crop."""
    weight = lessons.weight / lessons.weight.sum().clamp_min(1)
    cells = cells.float()
    wanted = lessons.answer + CONTEXT * lessons.context
    share = (wanted / wanted.sum((1, 2), keepdim=True).clamp_min(1e-6)).flatten(1)
    which = -(F.log_softmax(cells.flatten(1), 1) * share).sum(1)
    each = F.binary_cross_entropy_with_logits(cells, wanted.clamp(max=1), reduction="none").mean((1, 2))
    return {"which": (which * weight).sum(), "each": (each * weight).sum()}


def letter_losses(letters: Tensor, blocks: Tensor) -> dict[str, Tensor]:
    """Return the loss of logits (B, 97, h, w) and the letters in each block (bool): which letters, and whether any."""
    letters = letters.float()
    occupied = blocks[:, 1:].any(1)
    # Every class in blocks with print; in empty ones only "nothing here", or they would dominate the loss.
    read = F.binary_cross_entropy_with_logits(letters, blocks.float(), reduction="none").sum(1)
    read = (read * occupied).sum() / occupied.sum().clamp_min(1)
    return {"letters": read, "blank": F.binary_cross_entropy_with_logits(letters.logsumexp(1), occupied.float())}


@torch.no_grad()
def coverage(scorer: nn.Module, lessons: Lessons, keeps: tuple[float, ...] = KEEPS) -> Tensor:
    """Return the share (B, keeps) of the answer's cells among the best of each budget minus a token for 64 cells."""
    with torch.autocast(lessons.pictures.device.type, torch.bfloat16, enabled=lessons.pictures.is_cuda):
        cells = scorer(lessons.pictures, lessons.questions).float().flatten(1)
    answer, number = lessons.answer.flatten(1), cells.shape[1]
    results = []
    for keep in keeps:
        best = cells.topk(max(1, int(number * keep) - number // 64), 1).indices
        results.append(answer.gather(1, best).sum(1) / answer.sum(1).clamp_min(1))
    return torch.stack(results, 1)


def covered_shares(name: str, found: list[Tensor]) -> dict[str, float]:
    """Return the mean coverage by budget, under names such as "needle 1/8"; nothing if nothing was judged."""
    means = torch.cat(found).mean(0).tolist() if found else []
    return {f"{name} 1/{round(1 / keep)}": value for keep, value in zip(KEEPS, means, strict=False)}


def export_scorer(scorer: ReadingScorer, folder: Path) -> None:
    """Write the folder of a scorer: config.json, and model.safetensors in half precision."""
    from .onnx_graphs import write_scorer_graphs  # onnx is needed for exports only

    with whole_folder(folder) as made:
        copy.deepcopy(scorer).cpu().half().save_pretrained(made)
        write_scorer_graphs(made)


class MeanTraining(Training[Own]):
    """A scorer, and the running mean of its weights, which is judged and exported. stays: the maximum share of the mean
    that a step keeps; early: the step that keeps half of it."""

    scorer: ReadingScorer
    mean: ReadingScorer
    stays, early = 0.9985, 50

    def keep_mean(self, scorer: ReadingScorer) -> None:
        """Take the scorer and a copy of it as the modules of this training."""
        self.scorer = scorer.float().to(self.device).train()
        self.mean = copy.deepcopy(self.scorer).requires_grad_(False).eval()
        self.modules = {"scorer": self.scorer, "mean": self.mean}

    def parameters(self) -> Iterator[nn.Parameter]:
        return (value for value in self.scorer.parameters() if value.requires_grad)

    def read(self, lessons: Lessons, glyphs: bool = True) -> tuple[Tensor, Tensor]:
        """Return logits of cells, and of the characters in every 8×8 block (B, alphabet, H / 8, W / 8)."""
        pictures = lessons.pictures.contiguous(memory_format=torch.channels_last)
        with self.accelerator.autocast():
            features = self.scorer.see(pictures)
            letters = self.scorer.glyphs(features) if glyphs else features
            return self.scorer.find(features, lessons.questions), letters

    def update(self) -> Tensor:
        norm = super().update()
        step = self.done["step"] + 1
        with torch.no_grad():
            weight = 1 - min(self.stays, step / (step + self.early))
            torch._foreach_lerp_(list(self.mean.parameters()), list(self.scorer.parameters()), weight)
        return norm

    def coverage_of(self, shelf: Shelf, asked: Tensor, canvas: int, generator: torch.Generator) -> list[Tensor]:
        """Return the coverage of these questions on whole pictures, as drawn."""
        parts = (
            draw_lessons(shelf, part, len(part), canvas, (1, 1), generator, grey=None, each=True)
            for part in asked.split(8)
        )
        return [coverage(self.mean, part) for part in parts]


class ScorerTraining(MeanTraining[ScorerOptions]):
    """Train the scorer on drawn pictures of every world in the options."""

    def __init__(self, options: ScorerOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.keep_mean(ReadingScorer() if options.start is None else ReadingScorer.from_pretrained(options.start))
        self.optimizers = make_optimizers(self.scorer, EDGES, (), options.learning_rate, DECAY)
        self.schedule = Schedule(warm_up=200, decay_from=0.35, floor=0.01)
        self.draws, seed = self.generator("lessons", options.seed), options.seed
        self.needles = {
            stage.canvas: needle_shelf(stage.canvas, max(14, int(stage.drawn * options.scale)), seed, self.device)
            for stage in STAGES
        }
        given = self.device, options.workers
        self.pages = [page_shelf("train", seed, options.pages, *given)] if options.pages else []
        self.aside = {"pages": page_shelf("val", seed, options.aside, *given)} if options.aside else {}
        if options.print:
            atlas = None if options.print == "needle" else options.print
            learned, judged = (
                PrintWorld(atlas, self.device, seed, split=split, smallest=PRINT_SMALLEST) for split in ("train", "val")
            )
            number = max(8, int(PRINT_DRAWN * options.scale)) // len(PRINT_SIZES)
            self.pages += [print_shelf(learned, size, number) for size in PRINT_SIZES]
            self.aside["print"] = print_shelf(judged, PRINT_SIZES[0], max(8, int(options.judged * options.scale) // 3))
        self.pools = [pools(shelf) for shelf in self.pages]

    def lessons(self, stage: ReadingStage) -> Lessons:
        number = max(2, int(stage.batch * self.options.scale))
        of_needle = max(1, round(number * self.options.needle_share)) if self.pages else number
        shelf = self.needles[stage.canvas]
        every = torch.arange(len(shelf.page), device=self.device)
        parts = [draw_lessons(shelf, every, of_needle, stage.canvas, NEEDLE_ZOOM, self.draws, grey=NEEDLE_GREY)]
        for shelf, found, count in zip(self.pages, self.pools, self.counts(number - of_needle), strict=True):
            if count:
                pool = found[stage.canvas]
                parts.append(draw_lessons(shelf, pool, count, stage.canvas, stage.zoom, self.draws, grey=PAGE_GREY))
        return joined(parts)

    def counts(self, number: int) -> list[int]:
        """Draw lessons from each shelf of pages: those of Office World first, then printed ones of each size."""
        printed = len(self.pages) - bool(self.options.pages)
        of_office = 0 if not self.options.pages else number - round(number * self.options.print_share * bool(printed))
        rest = number - of_office
        shares = [rest // printed + (place < rest % printed) for place in range(printed)]
        return [*([of_office] if self.options.pages else []), *shares]

    def stage_at(self, at: Moment) -> ReadingStage:
        reached = self.options.skip + (1 - self.options.skip) * at.progress
        now = next(index for index, stage in enumerate(STAGES) if reached < stage.until)
        if at.since % AGAIN == AGAIN - 1 and now:
            return STAGES[self.chance["chance"].randrange(max(0, now - 2), now)]
        return STAGES[now]

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        lessons = self.lessons(self.stage_at(at))
        cells, letters = self.read(lessons)
        parts = cell_losses(cells, lessons) | letter_losses(letters, lessons.letters)
        with torch.no_grad():
            best = cells.flatten(1).argmax(1, keepdim=True)
            hit = lessons.answer.flatten(1).gather(1, best).mean()
            read = ((letters > 0) & lessons.letters).sum() / lessons.letters.sum().clamp_min(1)
        loss = parts["which"] + 3 * parts["each"] + 0.5 * parts["letters"] + parts["blank"]
        return loss, {**parts, "hit": hit, "read": read}

    def judge(self, at: Moment) -> JsonObject | None:
        """Return the coverage of answers on held-out pages and print, and on Needle World's validation pictures."""
        if not at.step:
            return None
        generator, result = torch.Generator(self.device).manual_seed(1), {}
        for name, shelf in {**self.aside, "needle": self.validation}.items():
            asked = torch.randperm(len(shelf.page), generator=generator, device=self.device)[: self.options.judged]
            found = self.coverage_of(shelf, asked, 512 if name == "needle" else 1024, generator)
            result |= covered_shares(name, found)
        return result

    @cached_property
    def validation(self) -> Shelf:
        number = max(14, int(self.options.judged * min(1.0, self.options.scale)))
        return needle_shelf(512, number, 1, self.device, "validation")

    def export(self) -> None:
        write_json(self.options.target / "record.json", self.record())
        export_scorer(self.mean, self.options.target / "scorer")


def pools(shelf: Shelf) -> dict[int, Tensor]:
    """Map each canvas to the questions whose answer and context fit on it at its smallest zoom."""
    everything = torch.arange(len(shelf.page), device=shelf.page.device)
    extent = shelf.extent_of(everything)
    span = (extent[:, 2:] - extent[:, :2]).amax(1)
    fitting = {stage.canvas: everything[span * stage.zoom[0] <= stage.canvas * 0.97] for stage in STAGES}
    return {canvas: pool if len(pool) else everything for canvas, pool in fitting.items()}


ZOOM, JUDGED_CANVAS = (0.7, 1.3), 512  # groups of own pictures, and of Needle World in evaluations


@dataclass(frozen=True, kw_only=True)
class OwnOptions(RunOptions):
    """Options of the scorer on own records."""

    data: Path = option(help="Your records: a folder with records.jsonl, a .jsonl or a .parquet file.")
    source: str = option("boxes", "What to learn from.", flag="--from", choices=("boxes", "outcomes", "words"))
    start: str = option("bundled", "Scorer to continue from: bundled, or a folder.")
    reader: str = option(MINI, "With outcomes, the frozen reader: mini, or an export of `train mini`.")
    held_out: float = option(0.2, "Share of pictures held out for evaluation.")
    mix: float = option(0.5, "Share of drawn pictures in every batch, so that little data does not ruin the scorer.")
    drawn: int = option(210, "Number of these drawn pictures.")
    canvas: int = option(512, "Side of training crops in pixels.")
    batch: int = option(6, "Pictures a step.")
    learning_rate: float = option(2e-4, "Highest learning rate of AdamW.")
    judged: int = option(40, "Held-out questions, and as many of Needle World, at each evaluation.")
    judge_every: float = option(600.0, "Seconds between evaluations; there is always one before and one after.")
    folder: Path = option(Path("runs/own-scorer"), "Folder for the checkpoint and the curve.")

    def __post_init__(self) -> None:
        if not 0 <= self.mix < 1:
            raise InputError(f"--mix {self.mix} leaves no share for your pictures; give 0 or more, below 1")
        if not 0 < self.held_out < 1:
            raise InputError(f"--held-out {self.held_out} must be between 0 and 1")
        if self.canvas < 128 or self.canvas % CELL or self.batch < 1:
            raise InputError(f"--canvas {self.canvas} must be a multiple of {CELL} from 128, --batch at least 1")


class OwnTraining(MeanTraining[OwnOptions]):
    """Train the scorer on own records; its running mean is judged and exported."""

    stays, early = 0.98, 10

    def __init__(self, options: OwnOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.data = read_own(options.data, options.source)
        self.learned, self.held = split_by_picture(self.data.records, options.held_out, options.seed)
        self.seen_boxes = [record for record in self.held if len(record.boxes)]
        folder = part_folder(SCORER) if options.start == "bundled" else Path(options.start)
        self.keep_mean(ReadingScorer.from_pretrained(folder))
        for name in READING:
            getattr(self.scorer, name).requires_grad_(False)
        self.optimizers.append(
            torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
        )
        self.schedule = Schedule(warm_up=20, decay_from=0.4, floor=0.02)
        self.draws = self.generator("lessons", options.seed)
        began = perf_counter()
        needle_shelf(options.canvas, 14, options.seed, self.device)
        drawn = min(options.drawn, 14 * self.fitting(-(-options.drawn // 14), perf_counter() - began))
        self.drawn = needle_shelf(options.canvas, max(14, drawn), options.seed, self.device)
        self.creditor: Any = None
        if options.source == "outcomes":
            self.creditor = load_function("arr_coc_lab.train.outcomes:Creditor")(options.reader, self.device)
        self.done |= {"records": len(self.data.records), "skipped": len(self.data.bad), "held_out": len(self.held)}
        self.done |= {"pictures": len({record.picture for record in self.data.records})}

    def own_lessons(self, number: int) -> Lessons:
        """Draw random questions; with outcomes, their boxes are the cells on which the reader's answer depends."""
        asked = torch.randint(len(self.learned), (number,), generator=self.draws, device=self.device).tolist()
        chosen = [self.learned[index] for index in asked]
        if self.creditor is not None:
            chosen = [self.creditor.placed(record) for record in chosen]
        shelf = shelf_of([own_page(record) for record in chosen], self.device)
        return draw_lessons(shelf, shelf.page, number, self.options.canvas, ZOOM, self.draws, grey=PAGE_GREY, each=True)

    def drawn_lessons(self, number: int) -> Lessons:
        """Draw questions about Needle World."""
        every = torch.arange(len(self.drawn.page), device=self.device)
        return draw_lessons(self.drawn, every, number, self.options.canvas, NEEDLE_ZOOM, self.draws, grey=NEEDLE_GREY)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options = self.options
        of_drawn = min(options.batch - 1, round(options.batch * options.mix)) if options.mix else 0
        parts = [self.drawn_lessons(of_drawn)] if of_drawn else []
        lessons = joined([*parts, self.own_lessons(options.batch - of_drawn)])
        cells, _ = self.read(lessons, glyphs=False)
        losses = cell_losses(cells, lessons)
        with torch.no_grad():
            best = cells[of_drawn:].flatten(1).argmax(1, keepdim=True)
            hit = lessons.answer[of_drawn:].flatten(1).gather(1, best).mean()
        notes = {**losses, "hit": hit}
        if self.creditor is not None:
            self.done["likelihood"] = self.creditor.likelihood
            notes["likelihood"] = hit.new_tensor(self.creditor.likelihood)
        return losses["which"] + 3 * losses["each"], notes

    def data_state(self) -> object:
        return None if self.creditor is None else self.creditor.found

    def load_data_state(self, state: Any) -> None:
        if self.creditor is not None:
            self.creditor.found = state

    def judge(self, at: Moment) -> JsonObject:
        """Return the coverage of answers on whole held-out pictures with boxes, and on Needle World."""
        generator, shelf = torch.Generator(self.device).manual_seed(1), self.validation
        apart, known = 1 if self.options.steps else max(1, len(shelf.page) // self.judged), len(self.seen_boxes)
        chosen = torch.arange(0, len(shelf.page), apart, device=self.device)
        needle, own = self.coverage_of(shelf, chosen, JUDGED_CANVAS, generator), []
        for index in np.linspace(0, known - 1, min(self.judged, known)).round().astype(int):
            own += self.coverage_alone(self.seen_boxes[index], generator)
        result = covered_shares("needle", needle) | covered_shares("held out", own)
        self.done.setdefault("before", result)
        self.done["after"] = result
        return result

    def coverage_alone(self, record: OwnRecord, generator: torch.Generator) -> list[Tensor]:
        lone = shelf_of([own_page(record)], self.device)
        return self.coverage_of(lone, lone.page, lone.pictures.side, generator)

    @cached_property
    def judged(self) -> int:
        """Return the number of questions of each kind in an evaluation: with a time limit, as many as fit."""
        if not self.options.steps and "judged" not in self.done and self.seen_boxes:
            began = perf_counter()
            self.coverage_alone(self.seen_boxes[0], torch.Generator(self.device))
            self.done["judged"] = self.fitting(self.options.judged, 2 * (perf_counter() - began))
        return self.done.get("judged", self.options.judged)

    @cached_property
    def validation(self) -> Shelf:
        return needle_shelf(JUDGED_CANVAS, max(7, self.judged), 1, self.device, "validation")

    def export(self) -> None:
        target = self.options.target
        export_scorer(self.mean, target)
        write_json(target / "record.json", self.record())
        write_records(target / "held_out.jsonl", self.held)

    def finish(self) -> None:
        print(f"{self.options.target}: use it by path, relevance={str(self.options.target)!r}", flush=True)


main = command(ScorerTraining, ScorerOptions, __doc__, own=command(OwnTraining, OwnOptions, __doc__))
