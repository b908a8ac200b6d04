"""What regions are worth: relevance pooled by cluster, so that clusters and not single places decide."""

from __future__ import annotations

import numpy as np

from ..core.errors import InputError

# Of a cluster's score: its relevance, its saliency, its size, each beside the best cluster's.
WEIGHTS = (0.7, 0.2, 0.1)
# So far from the gaze, in longer sides of the picture, a place counts half.
HALF_AT = 0.1


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


def region_gains(
    relevance: np.ndarray,
    labels: np.ndarray,
    *,
    saliency: np.ndarray | None = None,
    parents: np.ndarray | None = None,
    gaze: tuple[float, float] | None = None,
) -> np.ndarray:
    """Relevance (rows, cols) of cells → what a token gains there when clusters decide, in the same shape.

    All cells of a cluster gain alike, so that it is funded as a whole before the next best; where the budget ends
    inside one, its most relevant cells come first.

    Args:
        relevance: Of level-0 cells.
        labels: (rows, cols), of the same cells.
        saliency: (rows, cols); it counts in a cluster's score.
        parents: (n,) coarse cluster of each label. None is funded before the coarse one that it lies in.
        gaze: (y, x) in 0–1; what lies far from it counts less.
    """
    if labels.shape != relevance.shape:
        raise InputError(f"labels must match the relevance map {relevance.shape}, got {labels.shape}")
    near = relevance * (1.0 if gaze is None else fall_off(relevance.shape, gaze))
    scores = region_scores(near, labels, saliency)
    if gaze is not None:
        # Saliency and size know nothing of the gaze.
        scores = scores * np.maximum(region_scores(fall_off(relevance.shape, gaze), labels), 0)
    if parents is not None:
        parents = np.asarray(parents, dtype=np.int64)
        coarse = region_scores(near, parents[labels], saliency, int(parents.max()) + 1)
        scores = np.minimum(scores, coarse[parents[: len(scores)]])
    own = near / max(float(near.max()), 1e-12)
    # The share for one's own relevance is smaller than what tells two clusters apart.
    return (scores[labels] + 1e-4 * own).astype(np.float32)


def fall_off(shape: tuple[int, ...], gaze: tuple[float, float]) -> np.ndarray:
    """(rows, cols) in (0, 1]: how much of a place is seen from the gaze, (y, x) in 0–1, as cortex magnifies."""
    longest = max(shape)
    down, across = ((np.arange(side) + 0.5 - point * side) / longest for side, point in zip(shape, gaze, strict=True))
    return HALF_AT / (HALF_AT + np.hypot(down[:, None], across[None, :]))
