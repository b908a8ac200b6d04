"""Real clips with a box around the object in every frame: how much of it is seen in full detail at an eighth."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ...attending.allocate import allocate
from ...attending.tree import tokens_for
from ...looking import prepare
from ...pictures import load_picture
from ...video.settings import TemporalSettings
from ...video.spending import ENOUGH, cells_of
from ...video.stream import VideoStream
from .real import Record, load_records
from .real_measures import coverage

SOURCE = "davis"
KEEP = 1 / 8
SYSTEMS = ("uniform", "frame by frame", "temporal, standing", "temporal, held")
RESAMPLES = 2000


def real_clips(folder: Path, every: int = 1) -> dict[str, list[Record]]:
    """The frames of each clip, in order; every: only each so-manieth."""
    clips: dict[str, list[Record]] = defaultdict(list)
    for record in load_records(folder, sources=(SOURCE,)):
        clips[record.image.stem.rsplit("_", 1)[0]].append(record)
    return {name: sorted(records, key=lambda one: one.image.name)[::every] for name, records in clips.items()}


def measure_real_clips(
    clips: dict[str, list[Record]], settings: TemporalSettings, advance: Callable[[str], None] | None = None
) -> dict[str, Any]:
    """By clip: coverage of each system in each frame, similarity of neighbours, cuts found (there are none)."""
    found: dict[str, Any] = {}
    for name, records in clips.items():
        if advance is not None:
            advance(name)
        found[name] = _one_clip(records, settings)
    return found


def _one_clip(records: Sequence[Record], settings: TemporalSettings) -> dict[str, Any]:
    stream = VideoStream(records[0].query, keep=KEEP, settings=settings)
    values: dict[str, list[float]] = {system: [] for system in SYSTEMS}
    similarity, cuts = [], 0
    for record in records:
        pixels = load_picture(record.image).pixels
        size = (pixels.shape[0], pixels.shape[1])
        budget = int(KEEP * tokens_for(size))
        seen = stream.see(pixels)
        alone = prepare(pixels).look(record.query, budget).allocation
        even = allocate(np.ones((4, 4), dtype=np.float32), budget, image_size=size, strategy="quadtree")
        for system, allocation in zip(SYSTEMS, (even, alone, seen.standing), strict=False):
            values[system].append(coverage(allocation, record.boxes))
        assert stream.state is not None
        values[SYSTEMS[3]].append(held_share(stream.state.shown, record.boxes, seen.standing.grid))
        if seen.similarity is not None and not seen.cut:
            similarity.append(seen.similarity)
        cuts += seen.cut
    return {
        "frames": len(records),
        "query": records[0].query,
        "coverage": values,
        "similarity": float(np.mean(similarity)) if similarity else None,
        "false_cuts": cuts,
    }


def held_share(shown: np.ndarray, boxes: np.ndarray, grid: tuple[int, int]) -> float:
    """Share of the boxes' cells whose ground was shown at level 0, in this frame or an earlier one."""
    detail = cells_of(shown, grid)
    rows, cols = grid
    y, x = (np.arange(rows) + 0.5) / rows, (np.arange(cols) + 0.5) / cols
    inside = np.zeros(grid, dtype=bool)
    for x0, y0, x1, y1 in np.asarray(boxes).reshape(-1, 4):
        inside |= ((y >= y0) & (y < y1))[:, None] & ((x >= x0) & (x < x1))[None, :]
    return float((detail[inside] >= ENOUGH).mean()) if inside.any() else 0.0


def clip_interval(clips: dict[str, Any], system: str, seed: int = 0) -> tuple[float, float, float]:
    """Mean coverage and its 95 % interval; whole clips are resampled, since frames of one clip are alike."""
    each = np.array([np.mean(one["coverage"][system]) for one in clips.values()])
    draws = np.random.default_rng(seed).integers(0, len(each), (RESAMPLES, len(each)))
    low, high = np.quantile(each[draws].mean(1), (0.025, 0.975))
    return float(each.mean()), float(low), float(high)
