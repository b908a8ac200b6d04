"""`arr-coc train reading`: the scorer that reads, taught on Needle World, pages and print together, from boxes.

    python -m arr_coc_lab.train.train_reading --pages 'packs/train-*' --aside 'packs/val-*' --seconds 1000 --out OUT
    python -m arr_coc_lab.train.train_reading --print atlas.npz --start SCORER --seconds 900 --out OUT

Small canvases zoomed in first, then larger ones, earlier ones coming back: a scorer that cannot read learns nothing
from a whole page. Three losses: which cells (as a distribution and one by one), and which letters stand in each block.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.files import write_json
from arr_coc.core.manifest import whole_folder
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer

from .acceleration import make_optimizers
from .depthwise import quicken
from .devices import Devices
from .options import RunOptions, option
from .print_world import PrintWorld
from .run import Moment, Notes, Own, Schedule, Training, command, door
from .scorer_worlds import Lessons, Shelf, draw_lessons, joined, needle_shelf, page_shelf, print_shelf


class ReadingStage(NamedTuple):
    """until: share of the training. canvas: side in pixels. batch: pictures a step, half of each world. zoom: of pages,
    whose type is smaller than Needle World's. laid_up: Needle pictures."""

    until: float
    canvas: int
    batch: int
    zoom: tuple[float, float]
    laid_up: int


STAGES = (
    ReadingStage(0.08, 128, 512, (1.1, 2.4), 28_000),
    ReadingStage(0.22, 256, 160, (0.95, 2.0), 14_000),
    ReadingStage(0.50, 512, 48, (0.75, 1.6), 5_600),
    ReadingStage(0.82, 768, 24, (0.70, 1.35), 2_100),
    ReadingStage(1.01, 1024, 14, (0.70, 1.30), 1_050),
)
NEEDLE_ZOOM = (0.9, 1.25)
# One step in so many goes back to an earlier canvas.
AGAIN = 4
CONTEXT = 0.35  # how much a cell that identifies the answer counts, beside one that holds it
# What is written is read by these, as well as by any layer above them; they know no question.
READING = ("stem", "fine", "down8", "read", "glyphs")
KEEPS = (1 / 4, 1 / 8, 1 / 16)
# Parts of the scorer whose matrices are no layers inside, and how fast weights decay.
EDGES, DECAY = ("embed", "head", "glyphs", "place"), 0.02
# Printed pages that are laid up: their sizes, how many in all, and the em of their smallest type, in pixels.
PRINT_SIZES, PRINT_LAID_UP, PRINT_SMALLEST = ((1024, 768), (768, 1024), (512, 512)), 6_000, 8.0
# Where Needle World's questions name colours, few of its pictures may lose theirs.
NEEDLE_GREY, PAGE_GREY = 0.08, 0.45


@dataclass(frozen=True, kw_only=True)
class ReadingOptions(RunOptions):
    """What this training is asked besides."""

    pages: str = option("", "packs of pages to learn from: a pattern such as 'packs/train-*'; empty: Needle World only")
    aside: str = option("", "packs of pages kept aside, to judge on")
    learning_rate: float = option(1.6e-3, "of both optimizers, at its highest")
    print: str = option("", "an atlas of type to set pages from; needle: from Needle World's own type; empty: none")
    print_share: float = option(0.6, "of what is not Needle World, printed pages, where there are other pages too")
    needle_share: float = option(0.5, "of every batch")
    scale: float = option(1.0, "of the batches and of what is laid up, for machines with little memory")
    start: Path | None = option(None, "a scorer's folder to go on from")
    skip: float = option(0.0, "the share of the stages to leave out at the beginning, for a scorer that reads")
    judged: int = option(600, "questions about pages kept aside, and as many of Needle World, at each judgement")
    folder: Path = option(Path("runs/reading"), "where the checkpoint and the curve are kept")


def cell_losses(cells: Tensor, lessons: Lessons) -> dict[str, Tensor]:
    """Logits (B, rows, cols) → which cells, as a distribution and one by one, over lessons whose answer is there."""
    weight = lessons.weight / lessons.weight.sum().clamp_min(1)
    cells = cells.float()
    wanted = lessons.answer + CONTEXT * lessons.context
    share = (wanted / wanted.sum((1, 2), keepdim=True).clamp_min(1e-6)).flatten(1)
    which = -(F.log_softmax(cells.flatten(1), 1) * share).sum(1)
    each = F.binary_cross_entropy_with_logits(cells, wanted.clamp(max=1), reduction="none").mean((1, 2))
    return {"which": (which * weight).sum(), "each": (each * weight).sum()}


