"""Coloured shapes on a surface: colour, shape, count, place, relation, existence."""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import PLACES, YES_NO, answer_of, ask, at_edge, by_task, choose, digits, join, literal, pick_task, places
from ..scene import COLOUR_NAMES, SHAPES, Layer, Marks, NeedleScene, Stage, paints, take
from ..surfaces import table

TASKS = ("colour", "shape", "count", "where", "relation", "exists")
RELATIONS = ("left of", "right of", "above", "below")
PLURALS = tuple("crosse" if shape == "cross" else shape for shape in SHAPES)


class ShapesDrawing(NamedTuple):
    """Shapes before anything is asked. row, col: (B, items), where on a grid."""

    rows: int
    cols: int
    there: torch.Tensor
    row: torch.Tensor
    col: torch.Tensor
    colours: torch.Tensor
    kinds: torch.Tensor
    colour: torch.Tensor
    shape: torch.Tensor
    layer: Layer


def _shapes(stage: Stage) -> ShapesDrawing:
    """Coloured shapes, one to a slot of a grid."""
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    pitch = 64 if min(stage.height, stage.width) < 512 else 96
    rows, cols = stage.height // pitch, stage.width // pitch
    slots = rows * cols
    items = min(slots, knobs.items or max(2, min(14, slots // 2)))
    count = draws.integers("count", min(items, 2) if items < 4 else items // 2, items + 1)
    there = torch.arange(items, device=device) < count
    slot = draws.order("slots", slots, place=True)[:, :items]
    row, col = torch.div(slot, cols, rounding_mode="floor"), slot % cols
    small = draws.chance("small", 100 - knobs.large_share, items)
    side = torch.where(small, draws.integers("side/small", 16, 29, items), draws.integers("side", 34, pitch - 6, items))
    # The grid is centred, so that the picture's edge is not always empty on one side.
    offset_y, offset_x = (stage.height - rows * pitch) // 2, (stage.width - cols * pitch) // 2
    y = offset_y + row * pitch + 1 + draws.drift("y", pitch - 3 - side, items)
    x = offset_x + col * pitch + 1 + draws.drift("x", pitch - 3 - side, items)

    # A picture keeps to a few colours and shapes, so that there is something to count and to confuse.
    colours = draws.order("colours", len(COLOUR_NAMES) - 1)[:, :5]
    kinds = draws.order("shapes", len(SHAPES))[:, :4]
    colour = colours.gather(1, draws.integers("colour", 0, 5, items))
    shape = kinds.gather(1, draws.integers("shape", 0, 4, items))
    body = stage.colour("body", stage.palette(colour), 12)
    black, white = torch.zeros_like(body), torch.full_like(body, 255)
    layer = Layer(
        y,
        x,
        side * there,
        side,
        stage.sprite_table(SHAPES)[shape],
        paints(black, body, white, opacity=(110, 255, 255)),
        extent=(pitch, pitch),
    )
    return ShapesDrawing(rows, cols, there, row, col, colours, kinds, colour, shape, layer)


def scenes(stage: Stage) -> NeedleScene:
    draws = stage.draws
    rows, cols, there, row, col, colours, kinds, colour, shape, layer = _shapes(stage)
    items, boxes = there.shape[1], layer.boxes
    both = there[:, :, None] & there[:, None, :]
    same_colour = (colour[:, :, None] == colour[:, None]) & both
    same_shape = (shape[:, :, None] == shape[:, None]) & both
    only_colour, only_shape = same_colour.sum(2) == 1, same_shape.sum(2) == 1
    only_one = (same_colour & same_shape).sum(2) == 1
    place, doubtless = places(stage, boxes)
    rim = (row == 0) | (row == rows - 1) | (col == 0) | (col == cols - 1)
    sets = at_edge(stage, rim, only_shape, only_colour, there, only_one & doubtless, only_one, there)
    possible = torch.stack([group.any(1) for group in sets], 1)
    possible[:, 4] = only_one.sum(1) >= 2
    if stage.moving:  # what wanders has no one place
        possible[:, 3:5] = False
    task = pick_task(stage, (18, 14, 20, 18, 15, 15), possible)
    targets = [draws.pick(f"target/{index}", group) for index, group in enumerate(sets)]
    target = by_task(task, targets)
    alone = torch.nn.functional.one_hot(target, items).bool()

    colour_name, shape_name = choose(COLOUR_NAMES, take(colour, target)), choose(SHAPES, take(shape, target))
    blank = literal(" ", colour_name)
    full_name = join([colour_name, blank, shape_name], 20)

    # Count by shape, or by colour and shape.
    by_both = draws.chance("target/both", 50)[:, 0]
    counted = take(same_shape, target) & (take(same_colour, target) | ~by_both[:, None])
    plural = choose(PLURALS, take(shape, target))
    counted_name = join([colour_name * by_both[:, None], blank * by_both[:, None], plural], 20)

    # Relation to a second thing that there is only one of; the truth is tossed first, then the words chosen to fit.
    other = draws.pick("other", only_one & ~alone)
    first, second = take(boxes, target), take(boxes, other)
    apart_x = first[:, 0] + first[:, 2] - second[:, 0] - second[:, 2]
    apart_y = first[:, 1] + first[:, 3] - second[:, 1] - second[:, 3]
    vertical = draws.chance("relation/axis", 50)[:, 0]
    far_x, far_y = apart_x.abs() > stage.width // 6, apart_y.abs() > stage.height // 6
    vertical = torch.where(vertical & ~far_y, False, vertical) | (~far_x & (apart_y.abs() > apart_x.abs()))
    apart = torch.where(vertical, apart_y, apart_x)
    truth = draws.chance("truth", 50)[:, 0]
    relation = 2 * vertical.long() + ((apart > 0) == truth).long()
    other_name = join([choose(COLOUR_NAMES, take(colour, other)), blank, choose(SHAPES, take(shape, other))], 20)
    names = full_name, choose(RELATIONS, relation), other_name

    # Existence: for "no", a pair of this picture's own colours and shapes that does not occur.
    pair_colour = colours[:, :, None].expand(-1, 5, 4).reshape(stage.number, -1)
    pair_shape = kinds[:, None].expand(-1, 5, 4).reshape(stage.number, -1)
    occurs = (pair_colour[:, :, None] == colour[:, None]) & (pair_shape[:, :, None] == shape[:, None]) & there[:, None]
    absent = draws.pick("absent", ~occurs.any(2))
    absent_name = join(
        [choose(COLOUR_NAMES, take(pair_colour, absent)), blank, choose(SHAPES, take(pair_shape, absent))], 20
    )
    exists_name = torch.where(truth[:, None], full_name, absent_name)
    found = take(same_colour & same_shape, target) & truth[:, None]

    questions = [
        ask(stage, "wording/colour", "scenes.colour", shape_name),
        ask(stage, "wording/shape", "scenes.shape", colour_name),
        ask(stage, "wording/count", "scenes.count", counted_name),
        ask(stage, "wording/where", "where", full_name),
        ask(stage, "wording/relation", "scenes.relation", *names),
        ask(stage, "wording/exists", "scenes.exists", exists_name),
    ]
    yes_no = answer_of(choose(YES_NO, truth.long()))
    answers = [
        answer_of(colour_name),
        answer_of(shape_name),
        answer_of(digits(counted.sum(1), 2)),
        answer_of(choose(PLACES, take(place, target))),
        yes_no,
        yes_no,
    ]
    pair = alone | torch.nn.functional.one_hot(other, items).bool()
    seen = by_task(task, [alone, alone, counted, alone, pair, found]) & there
    return NeedleScene(
        background=table(stage, pale=45),  # coloured things must stand out from it
        layers=[layer],
        text=stage.no_text(),
        question=by_task(task, questions),
        answer=by_task(task, answers),
        boxes=boxes,
        box_mask=seen,
        context=boxes[:, :1],
        context_mask=torch.zeros_like(there[:, :1]),
        task=task,
        tasks=TASKS,
        type_size=torch.zeros_like(task),
        marks=[Marks(boxes, FIRST_COLOUR + colour, there), Marks(boxes, thing(SHAPES[0]) + shape, there)],
    )
