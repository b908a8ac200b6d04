"""What `bench real` counts: how much of the relevant boxes is seen, tokens to see it, and agreement with human gaze."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.ndimage import gaussian_filter

from arr_coc.core.values import Allocation

# Blur of the fixations' map, as a share of the picture's longer side: about a degree of sight.
FIXATION_BLUR = 0.04


def coverage(allocation: Allocation, boxes: np.ndarray, any_of: bool = False, level: int = 0) -> float:
    """Share of the relevant boxes (K, 4: x0, y0, x1, y1 in 0–1) that is seen at a level or finer; with any_of, of the
    best one. What leaves cover of a box adds up, those left out that lie under or on another one that counts. Several
    boxes count by their area."""
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    x0, y0, x1, y1 = (np.asarray(boxes, dtype=float).reshape(-1, 4) * scale).T[:, None]
    fine = allocation.boxes[_outermost(allocation, level)].astype(float)
    top, left, height, width = fine.T[:, :, None]
    down = np.clip(np.minimum(y1, top + height) - np.maximum(y0, top), 0, None)
    across = np.clip(np.minimum(x1, left + width) - np.maximum(x0, left), 0, None)
    seen = (down * across).sum(0)
    area = np.maximum(((x1 - x0) * (y1 - y0))[0], 1e-9)
    return float((seen / area).max()) if any_of else float(seen.sum() / area.sum())


def _outermost(allocation: Allocation, level: int) -> np.ndarray:
    """(N,) bool: leaves of a level or finer that lie in no other such leaf."""
    row, col, own = allocation.leaf_cells().T
    alone = own <= level
    for coarse in range(1, level + 1):
        name = ((row >> coarse) << 32) | (col >> coarse)
        alone &= ~((own < coarse) & np.isin(name, name[own == coarse]))
    return alone


def scanpath_hits(allocation: Allocation, scanpaths: list[list[list[float]]]) -> float:
    """Share of the fixations (x, y in 0–1) of people searching that fall where the picture is seen at level 0.

    The first fixation of each path is where the trial put the eyes: it does not count.
    """
    points = np.array([point[:2] for path in scanpaths for point in path[1:]], dtype=float).reshape(-1, 2)
    points = points[((points >= 0) & (points < 1)).all(1)]
    if not len(points):
        return float("nan")
    fine = allocation.boxes[allocation.levels == 0].astype(float)
    top, left, height, width = fine.T[:, :, None]
    x, y = (points * (allocation.width, allocation.height)).T
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    return float(inside.any(0).mean())


def fixation_map(fixations: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(F, 3) fixations x, y in 0–1 and milliseconds → (rows, cols): how long people looked there, blurred."""
    rows, cols = size
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    total, _, _ = np.histogram2d(
        known[:, 1] * rows, known[:, 0] * cols, bins=size, range=((0, rows), (0, cols)), weights=known[:, 2]
    )
    return gaussian_filter(total, FIXATION_BLUR * max(size), mode="constant")


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's, over all places; not a number where one of them is flat."""
    a, b = first.ravel() - first.mean(), second.ravel() - second.mean()
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 1e-12 else float("nan")


def scanpath_saliency(relevance: np.ndarray, fixations: np.ndarray) -> float:
    """Normalised scanpath saliency: the map in standard deviations above its mean, at the fixated places."""
    rows, cols = relevance.shape
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    spread = float(relevance.std())
    if spread < 1e-9 or not len(known):
        return float("nan")
    place = (known[:, 1] * rows).astype(int), (known[:, 0] * cols).astype(int)
    return float(((relevance[place] - relevance.mean()) / spread).mean())


def tokens_to_reach(seen: Callable[[int], float], full: int, share: float) -> int:
    """A budget that shows the share where one token less does not, found by halving: seen(budget) is asked
    log2(full) times. It is the smallest such where more tokens never show less; an overlay's overview grows in steps,
    so there it can be one of a few. The whole picture counts as reaching it."""
    short, enough = 0, full
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if seen(middle) >= share else (middle, enough)
    return enough


def same_map(first: np.ndarray, second: np.ndarray) -> bool:
    """Do two questions get the same map, but for rounding?"""
    return first.shape == second.shape and bool(np.abs(first - second).max() <= 1e-4)


def center_map(size: tuple[int, int], side: int = 64) -> np.ndarray:
    """Closeness to the middle: the control that human gaze is hard to beat with."""
    scale = side / max(size)
    y = (np.arange(max(1, round(size[0] * scale))) + 0.5) / max(1, round(size[0] * scale)) - 0.5
    x = (np.arange(max(1, round(size[1] * scale))) + 0.5) / max(1, round(size[1] * scale)) - 0.5
    return np.exp(-(y[:, None] ** 2 + x[None, :] ** 2) / (2 * 0.25**2)).astype(np.float32)
