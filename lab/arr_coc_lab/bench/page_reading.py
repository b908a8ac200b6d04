"""`bench pages`: exact match on drawn pages that no training saw: all tokens, overlays by the scorer, and the controls.

Every page is shown as it was drawn, at its own size, and once more larger, from as many tokens; questions that hold
their own answer ("Click on Sources.") are left out. All ways see the very same questions. An answer counts as right
where every character is. With all tokens and with a quarter of them the model speaks, and its confidence is held
against what was right (ECE); elsewhere the true characters are given one after the other, which finds the same right.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import torch
from arr_coc.realizing.tokens.splice import pack, take
from torch import Tensor
from torch.nn import functional as F

from arr_coc.answering.decoding import Generated
from arr_coc.attending.overlay import overlay
from arr_coc.core.values import JsonObject

from ..statistics import wilson
from ..train.allocations import coarsest_of
from ..train.calibration import ASKED, SaidAnswers, answer_batch, calibration_row, is_right
from ..train.mini_model import TURN_END
from ..train.print_world import PrintWorld
from ..train.reader import picture_loss
from ..train.reader_examples import ReaderBatch
from ..train.reader_pages import PageBook
from ..worlds.needle.batch import CELL
from .machine import machine_facts
from .needle import Cell, CellAnswers, Weights
from .options import PagesOptions
from .report import Report
from .run import BenchRun
from .suite import parse_shares

TIMES = 1.5
CLOSER = "scorer, read larger"  # as many tokens of the page in `TIMES` the pixels
WAYS = ("scorer", CLOSER, "uniform", "random", "shuffled", "oracle")
PIXELS_AT_ONCE = {"cuda": 64 << 20, "cpu": 2 << 20}


def cells_at(keeps: Sequence[float]) -> tuple[Cell, ...]:
    """All tokens, and every way at each of the shares."""
    return ("full", 1.0), *((way, keep) for keep in keeps if keep < 1 for way in WAYS)


CELLS = cells_at((1 / 2, 1 / 4, 1 / 8, 1 / 16))


def batches(book: PageBook, limit: int | None, seed: int) -> Iterator[ReaderBatch]:
    """All questions or `limit` of them, drawn by the seed; pages of one size at a time."""
    chosen = np.random.default_rng(seed).permutation(len(book))[:limit]
    sizes = book.pictures.sizes[book.asked.page].cpu().numpy().astype(int)
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    for number in np.sort(chosen).tolist():
        height, width = (-(-int(side) // 32) * 32 for side in sizes[number])
        groups[height, width].append(number)
    room = PIXELS_AT_ONCE.get(book.device.type, PIXELS_AT_ONCE["cpu"])
    for size, several in groups.items():
        at_once = max(1, room // (size[0] * size[1]))
        for start in range(0, len(several), at_once):
            which = torch.tensor(several[start : start + at_once], device=book.device)
            batch = book.render(len(which), size, start, which, as_drawn=True)
            yield batch.one_question(torch.zeros_like(which))


def closer(batch: ReaderBatch) -> ReaderBatch:
    """The same questions about the same pages, `TIMES` as large."""
    size = [max(1, round(TIMES * side / CELL)) * CELL for side in batch.size]
    larger = F.interpolate(batch.pictures.float(), size, mode="bicubic", align_corners=False)
    return replace(batch, pictures=larger.round_().clamp_(0, 255).to(torch.uint8))


def leaves_of(
    way: str, keep: float, batch: ReaderBatch, scores: Tensor, generator: torch.Generator, full: int | None = None
) -> Tensor:
    """(B, N, 3) leaves of one way on its share of the tokens. scores: (B, rows, cols), the scorer's. full: the tokens
    of the page as it was drawn, where it is shown larger."""
    number, rows, cols = scores.shape
    budget = max(1, round(keep * (full or rows * cols)))
    found = scores
    if way in ("full", "uniform"):
        found = torch.ones_like(scores)
    elif way == "oracle":
        found = batch.targets[:, 0].float()
    elif way == "random":
        found = torch.rand(scores.shape, generator=generator).to(scores.device)
    elif way == "shuffled":
        order = torch.rand(number, rows * cols, generator=generator).argsort(1).to(scores.device)
        found = scores.flatten(1).gather(1, order).view_as(scores)
    return overlay(found, [budget] * number).cells


def answers_of(batch: ReaderBatch) -> Tensor:
    """(B, A) characters of the true answers of a batch with one question a picture, 0 = padding."""
    tails = batch.tails[:, 0].long()
    return take(tails, pack(batch.said[:, 0] & (tails != TURN_END), "right"))


def read_cell(
    weights: Weights, batch: ReaderBatch, leaves: Tensor, aloud: bool
) -> tuple[np.ndarray, np.ndarray | None]:
    """Right (B,) and, where the model speaks, confidence (2, B) at temperature 1 and at the calibrated one."""
    if not aloud:
        return picture_loss(weights.mini, batch, [leaves], coarsest_of(batch.size) + 1)[1].cpu().numpy(), None
    said = answer_batch(weights.mini, batch.pictures, batch.questions[:, 0].long(), leaves)
    return is_right(said, answers_of(batch)).cpu().numpy(), weights.confidence(said)


@torch.inference_mode()
def print_answers(
    weights: Weights, world: PrintWorld, number: int, at_once: int = 16, size: tuple[int, int] = (512, 512)
) -> Iterator[SaidAnswers]:
    """What `mini` says to one question about each of `number` printed pages, in the cells that are asked aloud."""
    generator = torch.Generator().manual_seed(world.seed)
    with weights.reading():
        for start in range(0, number, at_once):
            batch = world.render(min(at_once, number - start), size, start)
            which = torch.arange(start, start + len(batch), device=batch.pictures.device)
            batch = batch.one_question(which % batch.questions.shape[1])
            scores = weights.scorer.score(batch.pictures, batch.questions[:, 0].long()).float()
            for cell in ASKED:
                leaves = leaves_of(*cell, batch, scores, generator)
                said = answer_batch(weights.mini, batch.pictures, batch.questions[:, 0].long(), leaves)
                right = is_right(said, answers_of(batch)).cpu()
                kept = Generated(said.ids.cpu(), said.logits.cpu(), said.within.cpu())
                yield SaidAnswers("print", *cell, kept, right)


def measure(options: PagesOptions, run: BenchRun) -> Report:
    """Read the pages, saving once a minute what was read."""
    cells = cells_at(parse_shares(options.keeps))
    book = book_of(options.pack, options.device)
    weights = Weights.load(options.weights, options.device)
    with run.progress(min(options.n or len(book), len(book)), "reading") as advance, run.stoppable():

        def went_on(done: int, so_far: Callable[[], Mapping[str, object]]) -> bool:
            advance(done=done)
            run.save_sometimes(so_far)
            return not run.over()

        document = measure_pages(weights, book, options.n, options.seed, cells, went_on)
    return Report(document, lines=table_of(document).splitlines())


@torch.inference_mode()
def measure_pages(
    weights: Weights,
    book: PageBook,
    limit: int | None = None,
    seed: int = 1,
    cells: Sequence[Cell] = CELLS,
    advance: Callable[[int, Callable[[], Mapping[str, object]]], object] = lambda done, so_far: None,
) -> dict[str, object]:
    """What `document` makes of all batches. advance: called after each batch with its questions, and with what makes
    the document of all that was read so far; False ends it."""
    answers = CellAnswers()
    generator = torch.Generator().manual_seed(seed)
    with weights.reading():
        for batch in batches(book, limit, seed):
            scores = weights.scorer.score(batch.pictures, batch.questions[:, 0].long()).float()
            full, seen = scores[0].numel(), {False: (batch, scores)}
            if any(way == CLOSER for way, _ in cells):
                near = closer(batch)
                seen[True] = near, weights.scorer.score(near.pictures, near.questions[:, 0].long()).float()
            for cell in cells:
                shown, scores = seen[cell[0] == CLOSER]
                leaves = leaves_of(*cell, shown, scores, generator, full)
                answers.add(cell, *read_cell(weights, shown, leaves, cell in ASKED))
            if advance(len(batch), lambda: document(answers, weights, seed)) is False:
                break
    return document(answers, weights, seed)


def document(answers: CellAnswers, weights: Weights, seed: int) -> dict[str, object]:
    """{"rows": one for each cell, "calibration": of the cells that were asked aloud, "n": questions, "facts": …}."""
    right, rows = answers.all_right(), []
    for (way, keep), values in right.items():
        low, high = wilson(int(values.sum()), len(values))
        rows.append({"way": way, "keep": keep, "accuracy": float(values.mean()), "low": low, "high": high})
    calibration = [
        {"way": cell[0], "keep": cell[1], **calibration_row((before, after), right[cell])}
        for cell, (before, after) in answers.all_confidence().items()
    ]
    facts = machine_facts(("torch", "transformers")) | {"weights": weights.name, "seed": str(seed)}
    number = len(next(iter(right.values())))
    return {"schema": 1, "kind": "pages", "n": number, "facts": facts, "rows": rows, "calibration": calibration}


def table_of(found: JsonObject) -> str:
    """Markdown: ways down, shares of the tokens across."""
    rows = {(row["way"], row["keep"]): row for row in found["rows"]}

    def cell(way: str, keep: float) -> str:
        row = rows.get((way, keep))
        return "" if row is None else f"{100 * row['accuracy']:.1f} [{100 * row['low']:.1f}, {100 * row['high']:.1f}]"

    keeps = sorted({keep for _, keep in rows if keep < 1}, reverse=True)
    ways = list(dict.fromkeys(way for way, _ in rows if way != "full"))
    lines = [
        f"All tokens: {cell('full', 1.0)} % of {found['n']} questions.",
        "",
        "| | " + " | ".join(f"1/{round(1 / keep)}" for keep in keeps) + " |",
        "|---" * (len(keeps) + 1) + "|",
        *(f"| {way} | " + " | ".join(cell(way, keep) for keep in keeps) + " |" for way in ways),
    ]
    for row in found["calibration"]:
        where = "all tokens" if row["keep"] == 1 else f"{row['way']} at 1/{round(1 / row['keep'])}"
        measured, chance = (f"{100 * row[name]:.1f}" for name in ("ece_after", "ece_chance"))
        lines += ["", f"ECE, {where}: {measured} % ({chance} by chance alone)."]
    return "\n".join(lines)


def book_of(pattern: str, device: str) -> PageBook:
    """The pages of the packs, without questions that hold their own answer."""
    return PageBook(pattern, device, echoes=0.0)
