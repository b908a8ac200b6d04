"""Strategies that choose places first: the best cells, cascades of finer looks, clusters, and the eye's own fixations.

`top_k`: the K most relevant cells at one level of detail, and nothing else (v0.1: 200 of 1024).
`cascade`: look coarsely everywhere, then finer only where the coarse look was promising.
`clusters`: choose regions first, then places inside them. Both give their places detail, and all else the coarse leaves
of an overlay (or quadtree, by `shape=`).
`saccades`: three or four fixations, each at the most relevant place not yet examined, then stop when confident.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.allocation.gains import pool
from arr_coc.allocation.job import AllocationJob, as_maps
from arr_coc.allocation.strategies import SHAPED, Strategy
from arr_coc.allocation.tree import Leaves
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation


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


# ---- cascade --------------------------------------------------------------------------------------------------------


SIDES = (64, 256, 1024)
KEEPS = (64, 256, 200)


def cascade_places(
    maps: Tensor, sides: tuple[int, ...] = SIDES, keeps: tuple[int, ...] = KEEPS
) -> tuple[Tensor, Tensor]:
    """(B, h, w) map → places (B, K, 2) as row, col on the finest side² grid, best first, and their scores (B, K).

    64² → keep 64 → their 4×4 neighbourhoods at 256² → keep 256 → their 4×4 at 1024² → keep 200.
    """
    if len(sides) != len(keeps) or any(fine % coarse for coarse, fine in pairwise(sides)):
        raise InputError(
            f"cascade needs one keep for each side and sides that divide the next, got {sides} and {keeps}"
        )
    batch = len(maps)
    scores = _resample(maps, sides[0]).flatten(1)
    scores, index = _best(scores, keeps[0])
    rows, cols = index // sides[0], index % sides[0]
    for coarse, fine, keep in zip(sides, sides[1:], keeps[1:], strict=False):
        step = fine // coarse
        offset = torch.arange(step, device=maps.device)
        rows = (rows[..., None, None] * step + offset[:, None] + 0 * offset[None, :]).flatten(1)
        cols = (cols[..., None, None] * step + offset[None, :] + 0 * offset[:, None]).flatten(1)
        candidates = _resample(maps, fine).flatten(1).gather(1, rows * fine + cols)
        scores, index = _best(candidates, keep)
        rows, cols = rows.gather(1, index), cols.gather(1, index)
    return torch.stack([rows, cols], dim=-1).view(batch, -1, 2), scores


def cascade(job: AllocationJob) -> Leaves:
    """Leaves by the places that the cascade ends at; `look` makes its map coarse to fine as well (`balancing`)."""
    places, scores = cascade_places(job.maps, tuple(job.option("sides", SIDES)), tuple(job.option("keeps", KEEPS)))
    side = tuple(job.option("sides", SIDES))[-1]
    return _leaves_at(job, places, scores, (side, side), torch.ones_like(scores, dtype=torch.bool))


# What ground outside the chosen places counts, beside its relevance.
ELSEWHERE = 0.1


def _leaves_at(job: AllocationJob, places: Tensor, scores: Tensor, size: tuple[int, int], valid: Tensor) -> Leaves:
    """(B, K, 2) places as row, col on a grid of `size`, with (B, K) scores in [0, 1] → leaves, fine at these places."""
    batch, rows, cols = job.cells.shape
    row, col = places[..., 0] * rows // size[0], places[..., 1] * cols // size[1]
    cells = (ELSEWHERE * job.cells.float().clamp(0, 1)).flatten(1)
    chosen = scores.to(cells).masked_fill(~valid, 0)
    return job.leaves(cells.scatter_reduce(1, row * cols + col, chosen, "amax").view(batch, rows, cols))


def _best(scores: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    index = scores.argsort(dim=1, descending=True, stable=True)[:, :keep]
    return scores.gather(1, index), index


def _resample(maps: Tensor, side: int) -> Tensor:
    """Area mean where the map is finer than the grid, bilinear where it is coarser."""
    if min(maps.shape[1:]) >= side:
        return F.adaptive_avg_pool2d(maps[:, None], side)[:, 0]
    return F.interpolate(maps[:, None], size=(side, side), mode="bilinear", align_corners=False)[:, 0]


# ---- clusters -------------------------------------------------------------------------------------------------------


class Places(NamedTuple):
    """index (B, K) int64 into the flat map, best first; scores (B, K); valid (B, K) bool."""

    index: Tensor
    scores: Tensor
    valid: Tensor


def cluster_scores(relevance: Tensor, labels: Tensor, saliency: Tensor | None = None) -> Tensor:
    """(B, h, w) maps and (B, h, w) int64 labels 0 … n−1 → (B, n) scores; −inf for a label that does not occur."""
    number = int(labels.max()) + 1
    flat = labels.flatten(1)
    count = _per_cluster(torch.ones_like(relevance).flatten(1), flat, number)
    mean = _per_cluster(relevance.flatten(1), flat, number) / count.clamp_min(1)
    salient = _per_cluster(saliency.flatten(1), flat, number) / count.clamp_min(1) if saliency is not None else 0 * mean
    size = count / count.amax(1, keepdim=True)
    return (0.7 * mean + 0.2 * salient + 0.1 * size).masked_fill(count == 0, -torch.inf)


@dataclass(frozen=True)
class PlaceCounts:
    """How many are kept: coarse clusters, clusters, places in each of them, places of all."""

    parents: int = 3
    clusters: int = 10
    places: int = 50
    all: int = 273


def cluster_places(
    relevance: Tensor,
    labels: Tensor,
    *,
    saliency: Tensor | None = None,
    parents: Tensor | None = None,
    gaze: tuple[float, float] | None = None,
    counts: PlaceCounts | None = None,
) -> Places:
    """(B, h, w) relevance and labels → the places worth looking at.

    About 50 clusters are scored (.7 relevance + .2 saliency + .1 size), the best 10 kept; about 50 places in each are
    scored again (.8 own relevance + .2 of the cluster), the best 273 kept. With a hierarchy the best 3 coarse clusters
    are opened into their fine ones first; with a gaze point each cluster gets 100, 50 or 10 places by its distance.
    parents: (n,) int64, the coarse cluster of each label, where clusters come in two scales. gaze: (y, x) in 0–1.
    """
    if labels.shape != relevance.shape:
        raise InputError(f"labels must match the relevance map {tuple(relevance.shape)}, got {tuple(labels.shape)}")
    labels, most = labels.long(), counts or PlaceCounts()
    scores = cluster_scores(relevance, labels, saliency)
    number = scores.shape[1]
    eligible = torch.isfinite(scores)
    if parents is not None:
        parents = parents.to(labels.device).long()
        coarse = cluster_scores(relevance, parents[labels], saliency)
        eligible &= _is_best(coarse, most.parents)[:, parents]
    chosen = _is_best(scores.masked_fill(~eligible, -torch.inf), most.clusters)
    quota = torch.full((len(labels), number), most.places, device=labels.device)
    if gaze is not None:
        distance = _distance_to_gaze(labels, gaze, number)
        quota = torch.where(distance < 0.1, 100, torch.where(distance < 0.3, 50, 10))
    flat = labels.flatten(1)
    own = relevance.flatten(1)
    # The rank of every pixel inside its cluster: sort by score, then stably by cluster; count from the cluster's start.
    by_score = own.argsort(dim=1, descending=True, stable=True)
    order = by_score.gather(1, flat.gather(1, by_score).argsort(dim=1, stable=True))
    grouped = flat.gather(1, order)
    sizes = _per_cluster(torch.ones_like(own), flat, number).long()
    start = sizes.cumsum(1) - sizes
    position = torch.arange(flat.shape[1], device=flat.device) - start.gather(1, grouped)
    kept = chosen.gather(1, grouped) & (position < quota.gather(1, grouped))
    rescored = 0.8 * own.gather(1, order) + 0.2 * scores.gather(1, grouped).clamp_min(0)
    final = rescored.masked_fill(~kept, -torch.inf).argsort(dim=1, descending=True, stable=True)[:, : most.all]
    return Places(order.gather(1, final), rescored.gather(1, final), kept.gather(1, final))


def clusters(job: AllocationJob) -> Leaves:
    """Leaves by the places inside the best clusters; `look` and `ask` find the clusters by themselves."""
    labels = torch.as_tensor(job.need("labels", "clusters", "a map of cluster identifiers, from find_clusters"))
    labels = labels.to(job.maps.device)
    labels = labels[None] if labels.ndim == 2 else labels
    size = (labels.shape[1], labels.shape[2])
    saliency, parents = job.option("saliency"), job.option("parents")
    found = cluster_places(
        _at(job.maps, size),
        labels.expand(job.batch, -1, -1),
        saliency=None if saliency is None else _at(as_maps(saliency).to(job.maps), size).expand(job.batch, *size),
        parents=None if parents is None else torch.as_tensor(parents),
        gaze=job.option("gaze"),
        counts=PlaceCounts(all=int(job.option("keep", 273))),
    )
    places = torch.stack([found.index // size[1], found.index % size[1]], dim=-1)
    return _leaves_at(job, places, found.scores, size, found.valid)


def _at(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(B, h, w) maps at another size."""
    if tuple(maps.shape[1:]) == size:
        return maps
    return F.interpolate(maps[:, None].float(), size=size, mode="bilinear", align_corners=False)[:, 0]


