"""A function recorded once as a CUDA graph and replayed: for work whose launches take longer than the work."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch


class CudaGraph:
    """A function without arguments that reads and writes tensors which stay where they are.

    On a CUDA device it is captured once and replayed; elsewhere it is called. What it returns is overwritten by the
    next call.
    """

    def __init__(self, work: Callable[[], Any], device: torch.device) -> None:
        self.work = work
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Any = None
        if device.type != "cuda":
            return
        with torch.cuda.device(device):
            stream = torch.cuda.Stream()
            stream.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(stream), torch.no_grad():
                for _ in range(2):  # lets libraries choose their kernels and workspaces outside of the capture
                    work()
            torch.cuda.current_stream().wait_stream(stream)
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph, capture_error_mode="thread_local"), torch.no_grad():
                self.result = work()

    def __call__(self) -> Any:
        if self.graph is None:
            with torch.no_grad():
                return self.work()
        self.graph.replay()
        return self.result
