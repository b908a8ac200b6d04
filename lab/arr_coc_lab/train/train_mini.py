"""`arr-coc train mini`: make the bundled model from drawn pictures. A stopped run goes on.

On your own pictures: `arr-coc train mini --data FOLDER --seconds 600 --out my-mini`. That training has other options;
`arr-coc train mini --data . --help` lists them.

A finished scorer says where to look. The recipe: small canvases first, a target in every visual token, Muon for the
matrices, mixed allocations from the start. Straight questions on large canvases never left chance, and large batches
left too few steps.
"""

from __future__ import annotations

import json
import random
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import nn

from arr_coc.core.files import write_json
from arr_coc.core.folders import SCORER, part_folder
from arr_coc.core.values import JsonObject
from arr_coc.knowing.scorer.source import load_scorer

from ..options import option
from ..worlds.print.layouts import SMALLEST
from .acceleration import Prefetcher, Twin, make_optimizers
from .allocations import KINDS, Kind, LeafTable, coarsest_of, even_tree_of
from .checkpoints import TrainingState, load_shipped
from .evaluate import FAMILIES, format_table, table
from .mini_model import MiniConfig, build_mini
from .pictures import board_targets, vary
from .print_world import PrintWorld
from .reader import DenseHeads, PictureWindow, Reader, cut_blocks, letter_losses, named_letters, reader_losses
from .reader_examples import (
    LETTERS,
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
from .run import Moment, Notes, RunOptions, Schedule, Training, command, door
from .swift import compile_pieces

if TYPE_CHECKING:
    from accelerate import Accelerator

Size = tuple[int, int]


class PictureShelf(NamedTuple):
    """Where pictures of one canvas lie: those with questions, or (`text`) those of nothing but letters."""

    height: int
    width: int
    text: bool = False

    @property
    def size(self) -> Size:
        return self.height, self.width


# Of the steps that name letters, how often under which allocation: type is read at half its size too.
LETTER_KINDS = (KINDS[0], KINDS[1])
LETTER_WEIGHTS = (0.85, 0.15)
# A canvas may be a part of a picture of up to so many cells on a side, and begins at a multiple of so many.
LARGEST_GRID, GRID_STEP = 64, 8
# How much of a training comes before `letters_late`: letters are learned soon, finding and copying them is not.
LETTERS_FIRST = 0.25
# Pictures that letters are judged on.
JUDGED = 96


@dataclass(frozen=True, kw_only=True)
class MiniOptions(RunOptions):
    """What `train mini` is asked beside what every training is asked."""

    total: float = option(960.0, "seconds of the whole training, all runs together")
    folder: Path = option(Path("runs/mini"), "where the checkpoint and the curve are kept")
    start_from: Path | None = option(None, "an export of an earlier training, of the same width")
    learning_rate: float = option(2e-3, "of the reader")
    warm_up: int = option(200, "steps")
    decay_from: float = option(0.4, "share of the training from which on the learning rates fall")
    scale: float = option(1.0, "share of the usual batch size and buffer, for machines with little memory")
    reuse: float = option(5.0, "how often a rendered picture is read on average")
    glyph_weight: float = option(1.0, "of the characters in every visual token")
    patch_weight: float = option(1.0, "of the characters in every patch")
    point_weight: float = option(0.3, "of pointing at what is meant")
    thing_weight: float = option(1.0, "of the colours and things in every visual token")
    evaluate: int = option(2048, "test questions for each cell of the table; 0: no table")
    largest: int = option(1024, "leave out canvases with a longer side")
    width: int = option(MiniConfig.width, "of the reader")
    heads_first: int = option(0, "steps in which only the dense heads learn, where the start has none")
    print: str = option("", "an atlas of type to set pages from, beside Needle World; needle: from its own type")
    print_share: float = option(0.6, "of the pictures, those set from type")
    smallest_type: float = option(SMALLEST, "em in pixels of the smallest type that is set; judged is all from 6 on")
    letter_share: float = option(0.0, "of the steps, those that only name the letters in every token")
    letters_late: float = option(-1.0, "the same from a quarter of the training on; -1: as before")
    text_share: float = option(0.6, "of those steps, the ones on pictures of nothing but text, where there are any")
    window_share: float = option(0.3, "of the steps, those that see a part of a larger picture")
    eager: bool = option(False, "do not compile the reader, which takes a minute and makes a GPU twice as fast")
    misheard: float = option(
        0.12, "of an answer's letters, those that the reader is told wrong while it learns to say it"
    )
    guide: str = option("bundled", "a finished scorer to follow, by folder; empty: none")

    @property
    def schedule(self) -> Schedule:
        # A run of a few steps, as tests make it, warms up in a part of them.
        return Schedule(min(self.warm_up, 1 + self.steps // 4) if self.steps else self.warm_up, self.decay_from)


@dataclass
class ReaderSource:
    """Which pictures come next: the family whose turn it is.

    rendered: pictures so far, their numbers under the seed; a resumed training goes on from there, so that it never
    sees a picture twice. print: who sets pages from type; None: nobody.
    """

    seed: int
    device: torch.device | str
    rendered: int = 0
    print: PrintWorld | None = None

    def choose_letters(self, number: int, size: Size) -> Origin:
        start, self.rendered = self.rendered, self.rendered + number
        return Origin(LETTERS, number, size, start, None)

    def choose(self, number: int, size: Size, difficulty: str | None, turn: int) -> Origin:
        """turn: how many batches of this canvas came before."""
        families, shares = list(FAMILIES), list(SHARES)
        if self.print is not None and min(size) >= SMALLEST_PAGE:
            families.append(PRINT)
            shares.append(sum(shares) * self.print.share / (1 - self.print.share))
        family = families[whose_turn(tuple(shares), len(FAMILIES), turn)]
        start, self.rendered = self.rendered, self.rendered + number
        return Origin(family, number, size, start, difficulty)

    def render(self, origin: Origin) -> ReaderBatch:
        family, number, size, start, difficulty = origin
        if family not in (PRINT, LETTERS):
            return render_reader_batch(family, number, size, self.seed, start, self.device, difficulty, QUESTIONS)
        assert self.print is not None, "print was read before, and is not given now"
        draw = self.print.letters if family == LETTERS else self.print.render
        return draw(number, size, start)


class MiniTraining(Training[MiniOptions]):
    """The reader, and buffers of pictures by canvas that are refilled while they are read."""

    def __init__(self, options: MiniOptions, accelerator: Accelerator, mini: MiniConfig | None = None) -> None:
        super().__init__(options, accelerator)
        self.plan = options
        self.mini_config = mini or MiniConfig(width=options.width, heads=options.width // 64)
        self.model: Any = build_mini(self.mini_config)
        self.scorer: Any = self.finished_scorer()
        self.heads = DenseHeads(self.mini_config.width)
        modules: dict[str, nn.Module] = {"mini": self.model, "heads": self.heads}
        self.modules = {name: module.to(self.device) for name, module in modules.items()}
        self.optimizers = make_optimizers(
            self.model, ("embed", "lm_head"), self.heads.parameters(), options.learning_rate, 0.01
        )
        self.schedule = options.schedule
        self.done |= {"pictures": 0, "rendered": 0, "stage": 0, "glyphs": 0.0}
        if options.start_from is not None:
            load_shipped(options.start_from, self.modules)
            record = options.start_from / "record.json"
            # The package's own folder has no record: a finished reader, that has passed all stages.
            earlier = json.loads(record.read_text(encoding="utf-8")) if record.is_file() else {"stage": len(STAGES) - 1}
            kept = {name: earlier[name] for name in self.done if name != "first" and name in earlier}
            self.done |= kept | {"first": self.done["step"] if "step" not in kept else kept["step"]}
        # The reader works in bfloat16 where that is fast; its master copy keeps float32.
        self.dtype = torch.bfloat16 if self.device.type == "cuda" else torch.float32
        self.twin = Twin(Reader(self.model, self.heads), self.dtype)
        if self.device.type == "cuda":
            compile_pieces(not options.eager)
        first = self.done["first"]
        self.chance["chance"].seed(self.own_seed(options.seed + first))
        self.pick = self.generator("pick", options.seed + first)
        # The background thread has a source of chance of its own: a shared one would make runs depend on timing.
        self.chance["source"] = random.Random(f"{options.seed}/{first}")
        world = self.print_world() if options.print else None
        self.source = ReaderSource(self.own_seed(options.seed), self.device, self.done["rendered"], world)
        self.ahead: Prefetcher[tuple[Origin, ReaderBatch]] = Prefetcher(self.render_next, self.device)
        self.buffers: dict[PictureShelf, RingBuffer[ReaderBatch]] = {}
        self.tables: dict[Size, LeafTable] = {}
        # Batches rendered and stored so far, and pictures read so far, by shelf: what decides which one comes next.
        self.rendered: dict[PictureShelf, int] = {}
        self.stored: dict[PictureShelf, int] = {}
        self.read: dict[PictureShelf, int] = {}
        self.judged: ReaderBatch | None = None
        named = {"mini": self.model, "scorer": self.scorer} if self.scorer else {"mini": self.model}
        sizes = ", ".join(f"{name} {count(module):.2f} M" for name, module in named.items())
        print(f"{sizes} parameters, {self.device}", flush=True)

    def running(self) -> AbstractContextManager[object]:
        return self.ahead

    # ---- what is read next

    def canvases(self) -> list[Size]:
        return [size for size in STAGES[self.done["stage"]].canvases if max(size) <= self.plan.largest]

    def pictures_at_once(self, size: Size) -> int:
        return max(1, round(min(2048, PIXELS_A_RENDERING // (size[0] * size[1])) * self.plan.scale))

    def shelves(self) -> list[PictureShelf]:
        """Those that this stage reads from."""
        sizes = self.canvases()
        text = [PictureShelf(*size, text=True) for size in sizes if self.plan.letter_share and self.has_text(size)]
        return [*(PictureShelf(*size) for size in sizes), *text]

    def has_text(self, size: Size) -> bool:
        return self.source.print is not None and min(size) >= SMALLEST_PAGE

    def missing(self, shelf: PictureShelf, batches: dict[PictureShelf, int]) -> float:
        """How many pictures are due, beyond those there: a few of each family first, then by use."""
        first = 2 if shelf.text else len(FAMILIES)
        due = first * self.pictures_at_once(shelf.size) + self.read.get(shelf, 0) / self.plan.reuse
        return due - batches.get(shelf, 0) * self.pictures_at_once(shelf.size)

    def render_next(self) -> tuple[Origin, ReaderBatch]:
        """Pictures for steps to come, of the shelf that misses them most."""
        # Small canvases first where nothing is there yet: those are the ones that are waited for.
        shelf = max(self.shelves(), key=lambda one: self.missing(one, self.rendered) / self.pictures_at_once(one.size))
        turn, number = self.rendered.get(shelf, 0), self.pictures_at_once(shelf.size)
        self.rendered[shelf] = turn + 1
        if shelf.text:
            origin = self.source.choose_letters(number, shelf.size)
        else:
            difficulty = choose_difficulty(shelf.size, self.chance["source"])
            origin = self.source.choose(number, shelf.size, difficulty, turn)
        return origin, self.source.render(origin)

    def store(self, origin: Origin, batch: ReaderBatch) -> None:
        """Put pictures on their shelf."""
        size, shelf = batch.size, PictureShelf(*batch.size, text=origin.family == LETTERS)
        if shelf not in self.buffers:
            # Canvases that are read less often need fewer pictures, and there are many of them.
            share = min(1.0, 2 * STAGES[self.done["stage"]].canvases[size])
            room = min(16_384, share * PIXELS_A_BUFFER / (size[0] * size[1]))
            self.buffers[shelf] = RingBuffer(max(len(FAMILIES) * len(batch), round(room * self.plan.scale)))
            self.tables[size] = LeafTable(even_tree_of(size), self.device)
        self.buffers[shelf].add(batch, tuple(origin))
        self.stored[shelf] = self.stored.get(shelf, 0) + 1

    def next_batch(self, at: Moment, letters: Kind | None = None) -> tuple[ReaderBatch, Kind]:
        """Pictures of one canvas and how they are allocated. letters: this way, and without a question."""
        guided = self.scorer is not None
        size, kind = draw_step(self.done["stage"], at.progress, self.chance["chance"], self.plan.largest, guided)
        kind = letters or kind
        text = letters is not None and self.has_text(size) and self.chance["chance"].random() < self.plan.text_share
        shelf = PictureShelf(*size, text=text)
        while self.stored.get(shelf, 0) < (2 if text else len(FAMILIES)):
            self.store(*self.ahead.next())
        due = any(self.missing(each, self.stored) > 0 for each in self.shelves())
        if (self.ahead.ready or self.plan.steps) and due:
            self.store(*self.ahead.next())
        number = max(2, round(pictures_a_step(size, kind) * self.plan.scale))
        self.read[shelf] = self.read.get(shelf, 0) + number
        return self.draw(shelf, number, every_question=kind.name == "full" or text), kind

    def data_state(self) -> dict[str, object]:
        buffers = {tuple(shelf): buffer.state() for shelf, buffer in self.buffers.items()}
        counts = {name: {tuple(one): n for one, n in getattr(self, name).items()} for name in ("stored", "read")}
        return {"buffers": buffers, **counts}

    def load_data_state(self, state: TrainingState) -> None:
        # What the thread had rendered ahead is lost, and its numbers stay used.
        self.source.rendered = self.done["rendered"]
        self.twin.push_weights()
        if not self.plan.steps:
            return  # a run by the clock is not repeatable: new pictures are as good, and sooner there
        self.stored, self.read = (
            {PictureShelf(*one): n for one, n in state[name].items()} for name in ("stored", "read")
        )
        self.rendered = dict(self.stored)
        for one, kept in state["buffers"].items():
            shelf = PictureShelf(*one)
            self.buffers[shelf] = RingBuffer.of_state(kept, lambda origin: self.source.render(Origin(*origin)))
            self.tables[shelf.size] = LeafTable(even_tree_of(shelf.size), self.device)

    # ---- the reader

    def step(self, at: Moment) -> Notes:
        self.chance["chance"].random()  # not used: keeps runs of a seed what they were in 0.3.0
        late = at.progress >= LETTERS_FIRST and self.plan.letters_late >= 0
        if self.chance["chance"].random() < (self.plan.letters_late if late else self.plan.letter_share):
            return self.learn_letters(at)
        return self.learn(*self.next_batch(at))

    def print_world(self, split: str = "train") -> PrintWorld:
        """Pages set from type; their faces are Needle World's own where no others are named."""
        atlas = None if self.plan.print == "needle" else self.plan.print
        smallest = self.plan.smallest_type if split == "train" else SMALLEST
        return PrintWorld(atlas, self.device, self.plan.seed, self.plan.print_share, split, smallest)

    def finished_scorer(self) -> object:
        """The scorer that the options name, frozen; None where they name none."""
        if not self.plan.guide:
            return None
        folder = part_folder(SCORER) if self.plan.guide == "bundled" else Path(self.plan.guide)
        return load_scorer(folder, str(self.device)).eval().requires_grad_(False)

    def update_reader(self) -> None:
        if self.done["step"] - self.done["first"] < self.plan.heads_first:
            for parameter in self.model.parameters():
                if parameter.grad is not None:
                    parameter.grad.zero_()
        self.average_gradients()
        nn.utils.clip_grad_norm_(self.parameters(), 1.0)
        for optimizer in self.optimizers:
            optimizer.step()
        self.twin.push_weights()

    def draw(self, shelf: PictureShelf, number: int, every_question: bool = False) -> ReaderBatch:
        """Pictures of a shelf, varied, with all their questions or one of them."""
        pages = self.buffers[shelf].draw(number, self.pick)
        if not every_question:
            which = torch.randint(QUESTIONS, (number,), generator=self.pick, device=self.device)
            pages = pages.one_question(which)
        pages = misheard(pages, self.plan.misheard, self.pick)
        return replace(pages, pictures=vary(pages.pictures, self.pick, self.dtype))

    def learn(self, pages: ReaderBatch, kind: Kind) -> dict[str, torch.Tensor]:
        """One update of the reader; returns what to write down about it."""
        size = pages.size
        blocks, kept = self.blocks(pages, kind)
        patches = cut_blocks(pages, blocks, coarsest_of(size) + 1, self.dtype, kind.whole)
        found = self.read_and_weigh(pages, blocks, patches, kept)
        self.update_reader()
        notes = {
            f"right {size[0]} {kind.name}": found["right"],
            "thing": found["thing"],
            **{f"{name} {size[0]}": found[name] for name in ("answer", "pointing", "copying")},
        }
        if kind.name == "full":
            notes[f"glyph {size[0]}"] = found["glyph"]
        self.done["pictures"] += len(pages)
        self.done["rendered"] = self.source.rendered
        return notes

    def window(self, size: Size) -> PictureWindow:
        """Where a canvas lies: mostly by itself, sometimes in a larger picture."""
        chance, rows, cols = self.chance["chance"], size[0] // 32, size[1] // 32
        if chance.random() >= self.plan.window_share or min(rows, cols) < GRID_STEP:
            return PictureWindow(0, 0, rows, cols)
        steps = [chance.randint(0, (LARGEST_GRID - side) // GRID_STEP) for side in (rows, cols)]
        top, left = (GRID_STEP * chance.randint(0, most) for most in steps)
        return PictureWindow(top, left, rows + GRID_STEP * steps[0], cols + GRID_STEP * steps[1])

    def read_and_weigh(
        self,
        pages: ReaderBatch,
        blocks: list[torch.Tensor],
        patches: list[torch.Tensor],
        kept: torch.Tensor | None = None,
    ) -> dict[str, torch.Tensor]:
        """One lesson's losses and their gradients, which are left with the master."""
        plan = self.plan
        found = reader_losses(self.twin.worker, pages, blocks, patches, kept, self.window(pages.size))
        dense = found.dense
        loss = (
            found.answer
            + plan.glyph_weight * dense.glyph
            + plan.patch_weight * dense.patches
            + plan.point_weight * (found.pointing + found.copying)
            + plan.thing_weight * dense.thing
        )
        loss.backward()
        self.twin.pull_gradients()
        notes = {
            "answer": found.answer,
            "right": found.right.float().mean(),
            "glyph": dense.glyph_right,
            "thing": dense.thing,
            "pointing": found.pointing,
            "copying": found.copying,
        }
        return {name: value.detach() for name, value in notes.items()}

    def blocks(self, pages: ReaderBatch, kind: Kind) -> tuple[list[torch.Tensor], torch.Tensor | None]:
        """The leaves of every look of this kind at these pages, and which tokens are kept after the tower."""
        leaf_table = self.tables[pages.size]
        targets = pages.targets if pages.targets.shape[1] else pages.targets.new_zeros(1, 1, *pages.grid)
        truth = targets[:, 0].float()
        # Most first looks follow chance: the scorer must not be the only guide that the reader knows, and it is slow.
        guided = kind.name == "scorer" or (kind.name == "again" and self.chance["chance"].random() < 0.25)
        guided = guided and self.scorer is not None
        scores = None
        if guided:
            with torch.no_grad(), self.accelerator.autocast():
                scores = self.scorer.score(pages.pictures, pages.questions[:, 0].long()).float()
        return leaf_table.looks(kind, truth, self.pick, scores)

    def learn_letters(self, at: Moment) -> Notes:
        """One update of the tower alone, by the letters in every token: no question, and no language model to wait for.

        How well letters are read limits everything else: nine right out of ten leave a third of answers of ten letters.
        """
        kind = self.chance["chance"].choices(LETTER_KINDS, LETTER_WEIGHTS)[0]
        pages, kind = self.next_batch(at, kind)
        blocks, _ = self.blocks(pages, kind)
        patches = cut_blocks(pages, blocks, coarsest_of(pages.size) + 1, self.dtype, kind.whole)
        right = self.name_letters(pages, blocks, patches)
        self.done["pictures"] += len(pages)
        self.done["rendered"] = self.source.rendered
        return {f"letters {pages.size[0]} {kind.name}": right}

    def name_letters(self, pages: ReaderBatch, blocks: list[torch.Tensor], patches: list[torch.Tensor]) -> torch.Tensor:
        """One update by the dense losses; returns the share of the letters that were right."""
        plan = self.plan
        dense = letter_losses(self.twin.worker, pages, blocks, patches, self.window(pages.size))
        loss = plan.glyph_weight * dense.glyph + plan.patch_weight * dense.patches + plan.thing_weight * dense.thing
        loss.backward()
        idle = self.twin.without_gradient()
        self.twin.pull_gradients()
        # What got no gradient must not move by an old one.
        kept = [parameter.grad for parameter in idle]
        for parameter in idle:
            parameter.grad = None
        self.update_reader()
        for parameter, gradient in zip(idle, kept, strict=True):
            parameter.grad = gradient
        return dense.glyph_right.detach()

    # ---- the record

    def judge(self, at: Moment) -> JsonObject | None:
        """Share of the letters that are right, on print of faces that no step shows."""
        if not self.plan.print:
            return None
        if self.judged is None:
            number, side = max(2, round(JUDGED * self.plan.scale)), min(512, self.plan.largest)
            self.judged = self.print_world("val").letters(number, (side, side), 0)
        named, leaves = named_letters(self.twin.worker, self.judged.pictures, self.dtype)
        target = board_targets(self.judged.boards(), leaves)
        asked = target > 0
        return {"judged all": float(((named == target) & asked).sum() / asked.sum().clamp_min(1))}

    def point(self, at: Moment, means: dict[str, float]) -> JsonObject:
        """Also decides whether a stage is over."""
        stage = self.done["stage"]
        weights = STAGES[stage].canvases
        largest = max(weights, key=lambda size: weights[size])[0]
        self.done["glyphs"] = means.get(f"glyph {largest}", self.done["glyphs"])
        following = next_stage(stage, at.progress, self.done["glyphs"])
        if following != stage:
            self.done |= {"stage": following, "glyphs": 0.0}
        return {"stage": stage, **means}

    def record(self) -> JsonObject:
        return {**super().record(), "mini": asdict(self.mini_config), "rows": []}

    def exports(self) -> dict[str, nn.Module]:
        # The scorer stands beside the reader, where `ask` and `attach` look for it.
        return {**self.modules, "scorer": self.scorer} if self.scorer else self.modules

    def finish(self) -> None:
        if self.plan.evaluate:
            cells = [("full", 1.0), ("uniform", 0.25), ("scorer", 0.25), ("oracle", 0.25)]
            cells = [cell for cell in cells if self.scorer or cell[0] != "scorer"]
            rows = table(self.model, self.scorer, cells=cells, number=self.plan.evaluate, split="validation")
            write_json(self.plan.target / "record.json", {**self.record(), "rows": rows})
            print(format_table(rows), flush=True)


def count(module: nn.Module) -> float:
    """Millions of parameters."""
    return sum(value.numel() for value in module.parameters()) / 1e6


main = command(MiniTraining, MiniOptions, __doc__, own="arr_coc_lab.train.train_prompts:mini_main")

if __name__ == "__main__":
    door(main)
