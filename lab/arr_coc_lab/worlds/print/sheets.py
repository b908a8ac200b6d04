"""What a printed page is made of before it is set: slots of text, fills, rules, and what can be asked about them.

A sheet's slots come in the order of their importance: of two that touch, the later one is dropped.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from ..constants import constant
from ..needle.draws import Canvas, FloatDraws
from .atlas import PrintAtlas
from .bank import KIND, Bank
from .paint import Rects, rects_of
from .questions import GROUP, Facts
from .setting import LOWER, UPPER, Slots, SlotValue, slots_of

SMALLEST, LARGEST = 6.0, 64.0
# Two thirds are black or nearly; then greys, then what is printed in colour.
INKS = (
    *((0.0, 0.0, 0.0),) * 14,
    *((0.08, 0.08, 0.09),) * 6,
    *((0.25, 0.25, 0.27), (0.38, 0.38, 0.4), (0.3, 0.27, 0.24)),
    *(
        (0.05, 0.1, 0.5),
        (0.0, 0.25, 0.6),
        (0.55, 0.05, 0.08),
        (0.05, 0.35, 0.12),
        (0.35, 0.05, 0.42),
        (0.45, 0.25, 0.02),
    ),
)
SHADES = (
    *((0.95, 0.95, 0.95),) * 4,
    *((0.88, 0.92, 0.99), (0.99, 0.95, 0.84), (0.9, 0.97, 0.9), (0.98, 0.9, 0.9), (0.86, 0.95, 0.97)),
)


@dataclass(frozen=True)
class Sheet:
    """A family's layout of B pictures."""

    slots: Slots
    fills: Rects
    rules: Rects
    facts: Facts


@dataclass(frozen=True)
class SheetStage(Canvas):
    """What every family is given. faces, common: (n,) typefaces it may use, and those of offices and books. smallest:
    em in pixels that nothing is set below."""

    draws: FloatDraws
    bank: Bank
    atlas: PrintAtlas
    faces: Tensor
    common: Tensor
    smallest: float = SMALLEST

    @cached_property
    def frame(self) -> SheetFrame:
        """What all families of pages stand in; a picture is of one family only, so that they may share it."""
        return frame_of(self)

    def slots(self, count: int, **given: SlotValue) -> Slots:
        return slots_of(self.number, count, self.device, **given)

    def size(self, name: str, extra: float = 0.0, high: float = LARGEST, count: int = 1) -> Tensor:
        """(B, count) ems, even in the logarithm, from the smallest and `extra` on."""
        low = self.smallest + extra
        return torch.exp(self.draws.uniform(name, math.log(low), math.log(max(low * 1.01, high)), count))

    def face(self, name: str, count: int = 1, plain: int = 60) -> Tensor:
        """(B, count) faces, `plain` percent of them of those that offices print with."""
        any_face = self.faces[self.draws.integers(f"{name}/any", 0, len(self.faces), count)]
        usual = self.common[self.draws.integers(f"{name}/usual", 0, len(self.common), count)]
        return torch.where(self.draws.chance(f"{name}/plain", plain, count), usual, any_face)

    def row(self, name: str, kind: str | Tensor, count: int = 1) -> Tensor:
        """(B, count) rows of the bank."""
        number = torch.full((self.number, count), KIND[kind], device=self.device) if isinstance(kind, str) else kind
        return self.bank.choose(number, self.draws.bits(f"{name}/row", count))

    def ink(self, name: str, count: int = 1) -> Tensor:
        """(B, count, 3) in 0–1: mostly black, some grey or coloured, never pale."""
        which = self.draws.integers(f"{name}/ink", 0, len(INKS), count)
        return constant(INKS, self.device)[which] + self.draws.uniform(f"{name}/light", 0.0, 0.1, count)[..., None]

    def shade(self, name: str, count: int = 1) -> Tensor:
        """(B, count, 3) pale colours for cells and bands."""
        which = self.draws.integers(f"{name}/shade", 0, len(SHADES), count)
        return constant(SHADES, self.device)[which] * self.draws.uniform(f"{name}/pale", 0.84, 1.0, count)[..., None]

    def scramble(self, name: str, count: int, percent: int = 30) -> Tensor:
        return self.draws.chance(f"{name}/scramble", percent, count)

    def high(self, face: Tensor, em: Tensor) -> Tensor:
        """Pixels from the highest letter to the lowest."""
        return (self.atlas.ascent[face] + self.atlas.descent[face]) * em


