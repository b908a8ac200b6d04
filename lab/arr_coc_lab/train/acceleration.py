"""What keeps a fast device busy: rendering in the background, a bfloat16 twin, batched Muon."""

from __future__ import annotations

import copy
import math
import queue
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

# ---- Rendering in the background: the next batches are painted while the present one is read -------------------------
# Painting is many small launches; reading is few large ones, and its backward pass leaves Python idle. So a thread with
# a CUDA stream of its own hides the one behind the other. On a CPU there is nothing to hide, and batches are made on
# demand, which also keeps runs there repeatable.

Item = TypeVar("Item")


def each_tensor(value: object, do: Callable[[torch.Tensor], object]) -> None:
    """Visit every tensor of a nest of dataclasses and tuples."""
    if isinstance(value, torch.Tensor):
        do(value)
    elif is_dataclass(value) and not isinstance(value, type):
        for item in fields(value):
            each_tensor(getattr(value, item.name), do)
    elif isinstance(value, tuple | list):
        for item in value:
            each_tensor(item, do)


class Prefetcher(Generic[Item]):
    """`next()` gives what `make()` makes, on a CUDA device a few items ahead. A context manager; it ends its thread."""

    def __init__(self, make: Callable[[], Item], device: torch.device, ahead: int = 3) -> None:
        self._make = make
        self._device = device
        self._ready: queue.Queue[tuple[Item, torch.cuda.Event] | BaseException] = queue.Queue(maxsize=ahead)
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> Prefetcher[Item]:
        if self._device.type == "cuda":
            self._thread = threading.Thread(target=self._run, name="prefetch", daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        if self._thread is not None:
            while self._thread.is_alive():
                try:  # make room, so that a thread waiting to hand over can see that it should stop
                    self._ready.get_nowait()
                except queue.Empty:
                    self._thread.join(timeout=0.05)

    def _run(self) -> None:
        stream = torch.cuda.Stream(self._device)
        try:
            with torch.cuda.device(self._device), torch.cuda.stream(stream):
                while not self._stopping.is_set():
                    item = self._make()
                    done = torch.cuda.Event()
                    done.record(stream)
                    self._ready.put((item, done))
        except BaseException as error:  # handed to the reader, who raises it
            self._ready.put(error)

    @property
    def ready(self) -> bool:
        """Whether `next()` would return at once, or is the only way to get anything."""
        return self._thread is None or not self._ready.empty()

    def next(self) -> Item:
        if self._thread is None:
            return self._make()
        found = self._ready.get()
        if isinstance(found, BaseException):
            raise found
        item, done = found
        present = torch.cuda.current_stream(self._device)
        present.wait_event(done)
        # The memory belongs to the other stream: it must not be handed out again while this one still reads it.
        each_tensor(item, lambda tensor: tensor.record_stream(present))
        return item


# ----------------------------------------------------------------------------------------------------------------------
# A bfloat16 twin that does the work of a float32 module: half the memory traffic, full-precision updates.

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

    def without_gradient(self) -> list[Tensor]:
        """After backward, before `pull_gradients`: the master's weights that had no part in it."""
        return [mine for mine, theirs in zip(self._masters, self._workers, strict=True) if theirs.grad is None]

    @torch.no_grad()
    def push_weights(self) -> None:
        """After the update: the master's weights to the worker."""
        torch._foreach_copy_(self._workers, self._masters)


# ---- Which optimizer moves which weights, and torch's Muon for all matrices of one shape at once ---------------------
# The stock optimizer orthogonalises matrix after matrix; on a small model its launches cost a tenth of the training. A
# test holds this one equal to it.


class BatchedMuon(torch.optim.Muon):
    """Same arguments, same result, a few launches for each shape instead of dozens for each matrix."""

    @torch.no_grad()
    def step(self, closure: Callable[[], object] | None = None) -> Any:
        loss = closure() if closure is not None else None
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                self._step_shape(group, shape, parameters)
        return loss

    def _step_shape(self, group: dict[str, Any], shape: torch.Size, parameters: list[Tensor]) -> None:
        buffers = []
        for parameter in parameters:
            state = self.state[parameter]
            if "momentum_buffer" not in state:
                state["momentum_buffer"] = torch.zeros_like(parameter)
            buffers.append(state["momentum_buffer"])
        gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
        torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
        wanted = torch._foreach_lerp(gradients, buffers, group["momentum"]) if group["nesterov"] else buffers
        update = orthogonalise(torch.stack(list(wanted)), group["ns_coefficients"], group["ns_steps"], group["eps"])
        rate = group["lr"] * (
            0.2 * math.sqrt(max(shape))
            if group["adjust_lr_fn"] == "match_rms_adamw"
            else math.sqrt(max(1, shape[0] / shape[1]))
        )
        torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
        torch._foreach_add_(parameters, list(update.to(parameters[0].dtype).unbind(0)), alpha=-rate)


def orthogonalise(gradients: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """(n, rows, cols) → their nearest semi-orthogonal matrices, by the quintic Newton–Schulz iteration: in bfloat16 on
    a GPU; processors without its instructions take many times as long for it, and do not give the same bits twice."""
    a, b, c = coefficients
    matrices = gradients.bfloat16() if gradients.is_cuda else gradients.float()
    tall = matrices.shape[1] > matrices.shape[2]
    if tall:
        matrices = matrices.mT
    matrices = matrices / matrices.norm(dim=(1, 2), keepdim=True).clamp(min=eps)
    for _ in range(steps):
        gram = matrices @ matrices.mT
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        matrices = torch.baddbmm(matrices, polynomial, matrices, beta=a)
    return matrices.mT if tall else matrices


def make_optimizers(
    module: nn.Module, outside: Sequence[str], more: Iterable[nn.Parameter], rate: float, decay: float
) -> list[torch.optim.Optimizer]:
    """Muon for the matrices of a module whose names have no part that is `outside`, AdamW for everything else."""
    matrices = [
        value
        for name, value in module.named_parameters()
        if value.requires_grad and value.ndim == 2 and not any(part in name for part in outside)
    ]
    known = {id(value) for value in matrices}
    rest = [value for value in [*module.parameters(), *more] if value.requires_grad and id(value) not in known]
    fused = rest[0].device.type == "cuda"
    return [
        BatchedMuon(matrices, lr=rate, weight_decay=decay, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(rest, lr=rate, weight_decay=decay, betas=(0.9, 0.98), fused=fused),
    ]
