"""Work recorded once as a CUDA graph and replayed: for work whose launches take longer than the work.

A recording must not be disturbed: freeing another graph in the middle of one breaks both, and so may what another
thread does on the device. So there is one recording at a time, the garbage collector rests, graphs that fall out are
kept until it is over, and a thread that uses the device says so (`using_gpu`): none is recorded beside another one's
work, and none begins beside a recording. Who wants to record waits a moment for the others, and nobody new begins
meanwhile; a thread that waits for a lock of such a one steps aside (`gpu_lock`). What goes wrong in a recording never
reaches an answer: `GraphCache` then gives nothing, and its caller works plainly.
"""

from __future__ import annotations

import gc
import warnings
from collections import Counter, OrderedDict
from collections.abc import Callable, Generator, Hashable
from contextlib import contextmanager
from threading import Condition, Lock, get_ident
from time import monotonic
from typing import Any, ClassVar, Generic, TypeVar

import torch

Recorded = TypeVar("Recorded")

# Seconds that a thread waits for the others before it records, and for which none waits again where that was in vain.
PATIENCE, REST = 0.5, 10.0
# Graphs that nobody holds any more, while another one is recorded. None: nothing is being recorded.
_waiting: list[object] | None = None
# How often each thread has said that it uses the device, the one that records or wants to, and until when none waits.
_users: Counter[int] = Counter()
_recorder: int | None = None
_tired = 0.0
_gate = Condition()


class OthersAtWork(RuntimeError):
    """Another thread uses the device, so that nothing can be recorded now."""


@contextmanager
def using_gpu(device: torch.device) -> Generator[None]:
    """This thread uses a CUDA device: it begins when no other thread records, and none records before its end."""
    if device.type != "cuda":
        yield
        return
    me = get_ident()
    _enter(me, 1)
    try:
        yield
    finally:
        _leave(me, 1)


def _enter(me: int, times: int) -> None:
    with _gate:
        _gate.wait_for(lambda: _recorder in (None, me) or me in _users)
        _users[me] += times


def _leave(me: int, times: int) -> None:
    with _gate:
        _users[me] -= times
        if _users[me] <= 0:  # below it only where a thread was stopped while it stood aside
            del _users[me]
        _gate.notify_all()


@contextmanager
def gpu_lock(lock: Lock) -> Generator[None]:
    """Hold a lock under which graphs are recorded. While another thread has it, this one does not count among those
    that use the device, or that one could not record."""
    me = get_ident()
    if not lock.acquire(blocking=False):
        with _gate:
            times = _users[me]
        if times:
            _leave(me, times)
        lock.acquire()
        if times:
            _enter(me, times)
    try:
        yield
    finally:
        lock.release()


@contextmanager
def _alone() -> Generator[None]:
    """Nobody else uses the device until the end. Raises `OthersAtWork` where others go on for long, or where another
    thread records or wants to: two would wait for each other."""
    global _recorder, _tired
    me = get_ident()
    with _gate:
        if _recorder not in (None, me):
            raise OthersAtWork("another thread records")
        before, _recorder = _recorder, me
        patience = PATIENCE if monotonic() > _tired else 0
        if not _gate.wait_for(lambda: not _users.keys() - {me}, patience):
            _recorder = before
            _tired = max(_tired, monotonic() + REST) if patience else _tired
            _gate.notify_all()
            raise OthersAtWork("another thread uses the device")
    try:
        yield
    finally:
        with _gate:
            _recorder = before
            _gate.notify_all()


@contextmanager
def undisturbed() -> Generator[None]:
    """One recording at a time, beside nobody's work; nothing is collected and no graph is freed before it is over."""
    global _waiting
    with _alone():
        collects, outermost = gc.isenabled(), _waiting is None
        gc.disable()
        _waiting = [] if outermost else _waiting
        try:
            yield
        finally:
            if collects:
                gc.enable()
            if outermost:
                _waiting = None


