"""Relevance in any form, and true boxes, as tensors."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from ..errors import InputError
from ..values import Relevance
from .frame import Frame, check_maps


def as_maps(relevance: Relevance | np.ndarray | Tensor | Sequence[Relevance]) -> Tensor:
    """Any form of relevance → (B, h, w) float tensor, checked."""
    if isinstance(relevance, Relevance):
        maps = torch.from_numpy(np.ascontiguousarray(relevance.map))
    elif isinstance(relevance, Tensor | np.ndarray):
        maps = torch.as_tensor(relevance)
    else:
        items = list(relevance)
        if not items:
            raise InputError("got no relevance map; give one map for each picture")
        maps = torch.cat([as_maps(item) for item in items])
    return check_maps(maps.float())


def boxes_to_cells(boxes: Sequence[Sequence[float]] | np.ndarray, frame: Frame) -> Tensor:
    """Boxes (K, 4) as x0, y0, x1, y1 in 0–1 of the picture → (rows, cols) share of each cell's area they cover."""
    array = np.asarray(boxes, dtype=np.float64).reshape(-1, 4)
    if not np.isfinite(array).all() or (array[:, 2:] < array[:, :2]).any():
        raise InputError("boxes must be x0, y0, x1, y1 in 0–1 with x1 ≥ x0 and y1 ≥ y0")
    rows, cols = frame.grid
    height, width = frame.seen
    tops, lefts = np.arange(rows) * frame.cell / height, np.arange(cols) * frame.cell / width
    tall, wide = frame.cell / height, frame.cell / width
    down = np.clip(np.minimum(tops + tall, array[:, 3:4]) - np.maximum(tops, array[:, 1:2]), 0, None) / tall
    across = np.clip(np.minimum(lefts + wide, array[:, 2:3]) - np.maximum(lefts, array[:, 0:1]), 0, None) / wide
    return torch.from_numpy((down[:, :, None] * across[:, None, :]).max(axis=0).astype(np.float32))
