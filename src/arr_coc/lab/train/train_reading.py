"""`arr-coc train reading`: the scorer that reads, taught on Needle World and pages together, from boxes.

    python -m arr_coc.lab.train.train_reading --pages 'packs/train-*' --aside 'packs/val-*' --seconds 1000 --out OUT

Small canvases zoomed in first, then larger ones, earlier ones coming back: a scorer that cannot read learns nothing
from a whole page. Three losses: which cells (as a distribution and one by one), and which letters stand in each block.
"""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...knowing.reading_scorer import ReadingScorer
from .muon import BatchedMuon
from .scorer_worlds import Lessons, Shelf, draw_lessons, joined, needle_shelf


class Stage(NamedTuple):
    """until: share of the training. canvas: side in pixels. batch: pictures a step, half of each world. zoom: of pages,
    whose type is smaller than Needle World's. laid_up: Needle pictures."""

    until: float
    canvas: int
    batch: int
    zoom: tuple[float, float]
    laid_up: int


STAGES = (
    Stage(0.08, 128, 512, (1.1, 2.4), 28_000),
    Stage(0.26, 256, 160, (0.95, 2.0), 14_000),
    Stage(0.60, 512, 48, (0.75, 1.6), 5_600),
    Stage(1.01, 768, 24, (0.70, 1.35), 2_100),
)
NEEDLE_ZOOM = (0.9, 1.25)
# One step in so many goes back to an earlier canvas.
AGAIN = 4
CONTEXT = 0.35  # how much a cell that identifies the answer counts, beside one that holds it
EMA = 0.9985


@dataclass(frozen=True)
class Course:
    """seconds: of the whole training. scale: of the batches and of what is laid up, for machines with little memory."""

    seconds: float = 1000
    steps: int = 0
    scale: float = 1.0
    learning_rate: float = 1.6e-3
    warm_up: int = 200
    decay_from: float = 0.35
    needle_share: float = 0.5
    seed: int = 0


def losses(cells: Tensor, letters: Tensor, lessons: Lessons) -> dict[str, Tensor]:
    """Logits (B, rows, cols) and (B, 97, h, w) → the three losses, over lessons whose answer is in the picture."""
    weight = lessons.weight / lessons.weight.sum().clamp_min(1)
    cells, letters = cells.float(), letters.float()
    wanted = lessons.answer + CONTEXT * lessons.context
    share = (wanted / wanted.sum((1, 2), keepdim=True).clamp_min(1e-6)).flatten(1)
    which = -(F.log_softmax(cells.flatten(1), 1) * share).sum(1)
    each = F.binary_cross_entropy_with_logits(cells, wanted.clamp(max=1), reduction="none").mean((1, 2))
    blocks = lessons.letters
    occupied = blocks[:, 1:].any(1)
    # Every class in blocks with print; in empty ones only "nothing stands here", or the many would drown the few.
    read = F.binary_cross_entropy_with_logits(letters, blocks.float(), reduction="none").sum(1)
    read = (read * occupied).sum() / occupied.sum().clamp_min(1)
    empty = F.binary_cross_entropy_with_logits(letters.logsumexp(1), occupied.float())
    return {"which": (which * weight).sum(), "each": (each * weight).sum(), "letters": read, "blank": empty}


def total(parts: dict[str, Tensor]) -> Tensor:
    return parts["which"] + 3 * parts["each"] + 0.5 * parts["letters"] + parts["blank"]


def make_optimizers(scorer: nn.Module, rate: float, fused: bool) -> list[Any]:
    """Muon for the matrices inside, AdamW for everything else."""
    names = ("embed", "head", "glyphs", "place")
    matrices = [
        value
        for name, value in scorer.named_parameters()
        if value.ndim == 2 and not any(part in name for part in names)
    ]
    known = {id(value) for value in matrices}
    rest = [value for value in scorer.parameters() if id(value) not in known]
    return [
        BatchedMuon(matrices, lr=rate, weight_decay=0.02, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, weight_decay=0.02, betas=(0.9, 0.98), fused=fused),
    ]


def rate_at(progress: float, step: int, course: Course) -> float:
    fall = max(0.0, (progress - course.decay_from) / (1 - course.decay_from))
    return min(1.0, (step + 1) / course.warm_up) * (0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * min(1.0, fall))))


