"""Strategies of the source: the K best cells, a few fixations, and clusters.

look("street.png", "the red sign", strategy="top_k", budget=200)
look("street.png", "the red sign", strategy="saccades")
look("street.png", "the red sign", strategy="clusters", labels=superpixels(pixels))
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from arr_coc.attending.allocate import as_maps
from arr_coc.attending.frame import to_cells
from arr_coc.attending.strategies import AllocationJob, Strategy
from arr_coc.attending.tree import Leaves, pool
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation

# ---- top_k: the K most relevant cells at one level, and nothing else (v0.1: 200 of 1024) -----------------------------


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


TOP_K = Strategy("top_k", top_k, ("level",))

# ---- saccades: fixations at the most relevant places not yet examined, until it is confident -------------------------

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
    pixels = np.array(job.frame.image_size) / job.frame.seen * job.frame.cell
    found = []
    for one, points, made in zip(job.allocations(leaves, "saccades"), path.points, path.made, strict=True):
        rested = np.minimum((points[made].cpu().numpy() + 0.5) * pixels, np.array(job.frame.image_size) - 1).astype(int)
        note = f"the eye rested at {', '.join(f'({y}, {x})' for y, x in rested.tolist())}"
        found.append(replace(one, notes=(*one.notes, note)))
    return found


SACCADES = Strategy("saccades", saccades, ("fovea", "confident", "most", "least"))

# ---- clusters: by the source's rule ----------------------------------------------------------------------------------
# A place counts .8 by itself and .2 by the cluster that it lies in. A cluster scores .7 for its mean relevance, .2 for
# its mean saliency and .1 for its size. The leaves are those of an overlay of the mixed map.

OWN, CLUSTER = 0.8, 0.2
RELEVANCE, SALIENCY, SIZE = 0.7, 0.2, 0.1
CANDIDATES = 10


def labels_on(labels: np.ndarray, grid: tuple[int, int], reach: tuple[float, float] = (1.0, 1.0)) -> np.ndarray:
    """Labels (h, w) → (rows, cols): the label that has most of each cell.

    Args:
        labels: 0 or more, at any size.
        grid: Rows and columns of cells.
        reach: Share of the grid's height and width that the labels cover; cells beyond them take the nearest.
    """
    rows, cols = grid
    # Every cell needs a label of its own to count, so that a coarse map is repeated first.
    for axis, side in enumerate(grid):
        labels = labels.repeat(max(1, -(-2 * side // labels.shape[axis])), axis)
    down, across = (
        np.minimum(((np.arange(length) + 0.5) / length * side * share).astype(np.int64), side - 1)
        for length, side, share in zip(labels.shape, grid, reach, strict=True)
    )
    number = int(labels.max()) + 1
    place = (down[:, None] * cols + across) * number + labels
    return np.bincount(place.ravel(), minlength=rows * cols * number).reshape(rows, cols, number).argmax(-1)


def cluster_scores(relevance: np.ndarray, labels: np.ndarray, saliency: np.ndarray | None = None) -> np.ndarray:
    """Maps (h, w) → (n,) in [0, 1]: the score of each cluster; −inf for a label that does not occur."""
    flat = labels.ravel()
    sizes = np.bincount(flat)
    means = [
        np.zeros(len(sizes)) if one is None else np.bincount(flat, one.ravel(), len(sizes)) / np.maximum(sizes, 1)
        for one in (relevance, saliency)
    ]
    shares = [np.clip(one, 0, None) / max(float(one.max()), 1e-12) for one in (*means, sizes.astype(np.float64))]
    found = sum(weight * one for weight, one in zip((RELEVANCE, SALIENCY, SIZE), shares, strict=True))
    return np.where(sizes > 0, found, -np.inf)


def mixed_map(relevance: np.ndarray, labels: np.ndarray, saliency: np.ndarray | None = None) -> np.ndarray:
    """Relevance (rows, cols) in [0, 1] → .8 of it, and .2 of the score of each place's cluster."""
    if labels.shape != relevance.shape:
        raise InputError(f"labels must match the relevance map {relevance.shape}, got {labels.shape}")
    return (OWN * relevance + CLUSTER * cluster_scores(relevance, labels, saliency)[labels]).astype(np.float32)


def open_clusters(labels: np.ndarray, score: np.ndarray, saliency: np.ndarray) -> tuple[np.ndarray, str]:
    """Maps (h, w) → bool inside the ten best clusters, and how many they are, in words."""
    scores = cluster_scores(score, labels, saliency)
    chosen = np.argsort(-scores, kind="stable")[:CANDIDATES]
    chosen = chosen[np.isfinite(scores[chosen])]
    return np.isin(labels, chosen), f"{len(chosen)} of {len(scores)} clusters opened"


def clusters(job: AllocationJob) -> Leaves:
    """Leaves by the map that clusters are mixed into."""
    given = np.asarray(job.need("labels", "clusters", "integers (h, w), from arr_coc_lab.classic.texture.superpixels"))
    labels = given[None] if given.ndim == 2 else given
    if labels.ndim != 3 or len(labels) not in (1, job.batch) or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels= must be integers (h, w), one map for each picture, got {given.dtype} {given.shape}")
    frame, saliency = job.frame, job.option("saliency")
    reach = tuple(seen / (side * frame.cell) for seen, side in zip(frame.seen, frame.grid, strict=True))
    on_cells = [labels_on(one, frame.grid, (reach[0], reach[1])) for one in labels]
    salient = [None] if saliency is None else list(to_cells(as_maps(saliency), frame).cpu().numpy())
    maps = [
        mixed_map(cells, on_cells[number % len(on_cells)], salient[number % len(salient)])
        for number, cells in enumerate(job.cells.float().clamp(0, 1).cpu().numpy())
    ]
    return job.leaves(torch.from_numpy(np.stack(maps)).to(job.cells))


CLUSTERS = Strategy("clusters", clusters, ("labels", "saliency"))
