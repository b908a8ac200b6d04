"""One training step on one device or on many: a thin wrapper around accelerate (extra `[train]`).

Start several processes with `torchrun` or `accelerate launch`; with one process nothing of accelerate is needed or
loaded. Every process prepares the same global batch and the same noise, and takes its own equal slice; gradients are
averaged, so the result is that of one process with the whole batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from arr_coc.core.errors import InputError

Module = TypeVar("Module", bound=nn.Module)
LARGEST_GRADIENT = 1.0


class Devices:
    """Where the training runs. `device`: of this process; `processes`: how many there are; `index`: which this is."""

    def __init__(self, device: str = "", processes: int | None = None) -> None:
        """device: cpu, cuda, cuda:1; empty: a GPU where there is one. processes: how many there are; None: as many as
        the launcher says it started."""
        started = int(os.environ.get("WORLD_SIZE", "1"))
        if processes is not None and processes != started:
            raise InputError(f"{processes} processes wanted, {started} started; use torchrun --nproc-per-node")
        self.accelerator: Any = None
        if started > 1:
            try:
                from accelerate import Accelerator
            except ImportError as error:
                raise InputError(
                    "training across devices needs accelerate; install the extra: pip install 'arr-coc[train]'"
                ) from error
            self.accelerator = Accelerator(cpu=device == "cpu")
            self.device: torch.device = self.accelerator.device
            self.processes: int = self.accelerator.num_processes
            self.index: int = self.accelerator.process_index
        else:
            self.device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
            self.processes, self.index = 1, 0

    @property
    def is_main(self) -> bool:
        return self.index == 0

    def prepare(self, module: nn.Module, *optimizers: torch.optim.Optimizer) -> tuple[Any, ...]:
        """The module and its optimizers, ready to be trained by all processes together."""
        module = module.to(self.device)
        return self.accelerator.prepare(module, *optimizers) if self.accelerator else (module, *optimizers)

    def slice_of(self, number: int) -> slice:
        """This process's part of a global batch."""
        if number % self.processes:
            raise InputError(
                f"a batch of {number} does not divide among {self.processes} processes; make it a multiple"
            )
        own = number // self.processes
        return slice(self.index * own, (self.index + 1) * own)

    def backward(self, loss: Tensor) -> None:
        if self.accelerator:
            self.accelerator.backward(loss)
        else:
            loss.backward()

    def clip(self, parameters: Iterable[nn.Parameter], largest: float = LARGEST_GRADIENT) -> Tensor:
        """Clip the norm of the averaged gradient."""
        if self.accelerator:
            return self.accelerator.clip_grad_norm_(parameters, largest)
        return nn.utils.clip_grad_norm_(parameters, largest)

    def mean(self, value: Tensor) -> Tensor:
        """A number averaged over the processes, for records."""
        return self.accelerator.reduce(value, reduction="mean") if self.accelerator else value

    def agree(self, value: float) -> float:
        """The first process's number, so that all stop and save at the same step."""
        if not self.accelerator:
            return value
        from accelerate.utils import broadcast

        # float64 would not travel on every accelerator; seconds of a run fit float32.
        told = broadcast(torch.tensor([value], dtype=torch.float32, device=self.device))
        return float(told[0])

    def wait(self) -> None:
        if self.accelerator:
            self.accelerator.wait_for_everyone()

    def close(self) -> None:
        """Take leave of the other processes."""
        if self.accelerator:
            self.accelerator.end_training()
