"""What keeps a fast device busy: rendering in the background, a bfloat16 twin, batched Muon."""

from __future__ import annotations

import copy
import math
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

# ---- Rendering in the background: the next batches are painted while the present one is read -------------------------
# Painting is many small launches; reading is few large ones, and its backward pass leaves Python idle. So a thread with
# a CUDA stream of its own hides the one behind the other. On a CPU there is nothing to hide, and batches are made on
# demand, which also keeps runs there repeatable.

Item = TypeVar("Item")
AHEAD = 3


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

    def __init__(self, make: Callable[[], Item], device: torch.device) -> None:
        self.make, self.device = make, device
        self.pool: ThreadPoolExecutor | None = None
        self.waiting: deque[Future[tuple[Item, torch.cuda.Event]]] = deque()

    def __enter__(self) -> Prefetcher[Item]:
        if self.device.type == "cuda":
            self.pool, self.stream = ThreadPoolExecutor(1, "prefetch"), torch.cuda.Stream(self.device)
            self.waiting.extend(self.pool.submit(self._work) for _ in range(AHEAD))
        return self

    def __exit__(self, *_: object) -> None:
        if self.pool is not None:
            self.pool.shutdown(cancel_futures=True)

    def _work(self) -> tuple[Item, torch.cuda.Event]:
        with torch.cuda.device(self.device), torch.cuda.stream(self.stream):
            item, done = self.make(), torch.cuda.Event()
            done.record(self.stream)
            return item, done

    @property
    def ready(self) -> bool:
        """Whether `next()` would return at once, or is the only way to get anything."""
        return self.pool is None or self.waiting[0].done()

    def next(self) -> Item:
        if self.pool is None:
            return self.make()
        item, done = self.waiting.popleft().result()
        self.waiting.append(self.pool.submit(self._work))
        present = torch.cuda.current_stream(self.device)
        present.wait_event(done)
        # The memory belongs to the other stream: it must not be handed out again while this one still reads it.
        each_tensor(item, lambda tensor: tensor.record_stream(present))
        return item


# ----------------------------------------------------------------------------------------------------------------------
# A bfloat16 twin that does the work of a float32 module: half the memory traffic, full-precision updates.

Worker = TypeVar("Worker", bound=nn.Module)


class Twin(Generic[Worker]):
    """`worker` runs forward and backward in bfloat16; `master` keeps the weights and is what optimizers see. Buffers
    stay in float32: the rotary frequencies among them cannot be held in bfloat16."""

    def __init__(self, master: Worker, dtype: torch.dtype = torch.bfloat16) -> None:
        self.master = master
        self.worker = copy.deepcopy(master)
        for parameter in self.worker.parameters():
            parameter.data = parameter.data.to(dtype)
        self._pairs = list(zip(master.parameters(), self.worker.parameters(), strict=True))

    def pull_gradients(self) -> None:
        """After backward: the worker's gradients, in the master's precision; none where the weights had no part."""
        for mine, theirs in self._pairs:
            mine.grad = None if theirs.grad is None else theirs.grad.to(mine.dtype)
            theirs.grad = None

    @torch.no_grad()
    def push_weights(self) -> None:
        """After the update: the master's weights to the worker."""
        torch._foreach_copy_([theirs for _, theirs in self._pairs], [mine for mine, _ in self._pairs])


# ---- Which optimizer moves which weights, and torch's Muon for all matrices of one shape at once ---------------------
# The stock optimizer orthogonalises matrix after matrix; on a small model its launches cost a tenth of the training. A
# test holds this one equal to it.


class BatchedMuon(torch.optim.Muon):
    """Nesterov's momentum and AdamW's scale as the stock class has them, with a few launches for each shape instead of
    dozens for each matrix."""

    @torch.no_grad()
    def step(self, closure: Callable[[], object] | None = None) -> Any:
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for parameter in group["params"]:
                if parameter.grad is not None:
                    shapes[parameter.shape].append(parameter)
            for shape, parameters in shapes.items():
                states = [self.state[parameter] for parameter in parameters]
                for state, parameter in zip(states, parameters, strict=True):
                    state.setdefault("momentum_buffer", torch.zeros_like(parameter))
                buffers = [state["momentum_buffer"] for state in states]
                gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
                torch._foreach_lerp_(buffers, gradients, 1 - group["momentum"])
                wanted = torch.stack(list(torch._foreach_lerp(gradients, buffers, group["momentum"])))
                update = orthogonalise(wanted, group["ns_coefficients"], group["ns_steps"], group["eps"])
                torch._foreach_mul_(parameters, 1 - group["lr"] * group["weight_decay"])
                rate = group["lr"] * 0.2 * math.sqrt(max(shape))
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
