"""Strategies to compare with: `uniform` is plain down-sampling, `full` spends everything, `oracle` is given boxes.

More of them are in `arr_coc_lab.classic.controls`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ..core.arrays import overlaps
from ..core.errors import InputError, frozen, shown
from .frame import Frame
from .strategies import AllocationJob
from .tree import Leaves, quadtree


def uniform(job: AllocationJob) -> Leaves:
    """Every place the same: a constant map, split breadth first."""
    return quadtree(torch.ones_like(job.cells), job.tree, job.budget)


def full(job: AllocationJob) -> Leaves:
    """Level 0 everywhere, whatever the budget says."""
    tree = job.tree
    return quadtree(job.cells, tree, tree.full)


def oracle(job: AllocationJob) -> Leaves:
    """Detail on the true boxes (`boxes=`: x0, y0, x1, y1 in 0–1)."""
    boxes = job.need("boxes", "oracle", "the relevant boxes as x0, y0, x1, y1 in 0–1")
    if not isinstance(boxes, Sequence | np.ndarray) or isinstance(boxes, str):
        raise InputError(f"boxes must be a list of x0, y0, x1, y1 in 0–1, got {shown(boxes)}")
    covered = boxes_to_cells(boxes, job.frame).to(job.cells)[None]
    # A little of the neighbourhood breaks the ties of what remains towards the box's surroundings.
    near = F.avg_pool2d(covered[:, None], 5, stride=1, padding=2)[:, 0]
    touched = (covered > 0).float()
    return job.leaves(touched + 1e-2 * near)


def boxes_to_cells(boxes: Sequence[Sequence[float]] | np.ndarray, frame: Frame) -> Tensor:
    """Boxes (K, 4) as x0, y0, x1, y1 in 0–1 of the picture → (rows, cols) share of each cell's area they cover."""
    array = frozen(boxes, "boxes", np.float64) if len(boxes) else np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4 or (array[:, 2:] < array[:, :2]).any():
        raise InputError("boxes must be x0, y0, x1, y1 in 0–1 with x1 ≥ x0 and y1 ≥ y0, four numbers for each box")
    rows, cols = frame.grid
    height, width = frame.seen
    x0, y0, x1, y1 = array.T
    down, across = (
        overlaps(start * side / frame.cell, stop * side / frame.cell, number)
        for start, stop, side, number in ((y0, y1, height, rows), (x0, x1, width, cols))
    )
    covered = (down[:, :, None] * across[:, None, :]).max(axis=0, initial=0)
    return torch.from_numpy(covered.astype(np.float32))
