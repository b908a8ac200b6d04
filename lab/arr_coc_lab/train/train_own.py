"""`arr-coc train scorer --data`: teach the bundled scorer further on your own pictures.

    arr-coc train scorer --data invoices --start bundled --seconds 420 --out my-scorer

Records as `own_data` reads them. From boxes; from words (the answer is looked for among the words of the picture); or
from outcomes, where only answers are known: a frozen reader tells which cells the right answer depends on (`outcomes`).

Little data must not ruin what the scorer knows: a share of every batch is drawn (Needle World, and packs of pages where
they are given), the layers that read letters stay as they are unless `--all-layers`, and a running mean of the weights
is exported. The folder that `--out` names is used by path: look(image, question, relevance="my-scorer").
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from arr_coc.core.alphabet import question_row
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json, write_text
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.reading_scorer import CELL, ReadingScorer

from ..options import option
from .own_data import OwnRecord, read_own, split_by_picture, write_records
from .run import Moment, Notes, RunOptions, Schedule, command, door
from .scorer_worlds import (
    MOST_BOXES,
    MOST_CONTEXTS,
    Lessons,
    Shelf,
    Stack,
    draw_lessons,
    joined,
    needle_shelf,
    page_shelf,
)
from .train_scorer import (
    NEEDLE_GREY,
    NEEDLE_ZOOM,
    PAGE_GREY,
    READING,
    MeanTraining,
    cell_losses,
    covered_shares,
    export_scorer,
    letter_losses,
)

if TYPE_CHECKING:
    from accelerate import Accelerator

    from .outcomes import Creditor

ZOOM = (0.7, 1.3)
HELD_BYTES = 1_500_000_000  # decoded pictures that are kept in memory
JUDGED_CANVAS = 512  # of Needle World, when it is judged


@dataclass(frozen=True, kw_only=True)
class OwnOptions(RunOptions):
    """Options of the scorer on own records."""

    data: Path = option(help="one's own records: a folder with records.jsonl, a .jsonl or a .parquet file")
    source: str = option("boxes", "what is learned from", flag="--from", choices=("boxes", "outcomes", "words"))
    start: str = option("bundled", "the scorer to go on from: bundled, or a folder")
    reader: str = option(MINI, "with outcomes: the frozen reader; mini, or an export of `train mini`")
    strict: bool = option(False, "refuse the data where one record cannot be used, instead of skipping it")
    held_out: float = option(0.2, "share of the pictures that are judged on and never learned from")
    mix: float = option(0.5, "share of every batch that is drawn, so that little data does not ruin the scorer")
    drawn: int = option(210, "Needle pictures that are drawn for that")
    pages: str = option("", "packs of drawn pages to mix in as well: a pattern such as 'packs/train-*'")
    canvas: int = option(512, "side in pixels of the crops that are learned from")
    batch: int = option(6, "pictures a step")
    learning_rate: float = option(2e-4, "of AdamW, at its highest")
    all_layers: bool = option(False, "also teach the layers that read letters: for another script; needs much data")
    judged: int = option(40, "questions held out, and as many of Needle World, at each judgement")
    judge_every: float = option(600.0, "seconds between judgements; there is one before and one after in any case")
    push: str = option("", "a name on the hub (owner/name) that gets the folder when all is done")
    folder: Path = option(Path("runs/own-scorer"), "where the checkpoint and the curve are kept")

    def __post_init__(self) -> None:
        if not 0 <= self.mix < 1:
            raise InputError(f"--mix {self.mix} leaves no room for your pictures; give 0 or more, below 1")
        if not 0 < self.held_out < 1:
            raise InputError(f"--held-out {self.held_out} must be between 0 and 1")
        if self.canvas < 128 or self.canvas % CELL or self.batch < 1:
            raise InputError(f"--canvas {self.canvas} must be a multiple of {CELL} from 128, --batch at least 1")


class Album:
    """Pictures of records as (H, W, 3) uint8 arrays; those used last are kept, up to a number of bytes."""

    def __init__(self, most: int = HELD_BYTES) -> None:
        self.most, self.held, self.kept = most, 0, OrderedDict[str, np.ndarray]()

    def pixels(self, record: OwnRecord) -> np.ndarray:
        if record.picture in self.kept:
            self.kept.move_to_end(record.picture)
            return self.kept[record.picture]
        made = np.ascontiguousarray(record.load().pixels)
        self.kept[record.picture], self.held = made, self.held + made.nbytes
        while self.held > self.most and len(self.kept) > 1:
            self.held -= self.kept.popitem(last=False)[1].nbytes
        return made


def own_shelf(album: Album, records: Sequence[OwnRecord], device: torch.device) -> Shelf:
    """These records as a shelf of their own, one picture and one question each."""
    pictures = [album.pixels(record) for record in records]
    sizes = [picture.shape[:2] for picture in pictures]
    number = len(records)

    def placed(boxes: Sequence[np.ndarray], most: int) -> Tensor:
        result = np.zeros((number, most, 4), np.float32)
        for row, (several, (height, width)) in enumerate(zip(boxes, sizes, strict=True)):
            chosen = several[np.argsort(-np.prod(several[:, 2:] - several[:, :2], 1), kind="stable")][:most]
            result[row, : len(chosen)] = chosen * (width, height, width, height)
        return torch.from_numpy(result).to(device)

    return Shelf(
        Stack.of(pictures, sizes, device),
        torch.full((number, 1, 3), -1e6, device=device),
        torch.arange(number, device=device),
        torch.tensor([question_row(record.query) for record in records], dtype=torch.uint8, device=device),
        placed([record.boxes for record in records], MOST_BOXES),
        placed([record.context for record in records], MOST_CONTEXTS),
    )


class OwnTraining(MeanTraining[OwnOptions]):
    """The scorer on own records; its running mean is judged and exported."""

    stays, early = 0.98, 10

    def __init__(self, options: OwnOptions, accelerator: Accelerator) -> None:
        super().__init__(options, accelerator)
        self.data = read_own(options.data, options.source, strict=options.strict)
        self.learned, self.held = split_by_picture(self.data.records, options.held_out, options.seed)
        self.seen_boxes = [record for record in self.held if len(record.boxes)]
        self.album = Album()
        folder = part_folder(SCORER) if options.start == "bundled" else Path(options.start)
        self.keep_mean(ReadingScorer.from_pretrained(folder))
        if not options.all_layers:
            for name in READING:
                getattr(self.scorer, name).requires_grad_(False)
        self.optimizers.append(
            torch.optim.AdamW(self.parameters(), lr=options.learning_rate, weight_decay=0.01, betas=(0.9, 0.98))
        )
        self.schedule = Schedule(warm_up=20, decay_from=0.4, floor=0.02)
        self.draws = self.generator("lessons", options.seed)
        self.drawn = [needle_shelf(options.canvas, max(14, options.drawn), options.seed, self.device)]
        if options.pages:
            self.drawn.append(page_shelf(options.pages, self.device))
        self.creditor: Creditor | None = None
        if options.source == "outcomes":
            from .outcomes import Creditor

            self.creditor = Creditor(options.reader, self.album.pixels, self.device)
        self.done |= {"records": len(self.data.records), "skipped": len(self.data.bad), "held_out": len(self.held)}
        self.done |= {"pictures": len({record.picture for record in self.data.records})}

    # ---- a step

    def own_lessons(self, number: int) -> Lessons:
        """Questions by chance; with outcomes their boxes are the cells that the frozen reader's answer depends on."""
        asked = torch.randint(len(self.learned), (number,), generator=self.draws, device=self.device).tolist()
        chosen = [self.learned[index] for index in asked]
        if self.creditor is not None:
            chosen = [self.creditor.placed(record) for record in chosen]
        shelf = own_shelf(self.album, chosen, self.device)
        return draw_lessons(shelf, shelf.page, number, self.options.canvas, ZOOM, self.draws, grey=PAGE_GREY, each=True)

    def drawn_lessons(self, number: int, at: Moment) -> Lessons:
        """Needle World; every other step pages, where there are some."""
        which = at.since % len(self.drawn)
        shelf = self.drawn[which]
        every = torch.arange(len(shelf.page), device=self.device)
        zoom, grey = (NEEDLE_ZOOM, NEEDLE_GREY) if which == 0 else (ZOOM, PAGE_GREY)
        return draw_lessons(shelf, every, number, self.options.canvas, zoom, self.draws, grey=grey)

    def loss(self, at: Moment) -> tuple[Tensor, Notes]:
        options = self.options
        of_drawn = min(options.batch - 1, round(options.batch * options.mix)) if options.mix else 0
        parts = [self.drawn_lessons(of_drawn, at)] if of_drawn else []
        lessons = joined([*parts, self.own_lessons(options.batch - of_drawn)])
        cells, letters = self.read(lessons, glyphs=options.all_layers)
        losses = cell_losses(cells, lessons)
        loss = losses["which"] + 3 * losses["each"]
        if options.all_layers and of_drawn:  # the letters are known of drawn pictures only
            read = letter_losses(letters[:of_drawn], lessons.letters[:of_drawn])
            loss, losses = loss + 0.5 * read["letters"] + read["blank"], losses | read
        with torch.no_grad():
            best = cells[of_drawn:].flatten(1).argmax(1, keepdim=True)
            hit = lessons.answer[of_drawn:].flatten(1).gather(1, best).mean()
        notes = {**losses, "hit": hit}
        if self.creditor is not None:
            self.done["likelihood"] = self.creditor.likelihood
            notes["likelihood"] = hit.new_tensor(self.creditor.likelihood)
        return loss, notes

    def data_state(self) -> object:
        return None if self.creditor is None else self.creditor.found

    def load_data_state(self, state: Any) -> None:
        if self.creditor is not None:
            self.creditor.found = state

    # ---- how well it does

    def judge(self, at: Moment) -> JsonObject:
        """Coverage of answers: on whole pictures held out, where their boxes are known, and on Needle World."""
        generator, shelf = torch.Generator(self.device).manual_seed(1), self.validation
        every = torch.arange(len(shelf.page), device=self.device)
        needle, own = self.coverage_of(shelf, every, JUDGED_CANVAS, generator), []
        number = min(self.options.judged, len(self.seen_boxes))
        for index in np.linspace(0, len(self.seen_boxes) - 1, number).round().astype(int):
            lone = own_shelf(self.album, [self.seen_boxes[index]], self.device)
            own += self.coverage_of(lone, lone.page, lone.pictures.side, generator)
        result = covered_shares("needle", needle) | covered_shares("held out", own)
        self.done.setdefault("before", result)
        self.done["after"] = result
        return result

    @cached_property
    def validation(self) -> Shelf:
        return needle_shelf(JUDGED_CANVAS, max(7, self.options.judged), 1, self.device, "validation")

    # ---- what is left

    def export(self) -> None:
        target = self.options.target
        export_scorer(self.mean, target)
        write_json(target / "record.json", self.record())
        write_records(target / "held_out.jsonl", self.held)
        write_text(target / "README.md", card(target.name, self.record()))

    def finish(self) -> None:
        print(f"{self.options.target}: use it by path, relevance={str(self.options.target)!r}", flush=True)
        if self.options.push:
            self.mean.push_to_hub(self.options.push, folder=self.options.target)


CARD = """---
library_name: arr-coc
tags: [arr-coc, relevance, visual-tokens]
---
# {name}

A scorer of [arr-coc](https://pypi.org/project/arr-coc/): where does the answer to a question stand in a picture?
Taught further on {records} records of {pictures} pictures.

```python
from arr_coc import look

look("picture.png", "a question", keep=1 / 8, relevance="{name}")
```

| coverage of the answers' cells | before | after |
|---|---|---|
{rows}

"held out": questions about pictures that it never learned from (`held_out.jsonl`); "needle": drawn ones, to see what it
forgot. `arr-coc bench real --data held_out.jsonl` measures with intervals. record.json has every option and the curve.
"""


def card(name: str, record: JsonObject) -> str:
    """The model card of a folder."""
    before, after = record.get("before", {}), record.get("after", {})
    rows = [f"| {one} | {100 * before[one]:.1f} % | {100 * after[one]:.1f} % |" for one in before if one in after]
    return CARD.format(name=name, records=record["records"], pictures=record["pictures"], rows="\n".join(rows))


main = command(OwnTraining, OwnOptions, __doc__)

if __name__ == "__main__":
    door(main)
