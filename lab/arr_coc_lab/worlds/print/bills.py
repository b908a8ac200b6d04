"""Receipts and invoices: items, and what they come to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ..constants import constant
from .bank import KIND
from .paint import Rects, rects_of
from .questions import GROUP
from .setting import UPPER, WHOLE, Slots, SlotValue, joined
from .sheets import FRAMED, Facts, Sheet, SheetStage, empty_facts, filler, frame_facts

HEAD_LINES, META, SUMS = 3, 4, 6
SUBTOTAL, OTHER, TAX, TOTAL, PAID, CHANGE = range(SUMS)


NAME = "bills"


@dataclass(frozen=True)
class BillPaper:
    """What all parts of a bill share. left, right, wide: (B, 1) of its body. pitch, ascent: of its lines."""

    stage: SheetStage
    narrow: Tensor
    left: Tensor
    wide: Tensor
    pitch: Tensor
    ascent: Tensor
    ink: Tensor

    @classmethod
    def of(cls, stage: SheetStage) -> BillPaper:
        draws, around = stage.draws, stage.frame
        face, em = around.face, around.em
        narrow = draws.chance(f"{NAME}/narrow", 35)
        share = torch.where(narrow, draws.uniform(f"{NAME}/narrower", 0.6, 1.0), 1.0)
        pitch = stage.high(face, em) + 2 + em * draws.uniform(f"{NAME}/space", 0.0, 0.9)
        ascent = stage.atlas.ascent[face] * em
        wide = (around.right - around.left) * share
        return cls(stage, narrow, around.left, wide, pitch, ascent, stage.ink(f"{NAME}/ink"))

    @property
    def right(self) -> Tensor:
        return self.left + self.wide

    @property
    def items(self) -> int:
        """How many lines of goods there may be."""
        return 8 if self.stage.height <= 384 else 12 if self.stage.height <= 640 else 20

    def slots(self, count: int, **given: SlotValue) -> Slots:
        """In the page's own type, where nothing else is said."""
        return self.stage.slots(
            count, **{"em": self.stage.frame.em, "face": self.stage.frame.face, "ink": self.ink} | given
        )


class BillGoods(NamedTuple):
    """What is sold. slots: its columns and their headers. plain: (B, 1), without quantity and price. headed: (B, 1).
    net: (B, 1) cents. top, after: (B, 1), where it begins and ends."""

    slots: list[Slots]
    plain: Tensor
    headed: Tensor
    net: Tensor
    top: Tensor
    after: Tensor


class BillSums(NamedTuple):
    """What the goods come to. slots: names and sums. there: (B, 6). banded: (B, 1), beside each other. low: (B, 1),
    where they end. over, name_x: (B, 1), where a line above the total stands. lined: (B, 1), whether one may."""

    slots: list[Slots]
    there: Tensor
    banded: Tensor
    low: Tensor
    over: Tensor
    name_x: Tensor
    lined: Tensor


def seller(bill: BillPaper) -> tuple[Slots, Tensor]:
    """Who sells: lines of the heading, and where they end."""
    stage, draws, around, device = bill.stage, bill.stage.draws, bill.stage.frame, bill.stage.device
    head = draws.integers(f"{NAME}/head", 0, HEAD_LINES + 1)
    line = torch.arange(HEAD_LINES, device=device)
    where = draws.integers(f"{NAME}/where", 0, 3).float() * 0.5
    head_kinds = constant([KIND["company"], KIND["street"], KIND["phone"]], device=device).expand(stage.number, -1)
    heads = bill.slots(
        HEAD_LINES, row=stage.row(f"{NAME}/head", head_kinds, HEAD_LINES), x=bill.left + where * bill.wide,
        align=where, scramble=stage.scramble(f"{NAME}/head", HEAD_LINES, 15), limit=bill.wide,
        baseline=around.top + bill.ascent + line * bill.pitch, there=line < head,
    )  # fmt: skip
    return heads, around.top + head * bill.pitch + (head > 0) * 0.5 * around.em


