"""Strategies of the source: the K best cells, and clusters.

look("street.png", "the red sign", strategy="top_k", budget=200)
look("street.png", "the red sign", strategy="clusters", labels=superpixels(pixels))
"""

from __future__ import annotations

import numpy as np
import torch

from arr_coc.attending.frame import as_maps, to_cells
from arr_coc.attending.strategies import AllocationJob, Strategy
from arr_coc.attending.tree import Leaves, pool
from arr_coc.core.errors import InputError

# ---- top_k: the K most relevant cells at one level, and nothing else (v0.1: 200 of 1024) -----------------------------


def top_k(job: AllocationJob) -> Leaves:
    """Choose K = budget cells of a level (`level=`, default 0); ties go to the earlier one. Leaves ground uncovered."""
    level = int(job.option("level", 0))
    total, count = job.cells.float(), torch.ones_like(job.cells[:1])
    for _ in range(level):
        total, count = pool(total, "sum"), pool(count, "sum")
    scores = (total / count).flatten(1)
    cols, number = total.shape[2], scores.shape[1]
    if job.budget > number:
        raise InputError(f"top_k of {job.budget} cells was asked for, but level {level} has only {number}")
    index = scores.argsort(dim=1, descending=True, stable=True)[:, : job.budget].sort(dim=1).values  # raster order
    cells = torch.stack([(index // cols) << level, (index % cols) << level, torch.full_like(index, level)], dim=-1)
    return Leaves(cells, scores.gather(1, index), torch.tensor([job.budget]))


TOP_K = Strategy("top_k", top_k, ("level",))

# ---- clusters: by the source's rule ----------------------------------------------------------------------------------
# A place counts .8 by itself and .2 by the cluster that it lies in. A cluster scores .7 for its mean relevance, .2 for
# its mean saliency and .1 for its size. The leaves are those of an overlay of the mixed map.

OWN, CLUSTER = 0.8, 0.2
RELEVANCE, SALIENCY, SIZE = 0.7, 0.2, 0.1
CANDIDATES = 10


def labels_on(labels: np.ndarray, grid: tuple[int, int], reach: tuple[float, float] = (1.0, 1.0)) -> np.ndarray:
    """Return the label with the largest share of each cell, (rows, cols), of labels (h, w).

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
    """Return the score of each cluster, (n,) in [0, 1], by maps (h, w); −inf for a label that does not occur."""
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
    """Mix relevance (rows, cols) in [0, 1]: .8 of it, and .2 of the score of each place's cluster."""
    if labels.shape != relevance.shape:
        raise InputError(f"labels must match the relevance map {relevance.shape}, got {labels.shape}")
    return (OWN * relevance + CLUSTER * cluster_scores(relevance, labels, saliency)[labels]).astype(np.float32)


def open_clusters(labels: np.ndarray, score: np.ndarray, saliency: np.ndarray) -> tuple[np.ndarray, str]:
    """Return a mask of the ten best clusters by maps (h, w), and their number as text."""
    scores = cluster_scores(score, labels, saliency)
    chosen = np.argsort(-scores, kind="stable")[:CANDIDATES]
    chosen = chosen[np.isfinite(scores[chosen])]
    return np.isin(labels, chosen), f"{len(chosen)} of {len(scores)} clusters opened"


def clusters(job: AllocationJob) -> Leaves:
    """Allocate leaves by a map mixed with clusters."""
    labels = np.asarray(job.need("labels", "clusters", "integers (h, w), from arr_coc_lab.classic.texture.superpixels"))
    if labels.ndim != 2 or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels= must be integers (h, w), got {labels.dtype} {labels.shape}")
    frame, saliency = job.frame, job.option("saliency")
    reach = tuple(seen / (side * frame.cell) for seen, side in zip(frame.seen, frame.grid, strict=True))
    salient = None if saliency is None else to_cells(as_maps(saliency), frame)[0].cpu().numpy()
    cells = job.cells[0].float().clamp(0, 1).cpu().numpy()
    mixed = mixed_map(cells, labels_on(labels, frame.grid, (reach[0], reach[1])), salient)
    return job.leaves(torch.from_numpy(mixed)[None].to(job.cells))


CLUSTERS = Strategy("clusters", clusters, ("labels", "saliency"))
