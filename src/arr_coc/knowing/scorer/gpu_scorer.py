"""The learned scorer on a CUDA device: in half precision, by graphs of the size of its pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

import torch
from torch import nn

from ...core.cuda_graph import CudaGraph, GraphCache, gpu_lock, ordinary_tensors, using_gpu

MOST_GRAPHS = 8  # two for each size of picture
# Pixels of a batch that is recorded: launching takes longer than the work of smaller ones, and memory is held for each.
MOST_RECORDED = 12 * 1024 * 1024


class GpuScorer:
    """A scorer on a CUDA device. Pictures are replayed from graphs of their size and number, one that sees and one that
    finds: launching their kernels would take longer than running them. One thread at a time."""

    def __init__(self, scorer: Any, most: int = MOST_RECORDED) -> None:
        """most: pixels of a batch that is recorded; of single pictures any."""
        self.scorer, self.most = scorer, most
        self.graphs: GraphCache[GpuPart] = GraphCache(MOST_GRAPHS, "the scorer")
        self.lock = Lock()
        # What is in half precision already needs nobody who casts: that would cost a copy for each norm.
        self.casts = not isinstance(scorer, nn.Module) or any(one.dtype.itemsize > 2 for one in scorer.parameters())

    def score(self, pictures: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W), (B or 1, L) → (B, rows, cols) in [0, 1]."""
        if not hasattr(self.scorer, "see"):  # of another package
            return self._run(self.scorer.score, pictures.shape, pictures, ids)
        return self.find(self.see(self.padded(pictures)), ids).float().sigmoid()

    def padded(self, pictures: torch.Tensor) -> torch.Tensor:
        """Pictures of any size as `see` takes them."""
        return self.scorer.padded(pictures).contiguous(memory_format=torch.channels_last)

    def see(self, pictures: torch.Tensor) -> torch.Tensor:
        """What is read of pictures, whatever is asked."""
        return self._run(self.scorer.see, pictures.shape, pictures)

    def find(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """The logits of questions about what `see` gave."""
        batch, _, rows, cols = features.shape
        return self._run(self.scorer.find, (batch, 3, 8 * rows, 8 * cols), features, ids)

    def _run(self, work: Callable[..., torch.Tensor], shape: Sequence[int], *given: torch.Tensor) -> torch.Tensor:
        """A part of the scorer, in half precision; by a graph where it came before. shape: of the pictures."""
        device = given[0].device
        half = torch.autocast(device.type, torch.bfloat16, self.casts, cache_enabled=False)
        with using_gpu(device), gpu_lock(self.lock), ordinary_tensors(), half:
            if shape[0] > 1 and shape[0] * shape[2] * shape[3] > self.most:
                return work(*given)
            key = (getattr(work, "__name__", ""), *(tuple(one.shape) for one in given))
            found = self.graphs.get(key, lambda: GpuPart(work, given))
            return work(*given) if found is None else found(given)


class GpuPart:
    """A part of a scorer, recorded for tensors of one shape."""

    def __init__(self, work: Callable[..., torch.Tensor], given: tuple[torch.Tensor, ...]) -> None:
        self.inside = tuple(one.clone() for one in given)
        # `enabled` must be said: without it these flags turn cuDNN off.
        with torch.backends.cudnn.flags(enabled=True, benchmark=True):
            self.run = CudaGraph(lambda: work(*self.inside), given[0].device)

    def __call__(self, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """What it gives, as a copy: the next call, perhaps of another thread, overwrites the graph's own."""
        for into, one in zip(self.inside, given, strict=True):
            into.copy_(one)
        return self.run().clone()
