"""Bar charts with labels under the bars, numbers over them and an axis at the side."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import answer_of, any_word, ask_all, at_edge, by_task, choose, digits, join, pick_task, words
from ..scene import COLOUR_NAMES, Layer, Marks, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import paper_colour, table

TASKS = ("value", "highest", "lowest", "colour", "count", "title", "label")
AXIS_TOPS = (50, 100, 200, 500, 1000, 2000)
TICKS = 6


class ChartDrawing(NamedTuple):
    """A chart before anything is asked. count: (B, 1) bars. many: (B, 1), every bar in a colour of its own."""

    count: torch.Tensor
    bar: torch.Tensor
    there: torch.Tensor
    title: Text
    text: Text
    layers: list[Layer]
    value: torch.Tensor
    many: torch.Tensor
    colour: torch.Tensor
    bars: Layer
    label_ids: torch.Tensor
    labels: Text
    value_ids: torch.Tensor
    values: Text


def _chart(stage: Stage) -> ChartDrawing:
    """The sheet with its title, the axis, and the bars with their labels and values."""
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
    title_pixels = draws.integers("title/size", 13, 17) if tiny else draws.integers("title/size", 16, 27)
    title = Text(
        any_word(stage, "title", "chart_titles"), sheet_x + pad, sheet_y,
        stage.face("title/face"), stage.size_index(title_pixels), ink,
    ).fitted(sheet_width - 2 * pad)  # fmt: skip
    title = replace(title, baseline=sheet_y + pad - 2 + title.atlas.ascent[title.face, title.size])
    face = stage.face("face")
    tick_size = stage.size_index(draws.integers("tick/size", knobs.small[0], knobs.small[1] + 1).clamp(max=14))
    label_size = stage.type_sizes("label", 1, largest=18).expand(-1, items)
    value_size = stage.type_sizes("value", 1, largest=18).expand(-1, items)

    axis_top = stage.constant(AXIS_TOPS)[draws.integers("axis", 0, len(AXIS_TOPS))]
    step = torch.div(axis_top, TICKS - 1, rounding_mode="floor")
    tick_value = step * torch.arange(TICKS, device=device)
    ticks = Text(
        join([digits(tick_value, 4)], 4), tick_value, tick_value, face.expand(-1, TICKS), tick_size.expand(-1, TICKS),
        stage.ink("tick/ink", paper).expand(-1, TICKS, 3),
    )  # fmt: skip
    axis_x = sheet_x + pad + ticks.width().amax(1, keepdim=True) + 5
    label_room = title.atlas.height[face, stage.size_index(one * 18)] + 4
    floor_y = sheet_y + sheet_height - pad - label_room
    roof_y = title.baseline + (title.height() - title.atlas.ascent[title.face, title.size]) + (4 if tiny else 10)
    # Room above the highest bar for its number.
    roof_y = roof_y + title.atlas.height[face, value_size[:, :1]]
    span = (floor_y - roof_y).clamp(min=10)
    tick_y = floor_y - torch.div(span * torch.arange(TICKS, device=device), TICKS - 1, rounding_mode="floor")
    tick_cap = ticks.atlas.cap[ticks.face, ticks.size]
    ticks = replace(ticks, baseline=tick_y + (tick_cap >> 1)).aligned(right=(axis_x - 5).expand(-1, TICKS))
    # Where lines of the axis would be too close for their type, every other one is left out.
    keep = (span > (TICKS - 1) * (ticks.height()[:, :1] + 2)) | (torch.arange(TICKS, device=device) % 5 == 0)
    ticks = ticks.only(keep)
    field_width = sheet_x + sheet_width - pad - axis_x
    grid_colour = stage.ink("grid", paper).expand(-1, TICKS, 3)
    rules = torch.arange(TICKS, device=device) == 0
    grid = Layer(
        tick_y, axis_x.expand_as(tick_y), keep.long().expand_as(tick_y), field_width.expand_as(tick_y),
        stage.sprite("solid", tick_y),
        torch.where(rules[None, :, None, None], paints(grid_colour, opacity=(255, 0, 0)),
                    paints(grid_colour, opacity=(60, 0, 0))), masks=(0,), extent=(1, stage.width),
    )  # fmt: skip

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
        paints(body, torch.full_like(body, 255), None, opacity=(255, 255, 0)), masks=(0, 1), extent=(stage.height, 90),
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
    text, layers = stack_text([title, ticks, labels, values]), [sheet, grid, bars]
    return ChartDrawing(
        count, bar, there, title, text, layers, value, many, colour, bars, label_ids, labels, value_ids, values,
    )  # fmt: skip


def charts(stage: Stage) -> NeedleScene:
    draws = stage.draws
    (
        count, bar, there, title, text, layers, value, many, colour, bars, label_ids, labels, value_ids, values,
    ) = _chart(stage)  # fmt: skip
    items = there.shape[1]
    # The question.
    target = draws.pick("target", *at_edge(stage, (bar == 0) | (bar == count - 1), there))
    several = (count > 1)[:, 0]
    highest, lowest = value.masked_fill(~there, -1).argmax(1), value.masked_fill(~there, 10**6).argmin(1)
    # With one colour for all, "what color" needs no bar to be found; it is asked only where colours differ.
    yes = torch.ones_like(several)
    colourful = (many[:, 0] & (items <= len(COLOUR_NAMES) - 1)) | ~several
    task = pick_task(
        stage, (46, 10, 8, 10, 7, 6, 13), torch.stack([yes, several, several, colourful, yes, yes, yes], 1)
    )
    target = torch.where(task == 1, highest, torch.where(task == 2, lowest, target))
    label, number = take(label_ids, target), take(value_ids, target)
    asked_by = {"value": [label], "highest": [], "lowest": [], "colour": [label], "count": [], "title": []}
    asked_by["label"] = [number]
    named = answer_of(label)
    answers = [
        answer_of(number), named, named, answer_of(choose(COLOUR_NAMES, take(colour, target))),
        answer_of(digits(count[:, 0], 2)), answer_of(title.ids[:, 0]), named,
    ]  # fmt: skip
    label_box, value_box, bar_box = (take(boxes, target) for boxes in (labels.boxes(), values.boxes(), bars.boxes))
    alone = torch.nn.functional.one_hot(target, items).bool()
    title_box = title.boxes()
    written = [value_box, label_box, label_box, bar_box, bar_box, title_box[:, 0], label_box]
    single = by_task(task, written)[:, None]
    counting = (task == 4)[:, None]
    boxes = torch.where(counting[..., None], bars.boxes, single.expand(-1, items, 4))
    # Elsewhere the one box stands in the target's own place; a count needs every bar.
    mask = torch.where(counting, there, alone)
    context = [label_box, value_box, value_box, label_box, label_box, title_box[:, 0], value_box]
    size_label, size_value = take(labels.size, target), take(values.size, target)
    sizes = [size_value, *[size_label] * 4, title.size[:, 0], size_label]
    has_type = (task != 3) & (task != 4)
    return NeedleScene(
        background=table(stage),
        layers=layers,
        text=text,
        question=by_task(task, ask_all(stage, "charts", asked_by)),
        answer=by_task(task, answers),
        boxes=boxes,
        box_mask=mask,
        # Not the bar: it says which number belongs to which label, but needs no detail to say it.
        context=by_task(task, context)[:, None],
        context_mask=((task != 4) & (task != 5))[:, None],
        task=task,
        tasks=TASKS,
        type_size=title.atlas.sizes[by_task(task, sizes)] * has_type,
        marks=[
            Marks(bars.boxes, FIRST_COLOUR + colour, there),
            Marks(bars.boxes, torch.full_like(colour, thing("bar")), there),
        ],
    )
