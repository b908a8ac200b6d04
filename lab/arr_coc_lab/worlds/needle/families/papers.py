"""Paper on a table: cards, forms, receipts and charts."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import (
    FIELD_KINDS,
    FIELD_NAMES,
    VALUE_LENGTH,
    NeedleTask,
    amount,
    answer_of,
    any_word,
    ask,
    ask_all,
    at_edge,
    by_task,
    capitalise,
    choose,
    clock,
    currency,
    date,
    digits,
    field_values,
    join,
    label_style,
    literal,
    pick_task,
    scene_of,
    upper,
    words,
)
from ..scene import COLOUR_NAMES, SHAPES, Layer, Marks, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import paper_colour, table

# ---- What several kinds of paper share -------------------------------------------------------------------------------


def _sheet(stage: Stage, y: torch.Tensor, x: torch.Tensor, tall: torch.Tensor, wide: int, paper: torch.Tensor) -> Layer:
    """Draw a sheet of paper with its shadow."""
    paint = paints(torch.zeros_like(paper), paper, None, opacity=(150, 255, 0))
    return Layer(y, x, tall, torch.full_like(x, wide), stage.sprite("sheet", x), paint, masks=(0, 1))


def _title(
    stage: Stage, listed: str, x: torch.Tensor, top: torch.Tensor, space: int, sizes: tuple[int, int], ink: torch.Tensor
) -> Text:
    """Set a title of a list of words, in one of these sizes, no wider than the space."""
    size = stage.size_index(stage.draws.integers("title/size", *sizes))
    title = Text(any_word(stage, "title", listed), x, top, stage.face("title/face"), size, ink).fitted(space)
    return replace(title, baseline=top + title.atlas.ascent[title.face, title.size])


# ---- Cards on a table, each with a coloured shape and a number -------------------------------------------------------

CARD_HEIGHT, CARD_WIDTH = 64, 128


def cards(stage: Stage) -> NeedleScene:
    draws, knobs = stage.draws, stage.difficulty
    rows, cols = stage.height // CARD_HEIGHT, stage.width // CARD_WIDTH
    slots = rows * cols
    items = min(slots, knobs.items or max(1, slots // 2), 64)
    count = draws.integers("count", (items + 1) // 2, items + 1)
    there = torch.arange(items, device=stage.device) < count

    slot = draws.order("slots", slots, place=True)[:, :items]
    row, col = torch.div(slot, cols, rounding_mode="floor"), slot % cols
    height = draws.integers("height", 42, 57, items)
    width = draws.integers("width", 108, 125, items)
    y = row * CARD_HEIGHT + draws.drift("y", CARD_HEIGHT - 2 - height, items)
    x = col * CARD_WIDTH + draws.drift("x", CARD_WIDTH - 2 - width, items)

    # White shapes would vanish on white cards: the last colour is left out.
    combination = draws.order("combination", (len(COLOUR_NAMES) - 1) * len(SHAPES))[:, :items]
    colour, shape = torch.div(combination, len(SHAPES), rounding_mode="floor"), combination % len(SHAPES)
    white = stage.colour("card", 244 - draws.integers("card/white", 0, 22)[:, :, None].expand(-1, items, 3), 6)
    black = torch.zeros_like(white)
    cards_layer = Layer(
        y, x, height * there, width, stage.sprite("panel", y), paints(black, white, black, opacity=(120, 255, 46)),
    )  # fmt: skip
    side = draws.integers("shape/side", 24, 37, items)
    shape_y, shape_x = y - 1 + ((height - side) >> 1), x + 7 + draws.integers("shape/x", 0, 4, items)
    body = stage.colour("shape/colour", stage.palette(colour), 12)
    shapes_layer = Layer(
        shape_y, shape_x, side * there, side, stage.sprite_table(SHAPES)[shape],
        paints(black, body, torch.full_like(body, 255), opacity=(70, 255, 255)),
    )  # fmt: skip

    # One number per band of the range: no two cards share one, so either side of a card names the other.
    band = 9000 // items
    number = 1000 + draws.order("number/band", items) * band + draws.integers("number", 0, band, items)
    ids = digits(number, 4) * there[..., None]
    left = shape_x + side + 4
    space = x + width - 6 - left
    size = stage.type_sizes("type", items, largest=28)
    face = stage.face("face", items)
    text = Text(ids, left, y, face, size, stage.ink("ink", white, items)).fitted(space)
    text = text.aligned(right=left + text.width() + draws.below("text/x", space - text.width() + 1, items))
    cap = text.atlas.cap[text.face, text.size]
    text = Text(text.ids, text.x, y - 1 + ((height + cap) >> 1), face, text.size, text.ink)

    rim = (row == 0) | (row == rows - 1) | (col == 0) | (col == cols - 1)
    target = draws.pick("target", *at_edge(stage, rim, there))
    names = join([choose(COLOUR_NAMES, colour), literal(" ", ids), choose(SHAPES, shape)], 20)
    name, value = take(names, target), take(ids, target)
    number_box, shape_box = take(text.boxes(), target), take(shapes_layer.boxes, target)
    asked_number, asked_shape = (
        ask(stage, "wording", "cards.number", name),
        ask(stage, "wording/shape", "cards.shape", value),
    )
    tasks = {
        "number": NeedleTask(asked_number, answer_of(value), number_box, shape_box),
        "shape": NeedleTask(asked_shape, answer_of(name), shape_box, number_box),
    }
    marks = [
        Marks(shapes_layer.boxes, FIRST_COLOUR + colour, there),
        Marks(shapes_layer.boxes, thing(SHAPES[0]) + shape, there),
    ]
    task = draws.chance("task", 15)[:, 0].long()
    return scene_of(table(stage), [cards_layer, shapes_layer], text, tasks, task, marks)


# ---- Forms: a sheet of paper with a title and fields, each a name and what is written for it -------------------------


def forms(stage: Stage) -> NeedleScene:
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    nursery = stage.width < 192
    columns = max(1, stage.width // 256) if stage.height >= 256 else 1
    sheet_height, sheet_width = stage.height - 8, stage.width - (24 if stage.width >= 384 else 8)
    lines = max(1, (sheet_height - 40) // 26)
    items = min(columns * lines, len(FIELD_NAMES), 48, knobs.items or 48)
    columns = min(columns, items)
    lines = -(-items // columns)
    items = lines * columns

    sheet_y = draws.drift("sheet/y", stage.constant([[stage.height - sheet_height]]))
    sheet_x = draws.drift("sheet/x", stage.constant([[stage.width - sheet_width]]))
    paper = paper_colour(stage, "paper")
    sheet = _sheet(stage, sheet_y, sheet_x, torch.full_like(sheet_y, sheet_height), sheet_width, paper)

    # Heading: title, a rule under it.
    margin = 6 if nursery else 12 if stage.width < 384 else 24
    top, sizes = sheet_y + (6 if nursery else 10), (13, 15) if nursery else (18, 29)
    ink = stage.ink("title/ink", paper)
    title = _title(stage, "form_titles", sheet_x + margin, top, sheet_width - 2 * margin, sizes, ink)
    centred = draws.chance("title/centred", 35)
    title = replace(title, x=torch.where(centred, title.aligned(centre=sheet_x + sheet_width // 2).x, title.x))
    rule_y = title.top() + title.height() + 3

    # Fields: name and value beside one another, or the name in small type above the value.
    stacked = torch.ones_like(centred) if nursery else draws.chance("stacked", 35)
    order = draws.order("fields", len(FIELD_NAMES))[:, :items]
    plain_names = choose(FIELD_NAMES, order)
    label_ids = label_style(stage, "label/style", plain_names, 14)
    value_ids = field_values(stage, "value", stage.constant(FIELD_KINDS)[order])
    cell_width = (sheet_width - 2 * margin) // columns
    column = torch.arange(items, device=device) % columns
    left = sheet_x + margin + column * cell_width
    zeros = torch.zeros_like(left)
    label_size = stage.size_index(draws.integers("label/size", knobs.small[0], knobs.small[1] + 1)).expand_as(left)
    label = Text(
        label_ids, left, zeros, stage.face("label/face").expand_as(left), label_size,
        stage.ink("label/ink", paper).expand(-1, items, 3),
    )  # fmt: skip
    label = label.fitted(torch.where(stacked, cell_width - 10, cell_width * 45 // 100))
    # All values of a form start at one tab stop, as far right as the longest name needs.
    tab = label.width().amax(1, keepdim=True) + draws.integers("tab", 6, 16)
    value_left = left + torch.where(stacked, draws.integers("indent", 0, 5), tab)
    value_face = stage.face("value/face").expand_as(left)
    value_ink = stage.ink("value/ink", paper)
    # Some forms are filled in with blue ink.
    blue = draws.chance("value/blue", 30)[..., None]
    value_ink = torch.where(blue, (value_ink + stage.constant([0, 16, 90])).clamp(max=220), value_ink)
    value = Text(
        value_ids, value_left, zeros, value_face, stage.type_sizes("value/type", items, largest=26),
        value_ink.expand(-1, items, 3),
    ).fitted(left + cell_width - 8 - value_left, steps=10)  # fmt: skip

    # Rows are as high as what stands in them; what does not fit on the sheet is left out.
    label_ascent, value_ascent = label.atlas.ascent[label.face, label.size], value.atlas.ascent[value.face, value.size]
    label_height, value_height = label.height(), value.height()
    above = torch.where(stacked, label_height + 1 + value_ascent, torch.maximum(label_ascent, value_ascent))
    below = torch.maximum(value_height - value_ascent, label_height - label_ascent)
    gap = draws.integers("gap", 4, 9) + (0 if nursery else stage.height // 128)
    above_row = above.view(-1, lines, columns).amax(2)
    row_height = above_row + below.view(-1, lines, columns).amax(2) + gap
    # On a sheet with space to spare the rows stand further apart.
    spare = sheet_y + sheet_height - 24 - rule_y - row_height.sum(1, keepdim=True)
    row_height = row_height + draws.below("spread", torch.div(spare, lines, rounding_mode="floor").clamp(0, 28) + 1)
    row_end = row_height.cumsum(1)
    start = rule_y + draws.integers("start", 5, 12)
    row_baseline = start + row_end - row_height + above_row
    fits = (start + row_end <= sheet_y + sheet_height - 4).repeat_interleave(columns, 1)
    fits[:, 0] = True
    last = draws.integers("count", (items + 1) // 2, items + 1)
    there = fits & ((torch.arange(items, device=device) < last) | (torch.arange(items, device=device) == 0))
    baseline = row_baseline.repeat_interleave(columns, 1)
    value = replace(value, baseline=baseline).only(there)
    label_base = torch.where(stacked, baseline - value_ascent - 1 - (label_height - label_ascent), baseline)
    label = replace(label, baseline=label_base).only(there)

    rule_colour = stage.ink("rule", paper, 1 + items)
    rules = Layer(
        torch.cat([rule_y, baseline + below + 1], 1),
        torch.cat([sheet_x + margin, torch.where(stacked, left, value_left) - 1], 1),
        torch.cat([torch.ones_like(rule_y) * (1 if nursery else 2), (there & draws.chance("ruled", 60)).long()], 1),
        torch.cat([torch.full_like(rule_y, sheet_width - 2 * margin), left + cell_width - 8 - value_left], 1),
        stage.sprite("solid", torch.cat([rule_y, left], 1)),
        paints(rule_colour, opacity=(150, 0, 0)), masks=(0,),
    )  # fmt: skip

    near = (baseline > stage.height * 3 // 4) | (column == columns - 1)
    (there,) = at_edge(stage, near, there)
    tasks, task = _form_tasks(stage, there, plain_names, title, label, value)
    return scene_of(table(stage), [sheet, rules], stack_text([title, label, value]), tasks, task)


def _form_tasks(
    stage: Stage, asked: torch.Tensor, names: torch.Tensor, title: Text, label: Text, value: Text
) -> tuple[dict[str, NeedleTask], torch.Tensor]:
    """Make questions about one of the fields (B, fields) or the title, and return which (B,)."""
    target = stage.draws.pick("target", asked)
    field_name, written = take(names, target), take(value.ids, target)
    chance = stage.draws.integers("task", 0, 100)[:, 0]
    task = (chance >= 85).long() + (chance >= 95).long()
    # "Which field says 45?" needs a value that stands once.
    copies = (value.ids == written[:, None]).all(-1)
    task = torch.where((task == 1) & (copies.sum(1) > 1), 0, task)
    value_box, label_box, title_box = take(value.boxes(), target), take(label.boxes(), target), title.boxes()[:, 0]
    questions = (
        ask(stage, "wording", "forms.value", field_name),
        ask(stage, "wording/field", "forms.field", written),
        ask(stage, "wording/title", "forms.title"),
    )
    tasks = {
        "value": NeedleTask(questions[0], answer_of(written), value_box, label_box),
        "field": NeedleTask(questions[1], answer_of(field_name), label_box, value_box),
        "title": NeedleTask(questions[2], answer_of(title.ids[:, 0]), title_box),
    }
    return tasks, task


# ---- Till receipts: shop, date, items with prices, and sums that are right -------------------------------------------

# Rows beside the items, in order: two above them, five below.
HEAD, FOOT = ("date", "time"), ("subtotal", "tax", "total", "cash", "change")


def _written(stage: Stage, bought: torch.Tensor, nursery: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the texts of receipts: the prices (B, most, …); the right and the left column (B, rows, …)."""
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


