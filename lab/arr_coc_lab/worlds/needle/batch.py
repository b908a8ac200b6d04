"""What the renderer returns: tensors first, strings only when asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch

from arr_coc.core.alphabet import CHARACTERS, NUMBER_OF_IDS, SPACE

from .scene import COLOUR_NAMES, THINGS, NeedleScene

QUESTION_LENGTH = 72
ANSWER_LENGTH = 32
MAX_BOXES = 16
MAX_CONTEXT = 4


def decode(ids: torch.Tensor) -> str:
    """Convert identifiers (L,) back to a string, without padding."""
    return "".join(CHARACTERS[index - 1] for index in ids.tolist() if index > 0)


@dataclass(frozen=True)
class NeedleBatch:
    """B pictures with one question each. All tensors are on one device.

    pictures: (B, 3, H, W) uint8.
    question_ids: (B, 72) int64, answer_ids: (B, 32) int64: characters (see `characters`), 0 = padding.
    boxes: (B, 16, 4) float32, x0 y0 x1 y1 in 0–1: what must be seen to answer; box_mask: (B, 16) bool.
    ctx_boxes: (B, 4, 4) and ctx_mask: (B, 4): what identifies it (the label, the shape that was named).
    cell_labels: (B, H / 32, W / 32, classes) uint8, classes as in `labels.CELL_CLASSES`.
    tasks: (B,) int64 into task_names.
    index: (B,) int64 numbers of the pictures under this seed.
    """

    pictures: torch.Tensor
    question_ids: torch.Tensor
    answer_ids: torch.Tensor
    boxes: torch.Tensor
    box_mask: torch.Tensor
    ctx_boxes: torch.Tensor
    ctx_mask: torch.Tensor
    cell_labels: torch.Tensor
    tasks: torch.Tensor
    index: torch.Tensor
    family: str
    split: str
    seed: int
    task_names: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.pictures)

    @cached_property
    def questions(self) -> list[str]:
        return [decode(row) for row in self.question_ids.cpu()]

    @cached_property
    def answers(self) -> list[str]:
        return [decode(row) for row in self.answer_ids.cpu()]

    def to(self, device: torch.device | str) -> NeedleBatch:
        return replace(self, **{name: value.to(device) for name, value in self.tensors().items()})

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return the values by field name."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}


def concatenate(batches: list[NeedleBatch]) -> NeedleBatch:
    """Join several batches of one family and size."""
    first = batches[0]
    if len(batches) == 1:
        return first
    return replace(first, **{name: torch.cat([getattr(batch, name) for batch in batches]) for name in first.tensors()})


def fixed_boxes(
    boxes: torch.Tensor, mask: torch.Tensor, number: int, height: int, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """Convert (B, n, 4) pixels → (B, number, 4) in 0–1, clipped to the picture, the true ones first, and their mask."""
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    boxes, mask = boxes.gather(1, order[..., None].expand_as(boxes)), mask.gather(1, order)
    missing = number - boxes.shape[1]
    if missing > 0:
        boxes = torch.nn.functional.pad(boxes, (0, 0, 0, missing))
        mask = torch.nn.functional.pad(mask, (0, missing))
    boxes, mask = boxes[:, :number], mask[:, :number]
    # Made there: a list that is sent makes the processor wait, and no recording can hold it.
    scale = torch.arange(4, device=boxes.device) % 2 * float(height - width) + float(width)
    limit = scale.to(boxes.dtype)
    return torch.minimum(boxes.clamp(min=0), limit).float() / scale * mask[..., None], mask


# ----------------------------------------------------------------------------------------------------------------------
# What lies in each cell of 32 pixels: characters, colours and things, as 0 and 1, for a dense training signal.

CELL = 32
FIRST_COLOUR = NUMBER_OF_IDS
FIRST_THING = FIRST_COLOUR + len(COLOUR_NAMES)
# Class 0 (padding) never occurs; keeping it makes a character's class equal to its identifier.
CELL_CLASSES = ("", *CHARACTERS, *COLOUR_NAMES, *THINGS)


def thing(name: str) -> int:
    return FIRST_THING + THINGS.index(name)


def cell_labels(scene: NeedleScene, height: int, width: int) -> torch.Tensor:
    """Mark cells, (B, rows, cols, classes) uint8: 1 for a character's centre or a good part of a thing in the cell."""
    text = scene.text
    number = len(text.x)
    rows, cols, classes = height // CELL, width // CELL, len(CELL_CLASSES)
    labels = torch.zeros(number, rows * cols * classes + 1, dtype=torch.uint8, device=text.x.device)
    nowhere = labels.shape[1] - 1  # a spare last entry takes what must not be marked

    def mark(x: torch.Tensor, y: torch.Tensor, which: torch.Tensor, there: torch.Tensor) -> None:
        column, row = x >> 5, y >> 5
        inside = there & (row >= 0) & (row < rows) & (column >= 0) & (column < cols)
        place = torch.where(inside, (row * cols + column) * classes + which, nowhere)
        labels.scatter_(1, place.reshape(number, -1), 1)

    y, x = text.middles()
    mark(x, y, text.ids, (text.ids > 0) & (text.ids != SPACE))
    if scene.marks:
        boxes, which, there = (
            torch.cat([getattr(group, name) for group in scene.marks], 1) for name in ("boxes", "classes", "there")
        )
        # Nine points inside the box, at its quarters: a cell counts when it holds one of them.
        quarters = torch.arange(1, 4, device=boxes.device)
        across, down = quarters.repeat(3), quarters.repeat_interleave(3)
        corner, extent = boxes[..., :2, None], (boxes[..., 2:] - boxes[..., :2])[..., None]
        x, y = (corner + ((extent * torch.stack([across, down])) >> 2)).unbind(-2)
        mark(x, y, which[..., None].expand_as(x), there[..., None].expand_as(x))
    return labels[:, :-1].view(number, rows, cols, classes)
