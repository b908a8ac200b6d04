"""The strategy "top_k": the K most relevant cells at one level of detail, and nothing else (v0.1: 200 of 1024)."""

from __future__ import annotations

import torch

from arr_coc.attending.allocate import AllocationJob
from arr_coc.attending.quadtree import pool
from arr_coc.attending.strategies import Strategy
from arr_coc.attending.tree import Leaves
from arr_coc.core.errors import InputError


def top_k(job: AllocationJob) -> Leaves:
    """K = budget cells of one level (`level=`, default 0); ties go to the earlier position. Leaves ground uncovered."""
    level = int(job.option("level", 0))
    total, count = job.cells.float(), torch.ones_like(job.cells[:1])
    for _ in range(level):
        total, count = pool(total, "sum"), pool(count, "sum")
    scores = (total / count).flatten(1)
    cols = total.shape[2]
    number = scores.shape[1]
    longest = max(job.budgets)
    if longest > number:
        raise InputError(f"top_k of {longest} cells was asked for, but level {level} has only {number}")
    best = scores.argsort(dim=1, descending=True, stable=True)[:, :longest]
    lengths = torch.tensor(job.budgets, device=scores.device).expand(len(scores))
    valid = torch.arange(longest, device=scores.device) < lengths[:, None]
    # Raster order, with the places beyond a picture's own K at the end.
    index = best.masked_fill(~valid, number).sort(dim=1).values
    valid = index < number
    safe = index.clamp(max=number - 1)
    cells = torch.stack([(safe // cols) << level, (safe % cols) << level, torch.full_like(safe, level)], dim=-1)
    return Leaves(
        cells.masked_fill(~valid[..., None], -1), scores.gather(1, safe).masked_fill(~valid, 0), lengths.clone()
    )


STRATEGY = Strategy("top_k", top_k, ("level",))
