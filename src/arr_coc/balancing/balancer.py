"""The tensions as learned numbers."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from .tension import TENSION_NAMES, balance


class TensionBalancer(nn.Module):
    """The three tensions as learned numbers, each starting at exactly one half, plus a small network of the scores.

    The network's last layer starts at zero, so an untrained balancer is `balance` at one half.
    """

    def __init__(self, hidden: int = 8) -> None:
        super().__init__()
        # A sigmoid of zero is one half; a raw parameter of one half would not be.
        self.raw = nn.Parameter(torch.zeros(len(TENSION_NAMES)))
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
