"""A street of houses, trees and cars with coloured signs in it."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import (
    PLACES,
    answer_of,
    ask,
    at_edge,
    by_task,
    choose,
    digits,
    join,
    literal,
    pick_task,
    places,
    union,
    words,
)
from ..scene import COLOUR_NAMES, Background, Layer, Marks, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import STONE

TASKS = ("text", "colour", "where")
WALLS = ((186, 160, 138), (204, 190, 170), (158, 130, 118), (176, 182, 188), (196, 176, 140), (148, 152, 150))
SLOT_HEIGHT, SLOT_WIDTH = 64, 128


def _street(stage: Stage) -> tuple[Background, list[Layer], torch.Tensor]:
    """Sky, houses with windows, pavement and road, trees and cars; and where the pavement begins (B, 1)."""
    draws, device = stage.draws, stage.device
    number = stage.number
    one = torch.ones(number, 1, dtype=torch.int64, device=device)
    sky = stage.constant([[150, 186, 222]]) + draws.integers("sky", -24, 20, 3)
    background = Background(
        sky,
        (sky + 46).clamp(max=250),
        torch.full((number,), STONE, device=device),
        torch.full((number,), 5, device=device),
    )
    ground = stage.height * 74 // 100 + draws.drift("ground", one * (stage.height // 16))
    # Things grow with a large canvas (in quarters); the type on the signs does not.
    scale = max(4, stage.height // 128)
    houses = max(2, stage.width * 4 // (112 * scale))
    wide = -(-stage.width // houses)
    column = torch.arange(houses, device=device)
    roof = stage.height // 32 + draws.integers("roof", 0, max(2, stage.height // 9), houses)
    wall = stage.constant(WALLS)[draws.integers("wall", 0, len(WALLS), houses)]
    wall = stage.colour("wall/colour", wall, 12)
    house = Layer(
        roof, (column * wide).expand(number, -1), ground - roof, torch.full_like(roof, wide),
        stage.sprite("bar", roof), paints(wall, (wall + 40).clamp(max=255), None, opacity=(255, 130, 0)), masks=(0, 1),
    )  # fmt: skip
    # Windows: two to a house, in storeys.
    pitch = 11 * scale
    storeys = max(1, stage.height * 3 // 4 // pitch)
    storey = torch.arange(storeys, device=device)
    left = column[:, None, None] * wide + wide // 8 + torch.arange(2, device=device) * (wide // 2) + 0 * storey[:, None]
    left = left.reshape(1, -1).expand(number, -1)
    y = (roof[:, :, None] + 3 * scale + 2 + storey * pitch)[..., None].expand(-1, -1, -1, 2).reshape(number, -1)
    window_height = draws.integers("window/height", 22, 32) * scale // 4
    seen = (y + window_height < ground - 8 * scale).long()
    dark = stage.colour("glass", stage.constant([[86, 104, 122]]).expand(number, left.shape[1], 3), 16)
    frame = torch.full_like(dark, 226)
    windows = Layer(
        y, left, window_height * seen, torch.full_like(y, wide // 4), stage.sprite("window", y),
        paints(frame, dark, torch.full_like(dark, 255), opacity=(255, 255, 150)), extent=(8 * scale, wide // 4),
    )  # fmt: skip
    grey = 172 + draws.integers("pavement", -14, 15)[:, :, None]
    kerb = ground + (stage.height - ground) * 45 // 100
    strips_y = torch.cat([ground, kerb, kerb + 5], 1)
    ends = torch.cat([kerb, kerb + 5, one * stage.height], 1)
    tones = torch.cat([grey, grey + 40, grey - 78], 1).clamp(0, 255).expand(-1, 3, 3)
    floor = Layer(
        strips_y, torch.zeros_like(strips_y), ends - strips_y, torch.full_like(strips_y, stage.width),
        stage.sprite("solid", strips_y), paints(tones), masks=(0,), extent=(stage.height // 3, stage.width),
    )  # fmt: skip
    # Trees on the pavement, cars on the road: clutter.
    room = 24 * scale
    places_along = max(1, stage.width // room)
    along = torch.arange(places_along, device=device)
    trees = draws.chance("tree", stage.difficulty.clutter // 2, places_along).long()
    tree_side = draws.integers("tree/side", 56, 90, places_along) * scale // 4
    tree_x = along * room + draws.below("tree/x", room + 1 - tree_side, places_along)
    green = stage.colour("tree/green", stage.constant([[74, 122, 62]]).expand(number, places_along, 3), 16)
    brown = torch.zeros_like(green) + stage.constant([94, 70, 50])
    wood = Layer(
        kerb - tree_side - 2, tree_x, tree_side * trees, tree_side, stage.sprite("tree", tree_x),
        paints(brown, green, torch.full_like(green, 255)), extent=(23 * scale, 23 * scale),
    )  # fmt: skip
    cars = draws.chance("car", stage.difficulty.clutter, places_along).long()
    car_side = draws.integers("car/side", 48, 76, places_along) * scale // 4
    car_x = along * room + draws.drift("car/x", room - 1 - car_side, places_along)
    tint = stage.colour("car/colour", stage.palette(draws.integers("car/tint", 0, len(COLOUR_NAMES), places_along)), 20)
    tint = (tint + 130) // 2  # duller than any sign
    traffic = Layer(
        kerb + 8 - car_side // 2, car_x, car_side * cars, car_side, stage.sprite("car", car_x),
        paints(tint, torch.full_like(tint, 30), torch.full_like(tint, 200)), extent=(19 * scale, 19 * scale),
    )  # fmt: skip
    return background, [house, windows, floor, wood, traffic], ground


def signs(stage: Stage) -> NeedleScene:
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    background, layers, ground = _street(stage)
    # Signs hang below the roofs and above the pavement.
    eaves = stage.height // 12
    rows, cols = max(1, (stage.height * 3 // 4 - eaves) // SLOT_HEIGHT), stage.width // SLOT_WIDTH
    slots = rows * cols
    items = min(slots, len(COLOUR_NAMES), knobs.items or max(2, min(10, slots // 2)))
    count = draws.integers("count", (items + 1) // 2, items + 1)
    there = torch.arange(items, device=device) < count
    slot = draws.order("slots", slots, place=True)[:, :items]
    row, col = torch.div(slot, cols, rounding_mode="floor"), slot % cols
    colour = draws.order("colours", len(COLOUR_NAMES))[:, :items]
    body = stage.colour("body", stage.palette(colour), 10)

    # A word, and on half of the signs a number under it.
    word = choose(words("sign_words"), draws.order("words", len(words("sign_words")))[:, :items])
    numbered = draws.chance("numbered", 50, items)
    number_ids = join([digits(draws.integers("number", 1, 1000, items), 3)], 3) * numbered[..., None]
    face, ink = stage.face("face", items), stage.ink("ink", body, items)
    size = stage.type_sizes("type", items, largest=24)
    # Two lines of large type would not fit between two signs.
    size = torch.where(numbered, torch.minimum(size, stage.size_index(torch.full_like(size, 16))), size)
    first = Text(word, slot, slot, face, size, ink).fitted(SLOT_WIDTH - 26, steps=9).only(there)
    second = Text(number_ids, slot, slot, face, first.size, ink).only(there)
    ascent, line = first.atlas.ascent[face, first.size], first.height()
    width = torch.maximum(first.width(), second.width()) + 18 + draws.integers("pad/x", 0, 5, items)
    height = line * (1 + numbered.long()) + 11 + draws.integers("pad/y", 0, 5, items)
    width, height = width.clamp(max=SLOT_WIDTH - 2), height.clamp(max=SLOT_HEIGHT - 1)
    y = eaves + row * SLOT_HEIGHT + draws.drift("y", SLOT_HEIGHT - 1 - height, items)
    x = col * SLOT_WIDTH + draws.drift("x", SLOT_WIDTH - 2 - width, items)
    middle = x + (width >> 1)
    baseline = y - 1 + ((height - line * (1 + numbered.long())) >> 1) + ascent
    first = replace(first, baseline=baseline).aligned(centre=middle)
    second = replace(second, baseline=baseline + line).aligned(centre=middle)

    # The lowest signs stand on poles, the others hang on the walls.
    standing = there & (row == rows - 1)
    pole_top = y + height - 6
    metal = torch.full_like(body, 96)
    poles = Layer(
        pole_top, middle - 2, (ground + 14 - pole_top).clamp(min=0) * standing, torch.full_like(y, 4),
        stage.sprite("bar", y), paints(metal, torch.full_like(body, 220), None, opacity=(255, 255, 0)), masks=(0, 1),
        extent=(stage.height, 4),
    )  # fmt: skip
    dark = body.sum(-1, keepdim=True) < 430
    rim = torch.where(dark, torch.full_like(body, 244), torch.full_like(body, 40))
    boards = Layer(
        y, x, height * there, width, stage.sprite("sign_panel", y),
        paints(torch.zeros_like(body), body, rim, opacity=(150, 255, 230)), extent=(SLOT_HEIGHT, SLOT_WIDTH),
    )  # fmt: skip

    place, doubtless = places(stage, boards.boxes)
    rim_slots = (row == 0) | (row == rows - 1) | (col == 0) | (col == cols - 1)
    groups = at_edge(stage, rim_slots, there, there, there & doubtless)
    possible = torch.stack([group.any(1) for group in groups], 1)
    possible[:, 2] &= not stage.moving  # what wanders has no one place
    task = pick_task(stage, (70, 18, 12), possible)
    targets = [draws.pick(f"target/{index}", group) for index, group in enumerate(groups)]
    target = by_task(task, targets)
    colour_name = choose(COLOUR_NAMES, take(colour, target))
    has_number = take(numbered, target)[:, None]
    blank = literal(" ", colour_name)
    said = answer_of(take(word, target), blank * has_number, take(number_ids, target))
    sign_name = join([colour_name, blank, literal("sign", colour_name)], 16)
    questions = [
        ask(stage, "wording/text", "signs.text", colour_name),
        ask(stage, "wording/colour", "signs.colour", take(word, target)),
        ask(stage, "wording/where", "where", sign_name),
    ]
    answers = [said, answer_of(colour_name), answer_of(choose(PLACES, take(place, target)))]
    board_box = take(boards.boxes, target)
    one_line, two_lines = first.boxes(), union(first.boxes(), second.boxes())
    text_box = take(torch.where(numbered[..., None], two_lines, one_line), target)
    is_text = (task == 0)[:, None]
    yes = torch.ones_like(is_text)
    return NeedleScene(
        background=background,
        layers=[*layers, poles, boards],
        text=stack_text([first, second]),
        question=by_task(task, questions),
        answer=by_task(task, answers),
        boxes=torch.where(is_text, text_box, board_box)[:, None],
        box_mask=yes,
        context=torch.where(is_text, board_box, text_box)[:, None],
        context_mask=yes,
        task=task,
        tasks=TASKS,
        type_size=first.atlas.sizes[take(first.size, target)] * (task == 0),
        marks=[
            Marks(boards.boxes, FIRST_COLOUR + colour, there),
            Marks(boards.boxes, torch.full_like(colour, thing("sign")), there),
        ],
    )