def receipts(stage: Stage) -> NeedleScene:
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
    space = torch.div(stage.height - 8 - rest, line, rounding_mode="floor").clamp(1, most)
    count = torch.minimum(space, draws.integers("count", (most + 1) // 2, most + 1)).clamp(min=1)
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

    sheet = _sheet(stage, top, x0, tall, paper_width, paper)
    lines = header_end + down + 4 + torch.stack([end[:, at] - height[:, at] - 5 for at in (0, above, above + most)], 1)
    # Without rows above the items the first two rules would be one.
    shown_rules = torch.ones_like(lines) * stage.constant([1, 1 if above else 0, 1])
    rules = Layer(
        lines, (x0 + margin).expand(-1, 3), shown_rules, torch.full_like(lines, paper_width - 2 * margin),
        stage.sprite("solid", lines), paints(ink.expand(-1, 3, 3), opacity=(150, 0, 0)), masks=(0,),
    )  # fmt: skip

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
    questions, written, named = ask_all(stage, "receipts", asked_by), answer_of(value), answer_of(name)
    value_box, name_box = take(right.boxes(), target), take(left.boxes(), target)
    tasks = {
        kind: NeedleTask(asked, written, value_box, name_box) for kind, asked in zip(asked_by, questions, strict=True)
    }
    tasks["item"] = NeedleTask(questions[3], named, name_box, value_box)
    tasks["shop"] = NeedleTask(questions[4], answer_of(shop_ids[:, 0]), shop.boxes()[:, 0])
    return scene_of(table(stage), [sheet, rules], stack_text([shop, left, right]), tasks, task)


# ---- Bar charts with labels under the bars, numbers over them and an axis at the side --------------------------------

AXIS_TOPS = (50, 100, 200, 500, 1000, 2000)
TICKS = 6


def _axis(
    stage: Stage,
    face: torch.Tensor,
    paper: torch.Tensor,
    highest: torch.Tensor,
    ends: tuple[torch.Tensor, torch.Tensor],
    floor: tuple[torch.Tensor, torch.Tensor],
) -> tuple[Text, Layer]:
    """Draw the numbers of a vertical axis and its grid lines. ends: left and right edge, (B, 1) each. floor: where
    the axis begins, and how high it goes."""
    small, (floor_y, span), place = stage.difficulty.small, floor, torch.arange(TICKS, device=stage.device)
    size = stage.size_index(stage.draws.integers("tick/size", small[0], small[1] + 1).clamp(max=14))
    value = torch.div(highest, TICKS - 1, rounding_mode="floor") * place
    ticks = Text(
        join([digits(value, 4)], 4), value, value, face.expand(-1, TICKS), size.expand(-1, TICKS),
        stage.ink("tick/ink", paper).expand(-1, TICKS, 3),
    )  # fmt: skip
    axis_x = ends[0] + ticks.width().amax(1, keepdim=True) + 5
    y = floor_y - torch.div(span * place, TICKS - 1, rounding_mode="floor")
    cap = ticks.atlas.cap[ticks.face, ticks.size]
    ticks = replace(ticks, baseline=y + (cap >> 1)).aligned(right=(axis_x - 5).expand(-1, TICKS))
    # Where lines of the axis would be too close for their type, every other one is left out.
    keep = (span > (TICKS - 1) * (ticks.height()[:, :1] + 2)) | (place % 5 == 0)
    colour = stage.ink("grid", paper).expand(-1, TICKS, 3)
    dark, pale = (paints(colour, opacity=(opacity, 0, 0)) for opacity in (255, 60))
    grid = Layer(
        y, axis_x.expand_as(y), keep.long().expand_as(y), (ends[1] - axis_x).expand_as(y), stage.sprite("solid", y),
        torch.where((place == 0)[None, :, None, None], dark, pale), masks=(0,),
    )  # fmt: skip
    return ticks.only(keep), grid


def _chart_task(
    stage: Stage, count: torch.Tensor, there: torch.Tensor, value: torch.Tensor, colourful: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Make questions, and return the bar of each, (B,)."""
    bar, several, yes = torch.arange(there.shape[1], device=stage.device), (count > 1)[:, 0], torch.ones_like(colourful)
    target = stage.draws.pick("target", *at_edge(stage, (bar == 0) | (bar == count - 1), there))
    highest, lowest = value.masked_fill(~there, -1).argmax(1), value.masked_fill(~there, 10**6).argmin(1)
    possible = torch.stack([yes, several, several, colourful, yes, yes, yes], 1)
    task = pick_task(stage, (46, 10, 8, 10, 7, 6, 13), possible)
    return task, torch.where(task == 1, highest, torch.where(task == 2, lowest, target))


def charts(stage: Stage) -> NeedleScene:
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    tiny = stage.width < 192
    items = max(1, min((stage.width - 60) // 44, 12, knobs.items or 12))
    count = draws.integers("count", max(1, (items + 1) // 2), items + 1)
    bar = torch.arange(items, device=device)
    there = bar < count
    margin = 4 if stage.width < 384 else 14

    # The sheet, the title, the field in which the bars stand.
    sheet_height, sheet_width = stage.height - 2 * margin, stage.width - 2 * margin
    one = torch.ones(stage.number, 1, dtype=torch.int64, device=device)
    sheet_y = margin // 2 + draws.drift("sheet/y", one * margin)
    sheet_x = margin // 2 + draws.drift("sheet/x", one * margin)
    paper = paper_colour(stage, "paper")
    black = torch.zeros_like(paper)
    sheet = Layer(
        sheet_y, sheet_x, one * sheet_height, one * sheet_width, stage.sprite("panel", one),
        paints(black, paper, black, opacity=(140, 255, 30)),
    )  # fmt: skip
    pad = 6 if tiny else 12
    ink = stage.ink("ink", paper)
    sizes = (13, 17) if tiny else (16, 27)
    title = _title(stage, "chart_titles", sheet_x + pad, sheet_y + pad - 2, sheet_width - 2 * pad, sizes, ink)
    face = stage.face("face")
    label_size = stage.type_sizes("label", 1, largest=18).expand(-1, items)
    value_size = stage.type_sizes("value", 1, largest=18).expand(-1, items)

    axis_top = stage.constant(AXIS_TOPS)[draws.integers("axis", 0, len(AXIS_TOPS))]
    floor_y = sheet_y + sheet_height - pad - (title.atlas.height[face, stage.size_index(one * 18)] + 4)
    roof_y = title.baseline + (title.height() - title.atlas.ascent[title.face, title.size]) + (4 if tiny else 10)
    # Space above the highest bar for its number.
    roof_y = roof_y + title.atlas.height[face, value_size[:, :1]]
    span = (floor_y - roof_y).clamp(min=10)
    ticks, grid = _axis(stage, face, paper, axis_top, (sheet_x + pad, sheet_x + sheet_width - pad), (floor_y, span))
    axis_x, field_width = grid.x[:, :1], grid.width[:, :1]

    # Bars: their values lie in bands of their own, so that the highest and the lowest are beyond doubt.
    band = torch.div(axis_top * 9, 10 * items, rounding_mode="floor").clamp(min=1)
    value = torch.div(axis_top, 12, rounding_mode="floor") + draws.order("rank", items) * band
    value = torch.minimum(value + draws.below("value", (band - 1).expand(-1, items), items), axis_top)
    pitch = torch.div(field_width - 6, count, rounding_mode="floor")
    thick = torch.div(pitch * draws.integers("thick", 45, 76), 100, rounding_mode="floor").clamp(max=90)
    left = axis_x + 4 + bar * pitch + ((pitch - thick) >> 1)
    tall = torch.div(value * span, axis_top, rounding_mode="floor").clamp(min=3)
    many = draws.chance("many", 50)
    # No white bars on white paper.
    shades = draws.order("colour", len(COLOUR_NAMES) - 1)[:, :items]
    shades = torch.nn.functional.pad(shades, (0, max(0, items - shades.shape[1])))
    colour = torch.where(many, shades, shades[:, :1])
    body = stage.colour("body", stage.palette(colour), 8)
    bars = Layer(
        floor_y - tall, left, tall * there, thick.expand_as(left), stage.sprite("bar", left),
        paints(body, torch.full_like(body, 255), None, opacity=(255, 255, 0)), masks=(0, 1),
    )  # fmt: skip

    first = draws.integers("set/first", 0, 12)
    label_index = draws.integers("set", 0, len(words("chart_sets"))) * 12 + (first + bar) % 12
    label_ids = choose(tuple(label for group in words("chart_sets") for label in group), label_index)
    middle = left + (thick >> 1)
    faces, inks = face.expand(-1, items), ink.expand(-1, items, 3)
    labels = Text(label_ids, left, left, faces, label_size, inks).fitted(pitch - 3, steps=9)
    labels = labels.aligned(centre=middle).only(there)
    labels = replace(labels, baseline=(floor_y + 5).expand(-1, items) + labels.atlas.ascent[faces, labels.size])
    value_ids = join([digits(value, 4)], 4)
    values = Text(value_ids, left, left, faces, value_size, inks).fitted(pitch - 3, steps=9)
    values = values.aligned(centre=middle).only(there)
    values = replace(values, baseline=floor_y - tall - 1 - (values.height() - values.atlas.ascent[faces, values.size]))

    # With one colour for all, "what color" needs no bar to be found; it is asked only where colours differ.
    colourful = (many[:, 0] & (items <= len(COLOUR_NAMES) - 1)) | (count <= 1)[:, 0]
    task, target = _chart_task(stage, count, there, value, colourful)
    label, number = take(label_ids, target), take(value_ids, target)
    asked_by = {"value": [label], "highest": [], "lowest": [], "colour": [label], "count": [], "title": []}
    asked_by["label"] = [number]
    label_box, value_box, bar_box = (take(boxes, target) for boxes in (labels.boxes(), values.boxes(), bars.boxes))
    named = answer_of(label), label_box, value_box
    coloured = answer_of(choose(COLOUR_NAMES, take(colour, target))), bar_box, label_box
    # Not the bar is what names a number: it needs no detail to say which label it belongs to.
    about = {
        "value": (answer_of(number), value_box, label_box),
        **{"highest": named, "lowest": named, "colour": coloured},
        "count": (answer_of(digits(count[:, 0], 2)), bar_box),
        "title": (answer_of(title.ids[:, 0]), title.boxes()[:, 0]),
        "label": named,
    }
    questions = zip(about, ask_all(stage, "charts", asked_by), strict=True)
    tasks = {kind: NeedleTask(question, *about[kind]) for kind, question in questions}
    marks = [
        Marks(bars.boxes, FIRST_COLOUR + colour, there),
        Marks(bars.boxes, torch.full_like(colour, thing("bar")), there),
    ]
    text = stack_text([title, ticks, labels, values])
    scene = scene_of(table(stage), [sheet, grid, bars], text, tasks, task, marks)
    # A count needs every bar; elsewhere the one box stands in the target's own place.
    counting, alone = (task == 4)[:, None], torch.nn.functional.one_hot(target, items).bool()
    boxes = torch.where(counting[..., None], bars.boxes, scene.boxes.expand(-1, items, 4))
    return replace(scene, boxes=boxes, box_mask=torch.where(counting, there, alone))