def empty_facts(stage: SheetStage, count: int, **given: Tensor | Sequence[int] | float) -> Facts:
    """Facts with the given fields spread to (B, count); the rest says nothing."""
    defaults = {"second": -1, "valid": True}
    made = []
    for item in fields(Facts):
        dtype = torch.bool if item.name == "valid" else torch.int64
        value = given.pop(item.name, defaults.get(item.name, 0))
        value = value.to(dtype) if isinstance(value, Tensor) else constant(value, stage.device, dtype)
        made.append(value.expand(stage.number, count))
    assert not given, given
    return Facts(*made)


def no_rects(stage: SheetStage) -> Rects:
    zeros = torch.zeros(stage.number, 1, 4, device=stage.device)
    return rects_of(zeros, 0.0, zeros[..., :3])


def box_rules(boxes: Tensor, thick: Tensor, strength: Tensor, colour: Tensor) -> Rects:
    """(B, M, 4) boxes → their four sides, `thick` (B, 1) pixels each."""
    x0, y0, x1, y1 = boxes.unbind(-1)
    t = thick.expand_as(x0)
    sides = [
        torch.stack([x0, y0, x1, y0 + t], -1),
        torch.stack([x0, y1 - t, x1, y1], -1),
        torch.stack([x0, y0 + t, x0 + t, y1 - t], -1),
        torch.stack([x1 - t, y0 + t, x1, y1 - t], -1),
    ]
    return rects_of(torch.cat(sides, 1), strength.expand_as(x0).repeat(1, 4), colour)


def distinct_labels(stage: SheetStage, name: str, count: int) -> Tensor:
    """(B, count) labels of which no picture has one twice."""
    number = stage.bank.labels
    # Steps that share no factor with a prime walk through all of it; labels behind it are left out.
    prime = next(n for n in range(number, 1, -1) if all(n % d for d in range(2, int(n**0.5) + 1)))
    first, step = stage.draws.integers(f"{name}/first", 0, prime), stage.draws.integers(f"{name}/step", 1, prime)
    return (first + step * torch.arange(count, device=stage.device)) % prime


def distinct_rows(stage: SheetStage, name: str, kind: str, count: int) -> Tensor:
    """(B, count) rows of a kind, each from its own part of the list."""
    part = stage.bank.counts[KIND[kind]] // count
    return (
        stage.bank.first[KIND[kind]]
        + torch.arange(count, device=stage.device) * part
        + stage.draws.integers(name, 0, part, count)
    )


# ---- The frame that most pages have ----------------------------------------------------------------------------------


class SheetFrame(NamedTuple):
    """slots: title, subtitle, foot, page number (4). left, top, right, bottom: (B, 1) of what is between them.
    em, face: (B, 1) of the page's own text."""

    slots: Slots
    left: Tensor
    top: Tensor
    right: Tensor
    bottom: Tensor
    em: Tensor
    face: Tensor


TITLE, SUBTITLE, FOOT, PAGE = range(4)
FRAMED = 4


