"""Which optimizer moves which weights of a training."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from .muon import BatchedMuon
from .schedule import Plan


def make_optimizers(model: nn.Module, heads: nn.Module, scorer: nn.Module, plan: Plan, fused: bool) -> list[Any]:
    """Muon for the matrices of the blocks, AdamW for everything else."""
    matrices = [
        value
        for name, value in model.named_parameters()
        if value.ndim == 2 and not any(part in name for part in ("embed", "lm_head"))
    ]
    known = {id(value) for value in matrices}
    rest = [value for value in [*model.parameters(), *heads.parameters()] if id(value) not in known]
    how: dict[str, Any] = {"weight_decay": 0.01, "betas": (0.9, 0.98), "fused": fused}
    return [
        BatchedMuon(matrices, lr=plan.learning_rate, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=plan.learning_rate, **how),
        torch.optim.AdamW(scorer.parameters(), lr=plan.scorer_rate, **how),
    ]
