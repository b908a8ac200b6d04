"""Forms: a sheet of paper with a title and fields, each a name and what is written for it."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from ..content import (
    FIELD_KINDS,
    FIELD_NAMES,
    answer_of,
    any_word,
    ask,
    at_edge,
    by_task,
    choose,
    field_values,
    label_style,
)
from ..scene import Layer, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import paper_colour, table

TASKS = ("value", "field", "title")


class FormDrawing(NamedTuple):
    """A form before anything is asked. baseline, there: (B, fields)."""

    columns: int
    title: Text
    plain_names: torch.Tensor
    value_ids: torch.Tensor
    column: torch.Tensor
    label: Text
    value: Text
    there: torch.Tensor
    baseline: torch.Tensor
    layers: list[Layer]


def _form(stage: Stage) -> FormDrawing:
    """The sheet with its title, and the fields, each a name and what is written for it."""
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
    black = torch.zeros_like(paper)
    tall = torch.full_like(sheet_y, sheet_height)
    sheet = Layer(
        sheet_y, sheet_x, tall, torch.full_like(tall, sheet_width), stage.sprite("sheet", sheet_y),
        paints(black, paper, None, opacity=(150, 255, 0)), masks=(0, 1),
    )  # fmt: skip

    # Heading: title, a rule under it.
    margin = 6 if nursery else 12 if stage.width < 384 else 24
    title_pixels = draws.integers("title/size", 13, 15) if nursery else draws.integers("title/size", 18, 29)
    title = Text(
        any_word(stage, "title", "form_titles"), sheet_x + margin, sheet_y,
        stage.face("title/face"), stage.size_index(title_pixels), stage.ink("title/ink", paper),
    ).fitted(sheet_width - 2 * margin)  # fmt: skip
    top = sheet_y + (6 if nursery else 10)
    title = replace(title, baseline=top + title.atlas.ascent[title.face, title.size])
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
    # On a sheet with room to spare the rows stand further apart.
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
        paints(rule_colour, opacity=(150, 0, 0)), masks=(0,), extent=(2, sheet_width),
    )  # fmt: skip
    return FormDrawing(columns, title, plain_names, value_ids, column, label, value, there, baseline, [sheet, rules])


def forms(stage: Stage) -> NeedleScene:
    draws, device = stage.draws, stage.device
    columns, title, plain_names, value_ids, column, label, value, there, baseline, layers = _form(stage)
    near = (baseline > stage.height * 3 // 4) | (column == columns - 1)
    target = draws.pick("target", *at_edge(stage, near, there))
    chance = draws.integers("task", 0, 100)[:, 0]
    task = (chance >= 85).long() + (chance >= 95).long()
    # "Which field says 45?" needs a value that stands once.
    copies = (value_ids == take(value_ids, target)[:, None]).all(-1) & there
    task = torch.where((task == 1) & (copies.sum(1) > 1), 0, task)
    field_name, written = take(plain_names, target), take(value_ids, target)
    questions = [
        ask(stage, "wording", "forms.value", field_name),
        ask(stage, "wording/field", "forms.field", written),
        ask(stage, "wording/title", "forms.title"),
    ]
    value_box, label_box, title_box = take(value.boxes(), target), take(label.boxes(), target), title.boxes()[:, 0]
    sizes = take(value.size, target), take(label.size, target), title.size[:, 0]
    yes = torch.ones(stage.number, 1, dtype=torch.bool, device=device)
    return NeedleScene(
        background=table(stage),
        layers=layers,
        text=stack_text([title, label, value]),
        question=by_task(task, questions),
        answer=by_task(task, [answer_of(text) for text in (written, field_name, title.ids[:, 0])]),
        boxes=by_task(task, [value_box, label_box, title_box])[:, None],
        box_mask=yes,
        context=by_task(task, [label_box, value_box, title_box])[:, None],
        context_mask=yes & (task < 2)[:, None],
        task=task,
        tasks=TASKS,
        type_size=value.atlas.sizes[by_task(task, sizes)],
    )
