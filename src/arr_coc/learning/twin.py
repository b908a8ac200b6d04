"""A bfloat16 twin that does the work of a float32 module: half the memory traffic, full-precision updates."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

Worker = TypeVar("Worker", bound=nn.Module)


class Twin(Generic[Worker]):
    """`worker` runs forward and backward in bfloat16; `master` keeps the weights and is what optimizers see.

    Buffers stay in float32: the rotary frequencies among them cannot be held in bfloat16.
    """

    def __init__(self, master: Worker, dtype: torch.dtype = torch.bfloat16) -> None:
        self.master = master
        self.worker = copy.deepcopy(master)
        for parameter in self.worker.parameters():
            parameter.data = parameter.data.to(dtype)
        self._pairs = list(zip(master.parameters(), self.worker.parameters(), strict=True))

    @torch.no_grad()
    def pull_gradients(self) -> None:
        """After backward: the worker's gradients, in float32, to the master."""
        for mine, theirs in self._pairs:
            mine.grad = None if theirs.grad is None else theirs.grad.to(mine.dtype)
            theirs.grad = None

    @torch.no_grad()
    def push_weights(self) -> None:
        """After the update: the master's weights to the worker."""
        torch._foreach_copy_([theirs for _, theirs in self._pairs], [mine for mine, _ in self._pairs])
