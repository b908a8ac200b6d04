"""What happens to clusters after they are found: merge the tiny, group the many, split the few, judge them.

Labels are (h, w) int32, 0…n-1 with none missing, at any resolution; `slic` and `sam` make them. All steps work on
tables over clusters (sizes, centroids, colours, touching pairs), never pixel by pixel.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from ..core.errors import InputError
from .slic import compact

SMALLEST_SHARE = 0.01
MOST = 100
FEWEST = 20
COARSE = 15
FINE = 5


@dataclass(frozen=True, eq=False)
class Clusters:
    """labels: (h, w) int32, 0…n-1. parents: (n,) int32, the coarse cluster each one lies in, or None if one scale.
    note: what is to be said of what found them."""

    labels: np.ndarray
    parents: np.ndarray | None = None
    note: str = ""

    @property
    def count(self) -> int:
        return int(self.labels.max()) + 1


@dataclass(frozen=True, eq=False)
class ClusterTable:
    """Per cluster: sizes (n,) in pixels, centroids (n, 2) y and x in [0, 1], colours (n, 3) mean of the planes."""

    sizes: np.ndarray
    centroids: np.ndarray
    colours: np.ndarray


def cluster_table(labels: np.ndarray, lab: np.ndarray) -> ClusterTable:
    """labels (h, w), lab (h, w, 3) → the table."""
    flat = labels.ravel()
    sizes = np.bincount(flat)
    height, width = labels.shape
    y = np.repeat((np.arange(height) + 0.5) / height, width)
    x = np.tile((np.arange(width) + 0.5) / width, height)
    means = [np.bincount(flat, weights) / np.maximum(sizes, 1) for weights in (y, x, *lab.reshape(-1, 3).T)]
    return ClusterTable(sizes, np.stack(means[:2], 1), np.stack(means[2:], 1))


def touching_pairs(labels: np.ndarray) -> np.ndarray:
    """(p, 2) both orders of every pair of labels that share a border, without repeats."""
    beside = np.stack([labels[:, :-1].ravel(), labels[:, 1:].ravel()], 1)
    below = np.stack([labels[:-1].ravel(), labels[1:].ravel()], 1)
    pairs = np.concatenate([beside, below])
    pairs = pairs[pairs[:, 0] != pairs[:, 1]].astype(np.int64)
    count = int(labels.max()) + 1
    codes = np.unique(np.concatenate([pairs[:, 0] * count + pairs[:, 1], pairs[:, 1] * count + pairs[:, 0]]))
    return np.stack([codes // count, codes % count], 1)


def merge_small(labels: np.ndarray, share: float = SMALLEST_SHARE) -> np.ndarray:
    """Merge every cluster under `share` of the area into its largest touching neighbour, smallest first.

    In each round go those that are smaller than everything they touch: no two of them touch, so they can all go at
    once, and nothing is merged into a cluster that is itself on its way elsewhere.
    """
    labels = compact(labels)
    smallest = share * labels.size
    sizes = np.bincount(labels.ravel())
    everyone = np.arange(len(sizes))
    home = everyone
    pairs = touching_pairs(labels)
    while len(pairs):
        rank = np.empty(len(sizes), dtype=np.int64)
        rank[np.lexsort((everyone, sizes))] = everyone
        lowest, highest = rank.copy(), rank.copy()
        np.minimum.at(lowest, pairs[:, 0], rank[pairs[:, 1]])
        np.maximum.at(highest, pairs[:, 0], rank[pairs[:, 1]])
        goes = (sizes < smallest) & (sizes > 0) & (lowest == rank) & (highest > rank)
        if not goes.any():
            break
        target = np.where(goes, np.argsort(rank)[highest], everyone)
        home = target[home]
        sizes = np.bincount(target, sizes, len(sizes)).astype(np.int64)
        moved = target[pairs]
        moved = moved[moved[:, 0] != moved[:, 1]]
        codes = np.unique(moved[:, 0] * len(sizes) + moved[:, 1])
        pairs = np.stack([codes // len(sizes), codes % len(sizes)], 1)
    return compact(home[labels])


def group_many(labels: np.ndarray, lab: np.ndarray, most: int = MOST, into: int = 50) -> np.ndarray:
    """Above `most` clusters, group them into `into` by Ward linkage over (centroid, mean colour) points."""
    table = cluster_table(labels, lab)
    if len(table.sizes) <= most:
        return labels
    return compact(_ward(table, into)[labels])


def _ward(table: ClusterTable, into: int) -> np.ndarray:
    """(n,) group of each cluster, from points, never from a distance matrix handed in as points."""
    from scipy.cluster.hierarchy import fcluster, linkage

    points = np.concatenate([table.centroids, table.colours / 100.0], axis=1)
    return fcluster(linkage(points, method="ward"), t=into, criterion="maxclust") - 1


def two_scale(labels: np.ndarray, lab: np.ndarray, coarse: int = COARSE, fine: int = FINE) -> Clusters:
    """A coarse partition of at most `coarse` clusters, and up to `fine` clusters inside each, with their parents."""
    table = cluster_table(labels, lab)
    outer = labels if len(table.sizes) <= coarse else compact(_ward(table, coarse)[labels])
    inner = _split_each(outer, lab, fine)
    used = np.unique(inner)
    return Clusters(labels=compact(inner), parents=(used // fine).astype(np.int32))


def _split_each(outer: np.ndarray, lab: np.ndarray, parts: int, iterations: int = 8) -> np.ndarray:
    """(h, w) labels outer·parts + part: k-means inside every outer cluster, all clusters at once."""
    height, width = outer.shape
    flat = outer.ravel().astype(np.int64)
    y, x = np.divmod(np.arange(flat.size), width)
    scale = 100.0 / max(height, width)
    points = np.stack([y * scale, x * scale, *lab.reshape(-1, 3).T], 1)
    # Start from equal slices of each cluster along the direction it is longest in: deterministic, and never empty.
    table = cluster_table(outer, np.stack([(y * y), (x * x), 0 * x], 1).reshape(height, width, 3).astype(np.float64))
    spread_y = table.colours[:, 0] - (table.centroids[:, 0] * height - 0.5) ** 2
    spread_x = table.colours[:, 1] - (table.centroids[:, 1] * width - 0.5) ** 2
    key = np.where((spread_y > spread_x)[flat], y * width + x, x * height + y)
    order = np.lexsort((key, flat))
    starts = np.cumsum(table.sizes) - table.sizes
    rank = np.empty(flat.size, dtype=np.int64)
    rank[order] = np.arange(flat.size) - starts[flat[order]]
    part = rank * parts // table.sizes[flat]
    total = len(table.sizes) * parts
    for _ in range(iterations):
        codes = flat * parts + part
        counts = np.bincount(codes, minlength=total)
        centres = np.stack([np.bincount(codes, column, total) for column in points.T], 1)
        # A part that lost all its pixels sits at infinity, so that nothing is nearest to it.
        centres = np.where(counts[:, None] > 0, centres / np.maximum(counts, 1)[:, None], np.inf)
        offsets = points[:, None] - centres.reshape(-1, parts, points.shape[1])[flat]
        part = (offsets**2).sum(-1).argmin(1)
    return (flat * parts + part).reshape(height, width)


def tidy(labels: np.ndarray, lab: np.ndarray) -> Clusters:
    """The whole treatment: group above 100; merge the tiny; below 20, two scales.

    Grouping comes first: after merging all under 1 % there could never be more than 100 left to group, and merging
    hundreds of crumbs into their largest neighbour would roll them all up into one.
    """
    if labels.shape != lab.shape[:2]:
        raise InputError(f"labels {labels.shape} and colours {lab.shape[:2]} must be of one size")
    labels = merge_small(group_many(compact(labels), lab))
    if int(labels.max()) + 1 < FEWEST:
        return two_scale(labels, lab)
    return Clusters(labels)


@dataclass(frozen=True)
class ClusterQuality:
    """How good a partition is. ratio: between- over within-variance of colour; good: ratio > 2 and 20 < count < 100.

    sizes: share of the area of each cluster. silhouette: in [-1, 1], over colour and place, on a sample of pixels.
    """

    count: int
    sizes: tuple[float, ...]
    within_variance: float
    between_variance: float
    ratio: float
    silhouette: float
    good: bool


def quality(labels: np.ndarray, lab: np.ndarray, sample: int = 1000, seed: int = 0) -> ClusterQuality:
    """The quality report of labels (h, w) over colours lab (h, w, 3)."""
    table = cluster_table(labels, lab)
    count = len(table.sizes)
    colours = lab.reshape(-1, 3).astype(np.float64)
    flat = labels.ravel()
    within = float(((colours - table.colours[flat]) ** 2).sum(1).mean())
    between = float((((table.colours - colours.mean(0)) ** 2).sum(1) * table.sizes).sum() / flat.size)
    ratio = between / within if within > 1e-12 else (float("inf") if between > 1e-12 else 0.0)
    return ClusterQuality(
        count=count,
        sizes=tuple((table.sizes / flat.size).tolist()),
        within_variance=within,
        between_variance=between,
        ratio=ratio,
        silhouette=_silhouette(labels, colours, sample, seed),
        good=ratio > 2 and FEWEST < count < MOST,
    )


def _silhouette(labels: np.ndarray, colours: np.ndarray, sample: int, seed: int) -> float:
    """Mean silhouette of sampled pixels: (b − a) / max(a, b), a and b mean distances to the own and next cluster."""
    generator = np.random.default_rng(seed)
    chosen = generator.choice(labels.size, size=min(sample, labels.size), replace=False)
    y, x = np.divmod(chosen, labels.shape[1])
    place = np.stack([y, x], 1) * (100.0 / max(labels.shape))
    points = np.concatenate([colours[chosen], place], 1)
    kinds, own = np.unique(labels.ravel()[chosen], return_inverse=True)
    if len(kinds) < 2:
        return 0.0
    distance = np.sqrt(((points[:, None] - points[None]) ** 2).sum(-1))
    member = np.eye(len(kinds))[own]
    counts = member.sum(0)
    totals = distance @ member
    everyone = np.arange(len(own))
    alone = counts[own] < 2
    inner = totals[everyone, own] / np.maximum(counts[own] - 1, 1)
    means = totals / counts
    means[everyone, own] = np.inf
    outer = means.min(1)
    scores = np.where(alone, 0.0, (outer - inner) / np.maximum(np.maximum(inner, outer), 1e-12))
    return float(scores.mean())


def lab_at(array: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(H, W, 3) RGB, uint8 or in [0, 1] → (*size, 3) L*a*b*."""
    import cv2

    small = cv2.resize(array, size[::-1], interpolation=cv2.INTER_AREA)
    if small.dtype == np.uint8:
        small = small.astype(np.float32) / np.float32(255)
    return cv2.cvtColor(small, cv2.COLOR_RGB2Lab)


