"""What lies in each cell of 32 pixels: characters, colours and things, as 0 and 1, for a dense training signal."""

from __future__ import annotations

import torch

from ...alphabet import CHARACTERS, NUMBER_OF_IDS, SPACE
from .scene import COLOUR_NAMES, THINGS, Scene

CELL = 32
FIRST_COLOUR = NUMBER_OF_IDS
FIRST_THING = FIRST_COLOUR + len(COLOUR_NAMES)
# Class 0 (padding) never occurs; keeping it makes a character's class equal to its identifier.
CELL_CLASSES = ("", *CHARACTERS, *COLOUR_NAMES, *THINGS)


def thing(name: str) -> int:
    return FIRST_THING + THINGS.index(name)


def cell_labels(scene: Scene, height: int, width: int) -> torch.Tensor:
    """(B, rows, cols, classes) uint8: 1 where a character's middle, or a good part of a thing, lies in the cell."""
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