@contextmanager
def ordinary_tensors() -> Generator[None]:
    """No gradients, and tensors that every later caller may write to: those that are made in inference mode may be
    written to there only."""
    with torch.inference_mode(False), torch.no_grad():
        yield


class CudaGraph(Generic[Recorded]):
    """A function without arguments that reads and writes tensors which stay where they are.

    On a CUDA device it is captured once and replayed; elsewhere it is called. What it returns is overwritten by the
    next call. count: how many were recorded in this process.
    """

    count: ClassVar[int] = 0

    def __init__(self, work: Callable[[], Recorded], device: torch.device, *, recorded: bool = True) -> None:
        """recorded: False calls the function on a CUDA device too."""
        self.work = work
        self.graph: torch.cuda.CUDAGraph | None = None
        self.result: Any = None
        if recorded and device.type == "cuda":
            with undisturbed(), torch.cuda.device(device):
                self._record()

    def _record(self) -> None:
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream), torch.no_grad():
            for _ in range(2):  # lets libraries choose their kernels and workspaces outside of the capture
                self.work()
        torch.cuda.current_stream().wait_stream(stream)
        graph, before = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        try:
            with torch.cuda.graph(graph, stream=stream, capture_error_mode="thread_local"), torch.no_grad():
                result = self.work()
        finally:  # where ending a recording fails, torch leaves this thread on the stream of the recording
            torch.cuda.set_stream(before)
        self.graph, self.result = graph, result
        CudaGraph.count += 1

    def __call__(self) -> Recorded:
        if self.graph is None:
            with torch.no_grad():
                return self.work()
        self.graph.replay()
        return self.result

    def __del__(self) -> None:
        held, waiting = (self.__dict__.pop("graph", None), self.__dict__.pop("result", None)), _waiting
        if held[0] is not None and waiting is not None:
            waiting.append(held)


class GraphCache(Generic[Recorded]):
    """What was recorded, by key: at most `most`, the one that was used longest ago goes first.

    A key is recorded when it comes for the second time: a recording costs more than one use saves. A key whose
    recording failed is never tried again; one that came beside another thread's work is. One thread at a time.
    """

    def __init__(self, most: int, name: str, seen: int = 256) -> None:
        """name: what is recorded, for the warning. seen: so many keys are remembered that came once or failed."""
        self.most, self.name, self.seen = most, name, seen
        self.held: OrderedDict[Hashable, Recorded] = OrderedDict()
        self.once: OrderedDict[Hashable, bool] = OrderedDict()

    def __len__(self) -> int:
        return len(self.held)

    def __contains__(self, key: Hashable) -> bool:
        return key in self.held

    def get(self, key: Hashable, record: Callable[[], Recorded], at_once: bool = False) -> Recorded | None:
        """What was recorded for a key.

        Args:
            key: Of the shapes that a recording serves.
            record: Makes it.
            at_once: Record a key that comes for the first time.

        Returns:
            It, or None where the caller must do the work without it.
        """
        if key in self.held:
            self.held.move_to_end(key)
            return self.held[key]
        failed = self.once.get(key)
        if failed or (failed is None and not at_once):
            self._remember(key, bool(failed))
            return None
        while len(self.held) >= self.most:  # before the recording, never in it
            self.held.popitem(last=False)
        try:
            made = record()
        except OthersAtWork:
            self._remember(key, False)
            return None
        except Exception as error:  # whatever it is, the plain way gives the same answer
            self._remember(key, True)
            line = f"{type(error).__name__}: {error}".splitlines()[0]
            warnings.warn(f"no CUDA graph of {self.name} for this size ({line}); it runs without one", stacklevel=2)
            return None
        self.once.pop(key, None)
        self.held[key] = made
        return made

    def _remember(self, key: Hashable, failed: bool) -> None:
        self.once[key] = failed
        self.once.move_to_end(key)
        while len(self.once) > self.seen:
            self.once.popitem(last=False)
