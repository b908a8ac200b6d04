"""What the renderer returns: tensors first, strings only when asked for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import torch

from ...alphabet import decode

QUESTION_LENGTH = 72
ANSWER_LENGTH = 32
MAX_BOXES = 16
MAX_CONTEXT = 4


@dataclass(frozen=True)
class NeedleBatch:
    """B pictures with one question each. All tensors are on one device.

    pictures: (B, 3, H, W) uint8.
    question_ids: (B, 72) int64, answer_ids: (B, 32) int64: characters (see `characters`), 0 = padding.
    boxes: (B, 16, 4) float32, x0 y0 x1 y1 in 0–1: what must be seen to answer; box_mask: (B, 16) bool.
    ctx_boxes: (B, 4, 4) and ctx_mask: (B, 4): what identifies it (the label, the shape that was named).
    cell_labels: (B, H / 32, W / 32, classes) uint8, classes as in `labels.CELL_CLASSES`.
    tasks: (B,) int64 into task_names. type_sizes: (B,) int64, the answer's type in pixels, 0 where it is not written.
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
    type_sizes: torch.Tensor
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
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        moved: dict[str, Any] = {name: v.to(device) if isinstance(v, torch.Tensor) else v for name, v in values.items()}
        return NeedleBatch(**moved)


def concatenate(batches: list[NeedleBatch]) -> NeedleBatch:
    """Several batches of one family and size as one."""
    first = batches[0]
    if len(batches) == 1:
        return first
    values = {field.name: getattr(first, field.name) for field in fields(first)}
    merged: dict[str, Any] = {
        name: torch.cat([getattr(batch, name) for batch in batches]) if isinstance(value, torch.Tensor) else value
        for name, value in values.items()
    }
    return NeedleBatch(**merged)


def fixed_boxes(
    boxes: torch.Tensor, mask: torch.Tensor, number: int, height: int, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """(B, n, 4) pixels → (B, number, 4) in 0–1, clipped to the picture, the true ones first, and their mask."""
    order = (~mask).to(torch.uint8).argsort(dim=1, stable=True)
    boxes, mask = boxes.gather(1, order[..., None].expand_as(boxes)), mask.gather(1, order)
    missing = number - boxes.shape[1]
    if missing > 0:
        boxes = torch.nn.functional.pad(boxes, (0, 0, 0, missing))
        mask = torch.nn.functional.pad(mask, (0, missing))
    boxes, mask = boxes[:, :number], mask[:, :number]
    scale = torch.tensor([width, height, width, height], device=boxes.device, dtype=torch.float32)
    limit = scale.to(boxes.dtype)
    return torch.minimum(boxes.clamp(min=0), limit).float() / scale * mask[..., None], mask
