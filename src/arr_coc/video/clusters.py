"""Clusters through time: found anew on keyframes, carried by the flow between, with identifiers that stay.

An identifier is never used twice in a stream. On a keyframe a new cluster (a superpixel, or a mask of SAM) takes the
identifier of the carried one that it shares most ground with. Between keyframes, ground whose flow is not to be trusted
is cut up anew when its part of the frame is looked at again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ..core.errors import InputError
from ..texture.slic import COUNT, slic

# Below this agreement of the flow, superpixels are found anew.
TRUSTED = 0.8
# A new superpixel keeps the old identifier if this share of its ground carries it.
SAME = 0.5


@dataclass(frozen=True, eq=False)
class TrackedClusters:
    """labels: (h, w) int32 identifiers at the maps' size. following: the next identifier that was never used."""

    labels: np.ndarray
    following: int


# (h, w, 3) uint8 → (h, w) int32 labels from 0 on
Finder = Callable[[np.ndarray], np.ndarray]


def finder_of(clusters: bool | str) -> Finder:
    """What finds the clusters of a keyframe: "slic" (or True), or "sam:FOLDER", a SAM or SAM 2 that is read once.
    Ground whose flow is not to be trusted between keyframes is always cut up by SLIC, which is quick."""
    if clusters in (True, "slic"):
        return slic
    name, _, folder = str(clusters).partition(":")
    if name != "sam" or not folder:
        raise InputError(f"clusters={clusters!r} is unknown; give 'slic', 'sam:FOLDER', or False")
    from ..texture.sam import MaskGenerator, sam

    model = MaskGenerator.from_pretrained(folder)
    return lambda view: sam(view, model).labels


# Coarse to fine: relevance of clusters first, then of places in the best of them. How many are opened, and what is left
# of the relevance elsewhere.
OPENED, CLOSED = 10, 0.25
# Of a cluster's score: its relevance, its saliency, its size, each beside the best cluster's.
WEIGHTS = (0.7, 0.2, 0.1)


def through_clusters(relevance: np.ndarray, labels: np.ndarray, saliency: np.ndarray) -> np.ndarray:
    """(h, w) relevance as a cascade of clusters sees it: clusters are scored (.7 relevance + .2 saliency + .1 size),
    the best ten are opened, and a place there counts .8 for itself and .2 for its cluster; elsewhere a quarter is left.
    """
    place = np.unique(labels, return_inverse=True)[1].reshape(labels.shape)
    scores = region_scores(relevance, place, np.clip(saliency, 0, 1))
    opened = np.zeros(len(scores), dtype=bool)
    opened[np.argsort(-scores, kind="stable")[:OPENED]] = True
    rescored = 0.8 * relevance + 0.2 * scores[place]
    return np.where(opened[place], rescored, CLOSED * relevance).astype(np.float32)


def region_scores(
    relevance: np.ndarray, labels: np.ndarray, saliency: np.ndarray | None = None, count: int = 0
) -> np.ndarray:
    """Maps (h, w) → (n,) in [0, 1]: what a token gains in each cluster; −inf for a label that does not occur."""
    flat = labels.ravel()
    sizes = np.bincount(flat, minlength=count)
    shares = np.maximum(sizes, 1)
    parts = [np.bincount(flat, relevance.ravel(), len(sizes)) / shares]
    parts.append(0 * parts[0] if saliency is None else np.bincount(flat, saliency.ravel(), len(sizes)) / shares)
    parts.append(sizes.astype(np.float64))
    beside = [np.clip(part, 0, None) / max(float(part.max()), 1e-12) for part in parts]
    return np.where(sizes > 0, sum(weight * part for weight, part in zip(WEIGHTS, beside, strict=True)), -np.inf)


def find_clusters(
    view: np.ndarray, size: tuple[int, int], following: int = 0, finder: Finder = slic
) -> TrackedClusters:
    """Clusters of a view (h, w, 3) with identifiers from `following` on; labels at `size`."""
    found = _at(finder(view), size)
    return TrackedClusters(found + np.int32(following), following + int(found.max()) + 1)