def details(bill: BillPaper, top: Tensor) -> tuple[list[Slots], Tensor]:
    """Number, date and the like: labels and values, and where they end."""
    stage, draws, device = bill.stage, bill.stage.draws, bill.stage.device
    meta = draws.integers(f"{NAME}/meta", 1, META + 1)
    row = torch.arange(META, device=device)
    label_kinds = constant([KIND["invoice"], KIND["dated"], KIND["label"], KIND["label"]], device=device)
    labels = stage.row(f"{NAME}/meta", label_kinds.expand(stage.number, -1), META)
    free = (labels[:, 2:] - stage.bank.first[KIND["label"]]).clamp(0, stage.bank.labels - 1)
    free_kinds = stage.bank.value_kind[free]
    value_kinds = torch.cat([constant([KIND["code"], KIND["date"]], device).expand(stage.number, 2), free_kinds], 1)
    inline = draws.chance(f"{NAME}/inline", 50)
    value_x = torch.where(inline, bill.left + bill.wide * draws.uniform(f"{NAME}/tab", 0.28, 0.45), bill.right)
    meta_base = top + bill.ascent + row * bill.pitch
    tail = torch.where(draws.chance(f"{NAME}/colon", 60), 1, 0)
    metas = bill.slots(
        META, row=labels, x=bill.left, limit=bill.wide * 0.27, tail=tail, baseline=meta_base, there=row < meta,
    )  # fmt: skip
    meta_values = bill.slots(
        META, row=stage.row(f"{NAME}/value", value_kinds, META), x=value_x, align=1 - inline.float(),
        scramble=stage.scramble(f"{NAME}/value", META, 20) & (row != 1), limit=bill.wide * 0.5, baseline=meta_base,
        there=row < meta,
    )  # fmt: skip
    return [metas, meta_values], top + meta * bill.pitch + 0.5 * stage.frame.em


def goods(bill: BillPaper, top: Tensor) -> BillGoods:
    """Name, quantity, price, amount; in one of several orders, some of them without quantity and price."""
    stage, draws, around, device = bill.stage, bill.stage.draws, bill.stage.frame, bill.stage.device
    items, face, em = bill.items, around.face, around.em
    plain = draws.chance(f"{NAME}/plain", 35) | (bill.wide < 17 * em)
    chosen = draws.integers(f"{NAME}/order", 0, 3)[:, 0]
    aligns = constant([0.0, 1.0, 1.0, 1.0], device=device)
    orders = [[0.0, 0.56, 0.78, 1.0], [0.12, 0.08, 0.74, 1.0], [0.0, 1.0, 0.8, 0.6]]
    rooms = [[0.46, 0.09, 0.2, 0.2], [0.42, 0.07, 0.2, 0.22], [0.36, 0.1, 0.17, 0.2]]
    places = torch.where(plain, aligns, constant(orders, device=device)[chosen])
    widths = torch.where(plain, constant([0.64, 0.1, 0.1, 0.33], device=device), constant(rooms, device=device)[chosen])
    place_x = bill.left + places * bill.wide
    headed = draws.chance(f"{NAME}/headed", 55)
    wanted = draws.integers(f"{NAME}/items", 2, items + 1)
    sums_high = 6.5 * bill.pitch
    at = torch.arange(items + 1, device=device)
    item_top = top + (at - 1 + headed.float()) * bill.pitch
    fits = (item_top + bill.pitch < around.bottom - torch.minimum(sums_high, 0.45 * (around.bottom - top))) & (
        at <= wanted
    )
    count = torch.exp(draws.uniform(f"{NAME}/count", 0.0, 3.0, items)).floor().long().clamp(1, 20)
    count = torch.where(draws.chance(f"{NAME}/one", 40, items), 1, count)
    price = torch.exp(
        draws.uniform(f"{NAME}/price", 3.9, 10.2, items) + draws.uniform(f"{NAME}/dear", -0.5, 1.5)
    ).long()
    there = fits[:, 1:]
    amount = count * price
    net = (amount * there).sum(1, keepdim=True)
    base = item_top + bill.ascent
    strange = stage.scramble(f"{NAME}/item", items, 25)
    columns = []
    for column, kind in enumerate(("item", "int", "money", "money")):
        alone = torch.ones_like(plain) if column in (0, 3) else ~plain
        columns.append(
            bill.slots(
                items,
                row=stage.row(f"{NAME}/{column}", kind, items),
                amount=(-1, -1, price, amount)[column],
                scramble=strange & (column == 0),
                x=place_x[:, column : column + 1],
                align=aligns[column],
                limit=widths[:, column : column + 1] * bill.wide,
                baseline=base[:, 1:],
                there=there & alone,
            )
        )
    # A quantity is a whole number below 21: a row of the bank would not agree with the amount.
    columns[1] = replace(columns[1], amount=WHOLE + count)
    head_face = torch.where(draws.chance(f"{NAME}/head_own", 40), stage.face(f"{NAME}/head_face"), face)
    headers = bill.slots(
        4, row=stage.row(f"{NAME}/header", "column", 4), scramble=False,
        case=draws.chance(f"{NAME}/shout", 30).long() * UPPER, x=place_x, align=aligns, limit=widths * bill.wide,
        baseline=base[:, :1], face=head_face, there=headed & ((at[:4] == 0) | (at[:4] == 3) | ~plain),
    )  # fmt: skip
    after = top + (headed.float() + there.sum(1, keepdim=True)) * bill.pitch
    return BillGoods([*columns, headers], plain, headed, net, top, after)


