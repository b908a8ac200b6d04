"""Printed pages: some hundred layouts, laid out once, of which every picture takes one; most are of Office World.

A layout knows no pixels: x is a share of the page's width, y counts lines from the top. A picture gives it a size of
type, two typefaces, margins, inks, and rows of the bank for what stands on it. Slots come in the order of their
importance: of two that touch, the later one is dropped.
"""

from __future__ import annotations

import math
import random
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor

from arr_coc.core.alphabet import IDS

from ..constants import constant
from ..needle.draws import Canvas, FloatDraws
from ..office import make_page
from ..office.paper import PageQuestion, length
from ..words import Writer
from .atlas import PrintAtlas
from .bank import KINDS, Bank, Rows
from .paint import Rects
from .questions import GROUP, Facts
from .setting import Slots

SMALLEST, LARGEST = 6.0, 64.0
LINES = 64  # of the longest page
PITCH = 1.15  # lines of Office World, in its sizes of type: type of any face has space
MOST_TEXTS, MOST_ASKED = 192, 24
# Kinds of questions that name a value, or compare values: only a page that keeps its values asks them.
KEEPING = 0.33
COMPARING = ("which", "whose", "what", "extreme", "highest", "lowest", "tallest", "peak", "legend")
# Two thirds are black or nearly; then greys, then what is printed in colour.
INKS = (
    *((0.0, 0.0, 0.0),) * 14,
    *((0.08, 0.08, 0.09),) * 6,
    *((0.25, 0.25, 0.27), (0.38, 0.38, 0.4), (0.05, 0.1, 0.5), (0.55, 0.05, 0.08), (0.05, 0.35, 0.12)),
)
TINT = 0.25  # of a colour on which something is written
DOTS = 5  # boxes of which a slanted piece of a curve is made
OFFICE, DENSE = 1152, 12  # layouts of Office World, and of those for each dense one


class PageSlot(NamedTuple):
    """row: of the bank, or −1 − the number of a kind, of which each picture takes a row. scale: of the page's type.
    face: 0 or 1, of the page's two typefaces. free: may be scrambled."""

    row: int
    x: float
    y: float
    limit: float
    align: float = 0.0
    scale: float = 1.0
    face: int = 0
    free: bool = True
    cut: bool = False


class PageFact(NamedTuple):
    """The fields of `Facts`."""

    group: int
    query: int
    label: int
    second: int
    answer: int
    label_words: int = 0
    answer_from: int = 0
    answer_words: int = 0


class PrintLayout(Writer):
    """A page that is being laid out. wide: how many ems fit across at least. rules, fills: x0, y0, x1, y1, and red,
    green and blue in 0–1 where it is not the page's ink."""

    def __init__(self, rows: Rows, source: random.Random, split: str) -> None:
        super().__init__(source)
        self.rows, self.split, self.wide = rows, split, 18.0
        self.slots: list[PageSlot] = []
        self.facts: list[PageFact] = []
        self.rules: list[tuple[float, ...]] = []
        self.fills: list[tuple[float, ...]] = []

    def put(self, row: int | str, x: float, y: float, limit: float, **how: float) -> int:
        """Set a piece of text on line y: a row of the bank, or the name of a kind; return the number of its slot."""
        number = -1 - KINDS[row] if isinstance(row, str) else row
        self.slots.append(PageSlot(number, x, y, limit, **how))  # ty: ignore[invalid-argument-type]
        return len(self.slots) - 1

    def ask(self, group: str, answer: int, label: int, second: int = -1, query: str = "", **words: int) -> None:
        asked = self.rows.add(query) if query else -1
        self.facts.append(PageFact(GROUP[group], asked, label, second, answer, **words))

    def title(self) -> float:
        """Set a title on two of three pages; return the line below it."""
        if self.chance(0.35):
            return 0.0
        scale, side = self.random.uniform(1.0, 2.2), self.pick(0.0, 0.5, 0.5, 1.0)
        slot = self.put("title", side, scale, 1.0, align=side, scale=scale, face=1)
        self.ask("title", slot, slot)
        return scale + self.random.uniform(0.3, 1.2)


# ---- The families ----------------------------------------------------------------------------------------------------


