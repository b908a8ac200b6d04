"""What a frame costs after the first, against the first and against looking at every frame on its own."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean, median
from time import perf_counter

import numpy as np

from ...looking import prepare
from ...video.stream import VideoStream
from ..needle.clips import render_clip
from .table import Cell, Quantity
from .timing import processors

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
            prepare(clip[0]).look(QUERY, keep=0.25)
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
