"""The learned scorer on a CUDA device: in half precision, one picture at a time by graphs of its size."""

from __future__ import annotations

from threading import Lock
from typing import Any

import torch

from ...core.cuda_graph import CudaGraph, GraphCache

MOST_GRAPHS = 8  # two for each size of picture


class GpuScorer:
    """A scorer on a CUDA device. One picture at a time is replayed from graphs of its size, one that sees and one that
    finds: launching their kernels would take longer than running them. One thread at a time."""

    def __init__(self, scorer: Any) -> None:
        self.scorer = scorer
        self.graphs: GraphCache[GpuPart] = GraphCache(MOST_GRAPHS, "the scorer")
        self.lock = Lock()

    def score(self, pictures: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """(B, 3, H, W), (B, L) → (B, rows, cols) in [0, 1]."""
        if not hasattr(self.scorer, "see"):  # of another package
            return self._run(self.scorer.score, pictures, ids)
        return self.find(self.see(self.padded(pictures)), ids).float().sigmoid()

    def padded(self, pictures: torch.Tensor) -> torch.Tensor:
        """Pictures of any size as `see` takes them."""
        return self.scorer.padded(pictures).contiguous(memory_format=torch.channels_last)

    def see(self, pictures: torch.Tensor) -> torch.Tensor:
        """What is read of pictures, whatever is asked."""
        return self._run(self.scorer.see, pictures)

    def find(self, features: torch.Tensor, ids: torch.Tensor) -> torch.Tensor:
        """The logits of questions about what `see` gave."""
        return self._run(self.scorer.find, features, ids)

    def _run(self, work: Any, *given: torch.Tensor) -> torch.Tensor:
        """A part of the scorer, in half precision; of one picture by a graph."""
        device = given[0].device
        half: dict[str, Any] = {"dtype": torch.bfloat16, "cache_enabled": False}
        with self.lock, torch.backends.cudnn.flags(benchmark=True), torch.autocast(device.type, **half):
            if len(given[0]) > 1:
                with torch.no_grad():
                    return work(*given)
            key = (work.__name__, *(tuple(one.shape) for one in given))
            found = self.graphs.get(key, lambda: GpuPart(work, given))
            if found is None:
                with torch.no_grad():
                    return work(*given)
            return found(given)


class GpuPart:
    """A part of a scorer, recorded for tensors of one shape."""

    def __init__(self, work: Any, given: tuple[torch.Tensor, ...]) -> None:
        self.inside = tuple(one.clone() for one in given)
        self.run = CudaGraph(lambda: work(*self.inside), given[0].device)

    def __call__(self, given: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """What it gives, as a copy: the next call, perhaps of another thread, overwrites the graph's own."""
        for into, one in zip(self.inside, given, strict=True):
            into.copy_(one)
        return self.run().clone()