def dense(page: PrintLayout) -> None:
    """Lay out one to four columns of lines, in paragraphs of their own sizes and typefaces."""
    columns = page.pick(1, 1, 2, 2, 3, 4)
    page.wide, gutter, start = 9.0 * columns, 0.03, page.title() if page.chance(0.3) else 0.0
    wide = (1 - gutter * (columns - 1)) / columns
    for column in range(columns):
        y, before = start, -1
        while y < LINES and len(page.slots) < 3 * LINES:
            scale = page.pick(1.0, 1.0, 1.0, page.random.uniform(0.75, 1.6))
            face, align = page.pick(0, 0, 1), page.pick(*(0.0,) * 8, 0.5, 1.0)
            left = column * (wide + gutter) + align * wide
            for _ in range(page.between(1, 9)):
                kind = page.pick(*("line",) * 12, "nonsense", "nonsense", "text", "name", "street", "code", "date")
                slot = page.put(kind, left, y + scale, wide, align=align, scale=scale, face=face, cut=True)
                y += scale
                if before >= 0 and page.chance(0.05):
                    page.ask("below", slot, before)
                before = slot
            y += page.pick(0.0, 0.3, 0.8)
            if page.chance(0.1):
                page.rules.append((column * (wide + gutter), y + 0.1, column * (wide + gutter) + wide, y + 0.1))
                y += 0.3
    # Large type leaves space for the first lines only: half of what is asked stands there.
    near, far = ([place for place, one in enumerate(page.slots) if (one.y < 10) == top] for top in (True, False))
    for slot in page.random.sample(near, min(6, len(near))) + page.random.sample(far, min(6, len(far))):
        page.ask("line", slot, slot, label_words=page.between(1, 2))
        page.ask("next", slot, slot, label_words=2, answer_from=2, answer_words=1)


def office(page: PrintLayout) -> None:
    """Convert a page of Office World: texts in their places, shapes, questions. Prose is another in every
    picture, and on two of three pages so are values of the bank's kinds."""
    paper = make_page(page.split, page.between(0, 1 << 30), page.between(0, 1 << 20)).paper
    inks, size = paper.inks[:MOST_TEXTS], paper.size
    ink_of = [number for number, ink in enumerate(inks) for _ in ink.text.split()]
    left, top = (min(getattr(ink, side) for ink in inks) for side in "xy")
    wide = max(ink.x + length(ink.font, ink.text) for ink in inks) - left
    page.wide = wide / size

    def place(x: float, y: float) -> tuple[float, float]:
        return (x - left) / wide, (y - top) / (PITCH * size)

    def shown(one: PageQuestion) -> bool:
        """Tell whether all that a question needs is set, its answer in one line."""
        there = max(span.end for span in (one.answer, *one.named)) <= len(ink_of)
        return there and ink_of[one.answer.first] == ink_of[one.answer.end - 1]

    # Pie charts are not drawn here: their shares cannot be read.
    keep, cake = page.chance(KEEPING), any(shape == "pie" for shape, *_ in paper.shapes)
    barred = (() if keep else COMPARING) + ("value",) * cake
    asked = [one for one in paper.asked() if one.kind not in barred and shown(one)]
    answers = [(ink_of[one.answer.first], one) for one in asked]
    # A text that is a whole answer may be another one; one that names something, or holds an answer, may not.
    kinds = {number: one.kind for number, one in answers if one.answer.text == inks[number].text and not keep}
    fixed = {ink_of[span.first] for one in asked for span in one.named} | {number for number, _ in answers} - {*kinds}
    meant = {number for number, one in answers if not one.named}  # what they are says what they mean
    slots = []
    for number, ink in enumerate(inks):
        x, y = place(ink.x + ink.align * length(ink.font, ink.text), ink.y + ink.font.size)
        beside = [other.x for other in inks if other.x > ink.x and abs(other.y - ink.y) < 0.5 * size]
        space = x if ink.align == 1 else 1.0 if ink.align else (min([*beside, left + wide]) - ink.x) / wide
        free, kind = number not in fixed, kinds.get(number, "")
        prose = free and not kind and len(ink.text.split()) > 5
        free = free and (prose or not keep)
        if prose or (free and kind in KINDS):
            row: int | str = "line" if prose else kind
        else:
            row = page.rows.add(plain_text(ink.text), refill=free and bool(kind))
        scale = ink.font.size / size
        how = {"align": ink.align, "scale": scale, "face": scale > 1, "cut": prose}
        slots.append(page.put(row, x, y, space, free=free and number not in meant, **how))
    for one in page.random.sample(asked, min(MOST_ASKED, len(asked))):
        answer, number = ink_of[one.answer.first], one.answer.end - one.answer.first
        words = {"answer_from": one.answer.first - ink_of.index(answer), "answer_words": number}
        label, second = [*(slots[ink_of[span.first]] for span in one.named[:2]), -1, -1][:2]
        group, label = ("field", label) if one.named else ("title", slots[answer])
        page.ask(group, slots[answer], label, second, plain_text(one.text), **({} if answer in kinds else words))
    for shape, corners, colour, width in paper.shapes:
        if shape == "pie":
            continue
        (x0, y0), (x1, y1) = sorted((corners[:2], corners[2:]))
        part, own = partial(_boxed, place), tuple(value / 255 for value in colour)
        if shape == "fill":
            written = any(
                ink.x < x1 and ink.x + length(ink.font, ink.text) > x0
                and ink.y < max(y0, y1) and ink.y + ink.font.size > min(y0, y1)
                for ink in inks
            )  # fmt: skip
            page.fills.append((*part(x0, y0, x1, y1), *(1 - TINT * (1 - value) if written else value for value in own)))
        elif shape == "box":
            page.rules += [
                part(*side) for side in ((x0, y0, x1, y0), (x0, y1, x1, y1), (x0, y0, x0, y1), (x1, y0, x1, y1))
            ]
        elif width > 1:
            dots = DOTS if x0 != x1 and y0 != y1 else 1
            steps = [(x0 + (x1 - x0) * step / dots, y0 + (y1 - y0) * step / dots) for step in range(dots + 1)]
            page.rules += [(*part(*near, *far, width / 2), *own) for near, far in pairwise(steps)]
        elif x0 == x1 or y0 == y1:
            page.rules.append(part(x0, y0, x1, y1))


