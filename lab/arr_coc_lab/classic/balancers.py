"""The balance of the three ways, learned: three tensions, or three for each place; and how they came to be, in words.

The last layer of every network starts at zero, so that an untrained module says what the rule says. No plotting library
is imported: the curves go to whichever one the reader has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn

from arr_coc.balancing.explain import HIGH, LOW, POLES, SETTLED, Tensions, tension_array
from arr_coc.balancing.learned import silent_head
from arr_coc.balancing.tension import TENSION_NAMES, balance
from arr_coc.core.errors import InputError
from arr_coc.core.pretrained import Pretrained


@dataclass(frozen=True)
class TensionConfig:
    """hidden: width of the small network of the three scores."""

    hidden: int = 8


class TensionBalancer(Pretrained):
    """The three tensions as learned numbers, each starting at exactly one half, plus a small network of the scores.

    Untrained it is `balance` at one half.
    """

    config_class = TensionConfig
    config: TensionConfig

    def __init__(self, config: TensionConfig | None = None) -> None:
        super().__init__(config or TensionConfig())
        # A sigmoid of zero is one half; a raw parameter of one half would not be.
        self.raw = nn.Parameter(torch.zeros(len(TENSION_NAMES)))
        hidden = self.config.hidden
        last = silent_head(hidden)
        self.network = nn.Sequential(nn.Linear(3, hidden), nn.GELU(), last)

    @property
    def tensions(self) -> Tensor:
        return torch.sigmoid(self.raw)

    def named_tensions(self) -> dict[str, float]:
        return dict(zip(TENSION_NAMES, self.tensions.detach().tolist(), strict=True))

    def forward(
        self, propositional: Tensor, perspectival: Tensor, participatory: Tensor, examined: Tensor | None = None
    ) -> Tensor:
        """Three maps (B, h, w) → relevance (B, h, w) in [0, 1], differentiable."""
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        correction = self.network(scores)[..., 0]
        return balance(
            propositional, perspectival, participatory, self.tensions, examined=examined, correction=correction
        )


@dataclass(frozen=True)
class AdaptiveConfig:
    """query_width: numbers in the query's embedding. hidden: width of the network that predicts the tensions."""

    query_width: int
    hidden: int = 32
    correction_hidden: int = 8


class AdaptiveTensionBalancer(Pretrained):
    """Three tensions for every place, predicted from the query's embedding and the three scores there.

    It holds a `TensionBalancer` and predicts how far each place departs from it (hypothesis H3). Untrained it is
    `balance` at exactly one half everywhere.
    """

    config_class = AdaptiveConfig
    config: AdaptiveConfig

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self.fixed = TensionBalancer(TensionConfig(config.correction_hidden))
        # Embeddings of different encoders differ in size by orders of magnitude.
        self.ask = nn.Sequential(nn.LayerNorm(config.query_width), nn.Linear(config.query_width, config.hidden))
        self.see = nn.Linear(3, config.hidden, bias=False)
        last = silent_head(config.hidden, len(TENSION_NAMES))
        self.depart = nn.Sequential(nn.GELU(), nn.Linear(config.hidden, config.hidden), nn.GELU(), last)

    def tensions(self, propositional: Tensor, perspectival: Tensor, participatory: Tensor, query: Tensor) -> Tensor:
        """Three maps (B, h, w) and the query (B, Q) → (B, h, w, 3) in (0, 1), in the order of `TENSION_NAMES`."""
        if query.ndim != 2 or query.shape[1] != self.config.query_width or len(query) not in (1, len(propositional)):
            raise InputError(
                f"the query must be ({len(propositional)}, {self.config.query_width}), got {tuple(query.shape)}"
            )
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        departure = self.depart(self.see(scores) + self.ask(query)[:, None, None, :])
        return torch.sigmoid(self.fixed.raw + departure)

    def forward(
        self,
        propositional: Tensor,
        perspectival: Tensor,
        participatory: Tensor,
        query: Tensor,
        examined: Tensor | None = None,
    ) -> Tensor:
        """Three maps (B, h, w) and the query (B, Q) → relevance (B, h, w) in [0, 1], differentiable."""
        tensions = self.tensions(propositional, perspectival, participatory, query)
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        correction = self.fixed.network(scores)[..., 0]
        return balance(propositional, perspectival, participatory, tensions, examined=examined, correction=correction)


# ---- how they came to be ---------------------------------------------------------------------------------------------


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
