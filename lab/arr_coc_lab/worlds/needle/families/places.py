"""Places with things in them: scenes of shapes, a street with signs, the zoo."""

from __future__ import annotations

from dataclasses import replace

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import (
    PLACES,
    YES_NO,
    NeedleTask,
    answer_of,
    any_word,
    ask,
    ask_all,
    at_edge,
    by_task,
    choose,
    digits,
    join,
    literal,
    pick_task,
    places,
    scene_of,
    union,
    words,
)
from ..scene import (
    ANIMALS,
    COLOUR_NAMES,
    SHAPES,
    Background,
    Layer,
    Marks,
    NeedleScene,
    Stage,
    Text,
    paints,
    stack_text,
    take,
)
from ..surfaces import STONE, table

# ---- Coloured shapes on a surface: colour, shape, count, place, relation, existence ----------------------------------

RELATIONS = ("left of", "right of", "above", "below")
PLURALS = tuple("crosse" if shape == "cross" else shape for shape in SHAPES)


def scenes(stage: Stage) -> NeedleScene:
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
    paint = paints(black, body, white, opacity=(110, 255, 255))
    layer = Layer(y, x, side * there, side, stage.sprite_table(SHAPES)[shape], paint)
    boxes = layer.boxes
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

    asked_by = {"colour": [shape_name], "shape": [colour_name], "count": [counted_name]}
    asked_by |= {"where": [full_name], "relation": list(names), "exists": [exists_name]}
    yes_no = answer_of(choose(YES_NO, truth.long()))
    placed = answer_of(choose(PLACES, take(place, target)))
    answers = [answer_of(colour_name), answer_of(shape_name), answer_of(digits(counted.sum(1), 2)), placed]
    tasks = {}
    for (kind, values), answer in zip(asked_by.items(), [*answers, yes_no, yes_no], strict=True):
        wording = kind if kind == "where" else f"scenes.{kind}"
        tasks[kind] = NeedleTask(ask(stage, f"wording/{kind}", wording, *values), answer, first)
    pair = alone | torch.nn.functional.one_hot(other, items).bool()
    seen = by_task(task, [alone, alone, counted, alone, pair, found]) & there
    marks = [Marks(boxes, FIRST_COLOUR + colour, there), Marks(boxes, thing(SHAPES[0]) + shape, there)]
    # Coloured things must stand out from the table.
    scene = scene_of(table(stage, pale=45), [layer], stage.no_text(), tasks, task, marks)
    return replace(scene, boxes=boxes, box_mask=seen)


# ---- A street of houses, trees and cars with coloured signs in it ----------------------------------------------------

WALLS = ((186, 160, 138), (204, 190, 170), (158, 130, 118), (176, 182, 188), (196, 176, 140), (148, 152, 150))
SIGN_HEIGHT, SIGN_WIDTH = 64, 128


