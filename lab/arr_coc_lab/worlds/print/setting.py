"""Typesetting: what is to be written where → every letter's place.

A slot is one piece of text on one line: a row of the bank (or an amount), a face, a size, an anchor. B pictures with R
slots of at most 96 letters each are set at once. All lengths are pixels, sizes of type are ems.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor

from arr_coc.core.alphabet import CHARACTERS, IDS, NUMBER_OF_IDS, SPACE

from ..constants import constant
from ..needle.content import digits, join, literal, string_table
from ..needle.draws import mix, scattered
from .atlas import PrintAtlas
from .bank import Bank
from .writer import CURRENCIES, LENGTH

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

AS_IS, UPPER, LOWER = range(3)
# What may follow a label; it is not part of its name.
TAILS = ("", ":", " :", ".", "...", " -", "?", "*", " #", ":-")
SMALLEST = 5.5
# A number that is no sum is its amount above this.
WHOLE = 1 << 40
# Text that is too wide is set smaller, down to this; what is wider still is cut.
NARROWEST = 0.72


@dataclass(frozen=True)
class Slots:
    """R pieces of text of B pictures, each field (B, R) but `ink` (B, R, 3).

    row: of the bank. amount: cents, −1 for what is no
    sum, WHOLE and more for a whole number. scramble: bool. case: as it is, upper, lower. tail: into
    TAILS. x: anchor; align: 0 the text begins there, 1 it ends there. limit: no wider than this: cut (bool) at a
    word, otherwise set smaller. justify: bool, spaces widened to the limit. baseline, em, face, stretch,
    slant: how it is set.
    there: bool.
    """

    row: Tensor
    amount: Tensor
    scramble: Tensor
    case: Tensor
    tail: Tensor
    x: Tensor
    align: Tensor
    limit: Tensor
    baseline: Tensor
    em: Tensor
    face: Tensor
    stretch: Tensor
    slant: Tensor
    cut: Tensor
    justify: Tensor
    there: Tensor
    ink: Tensor


# What may be said of all slots: it spreads to (B, R).
SlotValue = Tensor | Sequence[object] | float
# What a slot says where nothing is said, by the kind of the field.
DEFAULTS: dict[torch.dtype, dict[str, float]] = {
    torch.int64: {"row": 0, "amount": -1, "case": 0, "tail": 0, "face": 0},
    torch.bool: {"scramble": False, "cut": False, "justify": False, "there": True},
    torch.float32: {"x": 0, "align": 0, "limit": 1e4, "baseline": 0, "em": 12, "stretch": 1, "slant": 0, "ink": 0},
}


def slots_of(number: int, slots: int, device: torch.device, **given: SlotValue) -> Slots:
    """Slots with the given fields, of any shape that spreads to (B, R) (ink: to (B, R, 3)); defaults for the rest."""
    made = {}
    for name, default, dtype in ((*one, dtype) for dtype, some in DEFAULTS.items() for one in some.items()):
        value = given.pop(name, default)
        value = value.to(dtype) if isinstance(value, Tensor) else constant(value, device, dtype)
        made[name] = value.expand(number, slots, 3) if name == "ink" else value.expand(number, slots)
    assert not given, given
    return Slots(**made)


Plane = TypeVar("Plane", bound="DataclassInstance")


def each(change: Callable[..., object], *parts: Plane) -> Plane:
    """A dataclass like the given ones: of every field what is made of theirs."""
    made = {item.name: change(*(getattr(part, item.name) for part in parts)) for item in fields(parts[0])}
    return replace(parts[0], **made)


def joined(*parts: Plane) -> Plane:
    """Slots, facts or rectangles beside each other."""
    return each(lambda *values: torch.cat(values, 1), *parts)


def widened(slots: Slots, number: int) -> Slots:
    """With so many slots; the new ones are not there."""
    missing = number - slots.row.shape[1]
    if missing <= 0:
        return slots
    empty = slots_of(len(slots.row), missing, slots.row.device, there=False)
    return joined(slots, empty)


@dataclass(frozen=True)
class Runs:
    """Set text. ids: (B, R, 96) int64. start, advance: (B, R, 96) float32, where each letter's origin stands and how
    wide it is. spoken: (B, R) letters that belong to the text itself, without its tail. baseline, em, face, stretch,
    slant, there, ink: as in `Slots`."""

    ids: Tensor
    start: Tensor
    advance: Tensor
    spoken: Tensor
    baseline: Tensor
    em: Tensor
    face: Tensor
    stretch: Tensor
    slant: Tensor
    there: Tensor
    ink: Tensor

    def letters(self) -> Tensor:
        """(B, R, 96) bool: what leaves ink."""
        return (self.ids > 0) & (self.ids != SPACE) & self.there[..., None]

    def extent(self, atlas: PrintAtlas) -> Tensor:
        """(B, R, 4) float32 x0, y0, x1, y1 of the lines, from the highest letters to the lowest."""
        some = self.ids > 0
        left = torch.where(some, self.start, 1e6).amin(-1)
        right = torch.where(some, self.start + self.advance, -1e6).amax(-1)
        lean = self.slant.abs() * self.em * 0.5
        top = self.baseline - atlas.ascent[self.face] * self.em
        bottom = self.baseline + atlas.descent[self.face] * self.em
        return torch.stack([left - lean, top, right + lean, bottom], -1)

    def boxes(self, atlas: PrintAtlas) -> Tensor:
        """(B, R, 96, 4) float32 x0, y0, x1, y1 of every letter's ink."""
        left, top, wide, high = atlas.boxes[self.face[..., None], self.ids].unbind(-1)
        em, across = self.em[..., None], (self.em * self.stretch)[..., None]
        x0, y0 = self.start + left * across, self.baseline[..., None] - top * em
        y1, x1 = y0 + high * em, x0 + wide * across
        # What leans to the right above the baseline leans to the left below it.
        slant, base = self.slant[..., None], self.baseline[..., None]
        return torch.stack([x0 + slant * (base - y1), y0, x1 + slant * (base - y0), y1], -1)

    def middles(self, atlas: PrintAtlas) -> tuple[Tensor, Tensor]:
        """y and x (B, R, 96) float32 of every letter: half a capital above the baseline, half an advance across."""
        rise = 0.5 * atlas.capital[self.face] * self.em
        x = self.start + 0.5 * self.advance + (self.slant * rise)[..., None]
        return (self.baseline - rise)[..., None].expand_as(x), x


