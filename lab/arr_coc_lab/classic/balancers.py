"""The balance of the three ways, learned: three tensions, or three for each place.

The last layer of every network starts at zero, so that an untrained module gives what the rule gives.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arr_coc.balancing.tensions import TENSION_NAMES, balance
from arr_coc.core.errors import InputError
from arr_coc.core.modules import Pretrained


def silent_head(hidden: int, out: int = 1) -> nn.Linear:
    """Return a last layer that starts at zero: whatever comes in, nothing comes out until it is trained."""
    last = nn.Linear(hidden, out)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


def named(tensions: Tensor) -> dict[str, Tensor]:
    """Convert (…, 3) → each tension by its name."""
    return dict(zip(TENSION_NAMES, tensions.unbind(-1), strict=True))


@dataclass(frozen=True)
class TensionConfig:
    """hidden: width of the small network of the three scores."""

    hidden: int = 8


class FixedTensionBalancer(Pretrained):
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
        return {name: float(one) for name, one in named(self.tensions.detach()).items()}

    def forward(self, propositional: Tensor, perspectival: Tensor, participatory: Tensor) -> Tensor:
        """Return three maps (B, h, w) → relevance (B, h, w) in [0, 1], differentiable."""
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        correction = self.network(scores)[..., 0]
        return balance(propositional, perspectival, participatory, named(self.tensions), correction=correction)


@dataclass(frozen=True)
class AdaptiveConfig:
    """query_width: numbers in the query's embedding. hidden: width of the network that predicts the tensions."""

    query_width: int
    hidden: int = 32
    correction_hidden: int = 8


class AdaptiveTensionBalancer(Pretrained):
    """Three tensions for every place, predicted from the query's embedding and the three scores there.

    It holds a `FixedTensionBalancer` and predicts how far each place departs from it (hypothesis H3). Untrained it is
    `balance` at exactly one half everywhere.
    """

    config_class = AdaptiveConfig
    config: AdaptiveConfig

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self.fixed = FixedTensionBalancer(TensionConfig(config.correction_hidden))
        # Embeddings of different encoders differ in size by orders of magnitude.
        self.ask = nn.Sequential(nn.LayerNorm(config.query_width), nn.Linear(config.query_width, config.hidden))
        self.see = nn.Linear(3, config.hidden, bias=False)
        last = silent_head(config.hidden, len(TENSION_NAMES))
        self.depart = nn.Sequential(nn.GELU(), nn.Linear(config.hidden, config.hidden), nn.GELU(), last)

    def tensions(self, propositional: Tensor, perspectival: Tensor, participatory: Tensor, query: Tensor) -> Tensor:
        """Predict tensions (B, h, w, 3) in (0, 1), ordered as `TENSION_NAMES`, from maps (B, h, w) and the query."""
        if query.ndim != 2 or query.shape[1] != self.config.query_width or len(query) not in (1, len(propositional)):
            raise InputError(
                f"the query must be ({len(propositional)}, {self.config.query_width}), got {tuple(query.shape)}"
            )
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        departure = self.depart(self.see(scores) + self.ask(query)[:, None, None, :])
        return torch.sigmoid(self.fixed.raw + departure)

    def forward(self, propositional: Tensor, perspectival: Tensor, participatory: Tensor, query: Tensor) -> Tensor:
        """Return three maps (B, h, w) and the query (B, Q) → relevance (B, h, w) in [0, 1], differentiable."""
        tensions = self.tensions(propositional, perspectival, participatory, query)
        scores = torch.stack([propositional, perspectival, participatory], dim=-1)
        correction = self.fixed.network(scores)[..., 0]
        return balance(propositional, perspectival, participatory, named(tensions), correction=correction)
