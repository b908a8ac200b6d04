"""Pages of fields: forms, where a label stands beside its value, and tables, where two name a cell."""

from __future__ import annotations

import torch
from torch import Tensor

from ..constants import constant
from .bank import KIND
from .paint import Rects, rects_of
from .questions import GROUP
from .setting import TAILS, UPPER, joined
from .sheets import (
    FRAMED,
    Sheet,
    SheetStage,
    box_rules,
    distinct_labels,
    empty_facts,
    filler,
    frame_facts,
)

# ---- Forms -----------------------------------------------------------------------------------------------------------


def forms(stage: SheetStage, name: str = "forms") -> Sheet:
    """Fields in one to three columns: a label, and what belongs to it beside, below or above it."""
    draws, device = stage.draws, stage.device
    around = stage.frame
    columns, rows = (2 if stage.width <= 384 else 3), 12 if stage.height <= 512 else 20
    count = columns * rows
    body_wide = around.right - around.left
    most = (body_wide / (11 * around.em)).floor().clamp(1, columns)
    several = torch.minimum(draws.integers(f"{name}/columns", 1, columns + 1).float(), most)
    column = (torch.arange(count, device=device) % columns).float()
    row = torch.div(torch.arange(count, device=device), columns, rounding_mode="floor").float()
    gutter = around.em * draws.uniform(f"{name}/gutter", 0.5, 1.6)
    wide = (body_wide - gutter * (several - 1)) / several
    left = around.left + column * (wide + gutter)
    manner = draws.integers(f"{name}/manner", 0, 10)
    above, below = (manner >= 6) & (manner < 9), manner == 9
    stacked = above | below
    label_em = (around.em * draws.uniform(f"{name}/label_em", 0.7, 1.05)).clamp_min(stage.smallest)
    value_em = around.em * draws.uniform(f"{name}/value_em", 0.9, 1.15)
    label_face = around.face
    value_face = torch.where(draws.chance(f"{name}/typed", 55), stage.face(f"{name}/value"), around.face)
    space = draws.uniform(f"{name}/space", 0.25, 1.4) * around.em
    label_high, value_high = stage.high(label_face, label_em) + 1.7, stage.high(value_face, value_em) + 1.7
    tight = draws.uniform(f"{name}/tight", 0.0, 0.35) * around.em
    pitch = torch.where(stacked, label_high + value_high + tight, torch.maximum(label_high, value_high)) + space
    top = around.top + row * pitch
    inner = 0.35 * around.em + 1
    atlas = stage.atlas
    label_base, value_base = field_baselines(
        stage, top + inner * 0.5, (label_face, label_em), (value_face, value_em), tight, (above, below)
    )
    split = draws.uniform(f"{name}/split", 0.32, 0.6)
    label_limit = torch.where(stacked, wide - 2 * inner, wide * split - inner * 1.5)
    value_left = torch.where(stacked, left + inner, left + wide * split + inner * 0.5)
    value_limit = torch.where(stacked, wide - 2 * inner, wide * (1 - split) - inner * 1.5)
    right = (~stacked) & draws.chance(f"{name}/right", 18)
    # Labels without repetition: steps through the list by a number that shares no factor with its length.
    label = distinct_labels(stage, f"{name}/label", count)
    kind = stage.bank.value_kind[label]
    there = (column < several) & (top + pitch < around.bottom + 2) & ~draws.chance(f"{name}/gap", 6, count)
    filled = there & ~draws.chance(f"{name}/blank", 8, count)
    strange = stage.scramble(f"{name}/label", count, 18)
    tail = draws.integers(f"{name}/tail", 0, len(TAILS) + 4)
    tail = torch.where(tail >= len(TAILS), 1, tail)
    bold = draws.chance(f"{name}/capital", 22)
    labels = stage.slots(
        count, row=stage.bank.first[KIND["label"]] + label, scramble=strange, tail=tail, case=bold.long() * UPPER,
        x=left + inner, limit=label_limit, baseline=label_base, em=label_em, face=label_face,
        ink=stage.ink(f"{name}/label_ink"), there=there,
    )  # fmt: skip
    values = stage.slots(
        count, row=stage.row(f"{name}/value", kind, count), scramble=stage.scramble(f"{name}/value", count, 30),
        case=draws.chance(f"{name}/shout", 20).long() * UPPER,
        x=torch.where(right, value_left + value_limit, value_left), align=right.float(), limit=value_limit,
        baseline=value_base, em=value_em, face=value_face, ink=stage.ink(f"{name}/value_ink"), there=filled,
        slant=draws.uniform(f"{name}/slant", 0.05, 0.22) * draws.chance(f"{name}/slanted", 8),
    )  # fmt: skip
    drawn = draws.integers(f"{name}/drawn", 0, 10)
    boxed, lined, ruled = drawn < 3, (drawn >= 3) & (drawn < 6), drawn == 6
    thick = draws.uniform(f"{name}/thick", 0.6, 1.8)
    colour = stage.ink(f"{name}/rule")
    box = torch.stack([left, top, left + wide, top + pitch - 1.2 - 0.25 * space], -1)
    line_y = value_base + atlas.descent[value_face] * value_em + 1.2
    line_x = torch.where(stacked, left + inner, value_left)
    line = torch.stack([line_x, line_y, left + wide - inner, line_y + thick.clamp_max(1.2)], -1)
    whole = torch.stack([left, top + pitch - 1, left + wide, top + pitch - 1 + thick.clamp_max(1)], -1)
    rules = joined(
        box_rules(box, thick, (there & boxed).float(), colour),
        rects_of(line, (there & lined & ~below).float(), colour),
        rects_of(whole, (there & ruled).float(), colour),
    )
    shaded = there & boxed & draws.chance(f"{name}/shaded", 30)
    fills = rects_of(box, shaded.float(), stage.shade(f"{name}/shade"))
    last = torch.where(there, top + pitch, around.top).amax(1, keepdim=True)
    index = torch.arange(count, device=device) + FRAMED
    group = torch.where(stacked, torch.where(below, GROUP["above"], GROUP["below"]), GROUP["right"])
    asked = torch.where(draws.chance(f"{name}/place", 15, count), group, GROUP["field"])
    facts = empty_facts(stage, count, group=asked, label=index, answer=index + count, valid=filled)
    slots = joined(around.slots, labels, values, filler(stage, name, around, last))
    return Sheet(slots, fills, rules, joined(facts, frame_facts(stage)))


