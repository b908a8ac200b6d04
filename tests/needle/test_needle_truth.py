"""Questions, answers and boxes are true: checked against what is painted and against a second, plain-Python reading."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from arr_coc_lab.worlds.needle.batch import FIRST_COLOUR, FIRST_THING, decode
from arr_coc_lab.worlds.needle.difficulty import as_difficulty
from arr_coc_lab.worlds.needle.draws import Draws
from arr_coc_lab.worlds.needle.paint import paint
from arr_coc_lab.worlds.needle.renderer import lay_out
from arr_coc_lab.worlds.needle.scene import COLOUR_NAMES, SHAPES, THINGS, NeedleScene

# Families with the tasks whose answer is written in the picture.
WRITTEN = {
    "cards": {"number"},
    "forms": {"value", "field", "title"},
    "receipts": {"price", "sum", "detail", "item", "shop"},
    "charts": {"value", "highest", "lowest", "label", "title"},
    "signs": {"text"},
    "zoo": {"ingredients", "snack", "weight"},
}
SIZE = (256, 256)


def scene_of(family: str, number: int, size: tuple[int, int] = SIZE, seed: int = 11) -> tuple[NeedleScene, Draws]:
    draws = Draws.of(seed, "train", family, torch.arange(number))
    return lay_out(family, draws, size, "train", as_difficulty(None, size)), draws


def lines_of(scene: NeedleScene, row: int) -> list[tuple[list[int], str]]:
    """Every line of one picture: its box and its text."""
    boxes = scene.text.boxes()[row].tolist()
    texts = [decode(ids) for ids in scene.text.ids[row]]
    return [(box, text) for box, text in zip(boxes, texts, strict=True) if text]


def within(box: list[int], outer: list[int]) -> bool:
    return box[0] >= outer[0] and box[1] >= outer[1] and box[2] <= outer[2] and box[3] <= outer[3]


def task_names(scene: NeedleScene) -> list[str]:
    return [scene.tasks[index] for index in scene.task.tolist()]


def written_rows(family: str, scene: NeedleScene) -> list[int]:
    return [row for row, name in enumerate(task_names(scene)) if name in WRITTEN[family]]


def answer_boxes(scene: NeedleScene, row: int) -> list[list[int]]:
    return scene.boxes[row][scene.box_mask[row]].tolist()


@pytest.mark.parametrize("family", WRITTEN)
def test_the_answers_ink_lies_in_its_box(family: str) -> None:
    """Paint once with and once without the lines in the answer's box: what changes lies in the box, all of it."""
    scene, draws = scene_of(family, 10)
    written = written_rows(family, scene)
    assert written
    outer = (scene.boxes * scene.box_mask[..., None]).amax(1)[:, None]
    boxes = scene.text.boxes()
    inside = (boxes[..., :2] >= outer[..., :2]).all(-1) & (boxes[..., 2:] <= outer[..., 2:]).all(-1)
    without = replace(scene, text=scene.text.only(~inside))
    changed = (paint(scene, draws, *SIZE) != paint(without, draws, *SIZE)).any(1)
    for row in written:
        x0, y0, x1, y1 = outer[row, 0].tolist()
        ink = torch.nonzero(changed[row])
        assert len(ink) > 12
        assert (ink[:, 0] >= y0).all()
        assert (ink[:, 0] < y1).all()
        assert (ink[:, 1] >= x0).all()
        assert (ink[:, 1] < x1).all()
        # The box is not generous either: the ink spans nearly all of its width.
        assert ink[:, 1].max() - ink[:, 1].min() + 5 >= x1 - x0 - 4


@pytest.mark.parametrize("family", WRITTEN)
@pytest.mark.parametrize("size", [(128, 128), (256, 256), (512, 384)])
def test_what_stands_in_the_box_is_the_answer(family: str, size: tuple[int, int]) -> None:
    scene, _ = scene_of(family, 64, size)
    for row in written_rows(family, scene):
        (box,) = answer_boxes(scene, row)
        found = sorted(
            (entry for entry in lines_of(scene, row) if within(entry[0], box)), key=lambda entry: entry[0][1]
        )
        read = " ".join(text for _, text in found)
        answer = decode(scene.answer[row])
        # A field's or an item's name is asked for in small letters, however it is printed.
        if task_names(scene)[row] in ("field", "item"):
            read = read.lower().removesuffix(":")
        assert read == answer, decode(scene.question[row])