@torch.no_grad()
def coverage(scorer: nn.Module, lessons: Lessons, keeps: tuple[float, ...] = (1 / 4, 1 / 8, 1 / 16)) -> Tensor:
    """(B, keeps): the share of the answer's cells among the best of each budget, less one token for every 64 cells."""
    with torch.autocast(lessons.pictures.device.type, torch.bfloat16, enabled=lessons.pictures.is_cuda):
        cells = scorer(lessons.pictures, lessons.questions).float().flatten(1)
    answer, number = lessons.answer.flatten(1), cells.shape[1]
    results = []
    for keep in keeps:
        best = cells.topk(max(1, int(number * keep) - number // 64), 1).indices
        results.append(answer.gather(1, best).sum(1) / answer.sum(1).clamp_min(1))
    return torch.stack(results, 1)


def needle_shelves(stages: tuple[Stage, ...], course: Course, device: torch.device | str) -> dict[int, Shelf]:
    return {
        stage.canvas: needle_shelf(stage.canvas, max(14, int(stage.laid_up * course.scale)), course.seed, device)
        for stage in stages
    }


def pools(shelf: Shelf, stages: tuple[Stage, ...]) -> dict[int, Tensor]:
    """Canvas → the questions whose answer and context fit on it at the middle of its zoom."""
    everything = torch.arange(len(shelf.page), device=shelf.page.device)
    extent = shelf.extent_of(everything)
    span = (extent[:, 2:] - extent[:, :2]).amax(1)
    found = {stage.canvas: everything[span * stage.zoom[0] <= stage.canvas * 0.97] for stage in stages}
    return {canvas: pool if len(pool) else everything for canvas, pool in found.items()}


class Teacher:
    """The training: what a step is, and where it stands. `step(progress)` moves the scorer once."""

    def __init__(self, scorer: ReadingScorer, pages: Shelf, course: Course, device: torch.device) -> None:
        self.scorer, self.pages, self.course, self.device = scorer, pages, course, device
        self.needles = needle_shelves(STAGES, course, device)
        self.pools = pools(pages, STAGES)
        self.optimizers = make_optimizers(scorer, course.learning_rate, device.type == "cuda")
        self.mean = {name: value.detach().clone() for name, value in scorer.named_parameters()}
        self.generator = torch.Generator(device).manual_seed(course.seed)
        self.chance = random.Random(course.seed)
        self.steps = 0

    def lessons(self, stage: Stage) -> Lessons:
        number = max(2, int(stage.batch * self.course.scale))
        of_needle = max(1, round(number * self.course.needle_share))
        shelf = self.needles[stage.canvas]
        everything = torch.arange(len(shelf.page), device=self.device)
        return joined(
            [
                draw_lessons(shelf, everything, of_needle, stage.canvas, NEEDLE_ZOOM, self.generator, grey=0.08),
                draw_lessons(
                    self.pages, self.pools[stage.canvas], number - of_needle, stage.canvas, stage.zoom, self.generator
                ),
            ]
        )

    def stage_at(self, progress: float) -> Stage:
        now = next(index for index, stage in enumerate(STAGES) if progress < stage.until)
        if self.steps % AGAIN == AGAIN - 1 and now:
            return STAGES[self.chance.randrange(max(0, now - 2), now)]
        return STAGES[now]

    def step(self, progress: float) -> dict[str, Tensor]:
        stage = self.stage_at(progress)
        lessons = self.lessons(stage)
        rate = rate_at(progress, self.steps, self.course)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = self.course.learning_rate * rate
        pictures = lessons.pictures.contiguous(memory_format=torch.channels_last)
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.device.type == "cuda"):
            cells, letters = self.scorer.with_glyphs(pictures, lessons.questions)
        parts = losses(cells, letters, lessons)
        total(parts).backward()
        nn.utils.clip_grad_norm_(self.scorer.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
        self.steps += 1
        with torch.no_grad():
            weight = 1 - min(EMA, self.steps / (self.steps + 50))
            torch._foreach_lerp_(list(self.mean.values()), list(self.scorer.parameters()), weight)
            hit = lessons.answer.flatten(1).gather(1, cells.detach().flatten(1).argmax(1, keepdim=True)).mean()
            read = ((letters.detach() > 0) & lessons.letters).sum() / lessons.letters.sum().clamp_min(1)
        return {**{name: value.detach() for name, value in parts.items()}, "hit": hit, "read": read}

    def averaged(self) -> ReadingScorer:
        """The running mean of the weights, which is what is judged and shipped."""
        twin = ReadingScorer(self.scorer.config).to(self.device)
        twin.load_state_dict({**self.scorer.state_dict(), **self.mean})
        return twin.eval()
