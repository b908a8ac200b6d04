"""Real clips and their boxes, and what a frame of a stream costs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean, median
from time import perf_counter
from typing import Any

import numpy as np

from arr_coc.allocation.allocate import allocate
from arr_coc.allocation.tree import tokens_for
from arr_coc.looking import prepare
from arr_coc.pictures.load import load_picture
from arr_coc.video.settings import TemporalSettings
from arr_coc.video.spending import ENOUGH, cells_of
from arr_coc.video.stream import VideoStream

from ..statistics import Estimate, resampled
from ..worlds.needle.clips import render_clip
from .machine import processors
from .real import Record, load_records
from .real_measures import coverage
from .table import Cell, Quantity

SOURCE = "davis"
KEEP = 1 / 8
SYSTEMS = ("uniform", "frame by frame", "temporal, standing", "temporal, held")


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
        alone = prepare(pixels).look(record.query, budget, relevance="look").allocation
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


def clip_coverage(clips: dict[str, Any], system: str) -> Estimate:
    """Mean coverage and its 95 % interval; whole clips are resampled, since frames of one clip are alike."""
    return resampled(np.array([np.mean(one["coverage"][system]) for one in clips.values()]))


# ---- What a frame costs after the first, against the first and against looking at every frame on its own -------------

SIDE = 512
LATER = 30
RATIO_BAR, RATE_BAR = 0.35, 15.0
QUERY = "What number is on the red square?"


def speed_frames(frames: int = LATER + 1, seed: int = 3) -> np.ndarray:
    """(T, 512, 512, 3) uint8: one scene of moving cards, rendered at a half and enlarged: only time is measured."""
    import cv2

    clip = render_clip("cards", 1, frames, (SIDE // 2, SIDE // 2), seed, "validation")
    small = clip.pictures[0].permute(0, 2, 3, 1).numpy()
    return np.stack([cv2.resize(frame, (SIDE, SIDE), interpolation=cv2.INTER_CUBIC) for frame in small])


def speed_rows(repeats: int = 5, frames: np.ndarray | None = None) -> tuple[list[dict[str, Cell]], dict[str, str]]:
    """Rows of the table, and facts. Each repeat is a stream of its own; medians over repeats, one keyframe included."""
    clip = speed_frames() if frames is None else frames
    first, later, alone = [], [], []
    with processors(2) as used:
        _one_stream(clip[:3])  # imports and tables
        for _ in range(repeats):
            seconds = _one_stream(clip)
            first.append(seconds[0])
            later.append(mean(seconds[1:]))
            started = perf_counter()
            prepare(clip[0]).look(QUERY, keep=0.25, relevance="look")
            alone.append(perf_counter() - started)
    ratio, rate = median(later) / median(first), 1 / median(later)
    naive = "look at it on its own"
    rows: list[dict[str, Cell]] = [
        {"what": "first frame", "value": Quantity(median(first), "s"), "against": naive, "naive": _s(alone)},
        {"what": "a later frame, mean", "value": Quantity(median(later), "s"), "against": naive, "naive": _s(alone)},
        {
            "what": "later / first",
            "value": Quantity(ratio, "", min(later) / max(first), max(later) / min(first)),
            "bar": f"≤ {RATIO_BAR}",
            "kept": ratio <= RATIO_BAR,
        },
        {
            "what": "sensing and allocating",
            "value": Quantity(rate, "frames/s", 1 / max(later), 1 / min(later)),
            "bar": f"≥ {RATE_BAR:g} frames/s",
            "kept": rate >= RATE_BAR,
        },
    ]
    facts = {"clip": f"{len(clip)} frames of {SIDE}×{SIDE}, one scene, one keyframe", "processors": str(used)}
    return rows, facts


def _one_stream(clip: np.ndarray) -> list[float]:
    stream, seconds = VideoStream(QUERY, keep=0.25), []
    for frame in clip:
        started = perf_counter()
        stream.see(frame)
        seconds.append(perf_counter() - started)
    return seconds


def _s(seconds: Sequence[float]) -> Quantity:
    return Quantity(median(seconds), "s")
