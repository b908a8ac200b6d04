"""Medians of repeated calls, after a warm-up, and two ways of doing one thing taken in turns."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from statistics import median, quantiles
from time import perf_counter
from typing import NamedTuple

WARM_UP = 2


class Timing(NamedTuple):
    """Seconds. low and high hold the middle half of the repeats: wide apart, the machine was busy with other things."""

    median: float
    low: float
    high: float
    repeats: int

    @classmethod
    def of(cls, seconds: Sequence[float]) -> Timing:
        if len(seconds) < 2:
            return cls(seconds[0], seconds[0], seconds[0], len(seconds))
        low, _, high = quantiles(seconds, n=4, method="inclusive")
        return cls(median(seconds), low, high, len(seconds))


def time_call(work: Callable[[], object], repeats: int, warm_up: int = WARM_UP) -> Timing:
    """The median of `repeats` calls, after `warm_up` calls that do not count."""
    return time_in_turns([work], repeats, warm_up)[0]


def time_in_turns(works: Sequence[Callable[[], object]], repeats: int, warm_up: int = WARM_UP) -> list[Timing]:
    """One `Timing` for each way; all take turns, so that whatever else the machine does hits all of them alike."""
    for _ in range(warm_up):
        for work in works:
            work()
    seconds: list[list[float]] = [[] for _ in works]
    for _ in range(repeats):
        for work, found in zip(works, seconds, strict=True):
            started = perf_counter()
            work()
            found.append(perf_counter() - started)
    return [Timing.of(found) for found in seconds]


@contextmanager
def processors(number: int) -> Generator[int]:
    """Use this many processors and threads, here and in child processes; yields how many there really are."""
    import os

    import cv2
    import torch

    threads = torch.get_num_threads(), cv2.getNumThreads()
    allowed = os.sched_getaffinity(0) if hasattr(os, "sched_getaffinity") else None
    used = min(number, len(allowed) if allowed is not None else os.cpu_count() or number)
    try:
        if allowed is not None:
            os.sched_setaffinity(0, sorted(allowed)[:used])
        torch.set_num_threads(used)
        cv2.setNumThreads(used)
        yield used
    finally:
        if allowed is not None:
            os.sched_setaffinity(0, allowed)
        torch.set_num_threads(threads[0])
        cv2.setNumThreads(threads[1])
