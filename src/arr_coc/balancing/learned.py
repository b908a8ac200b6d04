"""Arousal, learned: it departs from the table of stakes.

The last layer of every network starts at zero, so that an untrained module says what the rule says.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ..core.errors import InputError
from ..core.pretrained import Pretrained
from .arousal import arousal_of, keyword_stakes


def silent_head(hidden: int, out: int = 1) -> nn.Linear:
    """A last layer that starts at zero: whatever comes in, nothing comes out until it is trained."""
    last = nn.Linear(hidden, out)
    nn.init.zeros_(last.weight)
    nn.init.zeros_(last.bias)
    return last


@dataclass(frozen=True)
class ArousalConfig:
    """query_width: numbers in the query's embedding, None for the keyword table alone. hidden: width of the head."""

    query_width: int | None = None
    hidden: int = 32


class ArousalEstimator(Pretrained):
    """Question, uncertainty and failures → arousal in [0, 1]; `modulate` is what it does to a relevance map.

    The keyword table is the prior; a learned head over the query's embedding moves its log-odds.
    """

    config_class = ArousalConfig
    config: ArousalConfig

    def __init__(self, config: ArousalConfig | None = None) -> None:
        super().__init__(config or ArousalConfig())
        width, hidden = self.config.query_width, self.config.hidden
        self.head: nn.Sequential | None = None
        if width is not None:
            last = silent_head(hidden)
            self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, hidden), nn.GELU(), last)

    def stakes(self, questions: str | Sequence[str], query: Tensor | None = None) -> Tensor:
        """B questions and, for the learned head, their embeddings (B, Q) → (B,) in (0, 1), differentiable."""
        asked = [questions] if isinstance(questions, str) else list(questions)
        prior = torch.tensor([keyword_stakes(question).value for question in asked])
        if query is None:
            return prior
        if self.head is None:
            raise InputError("this estimator has no learned head: build it with ArousalConfig(query_width=…)")
        if tuple(query.shape) != (len(asked), self.config.query_width):
            raise InputError(f"query must be ({len(asked)}, {self.config.query_width}), got {tuple(query.shape)}")
        return torch.sigmoid(torch.logit(prior).to(query.device) + self.head(query)[:, 0])

    def forward(
        self,
        questions: str | Sequence[str],
        query: Tensor | None = None,
        *,
        uncertainty: float | Tensor = 0.0,
        failures: int | Tensor = 0,
    ) -> Tensor:
        """B questions → arousal (B,). uncertainty: of the last look, in [0, 1]. failures: recent ones, counted."""
        stakes = self.stakes(questions, query)
        unsure, failed = (
            torch.as_tensor(item, dtype=stakes.dtype).to(stakes.device) for item in (uncertainty, failures)
        )
        if not bool(((unsure >= 0) & (unsure <= 1)).all()):
            raise InputError("uncertainty must lie in [0, 1]")
        if not bool((failed >= 0).all()):
            raise InputError("failures are counted from 0; got a negative number")
        return arousal_of(stakes, unsure, failed)