@dataclass(frozen=True)
class MoneyStyle:
    """How a picture writes sums, each (B, 1) int64: sign, whether it stands behind, the mark between thousands (0 none,
    1 as in English, 2 as in German, 3 blank), whether cents are written."""

    sign: Tensor
    behind: Tensor
    marks: Tensor
    cents: Tensor


def money(amount: Tensor, style: MoneyStyle) -> Tensor:
    """(B, R) cents → (B, R, 24) uint8 identifiers."""
    plain = (amount >= WHOLE)[..., None]
    cents = torch.where(amount >= WHOLE, (amount - WHOLE) * 100, amount).clamp_min(0)
    whole = torch.div(cents, 100, rounding_mode="floor")
    figures = digits(whole, 7)
    between = constant([0, IDS[","], IDS["."], SPACE], figures.device)[style.marks][..., None]
    decimal = constant([IDS["."], IDS["."], IDS[","], IDS[","]], figures.device)[style.marks][..., None]

    def mark(place: int) -> Tensor:
        return between * (figures[..., place : place + 1] > 0)

    part = torch.cat([decimal.expand_as(figures[..., :1]), digits(cents % 100, 2, leading_zeros=True)], -1)
    sign = string_table(tuple(CURRENCIES), amount.device)[style.sign].expand(*amount.shape, -1) * ~plain
    behind = style.behind[..., None] > 0
    blank = literal(" ", figures[..., :1]) * (sign[..., :1] > 0)
    # A sign behind the sum has its blank in front of it.
    after = torch.where(sign == SPACE, 0, sign)
    pieces = [
        sign * ~behind,
        figures[..., :1],
        mark(0),
        figures[..., 1:4],
        mark(3),
        figures[..., 4:],
        part * (style.cents[..., None] * ~plain),
        blank * behind,
        after * behind,
    ]
    return join(pieces, 24).to(torch.uint8)


def _case_table(device: torch.device) -> Tensor:
    """(3, 97) uint8: as it is, upper, lower."""
    texts = (CHARACTERS, CHARACTERS.upper(), CHARACTERS.lower())
    rows = [[0, *(IDS[c] for c in text)] for text in texts]
    return constant(rows, dtype=torch.uint8, device=device)


