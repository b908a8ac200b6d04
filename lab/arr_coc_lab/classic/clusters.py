"""The strategy "clusters": regions are chosen first, then places inside them.

The places get detail, all else the coarse leaves of an overlay (or quadtree, by `shape=`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.allocation.job import AllocationJob, as_maps
from arr_coc.allocation.strategies import SHAPED, Strategy
from arr_coc.allocation.tree import Leaves
from arr_coc.core.errors import InputError

# What ground outside the chosen places counts, beside its relevance.
ELSEWHERE = 0.1


def leaves_at(
    job: AllocationJob, places: Tensor, scores: Tensor, size: tuple[int, int], valid: Tensor | None = None
) -> Leaves:
    """(B, K, 2) places as row, col on a grid of `size`, with (B, K) scores in [0, 1] → leaves, fine at these places.

    valid: (B, K) bool, which of the places count; all where None.
    """
    batch, rows, cols = job.cells.shape
    row, col = places[..., 0] * rows // size[0], places[..., 1] * cols // size[1]
    cells = (ELSEWHERE * job.cells.float().clamp(0, 1)).flatten(1)
    chosen = scores.to(cells) if valid is None else scores.to(cells).masked_fill(~valid, 0)
    return job.leaves(cells.scatter_reduce(1, row * cols + col, chosen, "amax").view(batch, rows, cols))


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
    return leaves_at(job, places, found.scores, size, found.valid)


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


STRATEGY = Strategy("clusters", clusters, (*SHAPED, "clusters", "labels", "saliency", "parents", "gaze", "keep"))
