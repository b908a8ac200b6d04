"""Till receipts: shop, date, items with prices, and sums that are right."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from ..content import (
    VALUE_LENGTH,
    amount,
    answer_of,
    any_word,
    ask_all,
    at_edge,
    by_task,
    capitalise,
    choose,
    clock,
    currency,
    date,
    join,
    pick_task,
    upper,
    words,
)
from ..scene import Layer, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import paper_colour, table

TASKS = ("price", "sum", "detail", "item", "shop")
# Rows beside the items, in order: two above them, five below.
HEAD, FOOT = ("date", "time"), ("subtotal", "tax", "total", "cash", "change")


def _written(stage: Stage, bought: torch.Tensor, nursery: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """What stands on the receipt: (B, most, …) the prices; (B, rows, …) what is on the right, and on the left."""
    draws, most, above = stage.draws, bought.shape[1], 0 if nursery else len(HEAD)
    fixed_names = ("total",) if nursery else (*HEAD, *FOOT)
    item = draws.order("items", len(words("items")))[:, :most]
    cents = draws.integers("cents", 8, 200, most) * 5 + draws.integers("cents/nine", 0, 2, most) * 4
    subtotal = (cents * bought).sum(1, keepdim=True)
    tax = torch.div(subtotal * draws.integers("tax", 4, 20) + 50, 100, rounding_mode="floor")
    total = subtotal if nursery else subtotal + tax
    cash = torch.div(total + 499, 500, rounding_mode="floor") * 500 + draws.integers("cash", 0, 2) * 500
    sign = currency(stage, "sign")
    prices = amount(cents, sign)
    sums = [amount(value, sign) for value in (subtotal, tax, total, cash, cash - total)]
    day, hour = (join([value], VALUE_LENGTH) for value in (date(stage, "date", 1), clock(stage, "time", 1)))
    heads = [] if nursery else [day, hour]
    feet = [sums[2]] if nursery else sums
    right_ids = torch.cat([*heads, prices, *feet], 1)
    names = choose(words("items"), item)
    fixed = torch.arange(len(fixed_names), device=stage.device).expand(stage.number, -1)
    fixed_ids = choose(fixed_names, fixed)
    width = max(names.shape[-1], fixed_ids.shape[-1])
    names, fixed_ids = join([names], width), join([fixed_ids], width)
    return prices, right_ids, torch.cat([fixed_ids[:, :above], names, fixed_ids[:, above:]], 1)


class ReceiptDrawing(NamedTuple):
    """A receipt before anything is asked. above, below: rows beside the items. base: (B, rows)."""

    above: int
    below: int
    shop_ids: torch.Tensor
    shop: Text
    bought: torch.Tensor
    prices: torch.Tensor
    right_ids: torch.Tensor
    plain: torch.Tensor
    there: torch.Tensor
    base: torch.Tensor
    right: Text
    left: Text
    layers: list[Layer]


def _receipt(stage: Stage) -> ReceiptDrawing:
    """The paper with the shop's name, what was bought, and what it comes to."""
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    nursery = stage.width < 192 or stage.height < 192 or knobs.items == 1
    paper_width = stage.width - 8 if stage.width < 384 else max(280, stage.width * 11 // 20)
    margin = 6 if stage.width < 192 else 14
    most = min(24, knobs.items or 24, max(1, stage.height // 20))
    above, below = (0, 1) if nursery else (len(HEAD), len(FOOT))

    # Type: one body size for the whole receipt; the total and the shop's name are larger.
    body = stage.type_sizes("type", 1, largest=20 if stage.width >= 256 else 16)
    face = stage.face("face")
    limit_size = stage.size_index(stage.constant([[16 if stage.width < 384 else 20]]))
    body = torch.minimum(body, limit_size)
    total_size = torch.minimum(body + draws.integers("total/larger", 1, 4), limit_size + 1)
    shop_size = stage.size_index(
        draws.integers("shop/size", 13, 17) if nursery else draws.integers("shop/size", 18, 27)
    )

    x0 = 4 + draws.drift("paper/x", stage.constant([[stage.width - 8 - paper_width]]))
    paper = paper_colour(stage, "paper")
    ink = stage.ink("ink", paper)
    top = torch.full_like(x0, 4)
    shop_ids = any_word(stage, "shop", "shops")
    shop_ids = torch.where(draws.chance("shop/capitals", 40)[..., None], upper(shop_ids), shop_ids)
    shop = Text(shop_ids, x0, top, stage.face("shop/face"), shop_size, ink).fitted(paper_width - 2 * margin)
    shop = shop.aligned(centre=x0 + paper_width // 2)
    shop = replace(shop, baseline=top + 10 + shop.atlas.ascent[shop.face, shop.size])
    header_end = shop.baseline + (shop.height() - shop.atlas.ascent[shop.face, shop.size])

    # How many items fit between the heading and the sums?
    line = shop.atlas.height[face, body] + draws.integers("leading", 2, 6 + max(0, stage.height - 512) // 64)
    total_line = torch.maximum(shop.atlas.height[face, total_size] + 6, line)
    rest = header_end + 12 + line * (above + below - 1) + total_line + 30
    room = torch.div(stage.height - 8 - rest, line, rounding_mode="floor").clamp(1, most)
    count = torch.minimum(room, draws.integers("count", (most + 1) // 2, most + 1)).clamp(min=1)
    bought = torch.arange(most, device=device) < count
    prices, right_ids, plain = _written(stage, bought, nursery)
    style = draws.chance("capitals", 40)[..., None]
    left_ids = torch.where(style, upper(plain), capitalise(plain))

    yes = torch.ones(stage.number, 1, dtype=torch.bool, device=device)
    there = torch.cat([yes.expand(-1, above), bought, yes.expand(-1, below)], 1)
    rows = there.shape[1]
    is_total = torch.zeros(rows, dtype=torch.bool, device=device)
    sums = above + most + (0 if nursery else 2)
    is_total[sums : sums + 1] = True
    size = torch.where(is_total, total_size, body)
    height = torch.where(is_total, total_line, line) * there
    # A rule and some air before the items, before the sums and after the total.
    breaks = torch.zeros(rows, dtype=torch.int64, device=device)
    for place in (0, above, above + most):
        breaks[place : place + 1] = 8
    end = (height + breaks).cumsum(1)
    base = header_end + 4 + end - height + shop.atlas.ascent[face, size] + 2
    tall = (end[:, -1:] + header_end + 22 - top).clamp(max=stage.height - 6)
    down = draws.drift("paper/y", stage.height - 6 - tall)
    base, top = base + down, top + down
    shop = replace(shop, baseline=shop.baseline + down)

    inks = ink.expand(-1, rows, 3)
    faces = face.expand(-1, rows)
    edge = x0 + paper_width - margin
    right = Text(right_ids, base, base, faces, size, inks).fitted((paper_width - 2 * margin) // 2).only(there)
    right = right.aligned(right=edge.expand(-1, rows))
    left = Text(left_ids, (x0 + margin).expand(-1, rows), base, faces, size, inks)
    left = left.fitted((paper_width - 2 * margin) // 2 - 8).only(there)

    black = torch.zeros_like(paper)
    sheet = Layer(
        top, x0, tall, torch.full_like(x0, paper_width), stage.sprite("sheet", x0),
        paints(black, paper, None, opacity=(150, 255, 0)), masks=(0, 1), extent=(stage.height, paper_width),
    )  # fmt: skip
    lines = header_end + down + 4 + torch.stack([end[:, at] - height[:, at] - 5 for at in (0, above, above + most)], 1)
    # Without rows above the items the first two rules would be one.
    shown_rules = torch.ones_like(lines) * stage.constant([1, 1 if above else 0, 1])
    rules = Layer(
        lines, (x0 + margin).expand(-1, 3), shown_rules, torch.full_like(lines, paper_width - 2 * margin),
        stage.sprite("solid", lines), paints(ink.expand(-1, 3, 3), opacity=(150, 0, 0)), masks=(0,),
        extent=(1, paper_width),
    )  # fmt: skip
    layers = [sheet, rules]
    return ReceiptDrawing(
        above, below, shop_ids, shop, bought, prices, right_ids, plain, there, base, right, left, layers
    )


def receipts(stage: Stage) -> NeedleScene:
    draws, device = stage.draws, stage.device
    above, below, shop_ids, shop, bought, prices, right_ids, plain, there, base, right, left, layers = _receipt(stage)
    rows, most = there.shape[1], bought.shape[1]
    # The question.
    is_item = torch.zeros(rows, dtype=torch.bool, device=device)
    is_item[above : above + most] = True
    is_detail = torch.arange(rows, device=device) < above
    copies = (prices[:, :, None] == prices[:, None]).all(-1) & bought[:, None]
    once = torch.nn.functional.pad(copies.sum(-1) == 1, (above, below)) & there
    groups = there & is_item, there & ~is_item & ~is_detail, there & is_detail, once & is_item
    groups = at_edge(stage, base > stage.height * 3 // 4, *groups)
    possible = torch.stack([*[group.any(1) for group in groups], torch.ones_like(there[:, 0])], 1)
    task = pick_task(stage, (50, 20, 12, 12, 6), possible)
    targets = [draws.pick(f"target/{index}", group) for index, group in enumerate(groups)]
    target = by_task(task.clamp(max=3), targets)
    name, value = take(plain, target), take(right_ids, target)
    asked_by = {"price": [name], "sum": [name], "detail": [name], "item": [value], "shop": []}
    written, named = answer_of(value), answer_of(name)
    answers = [written, written, written, named, answer_of(shop_ids[:, 0])]
    value_box, name_box, shop_box = take(right.boxes(), target), take(left.boxes(), target), shop.boxes()[:, 0]
    boxes = [value_box, value_box, value_box, name_box, shop_box]
    context = [name_box, name_box, name_box, value_box, shop_box]
    size_right, size_left = take(right.size, target), take(left.size, target)
    sizes = [size_right, size_right, size_right, size_left, shop.size[:, 0]]
    return NeedleScene(
        background=table(stage),
        layers=layers,
        text=stack_text([shop, left, right]),
        question=by_task(task, ask_all(stage, "receipts", asked_by)),
        answer=by_task(task, answers),
        boxes=by_task(task, boxes)[:, None],
        box_mask=torch.ones_like(there[:, :1]),
        context=by_task(task, context)[:, None],
        context_mask=(task < 4)[:, None],
        task=task,
        tasks=TASKS,
        type_size=shop.atlas.sizes[by_task(task, sizes)],
    )
