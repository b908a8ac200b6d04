"""Seconds by stage, as every look and answer tells them."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from time import perf_counter


@contextmanager
def timed(seconds: dict[str, float], stage: str) -> Generator[None]:
    """Write into `seconds` how long the block takes."""
    started = perf_counter()
    yield
    seconds[stage] = perf_counter() - started


def summed(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Seconds of several, stage by stage."""
    found: dict[str, float] = {}
    for part in parts:
        for stage, spent in part.items():
            found[stage] = found.get(stage, 0.0) + spent
    return found