def field_baselines(
    stage: SheetStage,
    start: Tensor,
    label: tuple[Tensor, Tensor],
    value: tuple[Tensor, Tensor],
    tight: Tensor,
    manner: tuple[Tensor, Tensor],
) -> tuple[Tensor, Tensor]:
    """Where a label and its value stand. label, value: face and em of each. manner: (B, 1) bool, the label above its
    value, or below it; else both on one line."""
    label_ascent, value_ascent = (stage.atlas.ascent[face] * em for face, em in (label, value))
    label_descent, value_descent = (stage.atlas.descent[face] * em for face, em in (label, value))
    above, below = manner
    label_first, value_first = start + label_ascent + 0.8, start + value_ascent + 0.8
    level = start + torch.maximum(label_ascent, value_ascent) + 0.8
    under = label_first + label_descent + 1.7 + tight + value_ascent
    over = value_first + value_descent + 1.7 + tight + label_ascent
    label_base = torch.where(above, label_first, torch.where(below, over, level))
    return label_base, torch.where(above, under, torch.where(below, value_first, level))


# ---- Tables ----------------------------------------------------------------------------------------------------------

NUMBERS = ("int", "money", "percent", "measure", "tick")
WORDS = ("word", "date", "code", "name", "time", "city", "text")
TABLE_FACTS = 24


