"""Intervals of 95 %: shares by Wilson, means and paired differences by the normal law or by resampling.

A claim holds, fails or stays undecided by the interval of a difference that is paired picture by picture.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from arr_coc.core.errors import InputError

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
Z = 1.96
# Where the second is nothing at all, the first is not infinitely more: it is too much to be counted.
MOST_TIMES = 1000.0
RESAMPLES = 2000
BINS = 15


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def above(self, margin: float = 0.0) -> str:
        """Is it above the margin? Yes where the whole interval is, no where none of it is."""
        return HOLDS if self.low > margin else FAILS if self.high < margin else UNDECIDED


def wilson(right: int, number: int, z: float = 1.96) -> tuple[float, float]:
    """The 95 % interval of a proportion (Wilson's, which stays sensible near 0 and 1)."""
    if number == 0:
        return 0.0, 1.0
    share = right / number
    centre = share + z * z / (2 * number)
    spread = z * math.sqrt(share * (1 - share) / number + z * z / (4 * number * number))
    low, high = ((centre + sign * spread) / (1 + z * z / number) for sign in (-1, 1))
    return max(0.0, low), min(1.0, high)  # where none or all are right, the last bit lies outside


def proportion(right: np.ndarray) -> Estimate:
    """(n,) of 0 and 1 → the share, with Wilson's interval."""
    number, found = len(right), int(right.sum())
    low, high = wilson(found, number)
    return Estimate(found / max(1, number), low, high)


def mean(values: np.ndarray) -> Estimate:
    """(n,) → their mean."""
    if not len(values):
        raise InputError("there is nothing to average: no picture was measured")
    centre = float(values.mean())
    spread = Z * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(centre, centre - spread, centre + spread)


def mean_intervals(values: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """The mean of each and its interval, as a record keeps them: [value, low, high], four digits behind the point."""
    found = {name: mean(one) for name, one in values.items()}
    return {name: [round(value, 4) for value in (one.value, one.low, one.high)] for name, one in found.items()}


def paired(first: np.ndarray, second: np.ndarray, scale: float = 1.0) -> Estimate:
    """(n,) each, of the same pictures → the mean of first − scale · second.

    Where every picture comes out alike, the spread is unknown rather than zero: the interval is then that of a share of
    which none was seen (Wilson's, of 0 in n).
    """
    if first.shape != second.shape:
        raise InputError(f"pairs need two values for each picture, got {first.shape} and {second.shape}")
    found = mean(first - scale * second)
    if found.low == found.high:
        rest = wilson(0, len(first))[1]
        return Estimate(found.value, found.value - rest, found.value + rest)
    return found


def resampled(each: np.ndarray, seed: int = 0) -> Estimate:
    """(n,) → their mean, with the middle 95 % of the means of `RESAMPLES` resamples: a bootstrap."""
    draws = np.random.default_rng(seed).integers(0, len(each), (RESAMPLES, len(each)))
    return interval(np.concatenate([each.mean(keepdims=True), each[draws].mean(1)]))


def interval(values: np.ndarray) -> Estimate:
    """(1 + resamples,) → the value as measured, which stands first, and the middle 95 % of the others."""
    low, high = np.quantile(values[1:], (0.025, 0.975))
    return Estimate(float(values[0]), float(low), float(high))


def ratio(first: np.ndarray, second: np.ndarray, seed: int = 0) -> Estimate:
    """(n,) each → sum(first) / sum(second), with a bootstrap interval over the pictures; `MOST_TIMES` at most."""
    if not len(first):
        raise InputError("there is nothing to compare: no picture has two questions about different places")
    chances = np.full(len(first), 1 / len(first))
    counts = np.random.default_rng(seed).multinomial(len(first), chances, RESAMPLES).astype(float)

    def divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
        return np.minimum(above / np.maximum(below, 1e-9), MOST_TIMES)

    low, high = np.percentile(divided(counts @ first, counts @ second), (2.5, 97.5))
    return Estimate(float(divided(first.sum(), second.sum())), float(low), float(high))


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """Mean distance of confidence and accuracy over bins of equal mass (as many answers in each, sorted by confidence).

    confidence: (N,) in [0, 1]. right: (N,) bool.
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if confidence.shape != right.shape or not confidence.size:
        raise InputError(f"a calibration error needs as many outcomes as confidences, got {right.shape}")
    order = np.argsort(confidence, kind="stable")
    edges = np.linspace(0, len(order), min(bins, len(order)) + 1).astype(int)[:-1]
    gaps = np.add.reduceat((confidence - right)[order], edges)
    return float(np.abs(gaps).sum() / len(order))


def chance_error(confidence: np.ndarray, bins: int = BINS, draws: int = 200, seed: int = 0) -> float:
    """The calibration error that as many answers would show by chance alone if every confidence were exactly true."""
    generator = np.random.default_rng(seed)
    confidence = np.asarray(confidence, dtype=np.float64)
    outcomes = generator.random((draws, len(confidence))) < confidence
    return float(np.mean([expected_calibration_error(confidence, outcome, bins) for outcome in outcomes]))
