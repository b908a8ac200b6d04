"""Cards on a table, each with a coloured shape and a number."""

from __future__ import annotations

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import answer_of, ask, at_edge, choose, digits, join, literal
from ..scene import COLOUR_NAMES, SHAPES, Layer, Marks, NeedleScene, Stage, Text, paints, take
from ..surfaces import table

SLOT_HEIGHT, SLOT_WIDTH = 64, 128
TASKS = ("number", "shape")


def cards(stage: Stage) -> NeedleScene:
    draws, knobs = stage.draws, stage.difficulty
    rows, cols = stage.height // SLOT_HEIGHT, stage.width // SLOT_WIDTH
    slots = rows * cols
    items = min(slots, knobs.items or max(1, slots // 2), 64)
    count = draws.integers("count", (items + 1) // 2, items + 1)
    there = torch.arange(items, device=stage.device) < count

    slot = draws.order("slots", slots, place=True)[:, :items]
    row, col = torch.div(slot, cols, rounding_mode="floor"), slot % cols
    height = draws.integers("height", 42, 57, items)
    width = draws.integers("width", 108, 125, items)
    y = row * SLOT_HEIGHT + draws.drift("y", SLOT_HEIGHT - 2 - height, items)
    x = col * SLOT_WIDTH + draws.drift("x", SLOT_WIDTH - 2 - width, items)

    # White shapes would vanish on white cards: the last colour is left out.
    combination = draws.order("combination", (len(COLOUR_NAMES) - 1) * len(SHAPES))[:, :items]
    colour, shape = torch.div(combination, len(SHAPES), rounding_mode="floor"), combination % len(SHAPES)
    white = stage.colour("card", 244 - draws.integers("card/white", 0, 22)[:, :, None].expand(-1, items, 3), 6)
    black = torch.zeros_like(white)
    cards_layer = Layer(
        y, x, height * there, width, stage.sprite("panel", y), paints(black, white, black, opacity=(120, 255, 46)),
        extent=(56, 124),
    )  # fmt: skip
    side = draws.integers("shape/side", 24, 37, items)
    shape_y, shape_x = y - 1 + ((height - side) >> 1), x + 7 + draws.integers("shape/x", 0, 4, items)
    body = stage.colour("shape/colour", stage.palette(colour), 12)
    shapes_layer = Layer(
        shape_y, shape_x, side * there, side, stage.sprite_table(SHAPES)[shape],
        paints(black, body, torch.full_like(body, 255), opacity=(70, 255, 255)), extent=(36, 36),
    )  # fmt: skip

    # One number per band of the range: no two cards share one, so either side of a card names the other.
    band = 9000 // items
    number = 1000 + draws.order("number/band", items) * band + draws.integers("number", 0, band, items)
    ids = digits(number, 4) * there[..., None]
    left = shape_x + side + 4
    room = x + width - 6 - left
    size = stage.type_sizes("type", items, largest=28)
    face = stage.face("face", items)
    text = Text(ids, left, y, face, size, stage.ink("ink", white, items)).fitted(room)
    text = text.aligned(right=left + text.width() + draws.below("text/x", room - text.width() + 1, items))
    cap = text.atlas.cap[text.face, text.size]
    text = Text(text.ids, text.x, y - 1 + ((height + cap) >> 1), face, text.size, text.ink)

    rim = (row == 0) | (row == rows - 1) | (col == 0) | (col == cols - 1)
    target = draws.pick("target", *at_edge(stage, rim, there))
    names = join([choose(COLOUR_NAMES, colour), literal(" ", ids), choose(SHAPES, shape)], 20)
    name, value = take(names, target), take(ids, target)
    task = draws.chance("task", 15)[:, 0].long()
    is_number = (task == 0)[:, None]
    question = torch.where(
        is_number,
        ask(stage, "wording", "cards.number", name),
        ask(stage, "wording/shape", "cards.shape", value),
    )
    answer = torch.where(is_number, answer_of(value), answer_of(name))
    number_box, shape_box = take(text.boxes(), target), take(shapes_layer.boxes, target)
    yes = torch.ones(stage.number, 1, dtype=torch.bool, device=stage.device)
    return NeedleScene(
        background=table(stage),
        layers=[cards_layer, shapes_layer],
        text=text,
        question=question,
        answer=answer,
        boxes=torch.where(is_number, number_box, shape_box)[:, None],
        box_mask=yes,
        context=torch.where(is_number, shape_box, number_box)[:, None],
        context_mask=yes,
        task=task,
        tasks=TASKS,
        type_size=take(text.atlas.sizes[text.size], target) * (task == 0),
        marks=[
            Marks(shapes_layer.boxes, FIRST_COLOUR + colour, there),
            Marks(shapes_layer.boxes, thing(SHAPES[0]) + shape, there),
        ],
    )
