"""A day at the zoo: animals on the grass, some behind bars, and a snack packet with its ingredients in small type."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch

from ..batch import FIRST_COLOUR, thing
from ..content import (
    PLACES,
    YES_NO,
    answer_of,
    any_word,
    ask,
    ask_all,
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
from ..scene import ANIMALS, COLOUR_NAMES, Background, Layer, Marks, NeedleScene, Stage, Text, paints, stack_text, take
from ..surfaces import STONE

TASKS = ("ingredients", "snack", "weight", "packet", "where", "exists", "bars", "count")
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
    """Sky, a row of trees, grass."""
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
        extent=(stage.height // 5, stage.width),
    )  # fmt: skip
    along = max(2, stage.width // 64)
    side = draws.integers("hedge/side", 34, 62, along)
    x = torch.arange(along, device=device) * 64 + draws.below("hedge/x", 65 - side, along)
    leaf = stage.colour("hedge", stage.constant([[88, 132, 76]]).expand(number, along, 3), 14)
    brown = torch.zeros_like(leaf) + stage.constant([98, 74, 54])
    there = draws.chance("hedge/there", 30 + stage.difficulty.clutter // 2, along).long()
    trees = Layer(
        horizon - side + 8,
        x,
        side * there,
        side,
        stage.sprite("tree", x),
        paints(brown, leaf, torch.full_like(leaf, 255)),
        extent=(62, 62),
    )
    return background, [sky, trees]


def _decoration(stage: Stage, slot_y: torch.Tensor, slot_x: torch.Tensor) -> Layer:
    """Trees and a few ponds where no animal stands: (B, K) corners of empty slots."""
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
    return Layer(y, x, height * there, side, sprites, colours, extent=(106, 106))


class ZooDrawing(NamedTuple):
    """A zoo before anything is asked. kind, there, caged: (B, animals). tint, packet_there: (B, 1) of the packet."""

    background: Background
    layers: list[Layer]
    packet_there: torch.Tensor
    there: torch.Tensor
    kind: torch.Tensor
    beasts: Layer
    caged: torch.Tensor
    cages: Layer
    tint: torch.Tensor
    packet: Layer
    snack_ids: torch.Tensor
    snack: Text
    ingredients: torch.Tensor
    weight_ids: torch.Tensor
    print_lines: Text


def _zoo(stage: Stage) -> ZooDrawing:
    """Animals on the grass, some behind bars, and the packet with its print."""
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
    beasts = Layer(y, x, side * there, side, stage.sprite_table(ANIMALS)[kind], colours, extent=(108, 108))
    black = torch.zeros_like(fur[:, :, 0])
    shadows = Layer(
        y + side * 7 // 8 - 2, x, (side // 5) * there, side, stage.sprite("glow", x),
        paints(black, opacity=(90, 0, 0)), masks=(0,), extent=(22, 108),
    )  # fmt: skip
    sand = stage.colour("sand", stage.constant([206, 188, 138]).expand(stage.number, animals, 3), 10)
    sandy = there & draws.chance("sandy", 60, animals)
    ground = Layer(
        slot_y + SLOT // 2, slot_x - 2, (SLOT // 2) * sandy, torch.full_like(x, SLOT), stage.sprite("glow", x),
        paints(sand, opacity=(200, 0, 0)), masks=(0,), extent=(SLOT // 2, SLOT),
    )  # fmt: skip
    decoration = [] if slots <= animals + 1 else [_decoration(stage, *corner(order[:, animals + 1 :]))]
    caged = there & draws.chance("caged", 40, animals)
    iron = torch.full_like(black, 74)
    cages = Layer(
        slot_y + 1, slot_x + 2, (SLOT - 3) * caged, torch.full_like(x, SLOT - 4), stage.sprite("bars", x),
        paints(iron, torch.full_like(black, 200), None, opacity=(255, 255, 0)), masks=(0, 1), extent=(SLOT, SLOT),
    )  # fmt: skip

    # The packet: name, weight, ingredients.
    packet_y, packet_x = corner(order[:, :1])
    height, width = draws.integers("packet/height", 112, 125), draws.integers("packet/width", 112, 123)
    packet_y = packet_y + draws.drift("packet/y", 127 - height)
    packet_x = packet_x + draws.drift("packet/x", 127 - width)
    tint = draws.integers("packet/colour", 0, len(COLOUR_NAMES))
    body = stage.colour("packet/body", stage.palette(tint), 8)
    foil = torch.full_like(body, 255)
    packet = Layer(
        packet_y, packet_x, height * packet_there, width, stage.sprite("packet", tint),
        paints(torch.zeros_like(body), body, foil, opacity=(110, 255, 120)), extent=(SLOT, SLOT),
    )  # fmt: skip
    label_paper = torch.full_like(body, 246) - draws.integers("label/paper", 0, 14)[..., None]
    small = stage.size_index(draws.integers("type", knobs.small[0], min(knobs.small[1], 12) + 1).clamp(max=12))
    face, small_ink = stage.face("face"), stage.ink("ink", label_paper)
    snack_ids = any_word(stage, "snack", "snacks")
    middle = packet_x + (width >> 1)
    snack = Text(
        snack_ids, tint, tint, stage.face("snack/face"), stage.size_index(draws.integers("snack/size", 16, 25)),
        stage.ink("snack/ink", body),
    ).fitted(width - 16).aligned(centre=middle).only(packet_there)  # fmt: skip
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
    print_lines = replace(print_lines, size=print_lines.size.amin(1, keepdim=True).expand(-1, 4)).only(packet_there)
    label_height = torch.minimum(bases[:, 3:] + 5, packet_y + height - 7) - label_top
    label = Layer(
        label_top, label_left, label_height * packet_there, width - 14, stage.sprite("solid", tint),
        paints(label_paper, opacity=(250, 0, 0)), masks=(0,), extent=(SLOT, SLOT),
    )  # fmt: skip
    layers += [*decoration, ground, shadows, beasts, cages, packet, label]
    ingredients = answer_of(one, comma, blank, two, comma, blank, three)[:, 0]
    return ZooDrawing(
        background, layers, packet_there, there, kind, beasts, caged, cages, tint, packet, snack_ids, snack,
        ingredients, weight_ids, print_lines,
    )  # fmt: skip


def zoo(stage: Stage) -> NeedleScene:
    draws, device = stage.draws, stage.device
    (
        background, layers, packet_there, there, kind, beasts, caged, cages, tint, packet, snack_ids, snack,
        ingredients, weight_ids, print_lines,
    ) = _zoo(stage)  # fmt: skip
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
    questions = [
        *ask_all(stage, "zoo", {task: [] for task in TASKS[:4]}),
        ask(stage, "wording/where", "where", animal),
        ask(stage, "wording/exists", "zoo.exists", choose(WITH_ARTICLE, asked)),
        ask(stage, "wording/bars", "zoo.bars", animal),
        ask(stage, "wording/count", "zoo.count"),
    ]
    answers = [
        ingredients,
        answer_of(snack_ids[:, 0]),
        answer_of(weight_ids[:, 0]),
        answer_of(choose(COLOUR_NAMES, tint[:, 0])),
        answer_of(choose(PLACES, take(place, target))),
        answer_of(choose(YES_NO, present.long())),
        answer_of(choose(YES_NO, take(caged, target).long())),
        answer_of(digits(there.sum(1), 2)),
    ]
    line_boxes, packet_box = print_lines.boxes(), packet.boxes[:, 0]
    listed_box = union(line_boxes[:, 1], line_boxes[:, 2])
    single = torch.stack([listed_box, snack.boxes()[:, 0], line_boxes[:, 3], packet_box], 1)
    about_packet = (task < 4)[:, None]
    alone = torch.nn.functional.one_hot(target, there.shape[1]).bool()
    box = torch.where(about_packet[..., None], take(single, task.clamp(max=3))[:, None], boxes)
    first_only = torch.arange(there.shape[1], device=device) == 0
    beast_mask = torch.where((task == 7)[:, None], there, alone & there & ((task != 5) | present)[:, None])
    type_sizes = torch.stack([print_lines.size[:, 1], snack.size[:, 0], print_lines.size[:, 3]], 1)
    written = take(type_sizes, task.clamp(max=2))
    return NeedleScene(
        background=background,
        layers=layers,
        text=stack_text([snack, print_lines]),
        question=by_task(task, questions),
        answer=by_task(task, answers),
        boxes=box,
        box_mask=torch.where(about_packet, first_only.expand_as(there), beast_mask),
        context=torch.stack([packet_box, line_boxes[:, 0]], 1),
        context_mask=torch.stack([task < 3, task == 0], 1),
        task=task,
        tasks=TASKS,
        type_size=snack.atlas.sizes[written] * (task < 3),
        marks=[
            Marks(boxes, thing(ANIMALS[0]) + kind, there),
            Marks(cages.boxes, torch.full_like(kind, thing("bars")), caged),
            Marks(packet.boxes, torch.full_like(tint, thing("packet")), packet_there),
            Marks(packet.boxes, FIRST_COLOUR + tint, packet_there),
        ],
    )
