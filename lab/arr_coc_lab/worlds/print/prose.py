"""Pages of prose: lines in columns, and letters, memos and faxes."""

from __future__ import annotations

import torch
from torch import Tensor

from .bank import KIND
from .paint import rects_of
from .questions import GROUP
from .setting import UPPER, Slots, joined
from .sheets import (
    FRAMED,
    LARGEST,
    Facts,
    Sheet,
    SheetStage,
    distinct_labels,
    empty_facts,
    frame_facts,
    no_rects,
)

# ---- Lines and paragraphs --------------------------------------------------------------------------------------------

DENSE_FACTS = 12


def dense(stage: SheetStage, name: str = "dense", tight: bool = False) -> Sheet:
    """One to four columns of lines. tight: hardly any margin, nothing asked."""
    draws, (height, width), device = stage.draws, (stage.height, stage.width), stage.device
    columns, lines = (3 if width <= 512 else 4), max(6, height // 8)
    count, number = columns * lines, stage.number

    def grid(values: Tensor) -> Tensor:
        return values.view(number, columns, lines)

    base = stage.size(f"{name}/base")
    mixed = draws.chance(f"{name}/mixed", 35)[..., None]
    starts = grid(draws.chance(f"{name}/paragraph", 14, count))
    # What a line is like follows the line that its paragraph begins with.
    at = torch.arange(lines, device=device)
    leader = torch.where(starts, at, 0).cummax(2).values

    def by_paragraph(values: Tensor) -> Tensor:
        return grid(values).gather(2, leader)

    own = grid(stage.size(f"{name}/own", count=count))
    varied = by_paragraph(draws.uniform(f"{name}/vary", 0.8, 1.25, count))
    varied = torch.where(by_paragraph(draws.chance(f"{name}/varied", 35, count)), varied, 1.0)
    heading = starts & grid(draws.chance(f"{name}/heading", 35, count))
    larger = grid(draws.uniform(f"{name}/larger", 1.1, 2.0, count))
    em = torch.where(mixed, own, base[..., None] * varied * torch.where(heading, larger, 1.0))
    em = em.clamp(stage.smallest, LARGEST)
    page_face, other = stage.face(f"{name}/page")[..., None], by_paragraph(stage.face(f"{name}/other", count))
    own_face = by_paragraph(draws.chance(f"{name}/own_face", 30, count)) | mixed
    face = torch.where(own_face | heading, other, page_face)
    lead = draws.uniform(f"{name}/leading", 0.98 if tight else 1.0, 1.25 if tight else 1.7)[..., None]
    high = stage.high(face, em)
    pitch = torch.maximum(high + 1.7, em * lead)
    gap = starts * em * by_paragraph(draws.uniform(f"{name}/gap", 0.0, 0.9, count)) * (0.3 if tight else 1.0)
    top = draws.uniform(f"{name}/top", -0.03, 0.02 if tight else 0.08)[..., None] * height
    bottom = top + (pitch + gap).cumsum(2)
    baseline = bottom - stage.atlas.descent[face] * em - 0.5 * (pitch - high)

    least = torch.ceil(width / (44 * base)).long()
    most = torch.floor(width / (7 * base)).long().clamp(1, columns)
    wanted = draws.integers(f"{name}/columns", 1, columns + 1)
    several = torch.minimum(torch.maximum(wanted, least), most)[..., None].float()
    margin = draws.uniform(f"{name}/margin", 0.005, 0.02 if tight else 0.08)[..., None] * width
    gutter = (draws.uniform(f"{name}/gutter", 0.6, 2.5)[..., None] * base[..., None]).clamp_min(5)
    wide = (width - 2 * margin - gutter * (several - 1)) / several
    which = torch.arange(columns, device=device)[None, :, None]
    left = margin + which * (wide + gutter)
    indent = torch.where(starts & ~heading, em * draws.uniform(f"{name}/indent", 0.0, 1.5)[..., None], 0.0)
    manner = by_paragraph(draws.integers(f"{name}/align", 0, 100, count))
    align = torch.where(manner < 8, 0.5, torch.where(manner < 12, 1.0, 0.0))
    anchor = left + torch.where(align == 0, indent, align * wide)
    pick = grid(draws.integers(f"{name}/pick", 0, 100, count))
    kinds = torch.full_like(pick, KIND["sentence"])
    steps = (("nonsense", 16), ("text", 22), ("name", 24), ("street", 26), ("code", 28), ("company", 30), ("date", 32))
    for kind, share in reversed(steps):
        kinds = torch.where(pick < share, KIND[kind], kinds)
    rows = stage.bank.choose(kinds.view(number, -1), draws.bits(f"{name}/row", count))
    capital = by_paragraph(draws.chance(f"{name}/capital", 12, count))
    ink = stage.ink(f"{name}/ink", columns)[:, :, None].expand(-1, -1, lines, -1).reshape(number, count, 3)

    def flat(values: Tensor) -> Tensor:
        return values.expand(number, columns, lines).reshape(number, count)

    slots = stage.slots(
        count, row=rows, scramble=flat(by_paragraph(draws.chance(f"{name}/scramble", 22, count))),
        case=flat(capital.long() * UPPER), x=flat(anchor), align=flat(align), limit=flat(wide - indent),
        baseline=flat(baseline), em=flat(em), face=flat(face), stretch=draws.uniform(f"{name}/stretch", 0.9, 1.12),
        slant=draws.uniform(f"{name}/slant", 0.0, 0.22) * draws.chance(f"{name}/slanted", 6), cut=True,
        justify=draws.chance(f"{name}/justify", 35), ink=ink,
        there=flat((which < several) & (baseline < height + 4) & (bottom > 0)),
    )  # fmt: skip
    # A line of larger type above or below another paragraph's rule.
    thick = draws.uniform(f"{name}/thick", 0.6, 2.0)
    rule = (starts & grid(draws.chance(f"{name}/rule", 10, count)))[..., :24] & (which < several)
    y = (bottom - pitch - 0.5 * gap)[..., :24]
    room = (gap[..., :24] > 3 + 2 * thick[..., None]) & rule
    ends = torch.stack(
        [left.expand_as(y), y - thick[..., None] / 2, (left + wide).expand_as(y), y + thick[..., None] / 2], -1
    )
    rules = rects_of(ends.reshape(number, -1, 4), room.reshape(number, -1).float(), stage.ink(f"{name}/rules"))
    return Sheet(slots, no_rects(stage), rules, dense_facts(stage, slots, columns, lines, name))


def dense_facts(stage: SheetStage, slots: Slots, columns: int, lines: int, name: str) -> Facts:
    """A few lines are asked about: what they say whole, or which word comes next; and what stands below one."""
    draws = stage.draws
    shown = slots.there.view(stage.number, columns, lines).sum(2).sum(1, keepdim=True)
    order = (~slots.there).to(torch.uint8).argsort(dim=1, stable=True)
    chosen = order.gather(1, draws.below(f"{name}/asked", shown, DENSE_FACTS))
    whole = draws.chance(f"{name}/whole", 50, DENSE_FACTS)
    # One word may stand in many places, two hardly.
    words = torch.where(whole, draws.integers(f"{name}/words", 1, 3, DENSE_FACTS), 2)
    said = empty_facts(
        stage, DENSE_FACTS, group=torch.where(whole, GROUP["line"], GROUP["next"]), label=chosen, label_words=words,
        answer=chosen, answer_from=torch.where(whole, 0, words), answer_words=torch.where(whole, 0, 1),
    )  # fmt: skip
    # In narrow columns lines are short: what stands below one, in the same column.
    line, follower = chosen[:, : DENSE_FACTS // 2], chosen[:, : DENSE_FACTS // 2] + 1
    below = empty_facts(
        stage, DENSE_FACTS // 2, group=GROUP["below"], label=line, answer=follower % (columns * lines),
        valid=follower % lines > 0,
    )  # fmt: skip
    return joined(said, below)


# ---- Letters, memos, faxes -------------------------------------------------------------------------------------------

FIELDS = 6
LETTER_FACTS = 8


def letters(stage: SheetStage, name: str = "letters") -> Sheet:
    """A letterhead, some lines of who, to whom and when, then prose."""
    draws, device, atlas = stage.draws, stage.device, stage.atlas
    around = stage.frame
    face, em, wide = around.face, around.em, around.right - around.left
    row = torch.arange(FIELDS, device=device)
    several = draws.integers(f"{name}/fields", 0, FIELDS + 1)
    pitch = (stage.high(face, em) + 1.7) * draws.uniform(f"{name}/leading", 1.0, 1.7)
    typed = torch.where(draws.chance(f"{name}/typed", 30), stage.face(f"{name}/value"), face)
    label = distinct_labels(stage, f"{name}/label", FIELDS)
    base = around.top + atlas.ascent[face] * em + row * pitch
    tab = draws.uniform(f"{name}/tab", 0.2, 0.42)
    ink = stage.ink(f"{name}/ink")
    fits = (row < several) & (base + pitch < around.bottom)
    labels = stage.slots(
        FIELDS, row=stage.bank.first[KIND["label"]] + label,
        tail=torch.where(draws.chance(f"{name}/colon", 85), 1, 0),
        case=draws.chance(f"{name}/shout", 40).long() * UPPER, scramble=stage.scramble(f"{name}/label", FIELDS, 12),
        x=around.left, limit=wide * tab - 0.4 * em, baseline=base, em=em, face=face, ink=ink, there=fits,
    )  # fmt: skip
    values = stage.slots(
        FIELDS, row=stage.row(f"{name}/value", stage.bank.value_kind[label], FIELDS), x=around.left + wide * tab,
        scramble=stage.scramble(f"{name}/value", FIELDS, 25), limit=wide * (1 - tab), baseline=base, em=em,
        face=typed, ink=ink, there=fits,
    )  # fmt: skip
    lines = max(6, stage.height // 9)
    after = around.top + several * pitch + em * draws.uniform(f"{name}/after", 0.4, 1.5)
    starts = draws.chance(f"{name}/paragraph", 18, lines)
    gap = starts * em * draws.uniform(f"{name}/gap", 0.0, 0.9)
    bottom = after + (pitch + gap).cumsum(1)
    line_base = bottom - pitch + atlas.ascent[face] * em
    indent = starts * em * draws.uniform(f"{name}/indent", 0.0, 2.5)
    column = torch.minimum(wide, 46 * em)
    short = draws.chance(f"{name}/short", 12, lines)
    pick = draws.integers(f"{name}/pick", 0, 100, lines)
    kind = torch.where(pick < 8, KIND["nonsense"], torch.where(short, KIND["text"], KIND["sentence"]))
    prose = stage.slots(
        lines, row=stage.row(f"{name}/prose", kind, lines), scramble=stage.scramble(f"{name}/prose", lines, 22),
        x=around.left + indent, limit=column - indent, baseline=line_base, em=em, face=face, ink=ink, cut=True,
        justify=draws.chance(f"{name}/justify", 35), there=(bottom < around.bottom),
    )  # fmt: skip
    shown = prose.there.sum(1, keepdim=True)
    chosen_line = FRAMED + 2 * FIELDS + draws.below(f"{name}/asked", shown, LETTER_FACTS)
    words = draws.integers(f"{name}/words", 2, 4, LETTER_FACTS)
    prose_facts = empty_facts(
        stage, LETTER_FACTS, group=GROUP["next"], label=chosen_line, label_words=words, answer=chosen_line,
        answer_from=words, answer_words=1,
    )  # fmt: skip
    fields_facts = empty_facts(
        stage, FIELDS, group=GROUP["field"], label=FRAMED + row, answer=FRAMED + FIELDS + row, valid=fits
    )
    thick = draws.uniform(f"{name}/thick", 0.5, 2.2)
    y = torch.cat([around.top - 0.3 * em, after - 0.3 * em], 1)
    line = torch.stack([around.left.expand_as(y), y - thick / 2, around.right.expand_as(y), y + thick / 2], -1)
    ruled = draws.chance(f"{name}/ruled", 30, 2) & torch.cat([around.slots.there[:, :1], several > 0], 1)
    rules = rects_of(line, ruled.float(), stage.ink(f"{name}/rule"))
    slots = joined(around.slots, labels, values, prose)
    return Sheet(slots, no_rects(stage), rules, joined(fields_facts, prose_facts, frame_facts(stage)))