def _street(stage: Stage) -> tuple[Background, list[Layer], torch.Tensor]:
    """Draw sky, houses with windows, pavement and road, trees and cars; return where the pavement begins (B, 1)."""
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
        paints(frame, dark, torch.full_like(dark, 255), opacity=(255, 255, 150)),
    )  # fmt: skip
    grey = 172 + draws.integers("pavement", -14, 15)[:, :, None]
    kerb = ground + (stage.height - ground) * 45 // 100
    strips_y = torch.cat([ground, kerb, kerb + 5], 1)
    ends = torch.cat([kerb, kerb + 5, one * stage.height], 1)
    tones = torch.cat([grey, grey + 40, grey - 78], 1).clamp(0, 255).expand(-1, 3, 3)
    floor = Layer(
        strips_y, torch.zeros_like(strips_y), ends - strips_y, torch.full_like(strips_y, stage.width),
        stage.sprite("solid", strips_y), paints(tones), masks=(0,),
    )  # fmt: skip
    # Trees on the pavement, cars on the road: clutter.
    space = 24 * scale
    places_along = max(1, stage.width // space)
    along = torch.arange(places_along, device=device)
    trees = draws.chance("tree", stage.difficulty.clutter // 2, places_along).long()
    tree_side = draws.integers("tree/side", 56, 90, places_along) * scale // 4
    tree_x = along * space + draws.below("tree/x", space + 1 - tree_side, places_along)
    green = stage.colour("tree/green", stage.constant([[74, 122, 62]]).expand(number, places_along, 3), 16)
    brown = torch.zeros_like(green) + stage.constant([94, 70, 50])
    wood = Layer(
        kerb - tree_side - 2, tree_x, tree_side * trees, tree_side, stage.sprite("tree", tree_x),
        paints(brown, green, torch.full_like(green, 255)),
    )  # fmt: skip
    cars = draws.chance("car", stage.difficulty.clutter, places_along).long()
    car_side = draws.integers("car/side", 48, 76, places_along) * scale // 4
    car_x = along * space + draws.drift("car/x", space - 1 - car_side, places_along)
    tint = stage.colour("car/colour", stage.palette(draws.integers("car/tint", 0, len(COLOUR_NAMES), places_along)), 20)
    tint = (tint + 130) // 2  # duller than any sign
    traffic = Layer(
        kerb + 8 - car_side // 2, car_x, car_side * cars, car_side, stage.sprite("car", car_x),
        paints(tint, torch.full_like(tint, 30), torch.full_like(tint, 200)),
    )  # fmt: skip
    return background, [house, windows, floor, wood, traffic], ground


def signs(stage: Stage) -> NeedleScene:
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    background, layers, ground = _street(stage)
    # Signs hang below the roofs and above the pavement.
    eaves = stage.height // 12
    rows, cols = max(1, (stage.height * 3 // 4 - eaves) // SIGN_HEIGHT), stage.width // SIGN_WIDTH
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
    first = Text(word, slot, slot, face, size, ink).fitted(SIGN_WIDTH - 26, steps=9).only(there)
    second = Text(number_ids, slot, slot, face, first.size, ink).only(there)
    ascent, line = first.atlas.ascent[face, first.size], first.height()
    width = torch.maximum(first.width(), second.width()) + 18 + draws.integers("pad/x", 0, 5, items)
    height = line * (1 + numbered.long()) + 11 + draws.integers("pad/y", 0, 5, items)
    width, height = width.clamp(max=SIGN_WIDTH - 2), height.clamp(max=SIGN_HEIGHT - 1)
    y = eaves + row * SIGN_HEIGHT + draws.drift("y", SIGN_HEIGHT - 1 - height, items)
    x = col * SIGN_WIDTH + draws.drift("x", SIGN_WIDTH - 2 - width, items)
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
    )  # fmt: skip
    dark = body.sum(-1, keepdim=True) < 430
    rim = torch.where(dark, torch.full_like(body, 244), torch.full_like(body, 40))
    boards = Layer(
        y, x, height * there, width, stage.sprite("sign_panel", y),
        paints(torch.zeros_like(body), body, rim, opacity=(150, 255, 230)),
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
    board_box = take(boards.boxes, target)
    one_line, two_lines = first.boxes(), union(first.boxes(), second.boxes())
    text_box = take(torch.where(numbered[..., None], two_lines, one_line), target)
    asked_text, asked_colour = (
        ask(stage, "wording/text", "signs.text", colour_name),
        ask(stage, "wording/colour", "signs.colour", take(word, target)),
    )
    placed = answer_of(choose(PLACES, take(place, target)))
    tasks = {
        "text": NeedleTask(asked_text, said, text_box, board_box),
        "colour": NeedleTask(asked_colour, answer_of(colour_name), board_box, text_box),
        "where": NeedleTask(ask(stage, "wording/where", "where", sign_name), placed, board_box, text_box),
    }
    marks = [
        Marks(boards.boxes, FIRST_COLOUR + colour, there),
        Marks(boards.boxes, torch.full_like(colour, thing("sign")), there),
    ]
    return scene_of(background, [*layers, poles, boards], stack_text([first, second]), tasks, task, marks)


# ---- The zoo: animals on the grass, some behind bars, and a packet with its ingredients in small type ----------------

WITH_ARTICLE = tuple(("an " if animal[0] in "aeiou" else "a ") + animal for animal in ANIMALS)
# The three masks of each animal, in order.
FUR = (
    ((236, 138, 44), (38, 30, 28), (250, 244, 232)),
    ((142, 146, 154), (104, 106, 116), (236, 232, 222)),
    ((36, 38, 48), (246, 246, 246), (242, 150, 40)),
    ((232, 190, 104), (150, 92, 44), (60, 44, 34)),
    ((242, 140, 164), (96, 60, 66), (216, 100, 130)),
    ((112, 76, 50), (40, 28, 22), (206, 168, 128)),
)
SLOT = 128


def _grounds(stage: Stage) -> tuple[Background, list[Layer]]:
    """Draw sky, a row of trees, grass."""
    draws, device, number = stage.draws, stage.device, stage.number
    one = torch.ones(number, 1, dtype=torch.int64, device=device)
    green = stage.constant([[150, 184, 104]]) + draws.integers("grass", -14, 15, 3)
    background = Background(
        green, green - 34, torch.full((number,), STONE, device=device), draws.integers("grass/strength", 12, 24)[:, 0]
    )
    horizon = stage.height * 12 // 100 + draws.drift("horizon", one * (stage.height // 24))
    blue = (stage.constant([[[172, 206, 236]]]) + draws.integers("sky", -16, 12, 3)[:, None]).clamp(0, 255)
    sky = Layer(
        one * 0, one * 0, horizon, one * stage.width, stage.sprite("solid", one), paints(blue), masks=(0,),
    )  # fmt: skip
    along = max(2, stage.width // 64)
    side = draws.integers("hedge/side", 34, 62, along)
    x = torch.arange(along, device=device) * 64 + draws.below("hedge/x", 65 - side, along)
    leaf = stage.colour("hedge", stage.constant([[88, 132, 76]]).expand(number, along, 3), 14)
    brown = torch.zeros_like(leaf) + stage.constant([98, 74, 54])
    there = draws.chance("hedge/there", 30 + stage.difficulty.clutter // 2, along).long()
    paint = paints(brown, leaf, torch.full_like(leaf, 255))
    trees = Layer(horizon - side + 8, x, side * there, side, stage.sprite("tree", x), paint)
    return background, [sky, trees]


def _decoration(stage: Stage, slot_y: torch.Tensor, slot_x: torch.Tensor) -> Layer:
    """Draw trees and a few ponds into slots without an animal. (B, K): corners of empty slots."""
    draws, slots = stage.draws, slot_y.shape[1]
    pond = draws.chance("pond", 22, slots) & (slot_y > stage.height // 5)
    there = draws.chance("decoration", 15 + stage.difficulty.clutter // 2, slots).long()
    side = draws.integers("decoration/side", 50, 106, slots)
    height = torch.where(pond, side * 2 // 5, side)
    y = slot_y + 2 + draws.below("decoration/y", SLOT - 4 - height, slots, place=True)
    x = slot_x + 2 + draws.below("decoration/x", SLOT - 4 - side, slots, place=True)
    leaf = stage.colour("leaf", stage.constant([[84, 130, 66]]).expand(stage.number, slots, 3), 16)
    bark, water = leaf * 0 + stage.constant([98, 74, 54]), leaf * 0 + stage.constant([118, 168, 196])
    white = torch.full_like(leaf, 255)
    # A pond is a flattened circle: bank, water and a gleam.
    colours = torch.where(
        pond[..., None, None], paints(bark, water, white, opacity=(120, 255, 255)), paints(bark, leaf, white)
    )
    sprites = torch.where(pond, stage.sprite("circle", y), stage.sprite("tree", y))
    return Layer(y, x, height * there, side, sprites, colours)


def _packet(
    stage: Stage, y: torch.Tensor, x: torch.Tensor, there: torch.Tensor
) -> tuple[list[Layer], Text, dict[str, NeedleTask], list[Marks], torch.Tensor]:
    """Draw a snack in the slot at y, x (B, 1): its layers and text, what is asked about it, its marks, and
    (B, 2, 4) the boxes that name what is asked."""
    draws, knobs = stage.draws, stage.difficulty
    height, width = draws.integers("packet/height", 112, 125), draws.integers("packet/width", 112, 123)
    packet_y, packet_x = y + draws.drift("packet/y", 127 - height), x + draws.drift("packet/x", 127 - width)
    tint = draws.integers("packet/colour", 0, len(COLOUR_NAMES))
    body = stage.colour("packet/body", stage.palette(tint), 8)
    foil = torch.full_like(body, 255)
    packet = Layer(
        packet_y, packet_x, height * there, width, stage.sprite("packet", tint),
        paints(torch.zeros_like(body), body, foil, opacity=(110, 255, 120)),
    )  # fmt: skip
    label_paper = torch.full_like(body, 246) - draws.integers("label/paper", 0, 14)[..., None]
    small = stage.size_index(draws.integers("type", knobs.small[0], min(knobs.small[1], 12) + 1).clamp(max=12))
    face, small_ink = stage.face("face"), stage.ink("ink", label_paper)
    snack_ids = any_word(stage, "snack", "snacks")
    middle = packet_x + (width >> 1)
    snack = Text(
        snack_ids, tint, tint, stage.face("snack/face"), stage.size_index(draws.integers("snack/size", 16, 25)),
        stage.ink("snack/ink", body),
    ).fitted(width - 16).aligned(centre=middle).only(there)  # fmt: skip
    snack_base = packet_y + 10 + snack.atlas.ascent[snack.face, snack.size]
    snack = replace(snack, baseline=snack_base)
    listed = draws.order("ingredients", len(words("ingredients")))[:, :3]
    one, two, three = (choose(words("ingredients"), listed[:, index : index + 1]) for index in range(3))
    comma, blank = literal(",", one), literal(" ", one)
    grams = digits(draws.integers("grams", 4, 60) * 5, 3)
    weight_ids = join([grams, literal(" g", grams)], 5)
    upper_line = join([one, comma, blank, two, comma], 24)
    heading = choose(("Ingredients:", "INGREDIENTS", "Contains:", "Made of"), draws.integers("heading", 0, 4))
    line = snack.atlas.height[face, small] + 1
    lines = [join([ids], 24) for ids in (heading, upper_line, three, weight_ids)]
    label_top = snack_base + (snack.height() - snack.atlas.ascent[snack.face, snack.size]) + 4
    first_base = label_top + 3 + snack.atlas.ascent[face, small]
    bases = torch.cat([first_base + step * line for step in range(4)], 1)
    label_left = packet_x + 7
    print_lines = Text(
        torch.cat(lines, 1), (label_left + 4).expand(-1, 4), bases, face.expand(-1, 4), small.expand(-1, 4),
        small_ink.expand(-1, 4, 3),
    ).fitted(width - 21)  # fmt: skip
    # One size for all lines of the label: that of the line which had to shrink most.
    print_lines = replace(print_lines, size=print_lines.size.amin(1, keepdim=True).expand(-1, 4)).only(there)
    label_height = torch.minimum(bases[:, 3:] + 5, packet_y + height - 7) - label_top
    label = Layer(
        label_top, label_left, label_height * there, width - 14, stage.sprite("solid", tint),
        paints(label_paper, opacity=(250, 0, 0)), masks=(0,),
    )  # fmt: skip
    line_boxes, packet_box = print_lines.boxes(), packet.boxes[:, 0]
    listed_box = union(line_boxes[:, 1], line_boxes[:, 2])
    kinds = ("ingredients", "snack", "weight", "packet")
    about = (
        (answer_of(one, comma, blank, two, comma, blank, three)[:, 0], listed_box, packet_box),
        (answer_of(snack_ids[:, 0]), snack.boxes()[:, 0], packet_box),
        (answer_of(weight_ids[:, 0]), line_boxes[:, 3], packet_box),
        (answer_of(choose(COLOUR_NAMES, tint[:, 0])), packet_box),
    )
    questions = ask_all(stage, "zoo", {kind: [] for kind in kinds})
    rows = zip(kinds, questions, about, strict=True)
    tasks = {kind: NeedleTask(question, *facts) for kind, question, facts in rows}
    marks = [
        Marks(packet.boxes, torch.full_like(tint, thing("packet")), there),
        Marks(packet.boxes, FIRST_COLOUR + tint, there),
    ]
    named = torch.stack([packet_box, line_boxes[:, 0]], 1)
    return [packet, label], stack_text([snack, print_lines]), tasks, marks, named


def zoo(stage: Stage) -> NeedleScene:
    draws, knobs, device = stage.draws, stage.difficulty, stage.device
    background, layers = _grounds(stage)
    rows, cols = stage.height // SLOT, stage.width // SLOT
    slots = rows * cols
    nursery = slots == 1 or knobs.items == 1
    animals = 1 if nursery else min(len(ANIMALS), slots - 1, max(1, (knobs.items or 7) - 1))
    order = draws.order("slots", slots, place=True)
    offset_y, offset_x = stage.height - rows * SLOT, (stage.width - cols * SLOT) // 2
    # On one slot there is either the packet or an animal.
    packet_there = draws.chance("packet", 60 if nursery else 100)
    count = torch.where(packet_there, 0, 1) if nursery else draws.integers("count", (animals + 1) // 2, animals + 1)
    there = torch.arange(animals, device=device) < count

    def corner(slot: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return offset_y + torch.div(slot, cols, rounding_mode="floor") * SLOT, offset_x + slot % cols * SLOT

    # Animals, each on a shadow, some behind bars.
    slot_y, slot_x = corner(order[:, :1] if nursery else order[:, 1 : animals + 1])
    kind = draws.order("animals", len(ANIMALS))[:, :animals]
    side = draws.integers("side", 62, 109, animals)
    y = slot_y + 6 + draws.drift("y", SLOT - 14 - side, animals)
    x = slot_x + 8 + draws.drift("x", SLOT - 16 - side, animals)
    fur = stage.constant(FUR)[kind].view(stage.number, animals, 3, 3)
    fur = (fur + draws.integers("fur", -8, 9, animals)[..., None, None]).clamp(0, 255)
    colours = torch.cat([fur, torch.full_like(fur[..., :1], 255)], -1)
    beasts = Layer(y, x, side * there, side, stage.sprite_table(ANIMALS)[kind], colours)
    black = torch.zeros_like(fur[:, :, 0])
    shadows = Layer(
        y + side * 7 // 8 - 2, x, (side // 5) * there, side, stage.sprite("glow", x),
        paints(black, opacity=(90, 0, 0)), masks=(0,),
    )  # fmt: skip
    sand = stage.colour("sand", stage.constant([206, 188, 138]).expand(stage.number, animals, 3), 10)
    sandy = there & draws.chance("sandy", 60, animals)
    ground = Layer(
        slot_y + SLOT // 2, slot_x - 2, (SLOT // 2) * sandy, torch.full_like(x, SLOT), stage.sprite("glow", x),
        paints(sand, opacity=(200, 0, 0)), masks=(0,),
    )  # fmt: skip
    decoration = [] if slots <= animals + 1 else [_decoration(stage, *corner(order[:, animals + 1 :]))]
    caged = there & draws.chance("caged", 40, animals)
    iron = torch.full_like(black, 74)
    cages = Layer(
        slot_y + 1, slot_x + 2, (SLOT - 3) * caged, torch.full_like(x, SLOT - 4), stage.sprite("bars", x),
        paints(iron, torch.full_like(black, 200), None, opacity=(255, 255, 0)), masks=(0, 1),
    )  # fmt: skip

    packet, text, tasks, marks, named = _packet(stage, *corner(order[:, :1]), packet_there)
    layers += [*decoration, ground, shadows, beasts, cages, *packet]

    # The question.
    truth = draws.chance("truth", 50)[:, 0]
    boxes = beasts.boxes
    place, doubtless = places(stage, boxes)
    has_packet, some = packet_there[:, 0], there.any(1)
    other = draws.pick("bars/which", torch.where((caged == truth[:, None]).logical_and(there).any(1, keepdim=True),
                                                 (caged == truth[:, None]) & there, there))  # fmt: skip
    groups = [there] * 8
    groups[4] = there & doubtless
    possible = torch.stack([has_packet] * 4 + [groups[4].any(1), some, some, some], 1)
    possible[:, 4] &= not stage.moving  # what wanders has no one place
    weights = (40, 10, 8, 8, 12, 12, 6, 4)
    task = pick_task(stage, weights, possible)
    target = torch.where(task == 4, draws.pick("target/where", groups[4]), draws.pick("target", there))
    target = torch.where(task == 6, other, target)
    shown = (kind[:, :, None] == torch.arange(len(ANIMALS), device=device)) & there[:, :, None]
    absent = draws.pick("absent", ~shown.any(1))
    # With every kind of animal in the picture there is none left to ask for in vain.
    present = truth | shown.any(1).all(1)
    asked = torch.where(present, take(kind, target), absent)
    animal = choose(ANIMALS, take(kind, target))
    placed = answer_of(choose(PLACES, take(place, target)))
    shut, there_is = (answer_of(choose(YES_NO, truth.long())) for truth in (take(caged, target), present))
    known = ask(stage, "wording/exists", "zoo.exists", choose(WITH_ARTICLE, asked))
    number = answer_of(digits(there.sum(1), 2))
    first = boxes[:, 0]  # which boxes are seen is said below
    tasks |= {
        "where": NeedleTask(ask(stage, "wording/where", "where", animal), placed, first),
        "exists": NeedleTask(known, there_is, first),
        "bars": NeedleTask(ask(stage, "wording/bars", "zoo.bars", animal), shut, first),
        "count": NeedleTask(ask(stage, "wording/count", "zoo.count"), number, first),
    }
    marks = [
        Marks(boxes, thing(ANIMALS[0]) + kind, there),
        Marks(cages.boxes, torch.full_like(kind, thing("bars")), caged),
        *marks,
    ]
    scene = scene_of(background, layers, text, tasks, task, marks)
    # What is asked about animals needs their boxes: all of them for a count, none where none is there.
    about_packet, alone = (task < 4)[:, None], torch.nn.functional.one_hot(target, animals).bool()
    beast_mask = torch.where((task == 7)[:, None], there, alone & there & ((task != 5) | present)[:, None])
    first_only = torch.arange(animals, device=device) == 0
    return replace(
        scene,
        boxes=torch.where(about_packet[..., None], scene.boxes, boxes),
        box_mask=torch.where(about_packet, first_only.expand_as(there), beast_mask),
        context=named,
        context_mask=torch.stack([task < 3, task == 0], 1),
    )