# ---- clusters as channels: cluster_id, cluster_distance, cluster_size -----------------------------------------------


def cluster_channels(labels: np.ndarray, size: tuple[int, int]) -> dict[str, np.ndarray]:
    """From (h, w) labels, three (H, W) float32 maps.

    cluster_id: the label itself. cluster_distance: distance to the cluster's centroid over the picture's largest such
    distance. cluster_size: the cluster's share of the area.
    """
    import cv2

    flat = labels.ravel()
    height, width = labels.shape
    sizes = np.bincount(flat)
    y = np.repeat((np.arange(height, dtype=np.float32) + 0.5) * (size[0] / height), width)
    x = np.tile((np.arange(width, dtype=np.float32) + 0.5) * (size[1] / width), height)
    share = (sizes / flat.size).astype(np.float32)
    sizes = np.maximum(sizes, 1)
    centre_y = (np.bincount(flat, y) / sizes).astype(np.float32)
    centre_x = (np.bincount(flat, x) / sizes).astype(np.float32)
    distance = np.hypot(y - centre_y[flat], x - centre_x[flat])
    distance /= max(float(distance.max()), 1e-6)
    maps = {"cluster_id": labels, "cluster_distance": distance, "cluster_size": share[flat]}
    return {
        name: cv2.resize(
            values.reshape(height, width).astype(np.float32), size[::-1], interpolation=cv2.INTER_NEAREST_EXACT
        )
        for name, values in maps.items()
    }


