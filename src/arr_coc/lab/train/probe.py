"""How the allocation in use fares while a scorer is trained: pictures set aside, read with the tree it would choose."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from ...attending.quadtree import quadtree
from .allocations import Kind, make_leaves, tree_of
from .evaluate import FAMILIES
from .judging import judge
from .pictures import TrainingBatch, join, render_family

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from ...knowing.scorer import Scorer


def run_scorer(scorer: nn.Module, batch: TrainingBatch) -> Tensor:
    """(B, rows, cols) logits; in bfloat16 where that is fast."""
    device = batch.pictures.device
    with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
        return scorer(batch.pictures, batch.question_ids).float()


@dataclass(frozen=True)
class Probe:
    """Pictures set aside to see how the allocation in use fares while training; never trained on."""

    batch: TrainingBatch
    keep: float

    @classmethod
    def render(cls, number: int, size: tuple[int, int], keep: float, device: torch.device) -> Probe:
        each = max(1, number // len(FAMILIES))
        parts = [render_family(family, each, size, 7, 0, device, None, "validation") for family in FAMILIES]
        return cls(join(parts), keep)

    @torch.no_grad()
    def accuracy(self, model: PreTrainedModel, scorer: Scorer | None, most: int) -> float:
        """Share of right answers with the scorer's best tree, or with random trees where none is given."""
        size = self.batch.pictures.shape[2], self.batch.pictures.shape[3]
        tree = tree_of(size)
        if scorer is None:
            generator = torch.Generator(device=self.batch.pictures.device).manual_seed(7)
            leaves = make_leaves(Kind("random", self.keep, 1.0), self.batch, tree, generator, None)
        else:
            budget = max(tree.floor, round(self.keep * tree.full))
            leaves = quadtree(run_scorer(scorer, self.batch).sigmoid(), tree, budget).cells
        return float(judge(model, self.batch, leaves[:, None], most).right.float().mean())
