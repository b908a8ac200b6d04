"""Draw any number of printed pages for the reader, on the device, with every letter's place and questions.

    world = PrintWorld("atlas.npz", "cuda", seed=1, share=0.5)
    batch = world.render(64, (512, 512), start)                     # a ReaderBatch with three questions a picture
    judge = PrintWorld("atlas.npz", "cuda", seed=1, split="val")    # held-out typefaces, another mixture

`scripts/build_print_atlas.py` makes the atlas; None uses the typefaces of Needle World. Picture i of a seed and split
is the same for every batch and device. Type sizes are ems in pixels, from 6 to 64, uniform in their logarithm.
"""

from __future__ import annotations

import random
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS, lower_case

from ..worlds.constants import constant
from ..worlds.needle.draws import FloatDraws, scattered
from ..worlds.needle.paint import part
from ..worlds.needle.renderer import Asked
from ..worlds.print.atlas import PrintAtlas, load_atlas
from ..worlds.print.bank import Bank, Rows
from ..worlds.print.layouts import OFFICE, SHARES, SMALLEST, VAL_SHARES, Layouts, PrintStage, Sheet
from ..worlds.print.paint import PIXELS_AT_ONCE, paint_rects, paint_runs
from ..worlds.print.questions import GROUP, Facts, ask, spans
from ..worlds.print.setting import Runs, painted_areas, set_text, without_collisions
from ..worlds.print.wear import PrintWear, draw_wear
from ..worlds.print.wear import worn as wear_out
from .mini_model import ADDITIONS, TURN_LENGTH, hinted, reworded
from .pictures import Glyphs, unknown_things
from .reader_examples import QUESTIONS, TAIL, ReaderBatch, reader_batch

ANSWER = 40
NAMED = 40  # maximum letters of a label in a question
SPLITS = ("train", "val")


class Printed(NamedTuple):
    """Drawn pictures with their ground truth. pixels: (B, 3, H, W) uint8. runs, extent: the text before wear. family:
    (B,). wear: how they were worn."""

    pixels: Tensor
    sheet: Sheet
    runs: Runs
    extent: Tensor
    glyphs: Glyphs
    family: Tensor
    wear: PrintWear

    def boxes(self, atlas: PrintAtlas) -> Tensor:
        """Return every letter's ink box in pixels of the picture, (B, G, 4) float32, in the order of `glyphs`."""
        return self.wear.moved_boxes(self.runs.boxes(atlas).flatten(1, 2))