def _boxed(
    place: Callable[[float, float], tuple[float, float]], x0: float, y0: float, x1: float, y1: float, more: float = 0.0
) -> tuple[float, ...]:
    """Convert two corners, in any order, to a box of the page that is `more` pixels larger on each side."""
    upper, lower = (min(x0, x1) - more, min(y0, y1) - more), (max(x0, x1) + more, max(y0, y1) + more)
    return (*place(*upper), *place(*lower))


def plain_text(text: str) -> str:
    """Remove accents; replace characters outside the alphabet by question marks."""
    letters = (letter for letter in unicodedata.normalize("NFKD", text) if not unicodedata.combining(letter))
    return "".join(letter if letter in IDS else "?" for letter in letters)


FAMILIES: dict[str, Callable[[PrintLayout], None]] = {"dense": dense, "office": office}
SHARES = {"dense": 0.25, "office": 0.75}
# The judge's mixture is another one.
VAL_SHARES = {"dense": 0.2, "office": 0.8}


# ---- All layouts as tensors, and a picture's own ---------------------------------------------------------------------


@dataclass(frozen=True)
class PrintStage(Canvas):
    """What pictures are laid out with. faces, common: (n,) typefaces, and those of offices and books. smallest: em in
    pixels that nothing is set below."""

    draws: FloatDraws
    atlas: PrintAtlas
    faces: Tensor
    common: Tensor
    smallest: float

    def face(self, name: str) -> Tensor:
        """Draw typefaces (B, 1), 60 percent of them those common in offices."""
        any_face = self.faces[self.draws.integers(f"{name}/any", 0, len(self.faces))]
        usual = self.common[self.draws.integers(f"{name}/usual", 0, len(self.common))]
        return torch.where(self.draws.chance(f"{name}/plain", 60), usual, any_face)

    def colour(self, name: str, known: Sequence[Sequence[float]]) -> Tensor:
        """Draw an ink colour (B, 1, 3) in 0–1: a known one, a little lighter."""
        which = self.draws.integers(f"{name}/which", 0, len(known))
        return constant(known, self.device)[which] + self.draws.uniform(f"{name}/light", 0.0, 0.08)[..., None]


@dataclass(frozen=True)
class Sheet:
    """What B pictures show."""

    slots: Slots
    fills: Rects
    rules: Rects
    facts: Facts