def frame_of(stage: SheetStage, name: str = "frame") -> SheetFrame:
    """A title above, small print and a page number below, each by chance."""
    draws, (height, width) = stage.draws, (stage.height, stage.width)
    em = stage.size(f"{name}/em", 1.0, min(LARGEST, width / 18))
    face = stage.face(f"{name}/face")
    margin = draws.uniform(f"{name}/margin", 0.01, 0.09) * width
    left, right = margin, width - margin * draws.uniform(f"{name}/even", 0.3, 1.4)
    top = draws.uniform(f"{name}/top", 0.0, 0.07) * height
    title = draws.chance(f"{name}/titled", 68)
    below = title & draws.chance(f"{name}/subtitled", 40)
    foot = draws.chance(f"{name}/foot", 45)
    title_em = (em * draws.uniform(f"{name}/large", 1.0, 2.4)).clamp(7, LARGEST)
    title_face = torch.where(draws.chance(f"{name}/own", 50), stage.face(f"{name}/title"), face)
    where = draws.integers(f"{name}/where", 0, 3).float() * 0.5
    anchor = left + where * (right - left)
    title_high = stage.high(title_face, title_em)
    first = top + stage.atlas.ascent[title_face] * title_em + 2
    after = top + (title_high + 2 + 0.4 * em) * title
    second = after + stage.atlas.ascent[face] * em
    body = after + (1.5 * em) * below + em * draws.uniform(f"{name}/gap", 0.2, 1.5)
    foot_em = (em * draws.uniform(f"{name}/small", 0.6, 1.0)).clamp_min(stage.smallest)
    low = height - draws.uniform(f"{name}/low", 0.01, 0.05) * height - stage.atlas.descent[face] * foot_em
    bottom = torch.where(foot, low - 1.5 * foot_em, torch.full_like(low, height - 2.0))
    page_left = draws.chance(f"{name}/page", 30)
    x = torch.cat([anchor, anchor, torch.where(page_left, right, left), torch.where(page_left, left, right)], 1)
    align = torch.cat([where, where, page_left.float(), 1 - page_left.float()], 1)
    rows = torch.cat([stage.row(f"{name}/{kind}", kind) for kind in ("title", "section", "footer", "page")], 1)
    limit = torch.cat([right - left, right - left, 0.6 * (right - left), 0.3 * (right - left)], 1)
    slots = stage.slots(
        FRAMED, row=rows, x=x, align=align, limit=limit, baseline=torch.cat([first, second, low, low], 1),
        em=torch.cat([title_em, em, foot_em, foot_em], 1), face=torch.cat([title_face, face, face, face], 1),
        case=draws.integers(f"{name}/case", 0, 4, FRAMED).clamp_max(UPPER) % LOWER,
        scramble=stage.scramble(name, FRAMED, 25) & constant([True, True, True, False], device=stage.device),
        ink=stage.ink(f"{name}/ink", FRAMED),
        there=torch.cat([title, below, foot, foot & draws.chance(f"{name}/numbered", 70)], 1),
    )  # fmt: skip
    return SheetFrame(slots, left, body, right, bottom, em, face)


def frame_facts(stage: SheetStage) -> Facts:
    """What is asked about a frame, where it is there."""
    groups = constant([GROUP["title"], GROUP["subtitle"], GROUP["page"]], device=stage.device)
    slots = constant([TITLE, SUBTITLE, PAGE], device=stage.device)
    return empty_facts(stage, 3, group=groups, label=slots, answer=slots)


def filler(stage: SheetStage, name: str, around: SheetFrame, top: Tensor) -> Slots:
    """Lines of small print from `top` (B, 1) down, on two of three pages: conditions, notes, what nobody reads."""
    draws, lines = stage.draws, max(4, stage.height // 16)
    em = (around.em * draws.uniform(f"{name}/fill_em", 0.55, 1.0)).clamp_min(stage.smallest)
    face = torch.where(draws.chance(f"{name}/fill_own", 30), stage.face(f"{name}/fill"), around.face)
    pitch = (stage.high(face, em) + 1.7) * draws.uniform(f"{name}/fill_leading", 1.0, 1.5)
    bottom = (
        top
        + around.em * draws.uniform(f"{name}/fill_gap", 0.8, 2.5)
        + pitch * torch.arange(1, lines + 1, device=stage.device)
    )
    wide = torch.minimum(around.right - around.left, 44 * em)
    pick = draws.integers(f"{name}/fill_pick", 0, 100, lines)
    kind = torch.where(pick < 12, KIND["nonsense"], torch.where(pick < 25, KIND["text"], KIND["sentence"]))
    return stage.slots(
        lines,
        row=stage.row(f"{name}/fill", kind, lines),
        scramble=stage.scramble(f"{name}/fill", lines, 22),
        x=around.left,
        limit=wide,
        baseline=bottom - pitch + stage.atlas.ascent[face] * em,
        em=em,
        face=face,
        ink=stage.ink(f"{name}/fill_ink"),
        cut=True,
        justify=draws.chance(f"{name}/fill_justify", 40),
        there=draws.chance(f"{name}/filled", 66) & (bottom < around.bottom),
    )
