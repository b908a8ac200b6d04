"""Tensions in words and as arrays for plotting: what the balance is now, and how it came to be.

No plotting library is imported: the arrays go to whichever one the reader has.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ...core import arrays
from ...core.arrays import Array
from ...core.errors import InputError
from .tension import DEFAULT_TENSIONS, TENSION_NAMES

# name → (what it pulls to at 0, and by what; what it pulls to at 1, and by what).
POLES: Mapping[str, tuple[tuple[str, str], tuple[str, str]]] = {
    "compress_particularize": (
        ("compress", "what is there to be read"),
        ("particularize", "what this question couples to"),
    ),
    "exploit_explore": (
        ("exploit", "what stands out"),
        ("explore", "what does not stand out or was not examined yet"),
    ),
    "focus_diversify": (
        ("focus", "the score as it is"),
        ("diversify", "being far from the places on top"),
    ),
}
EVEN = 0.05  # this close to one half, neither side is said to win
SETTLED = 0.01
LOW, HIGH = 5, 95  # percentiles that bound "most places"

Tensions = Mapping[str, float] | Array


@dataclass(frozen=True, eq=False)
class TensionCurves:
    """steps: (T,). mean, low, high: (T, 3), over the places (5th to 95th percentile), in the order of names."""

    steps: np.ndarray
    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    names: tuple[str, ...] = TENSION_NAMES

    def curve(self, name: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """One tension as (steps, mean, low, high), each (T,): `plot(steps, mean)`, `fill_between(steps, low, high)`."""
        if name not in self.names:
            raise InputError(f"no tension is named {name!r}; choose from {', '.join(self.names)}")
        place = self.names.index(name)
        return self.steps, self.mean[:, place], self.low[:, place], self.high[:, place]


def tension_array(tensions: Tensions) -> np.ndarray:
    """Tensions by name, or an array (…, 3) of numpy or torch → (…, 3) float64 in [0, 1]."""
    if isinstance(tensions, Mapping):
        unknown = sorted(set(tensions) - set(TENSION_NAMES))
        if unknown:
            raise InputError(f"no tension is named {', '.join(unknown)}; choose from {', '.join(TENSION_NAMES)}")
        values = np.array([tensions.get(name, DEFAULT_TENSIONS[name]) for name in TENSION_NAMES], dtype=np.float64)
    else:
        plain = tensions.detach().cpu().double().numpy() if arrays.is_tensor(tensions) else tensions
        values = np.asarray(plain, dtype=np.float64)
    if not values.ndim or values.shape[-1] != len(TENSION_NAMES) or not values.size:
        raise InputError(f"tensions must be (…, {len(TENSION_NAMES)}), got {values.shape}")
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("tensions must lie in [0, 1]; pass them after the sigmoid, not before")
    return values


def explain_tensions(tensions: Tensions) -> list[str]:
    """One sentence for each tension: which side it leans to, what that means, and whether places differ."""
    values = tension_array(tensions).reshape(-1, len(TENSION_NAMES))
    return [_sentence(name, values[:, place]) for place, name in enumerate(TENSION_NAMES)]


def _sentence(name: str, values: np.ndarray) -> str:
    (zero, zero_means), (one, one_means) = POLES[name]
    mean = float(values.mean())
    if abs(mean - 0.5) <= EVEN:
        verdict = f"is even between {zero_means} and {one_means}"
    else:
        side, means, share = (one, one_means, mean) if mean > 0.5 else (zero, zero_means, 1 - mean)
        verdict = f"leans to {side} ({share:.0%}): more weight on {means}"
    sentence = f"{zero} ↔ {one} at {mean:.2f} {verdict}"
    low, high = np.percentile(values, (LOW, HIGH))
    if high - low > SETTLED:
        above = float((values > 0.5).mean())
        sentence += f"; it differs from place to place ({low:.2f} to {high:.2f}, {above:.0%} of them towards {one})"
    return sentence + "."


def tension_curves(history: Sequence[Tensions], steps: Sequence[float] | None = None) -> TensionCurves:
    """A history of tensions, oldest first, each by name or as an array (…, 3) → curves over training."""
    if not len(history):
        raise InputError("the history of tensions is empty; record them at least once")
    times = np.arange(len(history)) if steps is None else np.asarray(steps)
    if times.shape != (len(history),) or (np.diff(times) <= 0).any():
        raise InputError(f"steps must be {len(history)} rising numbers, one for each entry of the history")
    flat = [tension_array(entry).reshape(-1, len(TENSION_NAMES)) for entry in history]
    bounds = np.stack([np.percentile(values, (LOW, HIGH), axis=0) for values in flat])
    return TensionCurves(times, np.stack([values.mean(0) for values in flat]), bounds[:, 0], bounds[:, 1])


def explain_history(history: Sequence[Tensions], steps: Sequence[float] | None = None) -> list[str]:
    """One sentence for each tension: where it started, where it went, and since when it has stood still."""
    curves = tension_curves(history, steps)
    return [_story(name, curves.steps, curves.mean[:, place]) for place, name in enumerate(TENSION_NAMES)]


def _story(name: str, steps: np.ndarray, mean: np.ndarray) -> str:
    (zero, _), (one, _) = POLES[name]
    first, last = float(mean[0]), float(mean[-1])
    span = f"from step {steps[0]:g} to {steps[-1]:g}"
    if float(np.ptp(mean)) <= SETTLED:
        return f"{zero} ↔ {one} stayed at {last:.2f} {span}."
    if abs(last - first) <= SETTLED:
        return f"{zero} ↔ {one} ended where it began, at {last:.2f}, after moving {mean.min():.2f} to {mean.max():.2f}."
    story = f"{zero} ↔ {one} moved from {first:.2f} to {last:.2f} {span}, towards {one if last > first else zero}"
    far = np.flatnonzero(np.abs(mean - last) > SETTLED)
    settled = int(far[-1]) + 1  # never empty: the first value is far from the last
    story += f", settled since step {steps[settled]:g}" if settled < len(mean) - 1 else ", still moving"
    return story + "."
