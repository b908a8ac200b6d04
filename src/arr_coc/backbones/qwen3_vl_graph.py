"""The vision tower as one CUDA graph: for single pictures, where launching kernels takes longer than running them.

An exact budget makes it possible: whatever the question, the picture becomes the same number of patches, so one capture
serves all. Positions are inputs of the graph like the patches are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ..errors import InputError
from ..realizing.patches import LeafBatch
from .qwen3_vl_encode import VisualTokens, encode_leaves

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TowerGraph:
    """Captured once from an example, called like `encode_leaves` without the model, for that number of leaves.

    The result of a call is overwritten by the next one; clone what must last. Weights may be changed in place, but not
    replaced. One thread at a time.
    """

    def __init__(self, model: PreTrainedModel, patches: Tensor, batch: LeafBatch) -> None:
        if patches.device.type != "cuda":
            raise InputError(f"a CUDA graph needs a CUDA device, the patches are on {patches.device}")
        self.patches, self.leaves, self.owner, self.grid = (
            item.clone() for item in (patches, batch.leaves, batch.owner, batch.grid)
        )
        self.counts = batch.counts
        fixed = LeafBatch(self.leaves, self.owner, self.grid, batch.counts, batch.levels)
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(2):  # lets libraries choose their kernels and workspaces outside of the capture
                encode_leaves(model, self.patches, fixed)
        torch.cuda.current_stream().wait_stream(stream)
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph), torch.no_grad():
            self.tokens = encode_leaves(model, self.patches, fixed)

    def __call__(self, patches: Tensor, batch: LeafBatch) -> VisualTokens:
        if batch.counts != self.counts:
            raise InputError(f"this graph is for pictures of {self.counts} leaves, got {batch.counts}")
        self.patches.copy_(patches)
        self.leaves.copy_(batch.leaves)
        self.owner.copy_(batch.owner)
        self.grid.copy_(batch.grid)
        self.graph.replay()
        return self.tokens