def carry_clusters(
    tracked: TrackedClusters,
    flow: np.ndarray,
    agreement: np.ndarray,
    view: np.ndarray,
    keyframe: bool,
    windows: Sequence[tuple[slice, slice]] = (),
    finder: Finder = slic,
) -> TrackedClusters:
    """The clusters of the next frame. flow (h, w, 2), agreement (h, w) at the labels' size; view: the frame.

    windows: the parts that are looked at again in this frame; only there is doubtful ground cut up anew.
    """
    import cv2

    height, width = tracked.labels.shape
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    # remap knows no 32-bit integers; float32 holds whole numbers up to 2**24 exactly.
    source = tracked.labels.astype(np.float32)
    places = (x + flow[..., 0], y + flow[..., 1])
    warped = cv2.remap(source, *places, interpolation=cv2.INTER_NEAREST, borderMode=cv2.BORDER_REPLICATE)
    warped = warped.astype(np.int32)
    doubtful = agreement < TRUSTED
    if keyframe:
        fresh, replaced = _at(finder(view), (height, width)), np.ones_like(doubtful)
    else:
        fresh, replaced = np.full((height, width), -1, dtype=np.int32), doubtful
        for window in windows:
            if doubtful[window].mean() > 1 / COUNT:
                fresh[window] = _cut_up(view, window, (height, width), int(fresh.max()) + 1)
        if fresh.max() < 0:
            return TrackedClusters(warped, tracked.following)
    return _named(fresh, warped, ~doubtful, replaced, tracked.following)


def _cut_up(view: np.ndarray, window: tuple[slice, slice], size: tuple[int, int], first: int) -> np.ndarray:
    """Superpixels of one window of the view, numbered from `first` on; the window is given at the maps' `size`."""
    scale = [side / places for side, places in zip(view.shape[:2], size, strict=True)]
    rows, cols = (
        slice(int(part.start * factor), max(int(part.start * factor) + 1, int(part.stop * factor)))
        for part, factor in zip(window, scale, strict=True)
    )
    extent = (window[0].stop - window[0].start, window[1].stop - window[1].start)
    count = max(4, round(COUNT * extent[0] * extent[1] / (size[0] * size[1])))
    return _at(slic(np.ascontiguousarray(view[rows, cols]), count), extent) + np.int32(first)


def _named(
    fresh: np.ndarray, warped: np.ndarray, trusted: np.ndarray, replaced: np.ndarray, following: int
) -> TrackedClusters:
    """Fresh labels (0 … n−1, −1 outside) under old identifiers where they share ground, under new ones elsewhere.

    Each old identifier goes to one fresh cluster only: the one that holds most of it.
    """
    inside = fresh >= 0
    number = int(fresh.max()) + 1
    sizes = np.bincount(fresh[inside], minlength=number)
    votes = inside & trusted
    old, place = np.unique(warped[votes], return_inverse=True)
    names = np.full(number, -1, dtype=np.int64)
    if len(old):
        shared = np.bincount(fresh[votes] * len(old) + place, minlength=number * len(old)).reshape(number, len(old))
        best = shared.argmax(1)
        holder = shared.argmax(0)
        keeps = (shared.max(1) >= SAME * np.maximum(np.bincount(fresh[votes], minlength=number), 1)) & (
            holder[best] == np.arange(number)
        )
        keeps &= shared.max(1) * 4 >= sizes  # a quarter of the ground must have been trusted at all
        names[keeps] = old[best[keeps]]
    new = names < 0
    names[new] = following + np.arange(new.sum())
    labels = np.where(replaced & inside, names[np.maximum(fresh, 0)], warped).astype(np.int32)
    return TrackedClusters(labels, following + int(new.sum()))


def _at(labels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    import cv2

    if labels.shape == size:
        return labels
    return cv2.resize(labels.astype(np.float32), size[::-1], interpolation=cv2.INTER_NEAREST).astype(np.int32)
