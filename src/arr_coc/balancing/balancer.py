"""The tensions as learned numbers."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..pretrained import Pretrained
from .tension import TENSION_NAMES, balance


@dataclass(frozen=True)
class TensionConfig:
    """hidden: width of the small network of the three scores."""

    hidden: int = 8


class TensionBalancer(Pretrained):
    """The three tensions as learned numbers, each starting at exactly one half, plus a small network of the scores.

    The network's last layer starts at zero, so an untrained balancer is `balance` at one half.
    """

    config_class = TensionConfig
    config: TensionConfig

    def __init__(self, config: TensionConfig | None = None) -> None:
        super().__init__(config or TensionConfig())
        # A sigmoid of zero is one half; a raw parameter of one half would not be.
        self.raw = nn.Parameter(torch.zeros(len(TENSION_NAMES)))
        hidden = self.config.hidden
        last = nn.Linear(hidden, 1)
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
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
