"""`top_k`: the K most relevant cells at one level of detail, and nothing else (v0.1: 200 of 1024)."""

from __future__ import annotations

import torch

from ..errors import InputError
from .gains import pool
from .request import Request
from .tree import Leaves


def top_k(request: Request) -> Leaves:
    """K = budget cells of one level (`level=`, default 0); ties go to the earlier position. Leaves ground uncovered."""
    level = int(request.option("level", 0))
    total, count = request.cells.float(), torch.ones_like(request.cells[:1])
    for _ in range(level):
        total, count = pool(total, "sum"), pool(count, "sum")
    scores = (total / count).flatten(1)
    cols = total.shape[2]
    number = scores.shape[1]
    longest = max(request.budgets)
    if longest > number:
        raise InputError(f"top_k of {longest} cells was asked for, but level {level} has only {number}")
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :longest]
    lengths = torch.tensor(request.budgets, device=scores.device).expand(len(scores))
    valid = torch.arange(longest, device=scores.device) < lengths[:, None]
    # Raster order, with the places beyond a picture's own K at the end.
    index = best.masked_fill(~valid, number).sort(dim=1).values
    valid = index < number
    safe = index.clamp(max=number - 1)
    cells = torch.stack([(safe // cols) << level, (safe % cols) << level, torch.full_like(safe, level)], dim=-1)
    return Leaves(
        cells.masked_fill(~valid[..., None], -1), scores.gather(1, safe).masked_fill(~valid, 0), lengths.clone()
    )