def letter_losses(letters: Tensor, blocks: Tensor) -> dict[str, Tensor]:
    """Logits (B, 97, h, w) and what stands in each block (bool) → which letters, and whether any."""
    letters = letters.float()
    occupied = blocks[:, 1:].any(1)
    # Every class in blocks with print; in empty ones only "nothing stands here", or the many would drown the few.
    read = F.binary_cross_entropy_with_logits(letters, blocks.float(), reduction="none").sum(1)
    read = (read * occupied).sum() / occupied.sum().clamp_min(1)
    return {"letters": read, "blank": F.binary_cross_entropy_with_logits(letters.logsumexp(1), occupied.float())}


def losses(cells: Tensor, letters: Tensor, lessons: Lessons) -> dict[str, Tensor]:
    """Logits (B, rows, cols) and (B, 97, h, w) → the three losses."""
    return cell_losses(cells, lessons) | letter_losses(letters, lessons.letters)


def total(parts: dict[str, Tensor]) -> Tensor:
    return parts["which"] + 3 * parts["each"] + 0.5 * parts["letters"] + parts["blank"]


@torch.no_grad()
def coverage(scorer: nn.Module, lessons: Lessons, keeps: tuple[float, ...] = KEEPS) -> Tensor:
    """(B, keeps): the share of the answer's cells among the best of each budget, less one token for every 64 cells."""
    with torch.autocast(lessons.pictures.device.type, torch.bfloat16, enabled=lessons.pictures.is_cuda):
        cells = scorer(lessons.pictures, lessons.questions).float().flatten(1)
    answer, number = lessons.answer.flatten(1), cells.shape[1]
    results = []
    for keep in keeps:
        best = cells.topk(max(1, int(number * keep) - number // 64), 1).indices
        results.append(answer.gather(1, best).sum(1) / answer.sum(1).clamp_min(1))
    return torch.stack(results, 1)


def pools(shelf: Shelf) -> dict[int, Tensor]:
    """Canvas → the questions whose answer and context fit on it at its smallest zoom."""
    everything = torch.arange(len(shelf.page), device=shelf.page.device)
    extent = shelf.extent_of(everything)
    span = (extent[:, 2:] - extent[:, :2]).amax(1)
    fitting = {stage.canvas: everything[span * stage.zoom[0] <= stage.canvas * 0.97] for stage in STAGES}
    return {canvas: pool if len(pool) else everything for canvas, pool in fitting.items()}


class MeanTraining(Training[Own]):
    """A scorer, and the running mean of its weights, which is what is judged and shipped. stays: the share of the mean
    that a step leaves, at the most; early: the step that leaves half of it."""

    scorer: ReadingScorer
    mean: ReadingScorer
    stays, early = 0.9985, 50

    def update(self, loss: Tensor) -> Tensor:
        norm = super().update(loss)
        step = self.done["step"] + 1
        with torch.no_grad():
            weight = 1 - min(self.stays, step / (step + self.early))
            torch._foreach_lerp_(list(self.mean.parameters()), list(self.scorer.parameters()), weight)
        return norm

    def exports(self) -> dict[str, nn.Module]:
        return {"scorer": self.mean}


class ReadingTraining(MeanTraining[ReadingOptions]):
    """The reading scorer, and the running mean of its weights, which is what is judged and shipped."""

    title = "reading"

    def __init__(self, options: ReadingOptions, devices: Devices) -> None:
        super().__init__(options, devices)
        scorer = ReadingScorer() if options.start is None else ReadingScorer.from_pretrained(options.start).float()
        self.scorer = scorer.to(self.device).train()
        self.mean = ReadingScorer(scorer.config).to(self.device).requires_grad_(False).eval()
        self.mean.load_state_dict(scorer.state_dict())
        if self.device.type == "cuda":
            print(quicken(self.scorer), flush=True)
        self.modules = {"scorer": self.scorer, "mean": self.mean}
        self.optimizers = make_optimizers(self.scorer, EDGES, (), options.learning_rate, DECAY)
        self.schedule = Schedule(warm_up=200, decay_from=0.35, floor=0.01)
        self.draws = self.generator("lessons", options.seed)
        self.needles = {
            stage.canvas: needle_shelf(
                stage.canvas, max(14, int(stage.laid_up * options.scale)), options.seed, self.device
            )
            for stage in STAGES
        }
        self.pages = [page_shelf(options.pages, self.device)] if options.pages else []
        self.aside = {"pages": page_shelf(options.aside, self.device)} if options.aside else {}
        if options.print:
            atlas = None if options.print == "needle" else options.print
            learned, judged = (
                PrintWorld(atlas, self.device, options.seed, split=split, smallest=PRINT_SMALLEST)
                for split in ("train", "val")
            )
            laid_up = max(8, int(PRINT_LAID_UP * options.scale))
            self.pages += [print_shelf(learned, size, laid_up // len(PRINT_SIZES)) for size in PRINT_SIZES]
            self.aside["print"] = print_shelf(judged, PRINT_SIZES[0], max(8, int(options.judged * options.scale) // 3))
        self.pools = [pools(shelf) for shelf in self.pages]

    def parameters(self) -> Iterator[nn.Parameter]:
        return self.scorer.parameters()

    def lessons(self, stage: ReadingStage) -> Lessons:
        number = max(2, int(stage.batch * self.options.scale))
        of_needle = max(1, round(number * self.options.needle_share)) if self.pages else number
        shelf, parts = self.needles[stage.canvas], []
        if of_needle:
            every = torch.arange(len(shelf.page), device=self.device)
            parts.append(draw_lessons(shelf, every, of_needle, stage.canvas, NEEDLE_ZOOM, self.draws, grey=NEEDLE_GREY))
        for shelf, found, count in zip(self.pages, self.pools, self.counts(number - of_needle), strict=True):
            if count:
                pool = found[stage.canvas]
                parts.append(draw_lessons(shelf, pool, count, stage.canvas, stage.zoom, self.draws, grey=PAGE_GREY))
        return joined(parts)

    def counts(self, number: int) -> list[int]:
        """Of so many lessons, those from each shelf of pages: drawn by a browser first, then printed of each size."""
        printed = len(self.pages) - bool(self.options.pages)
        by_browser = 0 if not self.options.pages else number - round(number * self.options.print_share * bool(printed))
        rest = number - by_browser
        shares = [rest // printed + (place < rest % printed) for place in range(printed)]
        return [*([by_browser] if self.options.pages else []), *shares]

    def stage_at(self, at: Moment) -> ReadingStage:
        reached = self.options.skip + (1 - self.options.skip) * at.progress
        now = next(index for index, stage in enumerate(STAGES) if reached < stage.until)
        if at.since % AGAIN == AGAIN - 1 and now:
            return STAGES[self.chance["chance"].randrange(max(0, now - 2), now)]
        return STAGES[now]

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        lessons = self.lessons(self.stage_at(at))
        pictures = lessons.pictures.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            cells, letters = self.scorer.with_glyphs(pictures, lessons.questions)
        parts = losses(cells, letters, lessons)
        with torch.no_grad():
            best = cells.flatten(1).argmax(1, keepdim=True)
            hit = lessons.answer.flatten(1).gather(1, best).mean()
            read = ((letters > 0) & lessons.letters).sum() / lessons.letters.sum().clamp_min(1)
        return total(parts), {**{name: value.detach() for name, value in parts.items()}, "hit": hit, "read": read}

    def judge(self, at: Moment) -> dict[str, object] | None:
        """Coverage of answers on whole pages and print kept aside, and on Needle World's validation pictures."""
        if not at.step:
            return None
        generator = torch.Generator(self.device).manual_seed(1)
        result: dict[str, object] = {}
        for name, shelf in {**self.aside, "needle": self.validation}.items():
            canvas, zoom = (512, 1.0) if name == "needle" else (1024, 1.0)
            asked = torch.randperm(len(shelf.page), generator=generator, device=self.device)[: self.options.judged]
            found = [
                coverage(
                    self.mean,
                    draw_lessons(shelf, part, len(part), canvas, (zoom, zoom), generator, grey=None, each=True),
                )
                for part in asked.split(8)
            ]
            for keep, value in zip(KEEPS, torch.cat(found).mean(0).tolist(), strict=True):
                result[f"{name} 1/{round(1 / keep)}"] = value
        return result

    @cached_property
    def validation(self) -> Shelf:
        number = max(14, int(self.options.judged * min(1.0, self.options.scale)))
        return needle_shelf(512, number, 1, self.device, "validation")

    def export(self) -> None:
        write_json(self.options.target / "record.json", self.record())
        export_scorer(self.mean, self.options.target / "scorer")


def export_scorer(scorer: ReadingScorer, folder: Path) -> None:
    """The folder of a scorer: config.json, and model.safetensors in half precision."""
    with whole_folder(folder) as made:
        copy.deepcopy(scorer).cpu().half().save_pretrained(made)


main = command(ReadingTraining, ReadingOptions, __doc__)

if __name__ == "__main__":
    door(main)
