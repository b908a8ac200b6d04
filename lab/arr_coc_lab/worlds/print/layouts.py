"""Printed pages: some hundred layouts of each family, written once in Python, of which every picture takes one.

A layout knows no pixels: x is a share of the page's width, y counts lines from the top. A picture gives it a size of
type, two typefaces, margins, inks, and rows of the bank for what stands on it. Slots come in the order of their
importance: of two that touch, the later one is dropped.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from ..bills import SIZE, make_bill
from ..constants import constant
from ..needle.draws import Canvas, FloatDraws
from ..words import Writer
from .atlas import PrintAtlas
from .bank import KINDS, Bank, Rows
from .paint import Rects
from .questions import GROUP, Facts
from .setting import TAILS, Slots

SMALLEST, LARGEST = 6.0, 64.0
LINES = 64  # of the longest page
LAYOUTS = 96  # of each family
NUMBERS = ("int", "money", "percent", "measure", "int")
TEXTS = ("word", "date", "code", "name", "time", "city", "text")
# Two thirds are black or nearly; then greys, then what is printed in colour.
INKS = (
    *((0.0, 0.0, 0.0),) * 14,
    *((0.08, 0.08, 0.09),) * 6,
    *((0.25, 0.25, 0.27), (0.38, 0.38, 0.4), (0.05, 0.1, 0.5), (0.55, 0.05, 0.08), (0.05, 0.35, 0.12)),
)
SHADES = ((0.92, 0.92, 0.92), (0.82, 0.82, 0.82), (0.86, 0.92, 0.99), (0.99, 0.94, 0.82), (0.88, 0.97, 0.88))


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
    tail: int = 0
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
    """A page that is being laid out. wide: how many ems fit across at least. rules, fills: x0, y0, x1, y1."""

    def __init__(self, rows: Rows, source: random.Random) -> None:
        super().__init__(source)
        self.rows, self.wide = rows, 18.0
        self.slots: list[PageSlot] = []
        self.facts: list[PageFact] = []
        self.rules: list[tuple[float, float, float, float]] = []
        self.fills: list[tuple[float, float, float, float]] = []

    def put(self, row: int | str, x: float, y: float, limit: float, **how: float) -> int:
        """A piece of text on line y: a row of the bank, or the name of a kind. Returns the number of its slot."""
        number = -1 - KINDS[row] if isinstance(row, str) else row
        self.slots.append(PageSlot(number, x, y, limit, **how))  # ty: ignore[invalid-argument-type]
        return len(self.slots) - 1

    def ask(self, group: str, answer: int, label: int, second: int = -1, query: str = "", **words: int) -> None:
        asked = self.rows.add(query) if query else -1
        self.facts.append(PageFact(GROUP[group], asked, label, second, answer, **words))

    def title(self) -> float:
        """A title on two of three pages; returns the line below it."""
        if self.chance(0.35):
            return 0.0
        scale, side = self.random.uniform(1.0, 2.2), self.pick(0.0, 0.5, 0.5, 1.0)
        slot = self.put("title", side, scale, 1.0, align=side, scale=scale, face=1)
        self.ask("title", slot, slot)
        return scale + self.random.uniform(0.3, 1.2)

    def lines(self, x: float, y: float, wide: float, number: int, **how: float) -> list[int]:
        """Lines of prose one below the other; some are asked about."""
        slots = []
        for place in range(number):
            kind = self.pick(*("line",) * 8, "nonsense", "text")
            slots.append(self.put(kind, x, y + 1 + place, wide, cut=True, **how))
        for slot in self.random.sample(slots, min(4, len(slots))):
            words = self.between(1, 2)
            self.ask("line", slot, slot, label_words=words)
            self.ask("next", slot, slot, label_words=2, answer_from=2, answer_words=1)
        return slots


# ---- The families ----------------------------------------------------------------------------------------------------


def dense(page: PrintLayout) -> None:
    """One to four columns of lines, in paragraphs of their own sizes and typefaces."""
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
    # Large type leaves room for the first lines only: half of what is asked stands there.
    near, far = ([place for place, one in enumerate(page.slots) if (one.y < 10) == top] for top in (True, False))
    for slot in page.random.sample(near, min(6, len(near))) + page.random.sample(far, min(6, len(far))):
        page.ask("line", slot, slot, label_words=page.between(1, 2))
        page.ask("next", slot, slot, label_words=2, answer_from=2, answer_words=1)


def forms(page: PrintLayout) -> None:
    """Fields in one to three columns: a label, and what belongs to it beside or below it."""
    y, columns, stacked = page.title(), page.pick(1, 1, 2, 2, 3), page.chance(0.4)
    page.wide, gutter, pad = (8.0 if stacked else 14.0) * columns, 0.03, 0.008
    wide, gap, split = (
        (1 - gutter * (columns - 1)) / columns,
        page.random.uniform(0.1, 0.9),
        page.random.uniform(0.35, 0.6),
    )
    number, drawn, tail = page.between(6, 20), page.pick("box", "line", "", ""), page.pick(*range(len(TAILS)), 1, 1, 1)
    small, face, aside = page.random.uniform(0.75, 1.0), page.pick(0, 1), page.chance(0.2)
    labels = iter([pair for pair in page.labels(number * columns * 2) if len(pair[0]) <= 28])
    step = (1.9 if stacked else 1.0) + gap
    for _ in range(number):
        for column in range(columns):
            if page.chance(0.06):
                continue
            left, (text, kind) = column * (wide + gutter), next(labels)
            text = text.upper() if page.chance(0.15) else text
            room = (wide if stacked else wide * split) - 2 * pad
            label = page.put(page.rows.add(text), left + pad, y + 0.95, room, scale=small, tail=tail)
            if drawn == "box":
                x0, y0, x1, y1 = left, y + 0.05, left + wide, y + step
                page.rules += [(x0, y0, x1, y0), (x0, y1, x1, y1), (x0, y0, x0, y1), (x1, y0, x1, y1)]
            if page.chance(0.08):
                continue
            x = left + pad if stacked else left + wide * split
            room = wide - 2 * pad if stacked else wide * (1 - split) - pad
            line, align = y + (1.9 if stacked else 0.95), float(aside and not stacked)
            value = page.put(kind, x + align * room, line, room, align=align, face=face)
            page.ask(page.pick(*("field",) * 6, "below" if stacked else "right"), value, label)
            if drawn == "line":
                page.rules.append((x, line + 0.12, x + room, line + 0.12))
        y += step
    page.lines(0.0, y + 0.5, 1.0, page.pick(0, 0, 8), scale=small)


def tables(page: PrintLayout) -> None:
    """A header row, a first column that names the rows, and cells; ruled, banded or bare."""
    y, columns, number = page.title(), page.between(2, 6), page.between(4, 22)
    page.wide, step, pad = 6.0 * columns, page.random.uniform(1.05, 1.7), 0.008
    shares = [page.random.uniform(1.2, 2.0), *(page.random.uniform(0.8, 1.3) for _ in range(columns - 1))]
    edges = [sum(shares[:place]) / sum(shares) for place in range(columns + 1)]
    kinds = [page.pick("item", "company", "name", "city")]
    kinds += [page.pick(*NUMBERS) if page.chance(0.7) else page.pick(*TEXTS) for _ in edges[2:]]
    grid: list[list[int]] = []
    for row in range(number + 1):
        slots = []
        for column, kind in enumerate(kinds):
            align = float(column > 0 and kind in NUMBERS)
            room = edges[column + 1] - edges[column] - 2 * pad
            x = edges[column] + pad + align * room
            slots.append(page.put(kind if row else "column", x, y + 0.95, room, align=align, face=0 if row else 1))
        grid.append(slots)
        y += step
    for _ in range(16):
        row, column = page.between(1, number), page.between(1, columns - 1)
        page.ask("cell", grid[row][column], grid[0][column], grid[row][0])
    drawn, top = page.pick("grid", "lines", "head", "band", ""), y - step * (number + 1) - 0.1
    ends = {"grid": range(number + 2), "lines": range(number + 2), "head": (0, 1, number + 1)}.get(drawn, ())
    page.rules += [(0.0, top + place * step, 1.0, top + place * step) for place in ends]
    if drawn == "grid":
        page.rules += [(edge, top, edge, top + step * (number + 1)) for edge in edges]
    if drawn == "band":
        page.fills += [(0.0, top + place * step, 1.0, top + (place + 1) * step) for place in range(0, number + 1, 2)]


def letters(page: PrintLayout) -> None:
    """Who writes, to whom and when, some fields, then prose."""
    page.wide, side = 24.0, page.pick(0.0, 0.5, 1.0)
    head = page.put("company", side, page.pick(1.0, 1.6), 0.9, align=side, scale=page.pick(1.0, 1.6), face=1)
    page.ask("title", head, head, query="Who sent the letter?")
    page.put("street", side, 2.7, 0.9, align=side)
    y, tab = 4.0, page.random.uniform(0.2, 0.4)
    for text, kind in page.labels(page.between(1, 6)):
        label = page.put(page.rows.add(text), 0.0, y, tab - 0.02, tail=page.pick(0, 1, 1, 1))
        page.ask("field", page.put(kind, tab, y, 1 - tab), label)
        y += 1.1
    page.rules += [(0.0, y - 0.5, 1.0, y - 0.5)] if page.chance(0.3) else []
    for _ in range(page.between(2, 5)):
        number = page.between(2, 9)
        page.lines(0.0, y, 1.0, number)
        y += number + 0.6


def bills(page: PrintLayout) -> None:
    """A bill as the ranker of words knows it; its sums get other figures in every picture."""
    bill = make_bill(page.random, page.pick("receipt", "invoice", "invoice"))
    left, wide = (170.0, 400.0) if bill.kind == "receipt" else (40.0, SIZE[1] - 80.0)
    page.wide, top = 0.8 * wide / bill.size, min(one.y for one in bill.texts) - 1.3 * bill.size
    values = {id(one.answer) for one in bill.questions}
    slots = {}
    for one in bill.texts:
        x = (one.x - left) / wide
        row = page.rows.add(one.text, refill=id(one) in values)
        limit = x if one.right else 1 - x
        how = {"align": float(one.right), "scale": one.scale, "face": int(one.scale > 1), "free": False}
        slots[id(one)] = page.put(row, x, (one.y - top) / (1.3 * bill.size), limit, **how)
    for query, answer, named in bill.questions:
        label = slots[id(named[0] if named else answer)]
        page.ask("field" if named else "title", slots[id(answer)], label, query=query)


FAMILIES: dict[str, Callable[[PrintLayout], None]] = {
    make.__name__: make for make in (dense, forms, tables, bills, letters)
}
SHARES = {"dense": 0.25, "forms": 0.25, "tables": 0.15, "bills": 0.2, "letters": 0.15}
# The judge's mixture is another one.
VAL_SHARES = {"dense": 0.2, "forms": 0.2, "tables": 0.25, "bills": 0.15, "letters": 0.2}


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
        """(B, 1) faces, 60 percent of them of those that offices print with."""
        any_face = self.faces[self.draws.integers(f"{name}/any", 0, len(self.faces))]
        usual = self.common[self.draws.integers(f"{name}/usual", 0, len(self.common))]
        return torch.where(self.draws.chance(f"{name}/plain", 60), usual, any_face)

    def colour(self, name: str, known: Sequence[Sequence[float]]) -> Tensor:
        """(B, 1, 3) in 0–1: one of those known, a little lighter."""
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
    """T layouts. slots: (T, R, 10), facts: (T, F, 8), rules, fills: (T, M, 4) float32, padded by NaN. wide: (T,)."""

    slots: Tensor
    facts: Tensor
    rules: Tensor
    fills: Tensor
    wide: Tensor

    @classmethod
    def of(cls, rows: Rows, source: random.Random, device: torch.device) -> Layouts:
        pages = []
        for write in FAMILIES.values():
            for _ in range(LAYOUTS):
                pages.append(PrintLayout(rows, source))
                write(pages[-1])

        def padded(name: str, width: int) -> Tensor:
            lists = [getattr(page, name) for page in pages]
            table = torch.full((len(pages), max(map(len, lists)), width), math.nan, dtype=torch.float64)
            for entry, listed in zip(table, lists, strict=True):
                if listed:
                    entry[: len(listed)] = torch.tensor(listed, dtype=torch.float64)
            return table.to(torch.float32).to(device)

        wide = torch.tensor([page.wide for page in pages], device=device)
        return cls(padded("slots", 10), padded("facts", 8), padded("rules", 4), padded("fills", 4), wide)

    def choose(self, draws: FloatDraws, shares: dict[str, float]) -> Tensor:
        """(B,) layouts: of a family by its share, then any of it."""
        ends = constant([shares.get(name, 0.0) for name in FAMILIES], draws.device).cumsum(0)
        pick = draws.uniform("family")[:, 0] * ends[-1]
        family = torch.searchsorted(ends, pick.contiguous(), right=True).clamp_max(len(FAMILIES) - 1)
        return family * LAYOUTS + draws.integers("layout", 0, LAYOUTS)[:, 0]

    def lay_out(self, stage: PrintStage, bank: Bank, which: Tensor, tight: bool = False) -> Sheet:
        """The sheets of these layouts (B,). tight: hardly any margin."""
        draws, (height, width) = stage.draws, (stage.height, stage.width)
        row, x, y, limit, align, scale, face, tail, free, cut = self.slots[which].unbind(-1)
        there, number = ~row.isnan(), row.shape[1]
        row, face, tail, free, cut = (value.nan_to_num().long() for value in (row, face, tail, free, cut))
        x, y, limit, align, scale = (value.nan_to_num() for value in (x, y, limit, align, scale))
        largest = (width / self.wide[which]).clamp(stage.smallest * 1.05, LARGEST)[:, None]
        em = stage.smallest * (largest / stage.smallest) ** draws.uniform("em")
        margin = draws.uniform("margin", 0.005, 0.02 if tight else 0.09) * width
        span = width - margin - margin * draws.uniform("even", 0.3, 1.4)
        faces = torch.cat([stage.face("face"), stage.face("other")], 1)
        high = ((stage.atlas.ascent[faces] + stage.atlas.descent[faces]) * em).amax(1, keepdim=True)
        pitch = (high + 1.7) * draws.uniform("leading", 1.0, 1.12 if tight else 1.4)
        top = draws.uniform("top", -0.02, 0.0 if tight else 0.06) * height
        kinds = bank.choose((-1 - row).clamp_min(0), draws.bits("row", number))
        inks = torch.cat([stage.colour("ink", INKS), stage.colour("ink/other", INKS)], 1)
        slots = Slots(
            row=torch.where(row < 0, kinds, row),
            scramble=draws.chance("scramble", 22, number) & (free > 0),
            tail=tail,
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

        def rects(table: Tensor, colour: Tensor, thick: Tensor) -> Rects:
            """(B, M, 4) of the page → pixels, made `thick` (B, 1, 1) pixels larger."""
            x0, y0, x1, y1 = table.nan_to_num().unbind(-1)
            boxes = torch.stack([margin + x0 * span, top + y0 * pitch, margin + x1 * span, top + y1 * pitch], -1)
            boxes = boxes + constant([-0.5, -0.5, 0.5, 0.5], stage.device) * thick
            return Rects(boxes, (~table[..., 0].isnan()).float(), colour.expand(*table.shape[:2], 3))

        thick = draws.uniform("thick", 0.5, 1.7)[..., None]
        rules = rects(self.rules[which], stage.colour("rule", INKS), thick)
        fills = rects(self.fills[which], stage.colour("shade", SHADES), 0 * thick)
        table = self.facts[which]
        facts = Facts(*table.nan_to_num().long().unbind(-1), ~table[..., 0].isnan())
        return Sheet(slots, fills, rules, facts)


def family_of(which: Tensor) -> Tensor:
    """(B,) layouts → the number of the family of each."""
    return torch.div(which, LAYOUTS, rounding_mode="floor")