@dataclass(frozen=True)
class Layouts:
    """T layouts. slots: (T, R, 9), facts: (T, F, 8), rules, fills: (T, M, 7) float32, padded by NaN. wide: (T,).
    numbers: layouts of each family, which come in this order."""

    slots: Tensor
    facts: Tensor
    rules: Tensor
    fills: Tensor
    wide: Tensor
    numbers: tuple[int, ...]

    @classmethod
    def of(cls, rows: Rows, source: random.Random, split: str, device: torch.device, office: int = OFFICE) -> Layouts:
        pages, numbers = [], (max(1, office // DENSE), office)
        for number, write in zip(numbers, FAMILIES.values(), strict=True):
            for _ in range(number):
                pages.append(PrintLayout(rows, source, split))
                write(pages[-1])

        def padded(name: str, width: int) -> Tensor:
            lists = [getattr(page, name) for page in pages]
            table = torch.full((len(pages), max(map(len, lists)), width), math.nan, dtype=torch.float64)
            for entry, listed in zip(table, lists, strict=True):
                if listed:
                    entry[: len(listed)] = torch.tensor([[*one, *[math.nan] * width][:width] for one in listed])
            return table.to(torch.float32).to(device)

        wide = torch.tensor([page.wide for page in pages], device=device)
        return cls(padded("slots", 9), padded("facts", 8), padded("rules", 7), padded("fills", 7), wide, numbers)

    def choose(self, draws: FloatDraws, shares: dict[str, float]) -> Tensor:
        """Draw layouts (B,): a family by its share, then any of its layouts."""
        ends = constant([shares.get(name, 0.0) for name in FAMILIES], draws.device).cumsum(0)
        pick = draws.uniform("family")[:, 0] * ends[-1]
        family = torch.searchsorted(ends, pick.contiguous(), right=True).clamp_max(len(FAMILIES) - 1)
        number = constant(self.numbers, draws.device)
        return (number.cumsum(0) - number)[family] + draws.below("layout", number[family][:, None])[:, 0]

    def lay_out(self, stage: PrintStage, bank: Bank, which: Tensor) -> Sheet:
        """Return the sheets of these layouts (B,)."""
        draws, (height, width) = stage.draws, (stage.height, stage.width)
        row, x, y, limit, align, scale, face, free, cut = self.slots[which].unbind(-1)
        there, number = ~row.isnan(), row.shape[1]
        row, face, free, cut = (value.nan_to_num().long() for value in (row, face, free, cut))
        x, y, limit, align, scale = (value.nan_to_num() for value in (x, y, limit, align, scale))
        largest = (width / self.wide[which]).clamp(stage.smallest * 1.05, LARGEST)[:, None]
        em = stage.smallest * (largest / stage.smallest) ** draws.uniform("em")
        margin = draws.uniform("margin", 0.005, 0.09) * width
        span = width - margin - margin * draws.uniform("even", 0.3, 1.4)
        faces = torch.cat([stage.face("face"), stage.face("other")], 1)
        high = ((stage.atlas.ascent[faces] + stage.atlas.descent[faces]) * em).amax(1, keepdim=True)
        pitch = (high + 1.7) * draws.uniform("leading", 1.0, 1.4)
        top = draws.uniform("top", -0.02, 0.06) * height
        kinds = bank.choose((-1 - row).clamp_min(0), draws.bits("row", number))
        inks = torch.cat([stage.colour("ink", INKS), stage.colour("ink/other", INKS)], 1)
        slots = Slots(
            row=torch.where(row < 0, kinds, row),
            scramble=draws.chance("scramble", 22, number) & (free > 0),
            x=margin + x * span,
            align=align,
            limit=limit * span,
            cut=cut > 0,
            baseline=top + (y - 0.25) * pitch,
            em=(em * scale).clamp(stage.smallest, LARGEST),
            face=faces.gather(1, face),
            there=there,
            ink=inks.gather(1, face[..., None].expand(-1, -1, 3)),
        )

        def rects(table: Tensor, thick: Tensor) -> Rects:
            """Convert boxes (B, M, 7) of the page to pixels, `thick` (B, 1, 1) pixels larger."""
            x0, y0, x1, y1 = table[..., :4].nan_to_num().unbind(-1)
            boxes = torch.stack([margin + x0 * span, top + y0 * pitch, margin + x1 * span, top + y1 * pitch], -1)
            boxes = boxes + constant([-0.5, -0.5, 0.5, 0.5], stage.device) * thick
            colour = torch.where(table[..., 4:].isnan(), rule, table[..., 4:])
            return Rects(boxes, (~table[..., 0].isnan()).float(), colour)

        thick, rule = draws.uniform("thick", 0.5, 1.7)[..., None], stage.colour("rule", INKS)
        rules, fills = rects(self.rules[which], thick), rects(self.fills[which], 0 * thick)
        table = self.facts[which]
        facts = Facts(*table.nan_to_num().long().unbind(-1), ~table[..., 0].isnan())
        return Sheet(slots, fills, rules, facts)

    def family_of(self, which: Tensor) -> Tensor:
        """Return the number of the family of each layout (B,)."""
        return torch.searchsorted(constant(self.numbers, which.device).cumsum(0), which, right=True)
