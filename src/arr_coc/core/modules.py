"""Shared parts of torch networks: `Pretrained` saves one to a folder and loads it, `Recordings` replays work on tensors
as CUDA graphs, for work whose kernel launches take longer than the kernels.

A recording must not be disturbed: freeing another graph during it breaks both, and so may work of another thread on the
device. So threads use the device inside `using_gpu`; a recording is made only while no other thread is inside, and none
enters until it ends. Meanwhile the garbage collector is off. Where none is possible, the work runs without one.
"""

from __future__ import annotations

import gc
import json
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from threading import Condition, Lock, get_ident
from typing import Any, ClassVar, Self

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from torch.utils._pytree import tree_map

from .errors import InputError
from .folders import verify, whole_folder, write_json

WEIGHTS_NAME = "model.safetensors"
CONFIG_NAME = "config.json"


class Pretrained(nn.Module):
    """A module built from one dataclass of plain values, `config`; a subclass sets `config_class`."""

    config_class: ClassVar[type]

    def __init__(self, config: Any) -> None:
        super().__init__()
        self.config = config

    def save_pretrained(self, folder: str | Path) -> None:
        """Write config.json and model.safetensors, and their hashes."""
        with whole_folder(folder) as made:
            save_file({name: value.contiguous() for name, value in self.state_dict().items()}, made / WEIGHTS_NAME)
            write_json(made / CONFIG_NAME, {"kind": type(self).__name__, **asdict(self.config)})

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Self:
        """Load what `save_pretrained` wrote, in evaluation mode (call `.train()` to continue training)."""
        folder, kind = Path(folder), cls.__name__
        verify(folder)
        try:
            settings = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8"))
            found = settings.pop("kind", None)
            if found != kind:
                raise ValueError(f"it holds a {found or 'module of unknown kind'}")
            module = cls(cls.config_class(**settings))
            module.load_state_dict(load_file(folder / WEIGHTS_NAME))
        except (OSError, ValueError, TypeError, AttributeError, RuntimeError, SafetensorError) as error:
            raise InputError(
                f"no {kind} could be read from {folder}: it needs {CONFIG_NAME} and {WEIGHTS_NAME} as save_pretrained "
                f"writes them ({error})"
            ) from error
        return module.eval()


# ---- CUDA graphs -----------------------------------------------------------------------------------------------------

# Number of `using_gpu` blocks that each thread is in, and the thread that records.
_users: Counter[int] = Counter()
_recorder: int | None = None
_gate = Condition()
# Maximum number of remembered keys that came once or whose recording failed.
MOST_SEEN = 256


class OthersAtWork(RuntimeError):
    """Another thread uses the device, so nothing can be recorded now."""


@contextmanager
def using_gpu(device: torch.device) -> Generator[None]:
    """Use a CUDA device in this thread: wait for a recording to end, and let none begin until this block ends."""
    if device.type != "cuda":
        yield
        return
    me = get_ident()
    with _gate:
        _gate.wait_for(lambda: _recorder in (None, me) or me in _users)
        _users[me] += 1
    try:
        yield
    finally:
        with _gate:
            _users[me] -= 1
            if not _users[me]:
                del _users[me]


@contextmanager
def alone_on_gpu() -> Generator[None]:
    """Keep other threads off the device and turn garbage collection off. Raises `OthersAtWork`."""
    global _recorder
    with _gate:
        if _recorder is not None or _users.keys() - {get_ident()}:
            raise OthersAtWork
        _recorder = get_ident()
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            gc.enable()
        with _gate:
            _recorder = None
            _gate.notify_all()


class Recording:
    """A function of tensors, recorded for tensors of one shape; on a CPU it is simply called."""

    def __init__(self, work: Callable[..., object], given: Sequence[Tensor]) -> None:
        self.work, self.inputs = work, tuple(one.clone() for one in given)
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Any = None
        device = given[0].device
        if device.type == "cuda":
            # `enabled` must be passed: without it these flags turn cuDNN off.
            flags = torch.backends.cudnn.flags(enabled=True, benchmark=True)
            with alone_on_gpu(), torch.cuda.device(device), flags:
                self._record()

    def _record(self) -> None:
        stream, before = torch.cuda.Stream(), torch.cuda.current_stream()
        stream.wait_stream(before)
        with torch.cuda.stream(stream):
            for _ in range(2):  # lets libraries choose their kernels and workspaces outside of the recording
                self.work(*self.inputs)
        before.wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"):
                self.result = self.work(*self.inputs)
        finally:  # if ending a recording fails, torch leaves this thread on its stream
            torch.cuda.set_stream(before)
        self.graph = graph

    def __call__(self, given: Sequence[Tensor]) -> Any:
        """Replay the recording; the result is a copy, because the next call overwrites the graph's own."""
        for into, one in zip(self.inputs, given, strict=True):
            into.copy_(one)
        if self.graph is None:
            return self.work(*self.inputs)
        self.graph.replay()
        return tree_map(lambda one: one.clone() if isinstance(one, Tensor) else one, self.result)

    def __del__(self) -> None:
        with _gate:  # freeing a graph during another thread's recording would break that recording
            _gate.wait_for(lambda: _recorder in (None, get_ident()))
            self.graph = self.result = None


class Recordings:
    """The recordings of one model, at most `most`; the least recently used is dropped.

    A recording costs more than one use saves, so it is made when its key comes for the second time. A key whose
    recording failed is not tried again, unless another thread was using the device.
    """

    def __init__(self, most: int, name: str) -> None:
        """Make an empty store. name: what is recorded, for warnings."""
        self.most, self.name = most, name
        self.held: OrderedDict[Hashable, Recording] = OrderedDict()
        self.failed: dict[Hashable, bool] = {}  # of keys that came before and are not held
        self.busy = Lock()

    def run(self, key: Hashable, work: Callable[..., object], *given: Tensor) -> Any:
        """Return `work(*given)`, replayed from its recording if there is one; the caller owns the result.

        Args:
            key: What the work depends on besides the shapes of its tensors; equal keys must mean the same work.
            work: A function of tensors only that returns tensors or tuples of them. A recording keeps a reference.
            *given: The tensors.
        """
        key = (key, *(tuple(one.shape) for one in given))
        # No gradients, and not inference mode, whose tensors later callers could not write to.
        with using_gpu(given[0].device), torch.inference_mode(False), torch.no_grad():
            if not self.busy.acquire(blocking=False):  # another thread replays
                return work(*given)
            try:
                found = self._find(key, work, given)
                return work(*given) if found is None else found(given)
            finally:
                self.busy.release()

    def forget(self, key: Hashable) -> None:
        """Drop the recordings of a key, whatever their shapes."""
        for one in [one for one in self.held if isinstance(one, tuple) and one[0] == key]:
            del self.held[one]

    def _find(self, key: Hashable, work: Callable[..., object], given: Sequence[Tensor]) -> Recording | None:
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        if self.failed.get(key, True):  # or it comes for the first time
            if len(self.failed) >= MOST_SEEN:
                self.failed.clear()
            self.failed.setdefault(key, False)
            return None
        while len(self.held) >= self.most:  # before the recording, never in it
            self.held.popitem(last=False)
        try:
            self.held[key] = Recording(work, given)
        except OthersAtWork:
            return None
        except Exception as error:  # for any reason: without a recording the result is the same
            self.failed[key] = True
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"no CUDA graph of {self.name} for this size ({line}); it runs without one", stacklevel=4)
            return None
        del self.failed[key]
        return self.held[key]
