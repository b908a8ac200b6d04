"""The learned tensions of `look`, for every place by the question, in numpy: `AdaptiveTensionBalancer` without torch.

Taught on drawn worlds (`arr_coc_lab.classic.tensions`), where they cover more of what questions need than tensions set
by hand; so `look` takes them for pictures that are drawn, and keeps its own for photographs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path

import numpy as np

from ..core.errors import InputError
from ..core.folders import CLASSIC_WEIGHTS, verify
from .tension import TENSION_NAMES, balance

SHIPPED = CLASSIC_WEIGHTS
EPSILON = 1e-5  # of torch's LayerNorm


def adaptive_balance(ways: Sequence[np.ndarray], query: str) -> tuple[np.ndarray, dict[str, float]]:
    """Three maps (h, w) in [0, 1] → relevance (1, h, w) in [0, 1], and the mean of each tension over the picture."""
    weights = adaptive_weights()
    scores = np.stack([np.asarray(one, dtype=np.float32) for one in ways], -1)[None]
    asked = _linear(_normal(question_vector(query), weights, "ask.0"), weights, "ask.1")
    hidden = _gelu(scores @ weights["see.weight"].T + asked)
    departure = _linear(_gelu(_linear(hidden, weights, "depart.1")), weights, "depart.3")
    tensions = 1 / (1 + np.exp(-(weights["fixed.raw"] + departure)))
    correction = _linear(_gelu(_linear(scores, weights, "fixed.network.0")), weights, "fixed.network.2")[..., 0]
    found = balance(*(scores[..., place] for place in range(3)), tensions, correction=correction)
    return found, dict(zip(TENSION_NAMES, tensions.mean((0, 1, 2)).tolist(), strict=True))


def question_vector(query: str) -> np.ndarray:
    """(32,): the mean of the rows of the question's words."""
    from ..knowing.language.tables import word_rows

    table = adaptive_weights()["words"]
    rows = word_rows(query, len(table))
    return table[rows].mean(0) if rows else np.zeros(table.shape[1], np.float32)


@lru_cache(maxsize=1)
def adaptive_weights(folder: Path = SHIPPED) -> Mapping[str, np.ndarray]:
    """By name, float32; `words` is the table."""
    from safetensors.numpy import load_file

    parts = {"": folder / "adaptive", "words": folder / "tension_words"}
    found: dict[str, np.ndarray] = {}
    for name, part in parts.items():
        verify(part)
        try:
            loaded = load_file(part / "model.safetensors")
        except (OSError, ValueError) as error:
            raise InputError(f"no learned tensions in {part} ({error}); install arr-coc again") from error
        found |= {name or key: value.astype(np.float32) for key, value in loaded.items()}
    return found


def _linear(values: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    return values @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]


def _normal(values: np.ndarray, weights: Mapping[str, np.ndarray], name: str) -> np.ndarray:
    centred = values - values.mean(-1, keepdims=True)
    scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + EPSILON)
    return scaled * weights[f"{name}.weight"] + weights[f"{name}.bias"]


def _gelu(values: np.ndarray) -> np.ndarray:
    return 0.5 * values * (1 + _erf(values * np.float32(2**-0.5)))


def _erf(values: np.ndarray) -> np.ndarray:
    """The error function to 2e-7 (Abramowitz and Stegun 7.1.26): numpy has none, and scipy would be imported for it."""
    size = np.abs(values)
    step = 1 / (1 + np.float32(0.3275911) * size)
    series = step * np.float32(1.061405429) - np.float32(1.453152027)
    for factor in (1.421413741, -0.284496736, 0.254829592):
        series = series * step + np.float32(factor)
    return np.sign(values) * (1 - series * step * np.exp(-size * size))
