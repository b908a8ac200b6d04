"""Intervals of 95 %: shares by Wilson, means and paired differences by the normal law.

A claim holds, fails or stays undecided by the interval of a difference that is paired picture by picture.
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
        """Is it above the margin? Yes where the whole interval is, no where none of it is."""
        return HOLDS if self.low > margin else FAILS if self.high < margin else UNDECIDED


def proportion(right: np.ndarray) -> Estimate:
    """(n,) of 0 and 1 → the share, with Wilson's interval, which stays sensible near 0 and 1."""
    if not len(right):
        return Estimate(0.0, 0.0, 1.0)
    found = binomtest(int(right.sum()), len(right))
    low, high = found.proportion_ci(0.95, "wilson")
    return Estimate(float(found.statistic), float(low), float(high))


def mean(values: np.ndarray) -> Estimate:
    """(n,) → their mean."""
    if not len(values):
        raise InputError("there is nothing to average: no picture was measured")
    centre = float(values.mean())
    spread = norm.ppf(0.975) * float(values.std(ddof=1)) / math.sqrt(len(values)) if len(values) > 1 else math.inf
    return Estimate(centre, centre - spread, centre + spread)


def mean_intervals(values: Mapping[str, np.ndarray]) -> dict[str, list[float]]:
    """The mean of each and its interval, as a record keeps them: [value, low, high], four digits behind the point."""
    found = {name: mean(one) for name, one in values.items()}
    return {name: [round(value, 4) for value in (one.value, one.low, one.high)] for name, one in found.items()}


def paired(first: np.ndarray, second: np.ndarray) -> Estimate:
    """(n,) each, of the same pictures → the mean of first − second.

    Where every picture comes out alike, the spread is unknown rather than zero: the interval is then that of a share of
    which none was seen (Wilson's, of 0 in n).
    """
    if first.shape != second.shape:
        raise InputError(f"pairs need two values for each picture, got {first.shape} and {second.shape}")
    found = mean(first - second)
    if found.low == found.high:
        rest = proportion(np.zeros(len(first))).high
        return Estimate(found.value, found.value - rest, found.value + rest)
    return found


def ratio(first: np.ndarray, second: np.ndarray, draws: int = 1000, seed: int = 0) -> Estimate:
    """(n,) each, of the same pictures → mean of the first over mean of the second, by a bootstrap."""
    which = np.random.default_rng(seed).integers(0, len(first), (draws, len(first)))
    low, high = np.quantile(first[which].mean(1) / np.maximum(second[which].mean(1), 1e-12), (0.025, 0.975))
    return Estimate(float(first.mean() / max(second.mean(), 1e-12)), float(low), float(high))


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
