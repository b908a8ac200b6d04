"""Tensions in words: what the balance is now."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError
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
