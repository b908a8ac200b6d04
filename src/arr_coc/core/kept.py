"""What a process keeps: results by the pixels they were computed from, up to a number of bytes; and helping threads."""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import fields, is_dataclass
from functools import cache
from threading import Lock
from typing import Any, TypeVar

import numpy as np

Made = TypeVar("Made")


@cache
def helpers(kind: str) -> ThreadPoolExecutor:
    """Return the threads for a kind of short work; such work must not wait for other work of its kind."""
    return ThreadPoolExecutor(16, f"arr-coc {kind}")


if hasattr(os, "register_at_fork"):  # threads do not exist in a forked process
    os.register_at_fork(after_in_child=helpers.cache_clear)


def bytes_of(value: object) -> int:
    """Count the bytes of all arrays and tensors inside tuples, lists, mappings and dataclasses."""
    if (size := getattr(value, "nbytes", None)) is not None:
        return int(size)
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, Mapping):
        return sum(map(bytes_of, value.values()))
    return sum(map(bytes_of, value)) if isinstance(value, tuple | list) else 0


def pixels_key(pixels: np.ndarray) -> str:
    """Return a key for pixels and their shape, valid in this process only."""
    # Python's 64-bit hash with a secret key, a fifth of the time of SHA-256.
    return f"{hash(pixels.tobytes())} {pixels.shape} {pixels.dtype}"


class ByteStore:
    """A thread-safe cache of the most recently used values, up to `most` bytes. weigh: returns the bytes of a value."""

    def __init__(self, most: int = 256 << 20, weigh: Callable[[Any], int] = bytes_of) -> None:
        self.most, self.weigh = most, weigh
        self._values: dict[Hashable, tuple[Any, int]] = {}  # least recently used first
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """Return a value and mark it as used; None if there is none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values[key] = found = self._values.pop(key)
            return found[0]

    def put(self, key: Hashable, value: object) -> None:
        """Store a value in place of an earlier one of this key; a value larger than the whole store is not kept."""
        size = self.weigh(value)
        with self._lock:
            self._values.pop(key, None)
            if size <= self.most:
                self._values[key] = value, size
            while sum(size for _, size in self._values.values()) > self.most:
                del self._values[next(iter(self._values))]

    def made(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """Return a value, or make and store it; two threads may both make it, but never wait for each other."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found
