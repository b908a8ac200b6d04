"""`arr-coc train outcomes`: train scorers from a frozen reader's answers, and from boxes for comparison.

    arr-coc train outcomes --seconds 450 --device cuda --folder runs/outcomes --out OUT

All learn from the same drawn pictures in the same time, with one loss: where a map's mass should lie. The target comes
from boxes, or from `pass_credit`, which uses answers alone, once for all pictures. The layers that read letters are
those of the bundled scorer and stay frozen; those for the question are new.

| row | from |
|---|---|
| `boxes` | boxes all the way |
| `answers` | answers, from nothing; its scorer is written to OUT/scorer |
| `start, answers` | 20 steps by boxes, then answers |
| `start` | those 20 steps alone |
| `boxes, aside`, `answers, aside` | without pictures whose question or answer names a category of `ASIDE` |

Every row is judged by the reader's answers from its tokens, on all kinds of questions and on those that name a category
of `ASIDE`. OUT/results.json has the rows, with n and 95 % intervals; it is updated after every training. Rerun the same
command to resume.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.core.alphabet import QUESTION
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder, replacing, write_json
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.reading_scorer import CELL, ReadingScorer

from ..options import option, parse, plain
from ..statistics import proportion, ratio
from ..worlds.needle import FAMILIES, render
from ..worlds.needle.batch import NeedleBatch
from .allocations import target_cells
from .mini_model import ship
from .outcomes import AskedPictures, judge, load_reader, pass_credit, share_loss, shares_of
from .run import Moment, Notes, RunOptions, Schedule, say_line, train
from .scorer_worlds import with_additions
from .swift import make_optimizers
from .train_scorer import DECAY, EDGES, READING, MeanTraining

if TYPE_CHECKING:
    from accelerate import Accelerator

# Animals, fields of forms and kinds of signs that the rows "aside" never learn by name.
ASIDE = (
    *("giraffe", "penguin"),
    *(
        "client",
        "guest",
        "patient",
        "badge",
        "room",
        "fax",
        "expiry",
        "deposit",
        "balance",
        "region",
        "locker",
        "plate",
    ),
    *("bakery", "clinic", "ferry", "gallery", "hotel", "library", "museum", "pharmacy", "police", "school", "taxi"),
)
NAMED = re.compile(rf"\b({'|'.join(ASIDE)})\b", re.IGNORECASE)
OF_ASIDE = ("forms", "signs", "zoo")  # families that have such categories
KEEPS = (1 / 4, 1 / 8)
CONTROLS = ("full", "uniform", "random", "oracle", "bundled")
AT_ONCE = 64  # pictures drawn, credited or judged at once
CREDIT_SHARE, JUDGING_SHARE = 0.4, 0.2  # maximum share of the time


class OutcomeRow(NamedTuple):
    """A scorer. rule: its target. start: steps by boxes before. aside: without the categories of `ASIDE`."""

    rule: str
    start: bool = False
    aside: bool = False


ROWS = {
    "start": OutcomeRow("boxes", start=True),
    "boxes": OutcomeRow("boxes"),
    "answers": OutcomeRow("answers"),
    "start, answers": OutcomeRow("answers", start=True),
    "boxes, aside": OutcomeRow("boxes", aside=True),
    "answers, aside": OutcomeRow("answers", aside=True),
}


@dataclass(frozen=True, kw_only=True)
class OutcomeOptions(RunOptions):
    """Options of all rows together."""

    seconds: float = option(450.0, "Time limit of all rows in seconds.")
    rows: tuple[str, ...] = option(tuple(ROWS), "Rows of the table to train.", choices=tuple(ROWS))
    pictures: int = option(4200, "Maximum number of training pictures.")
    judged: int = option(1050, "Test pictures of all kinds.")
    unseen: int = option(504, "Test pictures that name a held-out category.")
    side: int = option(512, "Side of the pictures in pixels.")
    start: int = option(20, "Number of first steps that learn from boxes, for some rows.")
    reader: str = option(MINI, "The frozen reader: mini, or an export of `train mini`.")
    readings: int = option(4096, "Readings at a time; fewer need less memory.")
    batch: int = option(64, "Pictures a step.")
    learning_rate: float = option(1.6e-3, "Highest learning rate, of both optimizers.")
    folder: Path = option(Path("runs/outcomes"), "Folder for checkpoints and curves.")

    def __post_init__(self) -> None:
        if self.side < 128 or self.side % 128:
            raise InputError(f"--side {self.side} must be a multiple of 128")


@dataclass(frozen=True)
class Drawn:
    """Pictures of all families, mixed. boxes: (N, rows, cols), 1 in cells that the question needs. named: (N,) whether
    the question names a category of `ASIDE`."""

    asked: AskedPictures
    boxes: Tensor
    named: Tensor

    def __len__(self) -> int:
        return len(self.named)

    def take(self, which: Tensor | slice) -> Drawn:
        return Drawn(AskedPictures(*(value[which] for value in self.asked)), self.boxes[which], self.named[which])


def draw(
    number: int, side: int, split: str, seed: int, device: torch.device, families: Iterable[str], only: bool = False
) -> Drawn:
    """Draw `number` pictures in equal parts of these families, in random order; only: of those that are named."""
    names = list(families)
    parts, each, generator = [], -(-number // len(names)), torch.Generator().manual_seed(seed)
    for family in names:
        start = found = 0
        while found < each and start < 40 * each:
            count = AT_ONCE if only else min(AT_ONCE, each - found)
            one = drawn_part(render(family, count, (side, side), seed, split, None, device, start))
            one = one.take(one.named) if only else one
            parts.append(one.take(slice(0, each - found)))
            start, found = start + count, found + len(parts[-1])
    asked = AskedPictures(*map(torch.cat, zip(*(part.asked for part in parts), strict=True)))
    every = Drawn(asked, torch.cat([part.boxes for part in parts]), torch.cat([part.named for part in parts]))
    return every.take(torch.randperm(len(every), generator=generator).to(device))


def drawn_part(batch: NeedleBatch) -> Drawn:
    rows, cols = (side // CELL for side in batch.pictures.shape[2:])
    texts = zip(batch.questions, batch.answers, strict=True)
    named = torch.tensor([bool(NAMED.search(f"{question} {answer}")) for question, answer in texts])
    return Drawn(AskedPictures.of(batch), target_cells(batch, rows, cols), named.to(batch.pictures.device))


def credited(reader: Any, drawn: Drawn, options: OutcomeOptions, until: float) -> tuple[Tensor, Tensor]:
    """Credit as many pictures as the time allows: shares (N, rows, cols) and weights (N,), stored in the folder."""
    path = options.folder / "credit.safetensors"
    if path.is_file():
        found = load_file(path, device=str(drawn.named.device))
        return found["shares"], found["weights"]
    parts = []
    for asked in drawn.asked.split(AT_ONCE):
        parts.append(pass_credit(reader, asked, options.readings))
        shares, weights = (torch.cat(values) for values in zip(*parts, strict=True))
        right = float((weights == 1).float().mean())
        mass = float((shares * drawn.boxes[: len(shares)]).sum() / shares.sum().clamp_min(1e-6))
        say_line({"doing": "crediting", "pictures": len(shares), "right": round(right, 3), "in boxes": round(mass, 3)})
        if not options.steps and perf_counter() > until:
            break
    with replacing(path) as temporary:
        save_file({"shares": shares.contiguous(), "weights": weights.contiguous()}, temporary)
    return shares, weights


# ---- a row -----------------------------------------------------------------------------------------------------------


class OutcomeTraining(MeanTraining[OutcomeOptions]):
    """One row. shares, weights: of each picture's credit."""

    stays, early = 0.99, 20

    def __init__(
        self, options: OutcomeOptions, accelerator: Accelerator, row: OutcomeRow, drawn: Drawn, credit: Sequence[Tensor]
    ) -> None:
        super().__init__(options, accelerator)
        self.row, self.drawn = row, drawn
        self.taught = {"answers": credit, "boxes": (shares_of(drawn.boxes), drawn.boxes.amax((1, 2)))}
        bundled = ReadingScorer.from_pretrained(part_folder(SCORER))
        scorer = ReadingScorer(bundled.config)
        for name in READING:
            getattr(scorer, name).load_state_dict(getattr(bundled, name).state_dict())
            getattr(scorer, name).requires_grad_(False)
        self.keep_mean(scorer)
        self.optimizers = make_optimizers(self.scorer, EDGES, (), options.learning_rate, DECAY)
        self.schedule = Schedule(warm_up=10, decay_from=0.4, floor=0.02)
        self.draws = self.generator("lessons", options.seed)
        # A scorer learns nothing from a picture without credit.
        pool = {rule: weights > 0 for rule, (_, weights) in self.taught.items()}
        self.pool = {rule: torch.where(known & ~(drawn.named & row.aside))[0] for rule, known in pool.items()}

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        rule = "boxes" if self.row.start and at.step < self.options.start else self.row.rule
        pool, (shares, weights) = self.pool[rule], self.taught[rule]
        chosen = pool[torch.randint(len(pool), (self.options.batch,), generator=self.draws, device=self.device)]
        asked = self.drawn.asked
        pictures = asked.pictures[chosen].float() / 255
        questions = F.pad(asked.question_ids[chosen], (0, QUESTION - asked.question_ids.shape[1]))
        with self.accelerator.autocast():
            cells = self.scorer(
                pictures.contiguous(memory_format=torch.channels_last), with_additions(questions, self.draws)
            )
        loss = share_loss(F.logsigmoid(cells.float()), shares[chosen], weights[chosen])
        with torch.no_grad():
            best = cells.flatten(1).argmax(1, keepdim=True)
            hit = self.drawn.boxes[chosen].flatten(1).gather(1, best).mean()
        return loss, {"hit": hit}

    def export(self) -> None:
        write_json(self.options.target / "record.json", self.record())