def sums_of(bill: BillPaper, sold: BillGoods) -> BillSums:
    """What the goods come to."""
    stage, draws, around, device = bill.stage, bill.stage.draws, bill.stage.frame, bill.stage.device
    face, em = around.face, around.em
    net, after = sold.net, sold.after
    rate = draws.integers(f"{NAME}/rate", 3, 26)
    tax = torch.div(net * rate + 50, 100, rounding_mode="floor")
    other = torch.div(net * draws.integers(f"{NAME}/rebate", 1, 20), 100, rounding_mode="floor")
    has = torch.cat(
        [
            draws.chance(f"{NAME}/has_net", 80),
            draws.chance(f"{NAME}/has_other", 25),
            draws.chance(f"{NAME}/has_tax", 75),
            torch.ones_like(bill.narrow),
            draws.chance(f"{NAME}/has_paid", 28),
            draws.chance(f"{NAME}/has_change", 60),
        ],
        1,
    )
    has[:, CHANGE] &= has[:, PAID]
    gross = net + tax * has[:, TAX : TAX + 1] + other * has[:, OTHER : OTHER + 1]
    paid = torch.div(gross + 999, 1000, rounding_mode="floor") * 1000
    values = torch.cat([net, other, tax, gross, paid, paid - gross], 1)
    sum_kinds = constant([KIND[kind] for kind in ("subtotal", "sum", "tax", "total", "sum", "sum")], device=device)
    manner = draws.integers(f"{NAME}/manner", 0, 10)
    banded = (manner >= 8) & (bill.wide > 20 * em)
    big = torch.where(draws.chance(f"{NAME}/big", 55), draws.uniform(f"{NAME}/bigger", 1.05, 1.5), 1.0)
    is_total = torch.arange(SUMS, device=device) == TOTAL
    sum_em = em * torch.where(is_total, big, 1.0)
    sum_face = torch.where(is_total & draws.chance(f"{NAME}/bold", 55), stage.face(f"{NAME}/total"), face)
    sum_pitch = (stage.high(sum_face, sum_em) + 2 + em * draws.uniform(f"{NAME}/sum_space", 0.0, 0.8)) * has
    end = after + em * draws.uniform(f"{NAME}/sum_gap", 0.3, 1.6) + sum_pitch.cumsum(1)
    level = end - stage.atlas.descent[sum_face] * sum_em - 1
    # In a band three of them stand beside each other, the sum below its name.
    in_band = has & constant([True, False, True, True, False, False], device=device)
    band_x = bill.left + (in_band.cumsum(1) - 1) * bill.wide / 3 + 0.2 * em
    band_top = after + 0.8 * em + stage.atlas.ascent[sum_face] * sum_em
    right_names = manner < 4
    name_x = torch.where(
        right_names, bill.right - 0.3 * bill.wide, bill.left + bill.wide * draws.uniform(f"{NAME}/name_x", 0.0, 0.45)
    )
    name_limit = torch.where(right_names, 0.5 * bill.wide, bill.right - 0.32 * bill.wide - name_x)
    sum_there = torch.where(banded, in_band, has)
    sum_tail = torch.where(draws.chance(f"{NAME}/sum_colon", 45), 1, 0)
    names = bill.slots(
        SUMS, row=stage.row(f"{NAME}/sums", sum_kinds.expand(stage.number, -1), SUMS), tail=sum_tail,
        x=torch.where(banded, band_x, name_x), align=right_names.float() * ~banded,
        limit=torch.where(banded, bill.wide / 3 - 0.4 * em, name_limit),
        baseline=torch.where(banded, band_top, level), em=sum_em, face=sum_face, there=sum_there,
    )  # fmt: skip
    under = band_top + stage.high(sum_face, sum_em) + 3
    totals = bill.slots(
        SUMS, amount=values, x=torch.where(banded, band_x, bill.right), align=(~banded).float(),
        limit=torch.where(banded, bill.wide / 3 - 0.4 * em, 0.29 * bill.wide),
        baseline=torch.where(banded, under, level), em=sum_em, face=sum_face, there=sum_there,
    )  # fmt: skip
    over = end[:, TOTAL : TOTAL + 1] - sum_pitch[:, TOTAL : TOTAL + 1] + 0.5
    lined = ~banded & ~right_names & has[:, TAX : TAX + 1]
    low = torch.where(banded, under.amax(1, keepdim=True), end[:, -1:])
    return BillSums([names, totals], sum_there, banded, low, over, name_x, lined)


