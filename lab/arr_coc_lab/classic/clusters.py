"""The strategy "clusters": regions decide. Relevance is pooled by cluster, and clusters are funded as a whole, the best
gain for a token first; all else keeps the coarse leaves of an overlay (or quadtree, by `shape=`).

What it covers beside the overlay of the same map, and beside stripes in place of clusters, on Needle World:

    python -m arr_coc_lab.classic.clusters --number 231 --out docs/data/clusters.json

Coverage: the share of the cells that the question needs which are shown in full; differences are paired by picture.
"""

from __future__ import annotations

import numpy as np
import torch

from arr_coc.attending.frame import to_cells
from arr_coc.attending.job import AllocationJob, as_maps
from arr_coc.attending.strategies import SHAPED, Strategy
from arr_coc.attending.tree import Leaves
from arr_coc.core.errors import InputError
from arr_coc.core.values import JsonObject
from arr_coc.texture.channels import check_gaze
from arr_coc.video.clusters import region_scores

from .cascade import asked_pictures, shown_in_full, tell

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


def clusters(job: AllocationJob) -> Leaves:
    """Leaves by what clusters gain; `look` and `ask` find the clusters by themselves."""
    given = np.asarray(job.need("labels", "clusters", "a map of cluster identifiers, from find_clusters"))
    labels = given[None] if given.ndim == 2 else given
    if labels.ndim != 3 or len(labels) not in (1, job.batch) or not np.issubdtype(labels.dtype, np.integer):
        raise InputError(f"labels= must be integers (h, w), one map for each picture, got {given.dtype} {given.shape}")
    gaze = check_gaze(job.option("gaze"))
    frame, saliency, parents = job.frame, job.option("saliency"), job.option("parents")
    reach = tuple(seen / (side * frame.cell) for seen, side in zip(frame.seen, frame.grid, strict=True))
    on_cells = [labels_on(one, frame.grid, (reach[0], reach[1])) for one in labels]
    salient = [None] if saliency is None else list(to_cells(as_maps(saliency), frame).cpu().numpy())
    gains = [
        region_gains(
            cells,
            on_cells[number % len(on_cells)],
            saliency=salient[number % len(salient)],
            parents=parents,
            gaze=gaze,
        )
        for number, cells in enumerate(job.cells.float().clamp(0, 1).cpu().numpy())
    ]
    return job.leaves(torch.from_numpy(np.stack(gains)).to(job.cells))


STRATEGY = Strategy("clusters", clusters, (*SHAPED, "clusters", "labels", "saliency", "parents", "gaze"))

# ---- what it covers --------------------------------------------------------------------------------------------------

SIDE, SHARES, STRIPES = 1024, (1 / 4, 1 / 8, 1 / 16), 40


def measure(number: int, source: str = "look", seed: int = 0, side: int = SIDE) -> dict[str, dict[str, list[float]]]:
    """By layout of one source's map: coverage of each picture at each share of the tokens."""
    from arr_coc.knowing.registry import find_source
    from arr_coc.knowing.scene import Scene

    stripes = np.broadcast_to(np.arange(STRIPES), (1, STRIPES))
    found: dict[str, dict[str, list[float]]] = {name: {} for name in ("overlay", "clusters", "cascade", "stripes")}
    for pixels, query, truth in asked_pictures(number, seed, side):
        scene = Scene(pixels)
        map_ = find_source(source).maps([scene], [query]).relevance[0]
        inputs, _ = scene.strategy_inputs("clusters", {})
        more: dict[str, JsonObject] = {
            "clusters": inputs,
            "stripes": {**inputs, "labels": stripes, "parents": None},
        }
        for name, row in found.items():
            for keep in SHARES:
                how = {"strategy": "clusters" if name in more else name, **more.get(name, {})}
                row.setdefault(f"covered {keep:g}", []).append(shown_in_full(map_, keep, truth, how))
    return found


if __name__ == "__main__":
    tell(measure, __doc__, 231, SIDE, "look")