def _per_cluster(values: Tensor, labels: Tensor, number: int) -> Tensor:
    return torch.zeros(len(values), number, device=values.device).scatter_add_(1, labels, values.float())


def _is_best(scores: Tensor, keep: int) -> Tensor:
    """(B, n) → bool: among the `keep` best finite scores, ties by position."""
    order = scores.argsort(dim=1, descending=True, stable=True)[:, :keep]
    return torch.zeros_like(scores, dtype=torch.bool).scatter_(1, order, True) & torch.isfinite(scores)


def _distance_to_gaze(labels: Tensor, gaze: tuple[float, float], number: int) -> Tensor:
    """(B, n): distance of each cluster's centre from the gaze, in units of the picture's side."""
    height, width = labels.shape[1:]
    flat = labels.flatten(1)
    count = _per_cluster(torch.ones(flat.shape, device=labels.device), flat, number).clamp_min(1)
    y = ((torch.arange(height, device=labels.device) + 0.5) / height)[:, None].expand(height, width).reshape(1, -1)
    x = ((torch.arange(width, device=labels.device) + 0.5) / width)[None, :].expand(height, width).reshape(1, -1)
    down = _per_cluster(y.expand_as(flat), flat, number) / count - gaze[0]
    across = _per_cluster(x.expand_as(flat), flat, number) / count - gaze[1]
    return torch.sqrt(down**2 + across**2)


# ---- saccades -------------------------------------------------------------------------------------------------------


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


SACCADES = Strategy("saccades", saccades, (*SHAPED, "fovea", "confident", "most", "least"))
CASCADE = Strategy("cascade", cascade, (*SHAPED, "sides", "keeps"))
CLUSTERS = Strategy("clusters", clusters, (*SHAPED, "clusters", "labels", "saliency", "parents", "gaze", "keep"))
TOP_K = Strategy("top_k", top_k, ("level",))
