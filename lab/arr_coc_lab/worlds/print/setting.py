"""Typesetting: what is to be written where → every letter's place.

A slot is one piece of text on one line: a row of the bank, a face, a size, an anchor. B pictures with R slots of at
most 96 letters each are set at once. All lengths are pixels, sizes of type are ems.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from arr_coc.core.alphabet import SPACE

from ..constants import constant
from ..needle.draws import mix, scattered
from .atlas import PrintAtlas
from .bank import LENGTH, Bank

SMALLEST = 5.5
# Text that is too wide is set smaller, down to this; what is wider still is cut.
NARROWEST = 0.72


@dataclass(frozen=True)
class Slots:
    """R pieces of text of B pictures, each field (B, R) but `ink` (B, R, 3).

    row: of the bank. scramble: bool. x: anchor; align: 0 the text begins there, 1 it ends there.
    limit: no wider than this: cut (bool) at a word, otherwise set smaller. baseline, em, face: how it is set.
    there: bool.
    """

    row: Tensor
    scramble: Tensor
    x: Tensor
    align: Tensor
    limit: Tensor
    cut: Tensor
    baseline: Tensor
    em: Tensor
    face: Tensor
    there: Tensor
    ink: Tensor


@dataclass(frozen=True)
class Runs:
    """Set text. ids: (B, R, 96) int64. start, advance: (B, R, 96) float32, where each letter's origin stands and how
    wide it is. spoken: (B, R) letters that belong to the text itself, without its tail. baseline, em, face, there, ink:
    as in `Slots`."""

    ids: Tensor
    start: Tensor
    advance: Tensor
    spoken: Tensor
    baseline: Tensor
    em: Tensor
    face: Tensor
    there: Tensor
    ink: Tensor

    def letters(self) -> Tensor:
        """Return a mask (B, R, 96) of the characters that leave ink."""
        return (self.ids > 0) & (self.ids != SPACE) & self.there[..., None]

    def extent(self, atlas: PrintAtlas) -> Tensor:
        """Return (B, R, 4) float32 x0, y0, x1, y1 of the lines, from the highest letters to the lowest."""
        some = self.ids > 0
        left = torch.where(some, self.start, 1e6).amin(-1)
        right = torch.where(some, self.start + self.advance, -1e6).amax(-1)
        top = self.baseline - atlas.ascent[self.face] * self.em
        bottom = self.baseline + atlas.descent[self.face] * self.em
        return torch.stack([left, top, right, bottom], -1)

    def boxes(self, atlas: PrintAtlas) -> Tensor:
        """Return (B, R, 96, 4) float32 x0, y0, x1, y1 of every letter's ink."""
        left, top, wide, high = (atlas.boxes[self.face[..., None], self.ids] * self.em[..., None, None]).unbind(-1)
        x0, y0 = self.start + left, self.baseline[..., None] - top
        return torch.stack([x0, y0, x0 + wide, y0 + high], -1)

    def middles(self, atlas: PrintAtlas) -> tuple[Tensor, Tensor]:
        """Return y and x (B, R, 96) float32 of every letter's centre: half a capital above the baseline."""
        x = self.start + 0.5 * self.advance
        return (self.baseline - 0.5 * atlas.capital[self.face] * self.em)[..., None].expand_as(x), x


def set_text(slots: Slots, bank: Bank, atlas: PrintAtlas, key: Tensor) -> Runs:
    """key: (B, R) int64 random bits, from which every letter's own come."""
    place = torch.arange(LENGTH, device=key.device)
    text = bank.written(slots.row, slots.scramble, mix(key[..., None] + scattered(place)))
    length = (text > 0).sum(-1, keepdim=True)
    ids = atlas.instead[slots.face[..., None], text.int()]
    advance = atlas.advance[slots.face[..., None], ids] * slots.em[..., None] * (ids > 0)
    limit, cut = slots.limit[..., None], slots.cut[..., None]
    # Cut: behind the last whole word that ends before the limit, or in a word where there is none.
    fits = (advance.cumsum(-1) <= torch.where(cut, limit, limit / NARROWEST)) & (ids > 0)
    number = fits.sum(-1, keepdim=True)
    last = torch.where((ids == SPACE) & (place <= number), place, 0).amax(-1, keepdim=True)
    long = number < (ids > 0).sum(-1, keepdim=True)
    kept = torch.where(long, torch.where(last > 0, last, number), LENGTH)
    ids = torch.where(place < kept, ids, 0)
    advance = advance * (ids > 0)
    width = advance.sum(-1, keepdim=True)
    shrink = torch.where(cut, 1.0, (limit / width.clamp_min(1)).clamp_max(1.0))
    em, advance = slots.em * shrink[..., 0], advance * shrink
    start = slots.x[..., None] - slots.align[..., None] * width * shrink + advance.cumsum(-1) - advance
    there = slots.there & (em >= SMALLEST) & (ids > 0).any(-1)
    # A blank that a line was cut at, or ends with, is not spoken.
    spoken = torch.where((place < torch.minimum(length, kept)) & (ids != SPACE) & (ids > 0), place + 1, 0).amax(-1)
    return Runs(ids, start, advance, spoken, slots.baseline, em, slots.face, there, slots.ink)


def without_collisions(runs: Runs, areas: Tensor, size: tuple[int, int]) -> Runs:
    """Remove the later of two pieces of text that touch, and those outside the canvas.

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
    """Round extents (B, R, 4) to whole pixels, with a little space at both ends for overhanging ink."""
    wide = extent + constant([-1.5, -0.3, 1.5, 0.3], extent.device)
    return torch.cat([wide[..., :2].floor(), wide[..., 2:].ceil()], -1).long()
