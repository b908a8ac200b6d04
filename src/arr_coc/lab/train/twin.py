"""A bfloat16 twin that does the work of a float32 module: half the memory traffic, full-precision updates."""

from __future__ import annotations

import copy
from typing import Generic, TypeVar

import torch
from torch import nn

Worker = TypeVar("Worker", bound=nn.Module)


class Twin(Generic[Worker]):
    """`worker` runs forward and backward in bfloat16; `master` keeps the weights and is what optimizers see.

    The master's gradients keep their memory: do not set them to None. Buffers stay in float32: the rotary frequencies
    among them cannot be held in bfloat16.
    """

    def __init__(self, master: Worker, dtype: torch.dtype = torch.bfloat16) -> None:
        self.master = master
        self.worker = copy.deepcopy(master)
        for parameter in self.worker.parameters():
            parameter.data = parameter.data.to(dtype)
        self._masters: list[torch.Tensor] = list(master.parameters())
        self._workers: list[torch.Tensor] = list(self.worker.parameters())
        for parameter in self._masters:
            parameter.grad = torch.zeros_like(parameter)

    @torch.no_grad()
    def pull_gradients(self) -> None:
        """After backward: the worker's gradients, in float32, to the master."""
        pairs = [
            (mine.grad, theirs.grad)
            for mine, theirs in zip(self._masters, self._workers, strict=True)
            if mine.grad is not None and theirs.grad is not None
        ]
        torch._foreach_copy_([mine for mine, _ in pairs], [theirs for _, theirs in pairs])
        for parameter in self._workers:
            parameter.grad = None

    @torch.no_grad()
    def push_weights(self) -> None:
        """After the update: the master's weights to the worker."""
        torch._foreach_copy_(self._workers, self._masters)