def set_text(slots: Slots, bank: Bank, atlas: PrintAtlas, style: MoneyStyle, key: Tensor, snap: Tensor) -> Runs:
    """key: (B, R) int64 random bits, from which every letter's own come. snap: (B, 1) bool, letters stand on whole
    pixels, as old screens and printers set them."""
    device = slots.row.device
    place = torch.arange(LENGTH, device=device)
    bits = mix(key[..., None] + scattered(place))
    text = bank.written(slots.row, slots.scramble, bits)
    sums = torch.nn.functional.pad(money(slots.amount, style), (0, LENGTH - 24))
    text = torch.where((slots.amount >= 0)[..., None], sums, text)
    length = (text > 0).sum(-1, keepdim=True)
    text = _case_table(device)[slots.case[..., None], text.int()]
    tails = string_table(TAILS, device).to(torch.uint8)
    behind = place - length
    tail = tails[slots.tail[..., None], behind.clamp(0, tails.shape[1] - 1)]
    text = torch.where((behind >= 0) & (behind < tails.shape[1]), tail, text)
    ids = atlas.instead[slots.face[..., None], text.int()]
    advance = atlas.advance[slots.face[..., None], ids] * (slots.em * slots.stretch)[..., None]
    advance = torch.where(snap[..., None], advance.round().clamp_min(1), advance) * (ids > 0)
    end = advance.cumsum(-1)
    limit = slots.limit[..., None]
    # Cut: behind the last whole word that ends before the limit, or in a word where there is none.
    # A sum is never cut: half of one would be another.
    widest = torch.where(slots.cut[..., None], limit, limit / NARROWEST)
    widest = torch.where((slots.amount >= 0)[..., None], 1e6, widest)
    fits = (end <= widest) & (ids > 0)
    number = fits.sum(-1, keepdim=True)
    blank = (ids == SPACE) & (place <= number)
    last = torch.where(blank, place, 0).amax(-1, keepdim=True)
    long = number < (ids > 0).sum(-1, keepdim=True)
    kept = torch.where(long, torch.where(last > 0, last, number), LENGTH)
    ids = torch.where(place < kept, ids, 0)
    advance = advance * (ids > 0)
    width = advance.sum(-1, keepdim=True)
    shrink = torch.where(slots.cut[..., None], 1.0, (limit / width.clamp_min(1)).clamp_max(1.0))
    em = slots.em * shrink[..., 0]
    advance, width = advance * shrink, width * shrink
    gaps = (ids == SPACE).sum(-1, keepdim=True)
    extra = (limit - width) / gaps.clamp_min(1)
    full = slots.justify[..., None] & long & (gaps > 2) & (extra < 0.7 * em[..., None])
    advance = advance + torch.where(full & (ids == SPACE), extra, 0.0)
    width = advance.sum(-1, keepdim=True)
    left = slots.x[..., None] - slots.align[..., None] * width
    baseline = torch.where(snap, slots.baseline.round(), slots.baseline)
    start = torch.where(snap[..., None], left.round(), left) + advance.cumsum(-1) - advance
    there = slots.there & (em >= SMALLEST) & (ids > 0).any(-1)
    spoken = torch.minimum(length, kept)[..., 0]
    # A blank that a line was cut at, or ends with, is not spoken.
    spoken = torch.where((place < spoken[..., None]) & (ids != SPACE) & (ids > 0), place + 1, 0).amax(-1)
    face, stretch, slant, ink = slots.face, slots.stretch, slots.slant, slots.ink
    return Runs(ids, start, advance, spoken, baseline, em, face, stretch, slant, there, ink)


def without_collisions(runs: Runs, areas: Tensor, size: tuple[int, int]) -> Runs:
    """Of two pieces of text that touch, the later one is not there; nor are those outside the canvas.

    areas: (B, R, 4) int64 pixels that each is painted in.
    """
    number = areas.shape[1]
    x0, y0, x1, y1 = torch.where(runs.there[..., None], areas, -9).unbind(-1)
    cross = (x0[:, :, None] < x1[:, None]) & (x0[:, None] < x1[:, :, None])
    cross &= (y0[:, :, None] < y1[:, None]) & (y0[:, None] < y1[:, :, None])
    earlier = torch.ones(number, number, dtype=torch.bool, device=areas.device).tril(-1)
    free = ~(cross & earlier).any(-1)
    inside = (x1 > 0) & (y1 > 0) & (x0 < size[1]) & (y0 < size[0])
    return replace(runs, there=runs.there & free & inside)


def painted_areas(extent: Tensor) -> Tensor:
    """(B, R, 4) extents → whole pixels, with a little room at both ends for what hangs over."""
    margin = constant([1.5, 0.3, 1.5, 0.3], extent.device)
    sign = constant([-1.0, -1.0, 1.0, 1.0], extent.device)
    wide = extent + sign * margin
    low, high = wide[..., :2].floor(), wide[..., 2:].ceil()
    return torch.cat([low, high], -1).long()


assert NUMBER_OF_IDS < 200  # bytes above are classes of the bank
