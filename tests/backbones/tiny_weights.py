"""Weights for tests: a tiny random `mini` and scorer as a training leaves them, and whether the real ones are here."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from arr_coc.knowing.scorer import Scorer
from arr_coc.lab.bench.speed import has_weights
from arr_coc.lab.train.checkpoints import ship
from arr_coc.lab.train.mini_model import MiniConfig, build_mini

needs_weights = pytest.mark.skipif(not has_weights(), reason="the bundled weights are not in src/arr_coc/weights")


def tiny_weights(folder: Path, seed: int = 0) -> Path:
    """`mini` and `scorer` in a folder, untrained, the scorer bold enough to tell places apart."""
    torch.manual_seed(seed)
    scorer = Scorer()
    torch.nn.init.normal_(scorer.head.weight, std=2.0)
    ship({"mini": build_mini(MiniConfig(width=64, heads=1)), "scorer": scorer}, folder)
    return folder