def tables(stage: SheetStage, name: str = "tables") -> Sheet:
    """A header row, a first column that names the rows, and cells; ruled, banded or bare."""
    draws, device, number, atlas = stage.draws, stage.device, stage.number, stage.atlas
    around = stage.frame
    columns, rows = (4 if stage.width <= 384 else 7), 12 if stage.height <= 512 else 22
    body_wide = around.right - around.left
    most = (body_wide / (5.5 * around.em)).floor().clamp(2, columns)
    several = (2 + draws.uniform(f"{name}/columns") * (most - 1)).floor().clamp_max(columns)
    which = torch.arange(columns, device=device)
    share = draws.uniform(f"{name}/widths", 0.8, 1.4, columns) * (which < several)
    share = share * torch.where(which == 0, draws.uniform(f"{name}/first", 1.0, 2.0), 1.0)
    wide = body_wide * share / share.sum(1, keepdim=True)
    left = around.left + wide.cumsum(1) - wide
    pitch = stage.high(around.face, around.em) + 2 + around.em * draws.uniform(f"{name}/space", 0.05, 1.1)
    at = torch.arange(rows + 1, device=device)
    top = around.top + at * pitch
    fits = (top + pitch < around.bottom) & (at <= draws.integers(f"{name}/rows", 3, rows + 1))
    base = top + 0.5 * (pitch - stage.high(around.face, around.em)) + atlas.ascent[around.face] * around.em
    pick = draws.integers(f"{name}/kind", 0, len(NUMBERS), columns)
    words = draws.integers(f"{name}/words", 0, len(WORDS), columns)
    numeric = draws.chance(f"{name}/numeric", 68, columns) & (which > 0)
    kinds = torch.where(
        numeric,
        constant([KIND[kind] for kind in NUMBERS], device=device)[pick],
        constant([KIND[kind] for kind in WORDS], device=device)[words],
    )
    rows_kind = draws.integers(f"{name}/named", 0, 4)[:, 0]
    kinds[:, 0] = constant([KIND[kind] for kind in ("item", "category", "name", "text")], device=device)[rows_kind]
    manner = draws.integers(f"{name}/align", 0, 10, columns)
    align = torch.where(numeric, torch.where(manner < 8, 1.0, 0.5), torch.where(manner < 8, 0.0, 0.5)) * (which > 0)
    inner = 0.3 * around.em + 1.5
    anchor = left + inner + align * (wide - 2 * inner)
    # Slots row by row, the header first.
    count = (rows + 1) * columns

    def spread(values: Tensor, axis: int) -> Tensor:
        """(B, columns) or (B, rows + 1) → (B, count)."""
        shaped = values[:, None, :] if axis == 1 else values[:, :, None]
        return shaped.expand(number, rows + 1, columns).reshape(number, count)

    header = torch.arange(count, device=device) < columns
    kind = torch.where(header, KIND["column"], spread(kinds, 1))
    head_face = torch.where(draws.chance(f"{name}/head_own", 50), stage.face(f"{name}/head"), around.face)
    dark = draws.chance(f"{name}/dark", 18)
    ink = stage.ink(f"{name}/ink")
    ink = torch.where((header & dark)[..., None], 0.97, ink)
    cells = stage.slots(
        count, row=stage.row(name, kind, count), scramble=stage.scramble(name, count, 25),
        case=(header & draws.chance(f"{name}/shout", 25)).long() * UPPER, x=spread(anchor, 1), align=spread(align, 1),
        limit=spread(wide - 2 * inner, 1), baseline=spread(base, 0), em=around.em,
        face=torch.where(header, head_face, around.face), ink=ink,
        there=spread(which < several, 1) & spread(fits, 0) & ~(draws.chance(f"{name}/blank", 5, count) & ~header),
    )  # fmt: skip
    shown = fits.sum(1, keepdim=True)
    bottom = around.top + shown * pitch
    rules = table_rules(stage, name, top, bottom, left, fits, which < several)
    band = torch.stack([around.left.expand_as(top), top, (around.left + body_wide).expand_as(top), top + pitch], -1)
    even = (at % 2 == 0) & draws.chance(f"{name}/zebra", 22)
    head = (at == 0) & (dark | draws.chance(f"{name}/head_band", 25))
    deep = stage.ink(f"{name}/deep") * 0.8
    shade = torch.where(((at == 0) & dark)[..., None], deep, stage.shade(f"{name}/shade"))
    fills = rects_of(band, (fits & (head | (even & ~head))).float(), shade)
    row = 1 + draws.below(f"{name}/row", shown - 1, TABLE_FACTS)
    column = 1 + draws.below(f"{name}/column", (several - 1).long(), TABLE_FACTS)
    facts = empty_facts(
        stage, TABLE_FACTS, group=GROUP["cell"], label=FRAMED + column, second=FRAMED + row * columns,
        answer=FRAMED + row * columns + column,
    )  # fmt: skip
    return Sheet(
        joined(around.slots, cells, filler(stage, name, around, bottom)),
        fills,
        rules,
        joined(facts, frame_facts(stage)),
    )


def table_rules(
    stage: SheetStage, name: str, top: Tensor, bottom: Tensor, left: Tensor, fits: Tensor, seen: Tensor
) -> Rects:
    """Lines between rows and columns, some of them or none. top, left: of rows and columns. fits, seen: which of them
    are there."""
    draws, around, end = stage.draws, stage.frame, stage.frame.left + (stage.frame.right - stage.frame.left)
    drawn = draws.integers(f"{name}/drawn", 0, 10)
    thick, colour = draws.uniform(f"{name}/thick", 0.5, 1.8), stage.ink(f"{name}/rule")
    half = thick / 2
    across = torch.stack([around.left.expand_as(top), top - half, end.expand_as(top), top + half], -1)
    last = torch.stack([around.left, bottom - half, end, bottom + half], -1)
    grid, lines = drawn < 4, (drawn >= 4) & (drawn < 6)
    kept = fits & (grid | lines | ((drawn < 8) & (torch.arange(top.shape[1], device=stage.device) == 1)))
    side = torch.stack([left - half, around.top.expand_as(left), left + half, bottom.expand_as(left)], -1)
    close = torch.stack([end - half, around.top, end + half, bottom], -1)
    return joined(
        rects_of(across, kept.float(), colour),
        rects_of(last, (drawn < 7).float(), colour),
        rects_of(side, (grid & seen).float(), colour),
        rects_of(close, grid.float(), colour),
    )
