"""Work recorded once for each shape of its arguments, then replayed in one call.

A training step is a thousand small operations, and asking for them takes Python longer than doing them takes a fast
device. CUDA can record them as a graph. On other devices, and where recording fails, the work is simply done.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

Work = Callable[[Sequence[Tensor]], dict[str, Tensor]]
# Done so often before it is recorded, so that libraries have chosen their kernels and rare shapes cost no memory.
BEFORE = 3


class Recording(NamedTuple):
    """inputs: where the arguments are put before the replay. outputs: where the results stand after it."""

    graph: torch.cuda.CUDAGraph
    inputs: list[Tensor]
    outputs: dict[str, Tensor]


class Captured:
    """`work` takes tensors and returns tensors; what else it changes must keep its place in memory (gradients that are
    copied into, not replaced), must not depend on anything but its arguments' values, and may not wait for the device.
    """

    def __init__(self, work: Work, device: torch.device) -> None:
        self.work = work
        self.able = device.type == "cuda"
        self.recordings: dict[tuple[object, ...], Recording] = {}
        self._done: dict[tuple[object, ...], int] = {}
        self._pool: Any = None

    def __call__(self, arguments: Sequence[Tensor]) -> dict[str, Tensor]:
        if not self.able:
            return self.work(arguments)
        key = tuple((item.shape, item.dtype) for item in arguments)
        if key not in self.recordings:
            self._done[key] = self._done.get(key, 0) + 1
            if self._done[key] <= BEFORE or not self._record(key, arguments):
                return self.work(arguments)
        recording = self.recordings[key]
        torch._foreach_copy_(recording.inputs, list(arguments))
        recording.graph.replay()
        # The next replay writes to the same places.
        return {name: value.clone() for name, value in recording.outputs.items()}

    def _record(self, key: tuple[object, ...], arguments: Sequence[Tensor]) -> bool:
        """Record the work for arguments of this shape; nothing is done yet. False where that is not possible."""
        inputs = [item.clone() for item in arguments]
        if self._pool is None:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        stream = torch.cuda.Stream()
        torch.cuda.synchronize()
        collecting = gc.isenabled()
        gc.disable()  # freeing a tensor meanwhile would end the recording
        try:
            with torch.cuda.stream(stream):
                # Another thread renders meanwhile and must not be taken for a part of it.
                graph.capture_begin(pool=self._pool, capture_error_mode="thread_local")
                try:
                    outputs = self.work(inputs)
                finally:
                    graph.capture_end()
        except RuntimeError as error:
            self.able = False
            print(f"cannot record a step, going on without: {str(error).splitlines()[0]}", flush=True)
            return False
        finally:
            if collecting:
                gc.enable()
        torch.cuda.current_stream().wait_stream(stream)
        self.recordings[key] = Recording(graph, inputs, outputs)
        return True
