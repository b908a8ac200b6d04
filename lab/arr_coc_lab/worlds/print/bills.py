"""Receipts and invoices: items, and what they come to."""

from __future__ import annotations

from dataclasses import replace

import torch

from . import paint, setting
from .bank import KIND
from .constants import constant
from .paint import rects_of
from .questions import GROUP
from .setting import UPPER, WHOLE
from .sheets import FRAMED, Sheet, SheetStage, empty_facts, filler, frame_facts, join_facts

HEAD_LINES, META, SUMS = 3, 4, 6
SUBTOTAL, OTHER, TAX, TOTAL, PAID, CHANGE = range(SUMS)


def bills(stage: SheetStage, name: str = "bills") -> Sheet:
    """Who sells, number and date, items with quantity, price and amount, then what they come to."""
    draws, device, number, atlas = stage.draws, stage.device, stage.number, stage.atlas
    around = stage.frame
    items = 8 if stage.height <= 384 else 12 if stage.height <= 640 else 20
    narrow = draws.chance(f"{name}/narrow", 35)
    body_wide = (around.right - around.left) * torch.where(narrow, draws.uniform(f"{name}/narrower", 0.6, 1.0), 1.0)
    left, right = around.left, around.left + body_wide
    face, em = around.face, around.em
    pitch = stage.high(face, em) + 2 + em * draws.uniform(f"{name}/space", 0.0, 0.9)
    ascent = atlas.ascent[face] * em
    ink = stage.ink(f"{name}/ink")

    # Who sells.
    head = draws.integers(f"{name}/head", 0, HEAD_LINES + 1)
    line = torch.arange(HEAD_LINES, device=device)
    where = draws.integers(f"{name}/where", 0, 3).float() * 0.5
    head_kinds = constant([KIND["company"], KIND["street"], KIND["phone"]], device=device).expand(number, -1)
    heads = stage.slots(
        HEAD_LINES,
        row=stage.row(f"{name}/head", head_kinds, HEAD_LINES),
        x=left + where * body_wide,
        align=where,
        scramble=stage.scramble(f"{name}/head", HEAD_LINES, 15),
        limit=body_wide,
        baseline=around.top + ascent + line * pitch,
        em=em,
        face=face,
        ink=ink,
        there=line < head,
    )
    top = around.top + head * pitch + (head > 0) * 0.5 * em

    # Number, date and the like.
    meta = draws.integers(f"{name}/meta", 1, META + 1)
    row = torch.arange(META, device=device)
    label_kinds = constant([KIND["invoice"], KIND["dated"], KIND["label"], KIND["label"]], device=device)
    labels = stage.row(f"{name}/meta", label_kinds.expand(number, -1), META)
    free = (labels[:, 2:] - stage.bank.first[KIND["label"]]).clamp(0, stage.bank.labels - 1)
    free_kinds = stage.bank.value_kind[free]
    value_kinds = torch.cat([constant([KIND["code"], KIND["date"]], device).expand(number, 2), free_kinds], 1)
    inline = draws.chance(f"{name}/inline", 50)
    value_x = torch.where(inline, left + body_wide * draws.uniform(f"{name}/tab", 0.28, 0.45), right)
    meta_base = top + ascent + row * pitch
    tail = torch.where(draws.chance(f"{name}/colon", 60), 1, 0)
    metas = stage.slots(
        META,
        row=labels,
        x=left,
        limit=body_wide * 0.27,
        tail=tail,
        baseline=meta_base,
        em=em,
        face=face,
        ink=ink,
        there=row < meta,
    )
    meta_values = stage.slots(
        META,
        row=stage.row(f"{name}/value", value_kinds, META),
        x=value_x,
        align=1 - inline.float(),
        scramble=stage.scramble(f"{name}/value", META, 20) & (row != 1),
        limit=body_wide * 0.5,
        baseline=meta_base,
        em=em,
        face=face,
        ink=ink,
        there=row < meta,
    )
    top = top + meta * pitch + 0.5 * em

    # Items: name, quantity, price, amount; in one of several orders, some of them without quantity and price.
    plain = draws.chance(f"{name}/plain", 35) | (body_wide < 17 * em)
    order = draws.integers(f"{name}/order", 0, 3)
    places = constant([[0.0, 0.56, 0.78, 1.0], [0.12, 0.08, 0.74, 1.0], [0.0, 1.0, 0.8, 0.6]], device=device)[
        order[:, 0]
    ]
    aligns = constant([[0.0, 1.0, 1.0, 1.0]] * 3, device=device)[order[:, 0]]
    widths = constant([[0.46, 0.09, 0.2, 0.2], [0.42, 0.07, 0.2, 0.22], [0.36, 0.1, 0.17, 0.2]], device=device)[
        order[:, 0]
    ]
    simple = constant([0.0, 1.0, 1.0, 1.0], device=device)
    places = torch.where(plain, simple, places)
    widths = torch.where(plain, constant([0.64, 0.1, 0.1, 0.33], device=device), widths)
    place_x = left + places * body_wide
    headed = draws.chance(f"{name}/headed", 55)
    wanted = draws.integers(f"{name}/items", 2, items + 1)
    sums_high = 6.5 * pitch
    at = torch.arange(items + 1, device=device)
    item_top = top + (at - 1 + headed.float()) * pitch
    fits = (item_top + pitch < around.bottom - torch.minimum(sums_high, 0.45 * (around.bottom - top))) & (at <= wanted)
    count = torch.exp(draws.uniform(f"{name}/count", 0.0, 3.0, items)).floor().long().clamp(1, 20)
    count = torch.where(draws.chance(f"{name}/one", 40, items), 1, count)
    price = torch.exp(
        draws.uniform(f"{name}/price", 3.9, 10.2, items) + draws.uniform(f"{name}/dear", -0.5, 1.5)
    ).long()
    there = fits[:, 1:]
    amount = count * price
    net = (amount * there).sum(1, keepdim=True)
    base = item_top + ascent
    strange = stage.scramble(f"{name}/item", items, 25)
    columns = []
    for column, kind in enumerate(("item", "int", "money", "money")):
        alone = torch.ones_like(plain) if column in (0, 3) else ~plain
        columns.append(
            stage.slots(
                items,
                row=stage.row(f"{name}/{column}", kind, items),
                amount=(None, None, price, amount)[column] if column > 1 else -1,
                scramble=strange & (column == 0),
                x=place_x[:, column : column + 1],
                align=aligns[:, column : column + 1],
                limit=widths[:, column : column + 1] * body_wide,
                baseline=base[:, 1:],
                em=em,
                face=face,
                ink=ink,
                there=there & alone,
            )
        )
    # A quantity is a whole number below 21: a row of the bank would not agree with the amount.
    columns[1] = replace(columns[1], amount=WHOLE + count)
    head_face = torch.where(draws.chance(f"{name}/head_own", 40), stage.face(f"{name}/head_face"), face)
    headers = stage.slots(
        4,
        row=stage.row(f"{name}/header", "column", 4),
        scramble=False,
        case=draws.chance(f"{name}/shout", 30).long() * UPPER,
        x=place_x,
        align=aligns,
        limit=widths * body_wide,
        baseline=base[:, :1],
        em=em,
        face=head_face,
        ink=ink,
        there=headed & ((at[:4] == 0) | (at[:4] == 3) | ~plain),
    )
    after = top + (headed.float() + there.sum(1, keepdim=True)) * pitch

    # What they come to.
    rate = draws.integers(f"{name}/rate", 3, 26)
    tax = torch.div(net * rate + 50, 100, rounding_mode="floor")
    other = torch.div(net * draws.integers(f"{name}/rebate", 1, 20), 100, rounding_mode="floor")
    has = torch.cat(
        [
            draws.chance(f"{name}/has_net", 80),
            draws.chance(f"{name}/has_other", 25),
            draws.chance(f"{name}/has_tax", 75),
            torch.ones_like(narrow),
            draws.chance(f"{name}/has_paid", 28),
            draws.chance(f"{name}/has_change", 60),
        ],
        1,
    )
    has[:, CHANGE] &= has[:, PAID]
    gross = net + tax * has[:, TAX : TAX + 1] + other * has[:, OTHER : OTHER + 1]
    paid = torch.div(gross + 999, 1000, rounding_mode="floor") * 1000
    values = torch.cat([net, other, tax, gross, paid, paid - gross], 1)
    sum_kinds = constant([KIND[kind] for kind in ("subtotal", "sum", "tax", "total", "sum", "sum")], device=device)
    manner = draws.integers(f"{name}/manner", 0, 10)
    banded = (manner >= 8) & (body_wide > 20 * em)
    big = torch.where(draws.chance(f"{name}/big", 55), draws.uniform(f"{name}/bigger", 1.05, 1.5), 1.0)
    is_total = torch.arange(SUMS, device=device) == TOTAL
    sum_em = em * torch.where(is_total, big, 1.0)
    sum_face = torch.where(is_total & draws.chance(f"{name}/bold", 55), stage.face(f"{name}/total"), face)
    sum_pitch = (stage.high(sum_face, sum_em) + 2 + em * draws.uniform(f"{name}/sum_space", 0.0, 0.8)) * has
    end = after + em * draws.uniform(f"{name}/sum_gap", 0.3, 1.6) + sum_pitch.cumsum(1)
    level = end - atlas.descent[sum_face] * sum_em - 1
    # In a band three of them stand beside each other, the sum below its name.
    in_band = has & constant([True, False, True, True, False, False], device=device)
    band_x = left + (in_band.cumsum(1) - 1) * body_wide / 3 + 0.2 * em
    band_top = after + 0.8 * em + atlas.ascent[sum_face] * sum_em
    right_names = manner < 4
    name_x = torch.where(
        right_names, right - 0.3 * body_wide, left + body_wide * draws.uniform(f"{name}/name_x", 0.0, 0.45)
    )
    name_limit = torch.where(right_names, 0.5 * body_wide, right - 0.32 * body_wide - name_x)
    sum_there = torch.where(banded, in_band, has)
    sum_tail = torch.where(draws.chance(f"{name}/sum_colon", 45), 1, 0)
    names = stage.slots(
        SUMS,
        row=stage.row(f"{name}/sums", sum_kinds.expand(number, -1), SUMS),
        tail=sum_tail,
        x=torch.where(banded, band_x, name_x),
        align=right_names.float() * ~banded,
        limit=torch.where(banded, body_wide / 3 - 0.4 * em, name_limit),
        baseline=torch.where(banded, band_top, level),
        em=sum_em,
        face=sum_face,
        ink=ink,
        there=sum_there,
    )
    under = band_top + stage.high(sum_face, sum_em) + 3
    totals = stage.slots(
        SUMS,
        amount=values,
        x=torch.where(banded, band_x, right),
        align=(~banded).float(),
        limit=torch.where(banded, body_wide / 3 - 0.4 * em, 0.29 * body_wide),
        baseline=torch.where(banded, under, level),
        em=sum_em,
        face=sum_face,
        ink=ink,
        there=sum_there,
    )
    thick, colour = draws.uniform(f"{name}/thick", 0.5, 1.6), stage.ink(f"{name}/rule")
    ruled = draws.integers(f"{name}/ruled", 0, 4)
    y = torch.cat([top - 2 - 0.15 * em, top + headed * pitch - 1.5, after + 1.5], 1)
    lines = torch.stack([left.expand_as(y), y - thick / 2, right.expand_as(y), y + thick / 2], -1)
    over = end[:, TOTAL : TOTAL + 1] - sum_pitch[:, TOTAL : TOTAL + 1] + 0.5
    total_line = torch.stack([name_x.clamp_max(1e5), over - thick / 2, right, over + thick / 2], -1)
    rules = paint.joined(
        [
            rects_of(lines, (ruled > 0).float() * torch.cat([ruled > 1, headed, torch.ones_like(headed)], 1), colour),
            rects_of(
                total_line,
                (draws.chance(f"{name}/total_line", 35) & ~banded & ~right_names & has[:, TAX : TAX + 1]).float(),
                colour,
            ),
        ]
    )
    shade_box = torch.stack([left, top, right, top + pitch], -1)
    fills = rects_of(shade_box, (headed & draws.chance(f"{name}/shaded", 25)).float(), stage.shade(f"{name}/shade"))

    # What is asked: sums most of all.
    first_meta = FRAMED + HEAD_LINES
    first_value, first_item = first_meta + META, first_meta + 2 * META
    first_name = first_item + 4 * items + 4
    first_sum = first_name + SUMS
    what = torch.arange(SUMS, device=device)
    by_kind = constant([GROUP[g] for g in ("subtotal", "field", "tax", "total", "field", "field")], device=device)
    group = torch.where(draws.chance(f"{name}/by_name", 45, SUMS), GROUP["field"], by_kind)
    sums = empty_facts(stage, SUMS, group=group, label=first_name + what, answer=first_sum + what, valid=sum_there)
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
        stage,
        META,
        group=torch.where(draws.chance(f"{name}/meta_name", 40, META), GROUP["field"], groups),
        label=first_meta + row,
        answer=first_value + row,
    )
    seller = empty_facts(stage, 1, group=GROUP["seller"], label=FRAMED, answer=FRAMED)
    low = torch.where(banded, under.amax(1, keepdim=True), end[:, -1:])
    slots = setting.joined(
        [around.slots, heads, metas, meta_values, *columns, headers, names, totals, filler(stage, name, around, low)]
    )
    return Sheet(slots, fills, rules, join_facts([sums, again, priced, counted, told, seller, frame_facts(stage)]))
