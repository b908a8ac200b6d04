"""`AdaptiveTensionBalancer`: the tensions depend on what is asked and on what is there (hypothesis H3)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..errors import InputError
from ..pretrained import Pretrained
from .balancer import TensionBalancer, TensionConfig
from .tension import TENSION_NAMES, balance


@dataclass(frozen=True)
class AdaptiveConfig:
    """query_width: numbers in the query's embedding. hidden: width of the network that predicts the tensions."""

    query_width: int
    hidden: int = 32
    correction_hidden: int = 8


class AdaptiveTensionBalancer(Pretrained):
    """Three tensions for every place, predicted from the query's embedding and the three scores there.

    It holds a `TensionBalancer` and predicts how far each place departs from it. The prediction starts at zero and the
    tensions inside at one half, so that an untrained one is `balance` at exactly one half everywhere.
    """

    config_class = AdaptiveConfig
    config: AdaptiveConfig

    def __init__(self, config: AdaptiveConfig) -> None:
        super().__init__(config)
        self.fixed = TensionBalancer(TensionConfig(config.correction_hidden))
        # Embeddings of different encoders differ in size by orders of magnitude.
        self.ask = nn.Sequential(nn.LayerNorm(config.query_width), nn.Linear(config.query_width, config.hidden))
        self.see = nn.Linear(3, config.hidden, bias=False)
        last = nn.Linear(config.hidden, len(TENSION_NAMES))
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
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
