"""What several families need: place words, unions of boxes, choosing among tasks."""

from __future__ import annotations

import torch

from ..batch import ANSWER_LENGTH
from ..scene import Stage, Text
from ..strings import choose, join

PLACES = ("top left", "top", "top right", "left", "center", "right", "bottom left", "bottom", "bottom right")
YES_NO = ("no", "yes")
WHERE_WORDINGS = (
    "Where is the {0}?",
    "Where do you see the {0}?",
    "In which part is the {0}?",
    "Find the {0}. Where is it?",
)


def places(stage: Stage, boxes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, K, 4) boxes → (B, K) index into PLACES, and whether the place is beyond doubt (not near a third's line)."""
    x, y = (boxes[..., 0] + boxes[..., 2]) * 3, (boxes[..., 1] + boxes[..., 3]) * 3
    full_x, full_y = 2 * stage.width, 2 * stage.height
    column, row = torch.div(x, full_x, rounding_mode="floor"), torch.div(y, full_y, rounding_mode="floor")
    inside_x, inside_y = x - column * full_x, y - row * full_y

    def clear(inside: torch.Tensor, index: torch.Tensor, full: int) -> torch.Tensor:
        margin = full // 8
        return ((inside >= margin) | (index <= 0)) & ((inside <= full - margin) | (index >= 2))

    doubtless = clear(inside_x, column, full_x) & clear(inside_y, row, full_y)
    return row.clamp(0, 2) * 3 + column.clamp(0, 2), doubtless


def union(*boxes: torch.Tensor) -> torch.Tensor:
    """The smallest box around all: (…, 4) each."""
    stacked = torch.stack(boxes)
    return torch.cat([stacked[..., :2].amin(0), stacked[..., 2:].amax(0)], -1)


def no_text(stage: Stage) -> Text:
    """A text layer with nothing in it."""
    zeros = torch.zeros(stage.number, 1, dtype=torch.int64, device=stage.device)
    return Text(zeros[..., None], zeros, zeros, zeros, zeros, zeros[..., None].expand(-1, -1, 3))


def answer_word(words: tuple[str, ...], index: torch.Tensor) -> torch.Tensor:
    """(B,) → (B, ANSWER_LENGTH)."""
    return join([choose(words, index)], ANSWER_LENGTH)


def pick_task(stage: Stage, weights: tuple[int, ...], possible: torch.Tensor) -> torch.Tensor:
    """(B,) a task by weight among the possible ones (B, tasks); at least one must be possible for every picture."""
    share = stage.constant(weights) * possible
    upto = share.cumsum(1)
    ticket = stage.draws.below("task", upto[:, -1:])
    return (upto <= ticket).sum(1).clamp(max=len(weights) - 1)