# ---- answers of a reader from its tokens -----------------------------------------------------------------------------


class Judge:
    """Right or wrong for every test picture, by system and share of the tokens; stored in the folder."""

    def __init__(
        self, options: OutcomeOptions, reader: Any, device: torch.device, sets: Sequence[str] = ("all", "aside")
    ) -> None:
        self.options, self.reader, self.path = options, reader, options.folder / "right.json"
        given = options.side, "test"
        made = {
            "all": lambda: draw(options.judged, *given, options.seed, device, FAMILIES),
            "aside": lambda: draw(options.unseen, *given, options.seed + 1, device, OF_ASIDE, only=True),
        }
        self.sets = {name: made[name]() for name in sets}
        found = json.loads(self.path.read_text(encoding="utf-8")) if self.path.is_file() else {}
        self.right: dict[str, list[int]] = found

    @torch.inference_mode()
    def judge(self, name: str, map_of: Callable[[Drawn], Tensor]) -> None:
        """Read the test pictures by the maps (B, rows, cols) of one system."""
        for kind, drawn in self.sets.items():
            parts = (drawn.take(slice(start, start + AT_ONCE)) for start in range(0, len(drawn), AT_ONCE))
            with torch.autocast(drawn.boxes.device.type, torch.bfloat16, enabled=drawn.boxes.is_cuda):
                maps = torch.cat([map_of(part).float() for part in parts])
            for keep in (1.0,) if name == "full" else KEEPS:
                self.judge_maps(kind, name, keep, maps)
        write_json(self.path, self.right)

    @torch.inference_mode()
    def judge_maps(self, kind: str, name: str, keep: float, maps: Tensor) -> None:
        """Read one set of test pictures by their maps (N, rows, cols), unless that was done before."""
        key, tokens, right = f"{kind}|{name}|{keep:g}", max(1, round(keep * maps[0].numel())), []
        if key not in self.right:
            for asked, part in zip(self.sets[kind].asked.split(AT_ONCE), maps.split(AT_ONCE), strict=True):
                leaves = overlay(part, [tokens] * len(part)).cells[:, None]
                right += judge(self.reader, asked, leaves).right[:, 0].int().tolist()
            self.right[key] = right

    def rows(self) -> list[JsonObject]:
        """Return a row for every set, system and share, compared with boxes at the same share."""
        rows = []
        for key, right in self.right.items():
            kind, system, keep = key.split("|")
            own = np.array(right)
            row: JsonObject = {"set": kind, "system": system, "keep": float(keep), "n": len(right)}
            row |= interval(proportion(own))
            for other in ("boxes", "boxes, aside"):
                if (rival := self.right.get(f"{kind}|{other}|{keep}")) and other != system:
                    row[f"of {other}"] = interval(ratio(own, np.array(rival), seed=crc32(key.encode())))
            rows.append(row)
        return rows


