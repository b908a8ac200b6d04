"""`render`: one call from (family, size, seed) to pictures, questions, answers and boxes."""

from __future__ import annotations

from typing import NamedTuple

import torch

from arr_coc.core.errors import InputError

from .atlas import glyphs
from .batch import (
    ANSWER_LENGTH,
    CELL,
    MAX_BOXES,
    MAX_CONTEXT,
    QUESTION_LENGTH,
    NeedleBatch,
    cell_labels,
    concatenate,
    fixed_boxes,
)
from .difficulty import Difficulty, as_difficulty
from .draws import Draws
from .families import FAMILIES
from .paint import paint_in_parts
from .scene import NeedleScene, Stage

SPLITS = ("train", "validation", "test")
# Pixels painted at once, by kind of device: those that fit a CPU's cache, or a few gigabytes.
PIXELS_AT_ONCE = {"cpu": 1 << 18, "cuda": 1 << 26}
LAID_OUT_AT_ONCE = 4096


def check(family: str, number: int, size: tuple[int, int], split: str) -> None:
    """Raise InputError for what cannot be rendered."""
    if family not in FAMILIES:
        raise InputError(f"unknown family {family!r}; choose from {', '.join(FAMILIES)}")
    if split not in SPLITS:
        raise InputError(f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
    if number < 1:
        raise InputError(f"the number of pictures must be at least 1, got {number}")
    if len(size) != 2 or any(side % CELL or not 128 <= side <= 2048 for side in size):
        raise InputError(f"size must be (height, width), multiples of {CELL} from 128 to 2048, got {tuple(size)}")


def lay_out(
    family: str, draws: Draws, size: tuple[int, int], split: str, difficulty: Difficulty, moving: bool = False
) -> NeedleScene:
    """Return the scene of a batch before it is painted: to change or inspect it."""
    faces = glyphs(draws.device).faces(split)
    return FAMILIES[family](Stage(draws, size[0], size[1], difficulty, faces, moving))


def _fixed_text(text: torch.Tensor, length: int) -> torch.Tensor:
    return torch.nn.functional.pad(text, (0, max(0, length - text.shape[1])))[:, :length]


class Asked(NamedTuple):
    """What is asked about each picture of a batch; the fields are those of `NeedleBatch`."""

    question_ids: torch.Tensor
    answer_ids: torch.Tensor
    boxes: torch.Tensor
    box_mask: torch.Tensor
    ctx_boxes: torch.Tensor
    ctx_mask: torch.Tensor


def asked_of(scene: NeedleScene, size: tuple[int, int]) -> Asked:
    """Return the questions of a scene, in fixed sizes."""
    return Asked(
        _fixed_text(scene.question, QUESTION_LENGTH),
        _fixed_text(scene.answer, ANSWER_LENGTH),
        *fixed_boxes(scene.boxes, scene.box_mask, MAX_BOXES, *size),
        *fixed_boxes(scene.context, scene.context_mask, MAX_CONTEXT, *size),
    )


def finish_batch(
    scene: NeedleScene, draws: Draws, index: torch.Tensor, family: str, split: str, seed: int, size: tuple[int, int]
) -> NeedleBatch:
    """Paint a scene and put it into a batch."""
    height, width = size
    return NeedleBatch(
        pictures=paint_in_parts(scene, draws, height, width, PIXELS_AT_ONCE.get(index.device.type, 1 << 18)),
        **asked_of(scene, size)._asdict(),
        cell_labels=cell_labels(scene, height, width),
        tasks=scene.task,
        index=index,
        family=family,
        split=split,
        seed=seed,
        task_names=scene.tasks,
    )


@torch.no_grad()
def render(
    family: str,
    n: int,
    size: tuple[int, int] = (256, 256),
    seed: int = 0,
    split: str = "train",
    difficulty: Difficulty | str | None = None,
    device: torch.device | str = "cpu",
    start: int = 0,
    question: int = 0,
) -> NeedleBatch:
    """Draw pictures `start` … `start + n - 1` of a family for a seed.

    Each picture is a pure function of (family, seed, split, size, difficulty, its number): the batch and the device
    do not matter, and the splits never share a picture. `question` 1, 2, … ask something else (or the same in other
    words) about the very same pictures. size is (height, width). difficulty: a `Difficulty`, the name
    of one ("nursery", "easy", "normal", "hard") or None (normal; nursery below 192 pixels).
    """
    check(family, n, size, split)
    knobs = as_difficulty(difficulty, size)
    device = torch.device(device)
    parts = []
    # A caller may be inside autocast; the sums here must stay whole numbers.
    with torch.autocast(device.type, enabled=False):
        for first in range(start, start + n, LAID_OUT_AT_ONCE):
            index = torch.arange(first, min(first + LAID_OUT_AT_ONCE, start + n), device=device)
            draws = Draws.of(seed, split, family, index, question=question)
            scene = lay_out(family, draws, size, split, knobs)
            parts.append(finish_batch(scene, draws, index, family, split, seed, size))
    return concatenate(parts)
