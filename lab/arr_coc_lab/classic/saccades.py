"""The strategy "saccades": three or four fixations, each at the most relevant place not yet examined, then stop when
confident."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from arr_coc.attending.allocate import AllocationJob
from arr_coc.attending.strategies import SHAPED, Strategy
from arr_coc.core.values import Allocation

LEAST_FIXATIONS, MOST_FIXATIONS = 3, 4
FOVEA = 0.12
CONFIDENT = 0.9
FIXATING = {"fovea": FOVEA, "confident": CONFIDENT, "most": MOST_FIXATIONS, "least": LEAST_FIXATIONS}


class Fixations(NamedTuple):
    """points (B, F, 2) row, col in cells; made (B, F) bool; confidence (B, F): share of the map's relevance seen so
    far; seen (B, rows, cols) in [0, 1]: how well each place was examined."""

    points: Tensor
    made: Tensor
    confidence: Tensor
    seen: Tensor


def fixate(
    cells: Tensor,
    fovea: float = FOVEA,
    confident: float = CONFIDENT,
    most: int = MOST_FIXATIONS,
    least: int = LEAST_FIXATIONS,
) -> Fixations:
    """(B, rows, cols) relevance → where the eye goes.

    The fovea is a Gaussian of `fovea` × the longer side. Inhibition of return: what a fixation has seen counts for the
    next only as far as it was not seen. After `least` fixations a picture stops once `confident` of its relevance is
    seen; least=1: a first one that shows enough is the only one.
    """
    batch, rows, cols = cells.shape
    device = cells.device
    y, x = torch.arange(rows, device=device)[:, None], torch.arange(cols, device=device)[None, :]
    sigma = max(fovea * max(rows, cols), 0.75)
    relevance = cells.float().clamp_min(0)
    total = relevance.sum((1, 2)).clamp_min(1e-12)
    unseen = torch.ones_like(relevance)
    going = torch.ones(batch, dtype=torch.bool, device=device)
    points, made, confidence = [], [], []
    for step in range(most):
        # argmax takes the first of equals, so ties go to the earlier position.
        place = (relevance * unseen).flatten(1).argmax(1)
        row, col = place // cols, place % cols
        distance = (y - row[:, None, None]) ** 2 + (x - col[:, None, None]) ** 2
        glimpse = torch.exp(-distance / (2 * sigma**2))
        unseen = torch.where(going[:, None, None], unseen * (1 - glimpse), unseen)
        points.append(torch.stack([row, col], dim=-1))
        made.append(going)
        confidence.append((relevance * (1 - unseen)).sum((1, 2)) / total)
        if step + 1 >= least:
            going = going & (confidence[-1] < confident)
    return Fixations(torch.stack(points, 1), torch.stack(made, 1), torch.stack(confidence, 1), 1 - unseen)


def fixations_of(job: AllocationJob) -> Fixations:
    """Where the eye goes in a job, by its options."""
    how = {name: job.option(name, usual) for name, usual in FIXATING.items()}
    return fixate(job.cells, **how)


def saccades(job: AllocationJob) -> list[Allocation]:
    """Detail where the eye rested: leaves by what the fixations saw, weighted by relevance."""
    path = fixations_of(job)
    # The floor keeps the fovea fine even where the map itself is flat there.
    leaves = job.leaves(path.seen * (0.25 + job.cells.clamp(0, 1)))
    rested = [points[made].tolist() for points, made in zip(path.points, path.made, strict=True)]
    return job.allocations(leaves, "saccades", rested)


STRATEGY = Strategy("saccades", saccades, (*SHAPED, "fovea", "confident", "most", "least"))