def interval(found: Any) -> dict[str, float]:
    return {name: round(value, 4) for name, value in vars(found).items()}


def control_map(name: str, seed: int, part: Drawn) -> Tensor:
    """Return the maps of systems without training."""
    if name == "oracle":
        return part.boxes
    if name == "random":
        return torch.rand(part.boxes.shape, generator=torch.Generator().manual_seed(seed)).to(part.boxes)
    return torch.ones_like(part.boxes)


def scored_map(scorer: Any, part: Drawn) -> Tensor:
    return scorer.score(part.asked.pictures, part.asked.question_ids)


# ---- all rows --------------------------------------------------------------------------------------------------------


def run(options: OutcomeOptions) -> Path:
    """Draw, credit, train and judge; return the file of results."""
    began = perf_counter()
    device = torch.device(options.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    options.folder.mkdir(parents=True, exist_ok=True)
    reader = load_reader(options.reader, device)
    say_line({"doing": "drawing", "device": str(device)})
    drawn = draw(options.pictures, options.side, "train", options.seed, device, FAMILIES)
    tests = Judge(options, reader, device)
    say_line({"doing": "crediting", "pictures": 0, "seconds": round(perf_counter() - began, 1)})
    credit = credited(reader, drawn, options, began + CREDIT_SHARE * options.seconds)
    seconds = {"drawing and crediting": round(perf_counter() - began, 1)}
    drawn = drawn.take(slice(0, len(credit[0])))
    for name in CONTROLS[:-1]:
        tests.judge(name, partial(control_map, name, options.seed))
    tests.judge("bundled", partial(scored_map, ReadingScorer.from_pretrained(part_folder(SCORER)).float().to(device)))
    judging = (perf_counter() - began - seconds["drawing and crediting"]) / len(CONTROLS)
    left = options.seconds - (perf_counter() - began) - judging * len(options.rows)
    target, facts = options.target, {}
    for number, name in enumerate(options.rows):
        row = ROWS[name]
        alone = name == "start"
        own = replace(
            options,
            folder=options.folder / name.replace(", ", "-"),
            out=options.folder / name.replace(", ", "-") / "export",
            seconds=left / max(1, len(set(options.rows) - {"start"})),
            steps=options.start if alone else options.steps,
        )
        trained = train(partial(OutcomeTraining, row=row, drawn=drawn, credit=credit), own)
        facts[name] = {"steps": trained.done["step"], "seconds": round(trained.done["seconds"], 1)}
        tests.judge(name, partial(scored_map, trained.mean))
        if name == "answers":
            ship({SCORER: trained.mean}, target)
        results = {"plan": plain(options), "pictures": len(drawn), "seconds": seconds, "trained": facts}
        results["aside"] = {"words": ASIDE, "pictures left": int((~drawn.named).sum())}
        write_json(target / "results.json", {**results, "rows": tests.rows()})
        say_line({"row": name, **facts[name], "rows done": number + 1, "seconds": round(perf_counter() - began, 1)})
    return target / "results.json"


def main(arguments: Sequence[str]) -> None:
    print(run(parse(OutcomeOptions, arguments, __doc__)), flush=True)
