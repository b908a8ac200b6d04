"""Rendering in the background: the next batches are painted while the present one is read.

Painting is many small launches; reading is few large ones, and its backward pass leaves Python idle. So a thread with a
CUDA stream of its own hides the one behind the other. On a CPU there is nothing to hide, and batches are made on
demand, which also keeps runs there repeatable.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any, Generic, TypeVar

import torch

Item = TypeVar("Item")


def each_tensor(value: Any, do: Callable[[torch.Tensor], object]) -> None:
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