def ruled_and_filled(bill: BillPaper, sold: BillGoods, sums: BillSums) -> tuple[Rects, Rects]:
    """Rules around the goods and above the total, and a band behind the headers."""
    stage, draws, em = bill.stage, bill.stage.draws, bill.stage.frame.em
    top, headed, after = sold.top, sold.headed, sold.after
    thick, colour = draws.uniform(f"{NAME}/thick", 0.5, 1.6), stage.ink(f"{NAME}/rule")
    ruled = draws.integers(f"{NAME}/ruled", 0, 4)
    y = torch.cat([top - 2 - 0.15 * em, top + headed * bill.pitch - 1.5, after + 1.5], 1)
    lines = torch.stack([bill.left.expand_as(y), y - thick / 2, bill.right.expand_as(y), y + thick / 2], -1)
    total_line = torch.stack([sums.name_x.clamp_max(1e5), sums.over - thick / 2, bill.right, sums.over + thick / 2], -1)
    rules = joined(
        rects_of(lines, (ruled > 0).float() * torch.cat([ruled > 1, headed, torch.ones_like(headed)], 1), colour),
        rects_of(
            total_line,
            (draws.chance(f"{NAME}/total_line", 35) & sums.lined).float(),
            colour,
        ),
    )
    shade_box = torch.stack([bill.left, top, bill.right, top + bill.pitch], -1)
    fills = rects_of(shade_box, (headed & draws.chance(f"{NAME}/shaded", 25)).float(), stage.shade(f"{NAME}/shade"))
    return fills, rules


def bill_facts(bill: BillPaper, plain: Tensor, sums_there: Tensor) -> Facts:
    """What is asked: sums most of all."""
    stage, draws, items, device = bill.stage, bill.stage.draws, bill.items, bill.stage.device
    first_meta = FRAMED + HEAD_LINES
    first_value, first_item = first_meta + META, first_meta + 2 * META
    first_name = first_item + 4 * items + 4
    first_sum = first_name + SUMS
    what = torch.arange(SUMS, device=device)
    by_kind = constant([GROUP[g] for g in ("subtotal", "field", "tax", "total", "field", "field")], device=device)
    group = torch.where(draws.chance(f"{NAME}/by_name", 45, SUMS), GROUP["field"], by_kind)
    sums = empty_facts(stage, SUMS, group=group, label=first_name + what, answer=first_sum + what, valid=sums_there)
    again = empty_facts(stage, 2, group=GROUP["total"], label=first_name + TOTAL, answer=first_sum + TOTAL)
    each = torch.arange(items, device=device)
    # "What does it cost" is asked where only one sum stands beside a name.
    cost = torch.where(plain, GROUP["price"], GROUP["amount"])
    priced = empty_facts(stage, 4, group=cost, label=first_item + each[:4], answer=first_item + 3 * items + each[:4])
    counted = empty_facts(
        stage, 2, group=GROUP["count"], label=first_item + each[:2], answer=first_item + items + each[:2], valid=~plain
    )
    groups = constant([GROUP["invoice"], GROUP["date"], GROUP["field"], GROUP["field"]], device=device)
    told = empty_facts(
        stage, META, group=torch.where(draws.chance(f"{NAME}/meta_name", 40, META), GROUP["field"], groups),
        label=first_meta + torch.arange(META, device=device), answer=first_value + torch.arange(META, device=device),
    )  # fmt: skip
    seller = empty_facts(stage, 1, group=GROUP["seller"], label=FRAMED, answer=FRAMED)
    return joined(sums, again, priced, counted, told, seller, frame_facts(stage))


def bills(stage: SheetStage) -> Sheet:
    """Who sells, number and date, items with quantity, price and amount, then what they come to."""
    bill = BillPaper.of(stage)
    heads, top = seller(bill)
    told, top = details(bill, top)
    sold = goods(bill, top)
    sums = sums_of(bill, sold)
    fills, rules = ruled_and_filled(bill, sold, sums)
    print_below = filler(stage, NAME, stage.frame, sums.low)
    slots = joined(stage.frame.slots, heads, *told, *sold.slots, *sums.slots, print_below)
    return Sheet(slots, fills, rules, bill_facts(bill, sold.plain, sums.there))