class PrintWorld:
    """Draws pages. atlas: the file of `scripts/build_print_atlas.py`, or None. share: of printed pages among the
    pictures. split: "train", or "val" with held-out typefaces. smallest: minimum em in pixels. layouts: pages of Office
    World."""

    def __init__(
        self,
        atlas: str | Path | None,
        device: torch.device | str,
        seed: int = 0,
        share: float = 0.5,
        split: str = "train",
        smallest: float = SMALLEST,
        layouts: int = OFFICE,
    ) -> None:
        assert split in SPLITS, split
        self.device, self.seed, self.share, self.split = torch.device(device), seed, min(0.95, share), split
        self.atlas = load_atlas(atlas, self.device)
        source = random.Random(f"print {split} {seed}")
        rows = Rows(source)
        self.layouts = Layouts.of(rows, source, split, self.device, layouts)
        self.bank = Bank.of(rows, self.device)
        self.faces, self.common = self.atlas.faces(split), self.atlas.faces(split, common=True)
        self.smallest = smallest
        self.shares = SHARES if split == "train" else VAL_SHARES

    @torch.no_grad()
    def render(self, number: int, size: tuple[int, int], start: int | Tensor) -> ReaderBatch:
        """Draw pictures from number `start` on, with three questions each."""
        with torch.autocast(self.device.type, enabled=False):
            draws, printed = self.printed(number, size, start)
            asked = self.asked(draws, printed, size)
            return reader_batch(printed.pixels, printed.glyphs, asked, unknown_things(number, size, self.device))

    def printed(
        self, number: int, size: tuple[int, int], start: int | Tensor, worn: bool = True
    ) -> tuple[FloatDraws, Printed]:
        """Draw pictures with their ground truth. worn: with the wear of scanners and cameras."""
        index = torch.arange(number, device=self.device) + start
        draws = FloatDraws.of(self.seed, self.split, "print/pages", index)
        stage = PrintStage(draws, *size, self.atlas, self.faces, self.common, self.smallest)
        which = self.layouts.choose(draws, self.shares)
        sheet = self.layouts.lay_out(stage, self.bank, which)
        runs = set_text(sheet.slots, self.bank, self.atlas, draws.bits("text", sheet.slots.row.shape[1]))
        areas = painted_areas(runs.extent(self.atlas))
        runs = without_collisions(runs, areas, size)
        paper, weight = paper_of(draws), draws.uniform("weight", 0.6, 1.2)[:, 0]
        wear = draw_wear(draws, size, small_type(runs), None if worn else {"clean": 1.0})
        step = max(1, PIXELS_AT_ONCE.get(self.device.type, 1 << 19) // (size[0] * size[1]))
        pixels = torch.empty(number, 3, *size, dtype=torch.uint8, device=self.device)
        for first in range(0, number, step):
            some = slice(first, first + step)
            canvas = paper[some, :, None, None].expand(-1, -1, *size)
            canvas = paint_rects(canvas, part(sheet.fills, some))
            canvas = paint_rects(canvas, part(sheet.rules, some))
            canvas = paint_runs(canvas, part(runs, some), areas[some], self.atlas, weight[some])
            canvas = wear_out(canvas, part(wear, some), paper[some])
            pixels[some] = (canvas * 255).round_().clamp_(0, 255).to(torch.uint8)
        y, x = runs.middles(self.atlas)
        x, y = wear.moved(x, y)
        inside = (x >= 0) & (x < size[1]) & (y >= 0) & (y < size[0]) & runs.letters()
        em = (runs.em * wear.strengths["scale"].view(-1, 1))[..., None].expand_as(x)
        glyphs = Glyphs(
            *(v.flatten(1) for v in (y.floor().long(), x.floor().long(), runs.ids * inside, em.round().long()))
        )
        return draws, Printed(pixels, sheet, runs, runs.extent(self.atlas), glyphs, self.layouts.family_of(which), wear)

    def asked(self, draws: FloatDraws, printed: Printed, size: tuple[int, int]) -> list[Asked]:
        """Make three questions about every picture; if fewer are possible, repeat the first."""
        facts, runs = printed.sheet.facts, printed.runs
        answer = spans(runs, printed.extent, facts.answer, facts.answer_from, facts.answer_words)
        label = spans(runs, printed.extent, facts.label, facts.label * 0, facts.label_words)
        second = spans(runs, printed.extent, facts.second, facts.label * 0, facts.label * 0)
        rows = torch.arange(len(facts.group), device=self.device)[:, None]
        shown = (printed.glyphs.character > 0).view(runs.ids.shape)
        wordings = draws.bits("wording", facts.group.shape[1])

        def visible(slot: Tensor, letters: Tensor) -> Tensor:
            """Return a mask (B, F): the slot exists, and all its letters are in the picture."""
            seen = shown[rows, slot.clamp_min(0)] | ~letters
            return seen.all(-1) & letters.any(-1) & runs.there[rows, slot.clamp_min(0)]

        valid = facts.valid & visible(facts.answer, answer.letters) & visible(facts.label, label.letters)
        valid &= (facts.second < 0) | visible(facts.second, second.letters)
        length, named = (answer.ids > 0).sum(-1), (label.ids > 0).sum(-1)
        valid &= (length <= ANSWER) & (named <= NAMED) & ((second.ids > 0).sum(-1) * (facts.second >= 0) <= NAMED)
        # The text that a question names must be unique: no other text may begin like a line named by its beginning.
        by_start = (facts.group == GROUP["line"]) | (facts.group == GROUP["next"])
        named_once = unique_start(runs, facts.label, 8) | ~by_start
        named_once &= unique_start(runs, facts.label, 24) | by_start
        valid &= named_once & ((facts.second < 0) | unique_start(runs, facts.second.clamp_min(0), 24))
        # The text that follows must be longer than the one named.
        valid &= ~by_start | (named + 1 < runs.spoken[rows, facts.label])
        order = torch.where(valid, draws.bits("question", facts.group.shape[1]), 1 << 40).argsort(dim=1)[:, :QUESTIONS]
        order = torch.where(valid.gather(1, order), order, order[:, :1])
        good = valid.any(1)
        kept = Facts(*(value.gather(1, order) for value in facts))
        other = {name: getattr(kept, name).where(good[:, None], -1) for name in ("query", "second")}
        kept = kept._replace(group=kept.group.where(good[:, None], GROUP["none"]), **other)

        def of(values: Tensor) -> Tensor:
            return values.gather(1, order[..., None].expand(-1, -1, values.shape[-1]))

        # A picture without a possible question has an empty answer.
        nothing = constant([IDS["-"], *[0] * (ANSWER - 1)], self.device)
        answers = torch.where(good[:, None, None], of(answer.ids)[..., :ANSWER], nothing)
        named_by = (of(label.ids)[..., :NAMED], of(second.ids)[..., :NAMED])
        space = TAIL - TURN_LENGTH - 1 - (answers > 0).sum(-1)
        question = ask(kept, self.bank.rows, *named_by, wordings.gather(1, order), space)
        scale = constant([size[1], size[0]] * 2, self.device, torch.float32)

        def placed(boxes: Tensor) -> Tensor:
            return (printed.wear.moved_boxes(of(boxes)) / scale).clamp(0, 1)

        boxes, first, other = placed(answer.boxes), placed(label.boxes), placed(second.boxes)
        chance = draws.uniform("reworded", slots=3 * QUESTIONS).view(-1, QUESTIONS, 3)
        added = draws.integers("added", 0, len(ADDITIONS), QUESTIONS)
        read = draws.uniform("hinted", slots=4 * QUESTIONS).view(-1, QUESTIONS, 4)
        asked = []
        for k in range(QUESTIONS):
            words = reworded(question[:, k], answers[:, k], TAIL, chance[:, k], added[:, k])
            words = hinted(words, answers[:, k], answers[:, k - 1], TAIL, read[:, k])
            contexts = torch.stack([first[:, k], other[:, k]], 1)
            there = torch.stack([good, good & (kept.second[:, k] >= 0)], 1)
            asked.append(Asked(words, answers[:, k], boxes[:, k : k + 1], good[:, None], contexts, there))
        return asked


def small_type(runs: Runs) -> Tensor:
    """Return the em (B,) that nine of ten of a picture's lines reach."""
    order = torch.where(runs.there, runs.em, 1e6).sort(1).values
    tenth = runs.there.sum(1, keepdim=True) // 10
    return order.gather(1, tenth)[:, 0].clamp(6, 64)


def unique_start(runs: Runs, slot: Tensor, letters: int) -> Tensor:
    """Return a mask (B, F): no other piece of text begins with the same letters."""
    said = torch.arange(letters, device=slot.device) < runs.spoken[..., None]
    value = lower_case(runs.ids[..., :letters]) * said * scattered(torch.arange(letters, device=slot.device))
    value = value.sum(-1) * runs.there
    rows = torch.arange(len(slot), device=slot.device)[:, None]
    return (value[rows, slot][..., None] == value[:, None]).sum(-1) == 1


def paper_of(draws: FloatDraws) -> Tensor:
    """Draw paper colours (B, 3) in 0–1: white, some cream, some coloured."""
    level = draws.uniform("paper/level", 0.93, 1.0)
    tint = torch.cat([draws.uniform(f"paper/{c}", 0.8, 1.0) for c in "rgb"], 1)
    kind = draws.integers("paper/kind", 0, 100)
    cream = torch.cat([level, level * 0.985, level * draws.uniform("paper/cream", 0.85, 0.97)], 1)
    white = torch.where(draws.chance("paper/pure", 50), 1.0, level)
    return torch.where(kind < 70, white, torch.where(kind < 86, cream, tint))