def cluster_channels_batch(labels: torch.Tensor, size: tuple[int, int]) -> dict[str, torch.Tensor]:
    """As `cluster_channels`, for (B, h, w) integer labels → three (B, H, W) maps, any device."""
    batch, height, width = labels.shape
    flat = labels.flatten(1).long()
    count = int(flat.max()) + 1
    y = ((torch.arange(height, device=labels.device) + 0.5) * (size[0] / height)).repeat_interleave(width)
    x = ((torch.arange(width, device=labels.device) + 0.5) * (size[1] / width)).repeat(height)
    values = torch.stack([torch.ones_like(y), y, x]).expand(batch, 3, -1)
    index = flat[:, None].expand_as(values)
    sums = torch.zeros((batch, 3, count), device=labels.device).scatter_add_(2, index, values)
    sizes = sums[:, :1].clamp_min(1)
    centre = (sums[:, 1:] / sizes).gather(2, index[:, 1:])
    distance = (values[:, 1:] - centre).square().sum(1).sqrt()
    distance = distance / distance.amax(1, keepdim=True).clamp_min(1e-6)
    share = sums[:, 0].gather(1, flat) / flat.shape[1]
    maps = torch.stack([flat.float(), distance, share], 1).unflatten(2, (height, width))
    identifier, far, area = F.interpolate(maps, size=size, mode="nearest-exact").unbind(1)
    return {"cluster_id": identifier, "cluster_distance": far, "cluster_size": area}