def test_receipts_add_up() -> None:
    scene, _ = scene_of("receipts", 40, (512, 512))
    for row in range(40):
        rows: dict[int, list[tuple[int, str]]] = {}
        lines = [(index, decode(ids)) for index, ids in enumerate(scene.text.ids[row])]
        for index, text in lines:
            if text:
                rows.setdefault(int(scene.text.baseline[row, index]), []).append((int(scene.text.x[row, index]), text))
        table = {
            pair[0][1].lower(): pair[1][1] for pair in (sorted(entry) for entry in rows.values()) if len(pair) == 2
        }
        cents = {name: round(float(value[1:]) * 100) for name, value in table.items() if value[0] in "$€"}
        sums = {name: cents.pop(name) for name in ("subtotal", "tax", "total", "cash", "change")}
        assert cents
        assert sum(cents.values()) == sums["subtotal"]
        assert sums["subtotal"] + sums["tax"] == sums["total"]
        assert sums["cash"] - sums["total"] == sums["change"] >= 0


def things_of(scene: NeedleScene, row: int) -> list[dict]:
    colours, things = scene.marks
    return [
        {
            "colour": COLOUR_NAMES[int(colours.classes[row, item]) - FIRST_COLOUR],
            "shape": THINGS[int(things.classes[row, item]) - FIRST_THING],
            "box": things.boxes[row, item].tolist(),
            "item": item,
        }
        for item in torch.nonzero(things.there[row])[:, 0].tolist()
    ]


def middle(box: list[int]) -> tuple[float, float]:
    return (box[0] + box[2]) / 2, (box[1] + box[3]) / 2


@pytest.mark.parametrize("size", [(128, 128), (256, 256), (512, 512)])
def test_scenes_are_answered_rightly(size: tuple[int, int]) -> None:
    scene, _ = scene_of("scenes", 240, size)
    seen = set()
    for row, task in enumerate(task_names(scene)):
        question, answer = (
            decode(scene.question[row]).lower().replace("?", "").replace(".", ""),
            decode(scene.answer[row]),
        )
        things = things_of(scene, row)
        named = [thing for thing in things if f"{thing['colour']} {thing['shape']}" in question]
        boxes = answer_boxes(scene, row)
        seen.add(task)
        if task == "colour":
            (only,) = [thing for thing in things if f" {thing['shape']}" in question]
            assert answer == only["colour"]
            assert boxes == [only["box"]]
        elif task == "shape":
            (only,) = [thing for thing in things if f" {thing['colour']}" in question]
            assert answer == only["shape"]
        elif task == "count":
            shape = next(shape for shape in SHAPES if shape + "s" in question or shape + "es" in question)
            colour = next((colour for colour in COLOUR_NAMES if colour in question.split()), None)
            matching = [thing for thing in things if thing["shape"] == shape and colour in (None, thing["colour"])]
            assert int(answer) == len(matching) == len(boxes)
        elif task == "where":
            (only,) = named
            x, y = middle(only["box"])
            words = [("top", "", "bottom")[int(y * 3 / size[0])], ("left", "", "right")[int(x * 3 / size[1])]]
            assert answer == (" ".join(word for word in words if word) or "center")
        elif task == "exists":
            assert answer == ("yes" if named else "no")
            assert len(boxes) == len(named)
        else:
            first, second = sorted(named, key=lambda thing: question.index(f"{thing['colour']} {thing['shape']}"))
            (x1, y1), (x2, y2) = middle(first["box"]), middle(second["box"])
            truth = {"left of": x1 < x2, "right of": x1 > x2, "above": y1 < y2, "below": y1 > y2}
            (word,) = [word for word in truth if word in question]
            assert answer == ("yes" if truth[word] else "no")
            assert len(boxes) == 2
    assert seen == set(scene.tasks) or size == (128, 128)
