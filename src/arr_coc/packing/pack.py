"""`pack`: from a picture and a question to the few pictures that a model behind an API needs.

pack("page.png", "What is the total?", budget=400, model="gpt-4.1-mini")      → Packed
pack(["1.png", "2.png", "3.png"], "Who signed?", budget=900, model="claude")   pages share the budget

An overview takes a quarter of the budget, as in an overlay; the rest shows what the question needs at the size at which
it was printed, by crops that follow the finest leaves of the allocation.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property

import numpy as np

from ..attending.distance import AUTO
from ..attending.frame import Frame, to_cells
from ..attending.grip import Grip, as_grip
from ..attending.overlay import OVERVIEW_SHARE
from ..core.errors import InputError, shown
from ..knowing.scene import VIEW_SIDE
from ..looking import Look, Prepared
from ..options import Budget, Options, as_options, check_question
from ..pictures.document import load_page
from ..pictures.load import Picture, load_picture
from ..pictures.words import Words, as_words
from .cover import Rectangle, cover, level_gains, quiet, uncut
from .packed import LETTERS, Packed, PackedPicture, PackPart, caption, drawn, marked, padded
from .prices.tables import Fitted, TokenTable, snapped, table_for

LAYOUTS = ("auto", "crops", "overview")
WHOLE = "whole"
MOST_CROPS, MOST_PAGES = 3, 200
# Crops that hold no more of the relevance than this many times their share of the ground show nothing in particular.
POINTED = 1.15
# Letters so large that they are read best hardly larger than a picture of the whole shows them: that suffices.
SUFFICES = 1.15


@dataclass(frozen=True)
class PackStyle:
    """How pages are packed. options: how they are looked at, with the grip of the model."""

    table: TokenTable
    layout: str = "auto"
    marks: bool = True
    options: Options = field(default_factory=Options)

    def for_pictures(self, number: int) -> PackStyle:
        """Return the same for a request with this number of pictures: overviews only, if crops are too many."""
        most = self.table.pictures
        return self if most is None or number * (1 + MOST_CROPS) <= most else replace(self, layout="overview")


def pack(
    image: object,
    query: str,
    budget: Budget | None = None,
    *,
    model: object,
    layout: str = "auto",
    marks: bool = True,
    words: object = None,
    options: Options | None = None,
) -> Packed:
    """Draw what a question needs as one to four ordinary pictures of a chosen number of tokens.

    Args:
        image: A picture as `look` takes it, or a list of pages, which share the budget.
        query: The question that decides what is enlarged.
        budget: Tokens that may be spent, as the model counts them, or "25%"; a quarter by default.
        model: Who will see it, such as "gpt-4o" or "qwen3-vl", or a `TokenTable`; says how tokens are counted.
        layout: "crops" (an overview and parts as pictures of their own), "overview", or "auto".
        marks: Whether frames and letters are drawn into an overview that is large enough.
        words: Of the picture, with their boxes, as for `look`: no crop cuts through them.
        options: Everything else. `scale` says how many times as large parts are drawn; "auto", the default, chooses by
            the letters and `grip`, which is that of `model` where it was measured.

    Returns:
        The pictures, the text to put before them, their tokens, and the way back to the original's pixels.

    Example:
        packed = arr_coc.pack("page.png", "What is the total?", budget=400, model="qwen3-vl")
        packed.save("out")
    """
    check_question(query)
    options = as_options(options).override(budget=budget, words=words)
    if isinstance(options.budget, list):
        raise InputError(f"budget={shown(options.budget)}: pages share one budget; give one number")
    options.check_fixed("packed pictures")
    own = options.default(relevance="auto").override(grip=grip_for(model, options.grip))
    style = PackStyle(table_for(model), layout, marks, own)
    if layout not in LAYOUTS:
        raise InputError(f"layout {shown(layout)} is unknown; choose from {', '.join(LAYOUTS)}")
    several = isinstance(image, list | tuple)
    given = image if isinstance(image, list | tuple) else [image]
    pages = [PackPage.of(one, None if several else options.words, number) for number, one in enumerate(given)]
    if not 1 <= len(pages) <= MOST_PAGES:
        raise InputError(f"{len(pages)} pages were given; pack 1 to {MOST_PAGES} at a time")
    return pack_pages(pages, query, style)


def grip_for(model: object, grip: object = None) -> Grip:
    """Return the grip that was given, else that of a model where it was measured, else a cautious one."""
    found = as_grip(grip) or Grip.known(model.name if isinstance(model, TokenTable) else str(model))
    # What limits a canvas limits no crop of it.
    return replace(found, largest=None) if found else Grip.cautious()


@dataclass(frozen=True, eq=False)
class PackPage:
    """A page with its pixels as given, and its words where they came with it. jpeg: whether it came as one. number:
    from 0."""

    picture: Picture
    words: Words | None = None
    jpeg: bool = False
    number: int = 0

    @classmethod
    def of(cls, image: object, words: object = None, number: int = 0) -> PackPage:
        picture, own = load_page(image)
        return cls(picture, own if words is None else as_words(words, picture.size), is_jpeg(image), number)

    @property
    def size(self) -> tuple[int, int]:
        return self.picture.size

    @cached_property
    def prepared(self) -> Prepared:
        return Prepared(load_picture(self.picture, longest_side=VIEW_SIDE), words=self.words)

    def part(
        self, part: PackPart, canvas: tuple[int, int], table: TokenTable, marks: Sequence[PackPart] = ()
    ) -> PackedPicture:
        """Return a part of it as a picture of its own."""
        pixels = marked(drawn(self.picture.pixels, self.size, part), part, marks)
        return PackedPicture(padded(pixels, canvas), table.tokens(canvas), *part[:2], self.number, part.letter)

    def whole(self, table: TokenTable, pictures: int = 1) -> PackedPicture:
        """Return all of it, smaller only where one of this many pictures would else be refused."""
        shrink = min(1.0, table.limits.longest(pictures) / max(self.picture.pixels.shape[:2]))
        size = snapped(self.picture.pixels.shape[:2], shrink, 1, round)
        made = self.part(PackPart((0, 0, *self.size), size), size, table)
        return made if shrink < 1 else replace(made, tokens=table.tokens(self.size))

    def word_boxes(self) -> np.ndarray:
        """Return (N, 4) x0, y0, x1, y1 in pixels."""
        if self.words is None or not len(self.words):
            return np.zeros((0, 4))
        return self.words.boxes.astype(np.float64) * np.array([self.size[1], self.size[0]] * 2)


def is_jpeg(image: object) -> bool:
    """By its first bytes, or by the ending of its name."""
    if isinstance(image, bytes | bytearray | memoryview):
        return bytes(image[:3]) == b"\xff\xd8\xff"
    return isinstance(image, str | os.PathLike) and os.fspath(image).lower().endswith((".jpg", ".jpeg"))


def pack_pages(pages: Sequence[PackPage], query: str, style: PackStyle) -> Packed:
    """Pack pages that were read to the budget of the style."""
    table = style.table
    style = style.for_pictures(len(pages))
    full = sum(table.tokens(page.size) for page in pages)
    budget = style.options.wanted(full)
    shares, pictures, layouts, notes = [budget], [], [], []
    in_full = all(tokens_in_full(table, page.size) < sys.maxsize for page in pages)
    if full <= budget and (style.layout != "crops" or in_full):
        shares, notes = [sys.maxsize] * len(pages), ["the picture costs no more than the budget"]
    elif len(pages) > 1:
        shares = shared_budget(pages, query, budget, style)
    for page, share in zip(pages, shares, strict=True):
        if share >= table.tokens(page.size) and (len(pages) > 1 or share > budget):
            pictures.append(page.whole(table, len(pages)))
        elif share:
            made, layout, told_by = pack_page(page, query, share, style)
            pictures += made
            layouts.append(layout)
            notes += told_by
    layout = next((one for one in layouts if one != "overview"), layouts[0] if layouts else WHOLE)
    hidden = tuple(number for number, share in enumerate(shares, 1) if not share)
    sizes = tuple(page.size for page in pages)
    text = "" if layout == WHOLE and len(pages) == 1 else caption(pictures, sizes)
    text += f" Not shown: page {', '.join(map(str, hidden))}." if hidden else ""
    said = tuple(dict.fromkeys((*(note for page in pages for note in page.picture.notes), *notes)))
    return Packed(
        tuple(pictures), text, full, budget, table.name, layout, sizes, hidden, pages[0].jpeg, table.limits.bytes, said
    )


# ---- one page --------------------------------------------------------------------------------------------------------


def pack_page(
    page: PackPage, query: str, budget: int, style: PackStyle
) -> tuple[list[PackedPicture], str, tuple[str, ...]]:
    """Pictures, layout, notes."""
    table = style.table
    overview = table.fit(page.size, budget)
    if overview is None:
        raise InputError(
            f"a budget of {budget} tokens pays for no picture of {table.name}; the cheapest costs {table.least}"
        )
    if style.layout == "overview":
        return only_overview(page, overview, table)
    looked = look_at(page, query, budget, style)
    view = Cells.of(looked, page.size)
    if style.layout == "auto" and view.frame.seen[0] <= SUFFICES * overview.size[0]:
        return only_overview(page, overview, table, looked.notes)
    chosen = as_crops(page, view, budget, style)
    if chosen is None or (style.layout == "auto" and not view.pointed(chosen[1])):
        return only_overview(page, overview, table, looked.notes)
    return chosen[0], "crops", looked.notes


def only_overview(
    page: PackPage, fitted: Fitted, table: TokenTable, notes: tuple[str, ...] = ()
) -> tuple[list[PackedPicture], str, tuple[str, ...]]:
    part = PackPart((0, 0, *page.size), fitted.size)
    return [page.part(part, fitted.canvas, table)], "overview", notes


def look_at(page: PackPage, query: str, budget: int, style: PackStyle) -> Look:
    """Return where an overlay would spend as many cells as the budget can show."""
    cell = style.table.cell if style.table.even else 32
    full = Frame(page.size, cell).full
    amount = min(full, capacity(style.table, budget, cell))
    own = replace(style.options, budget=amount, cell=cell, words=None).default(scale=AUTO)
    return page.prepared.look(query, own)


def capacity(table: TokenTable, budget: int, cell: int) -> int:
    """About how many cells a budget can show, in pictures of one to four."""
    number = max(1, min(1 + MOST_CROPS, budget // max(1, table.least))) if not table.even else 1
    found = table.fit((4096, 4096), budget // number)
    return 1 if found is None else max(1, number * math.prod(found.size) // cell**2)


@dataclass(frozen=True, eq=False)
class Cells:
    """A page as its allocation sees it. relevance: (rows, cols). gains: `cover.level_gains`. frame: of the cells, which
    see less of the page where it is drawn larger. size: of the page."""

    relevance: np.ndarray
    gains: list[np.ndarray]
    frame: Frame

    @classmethod
    def of(cls, looked: Look, size: tuple[int, int]) -> Cells:
        frame = Frame(size, looked.allocation.cell, looked.allocation.canvas)
        relevance = np.asarray(to_cells(looked.relevance.map[None], frame)[0], dtype=np.float64)
        levels = looked.allocation.level_map()
        return cls(relevance, level_gains(relevance, levels, int(levels.max(initial=1))), frame)

    @property
    def cell(self) -> int:
        """The side of a cell as it is drawn."""
        return self.frame.cell

    @property
    def steps(self) -> tuple[float, float]:
        """(down, across): pixels of the page under one cell."""
        size, seen = self.frame.image_size, self.frame.seen
        return self.cell * size[0] / seen[0], self.cell * size[1] / seen[1]

    def box(self, rectangle: Rectangle) -> tuple[float, float, float, float]:
        """y, x, height, width in pixels, inside the page."""
        (down, across), size = self.steps, self.frame.image_size
        height, width = min(size[0], rectangle.height * down), min(size[1], rectangle.width * across)
        return min(rectangle.row * down, size[0] - height), min(rectangle.col * across, size[1] - width), height, width

    def share(self, parts: Sequence[PackPart]) -> float:
        """Return the share of the relevance that lies in parts."""
        seen, (down, across) = np.zeros(self.relevance.shape, bool), self.steps
        for part in parts:
            y, x, height, width = part.source
            first = int(y / down), int(x / across)
            seen[first[0] : math.ceil((y + height) / down), first[1] : math.ceil((x + width) / across)] = True
        return float(self.relevance[seen].sum() / max(self.relevance.sum(), 1e-9))

    def pointed(self, parts: Sequence[PackPart]) -> bool:
        """Return whether parts hold more of the relevance than their ground alone would."""
        ground = sum(part.source[2] * part.source[3] for part in parts) / math.prod(self.frame.image_size)
        return self.share(parts) > POINTED * ground


def parts_of(page: PackPage, view: Cells, rectangles: Sequence[Rectangle]) -> list[PackPart]:
    """Rectangles as lettered parts that cut no word, drawn in their whole cells."""
    words, found = page.word_boxes(), []
    for letter, one in zip(LETTERS, rectangles, strict=False):
        box = view.box(one)
        if len(words):
            source = uncut(box, words, page.size)
        else:
            source = quiet(box, page.picture.pixels, page.size, max(2, int(min(view.steps) / 2)))
        found.append(PackPart(source, (one.rows * view.cell, one.cols * view.cell), letter))
    return found


def as_crops(
    page: PackPage, view: Cells, budget: int, style: PackStyle
) -> tuple[list[PackedPicture], list[PackPart]] | None:
    """Return an overview and parts, each a picture of its own; None where the budget pays for no two pictures."""
    table = style.table
    first = table.fit(page.size, max(table.least, budget // OVERVIEW_SHARE))
    if first is None or budget - table.tokens(first.canvas) < table.least:
        return None
    parts = best_parts(page, view, budget - table.tokens(first.canvas), table)
    if not parts:
        return None
    spent = sum(table.tokens(part.size) for part in parts)
    larger = table.fit(page.size, budget - spent) or first
    over = page.part(PackPart((0, 0, *page.size), larger.size), larger.canvas, table, parts if style.marks else ())
    return [over, *(page.part(part, part.size, table) for part in parts)], parts


def best_parts(page: PackPage, view: Cells, left: int, table: TokenTable) -> list[PackPart]:
    """Return the parts that the question needs most, for at most `left` tokens together."""

    @cache
    def tokens(rows: int, cols: int) -> int:
        return tokens_in_full(table, (rows * view.cell, cols * view.cell))

    def fits(rows: int, cols: int, most: int) -> bool:
        return tokens(rows, cols) <= most

    most = MOST_CROPS if table.even else min(MOST_CROPS, left // table.least)
    return parts_of(page, view, cover(view.gains, fits, tokens, left, most))


def details(
    page: PackPage, query: str, budget: int, style: PackStyle, shown: Sequence[PackedPicture] = ()
) -> list[PackedPicture]:
    """Return what a later question needs of a page already shown: parts, without an overview; empty where nothing
    stands out. shown: parts in these are not shown again."""
    if budget < style.table.least:
        return []
    view = Cells.of(look_at(page, query, budget, style), page.size)
    parts = best_parts(page, view, budget, style.table)
    seen = np.zeros(page.size, bool)
    for y, x, height, width in (one.source for one in shown if one.letter):
        seen[y : y + height, x : x + width] = True
    fresh = [part for part in parts if not seen[part.window].mean() > 0.8]
    return [page.part(part, part.size, style.table) for part in fresh] if parts and view.pointed(parts) else []


def tokens_in_full(table: TokenTable, size: tuple[int, int]) -> int:
    """Return what a picture costs; more than any budget where the model would not see all of its pixels."""
    if max(size) > 199 * min(size):
        return sys.maxsize
    count = table.counted(*size)
    return count.tokens if count.height >= 0.98 * size[0] and count.width >= 0.98 * size[1] else sys.maxsize


# ---- several pages ---------------------------------------------------------------------------------------------------


def shared_budget(pages: Sequence[PackPage], query: str, budget: int, style: PackStyle) -> list[int]:
    """Tokens of every page: by what a token gains there; 0 for pages that are not shown."""
    table, needs = style.table, []
    for page in pages:
        looked = look_at(page, query, max(1, budget // len(pages)), style)
        peak = np.sort(looked.relevance.map.ravel())[::-1]
        # What the best hundredth of the page is worth: one line that answers counts, not how full a page is.
        needs.append(float(peak[: max(1, len(peak) // 100)].mean()))
    least = [
        min(table.tokens(page.size), max(table.least, 2 * table.least if table.even else table.least)) for page in pages
    ]
    order = sorted(range(len(pages)), key=lambda number: (-needs[number], number))
    shares = [0] * len(pages)
    left = budget
    for number in order[: table.pictures]:
        if least[number] <= left:
            shares[number] = least[number]
            left -= least[number]
    # The rest goes to the pages that gain most, by the square: a page that answers is worth more than two that may.
    weights = [needs[number] ** 2 if shares[number] else 0.0 for number in range(len(pages))]
    total = sum(weights)
    if total > 0:
        for number in range(len(pages)):
            shares[number] += int(left * weights[number] / total)
    return [min(share, table.tokens(page.size)) if share else 0 for share, page in zip(shares, pages, strict=True)]
