"""Compute 95 % intervals: Wilson's for shares, normal ones for means and paired differences.

The interval of a difference, paired picture by picture, decides whether a claim holds, fails or stays undecided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from scipy.stats import binomtest, norm

from arr_coc.core.errors import InputError

HOLDS, FAILS, UNDECIDED = "holds", "fails", "undecided"
BINS = 15


@dataclass(frozen=True)
class Estimate:
    """A value and its 95 % interval."""

    value: float
    low: float
    high: float

    def above(self, margin: float = 0.0) -> str:
        """Compare with a margin: yes if the whole interval is above it, no if none of it is."""
        return HOLDS if self.low > margin else FAILS if self.high < margin else UNDECIDED


def proportion(right: np.ndarray) -> Estimate:
    """Return the share of ones in (n,), with Wilson's interval, which stays sensible near 0 and 1."""
    if not len(right):
        return Estimate(0.0, 0.0, 1.0)
    found = binomtest(int(right.sum()), len(right))
    low, high = found.proportion_ci(0.95, "wilson")
    return Estimate(float(found.statistic), float(low), float(high))


def mean(values: np.ndarray) -> Estimate:
    """Return the mean of (n,), with its interval."""
    if not len(values):
        raise InputError("no picture was measured, so there is no mean")
    centre = float(values.mean())
    spread = norm.ppf(0.975) * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(centre, centre - spread, centre + spread)


def mean_intervals(values: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """Return the mean and interval of each for JSON: [value, low, high], rounded to four decimals."""
    found = {name: mean(one) for name, one in values.items()}
    return {name: [round(value, 4) for value in (one.value, one.low, one.high)] for name, one in found.items()}


def paired(first: np.ndarray, second: np.ndarray) -> Estimate:
    """Return the mean of first − second, (n,) each, of the same pictures.

    If all differences are equal, the spread is unknown rather than zero; the interval is then Wilson's of 0 in n.
    """
    if first.shape != second.shape:
        raise InputError(f"pairs need two values for each picture, got {first.shape} and {second.shape}")
    found = mean(first - second)
    if found.low == found.high:
        rest = proportion(np.zeros(len(first))).high
        return Estimate(found.value, found.value - rest, found.value + rest)
    return found


def ratio(first: np.ndarray, second: np.ndarray, draws: int = 1000, seed: int = 0) -> Estimate:
    """Return the ratio of the means of (n,) each, of the same pictures, with a bootstrap interval."""
    which = np.random.default_rng(seed).integers(0, len(first), (draws, len(first)))
    low, high = np.quantile(first[which].mean(1) / np.maximum(second[which].mean(1), 1e-12), (0.025, 0.975))
    return Estimate(float(first.mean() / max(second.mean(), 1e-12)), float(low), float(high))


def expected_calibration_error(confidence: np.ndarray, right: np.ndarray, bins: int = BINS) -> float:
    """Return the expected calibration error: mean distance of confidence and accuracy over bins of equal size.

    confidence: (N,) in [0, 1]. right: (N,) bool.
    """
    confidence, right = np.asarray(confidence, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if confidence.shape != right.shape or not confidence.size:
        raise InputError(f"a calibration error needs one outcome for each confidence, got {right.shape}")
    order = np.argsort(confidence, kind="stable")
    edges = np.linspace(0, len(order), min(bins, len(order)) + 1).astype(int)[:-1]
    gaps = np.add.reduceat((confidence - right)[order], edges)
    return float(np.abs(gaps).sum() / len(order))


def chance_error(confidence: np.ndarray, bins: int = BINS, draws: int = 200, seed: int = 0) -> float:
    """Return the calibration error expected by chance alone if every confidence were exactly true."""
    generator = np.random.default_rng(seed)
    confidence = np.asarray(confidence, dtype=np.float64)
    outcomes = generator.random((draws, len(confidence))) < confidence
    return float(np.mean([expected_calibration_error(confidence, outcome, bins) for outcome in outcomes]))
