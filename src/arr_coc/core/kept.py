"""Keep what was made of pictures, by the pixels it was made of, up to a number of bytes."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import fields, is_dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

Made = TypeVar("Made")


def bytes_of(value: object) -> int:
    """Bytes of all arrays and tensors inside tuples, lists, mappings and dataclasses."""
    if (size := getattr(value, "nbytes", None)) is not None:
        return int(size)
    if is_dataclass(value):
        return sum(bytes_of(getattr(value, one.name)) for one in fields(value))
    if isinstance(value, Mapping):
        return sum(map(bytes_of, value.values()))
    return sum(map(bytes_of, value)) if isinstance(value, tuple | list) else 0


def pixels_key(pixels: np.ndarray) -> str:
    """A name that only equal pixels of an equal size have in this process, whatever their file is called."""
    # Python's own hash, of 64 bits by a key that no other process knows: a fifth of the time of SHA-256.
    return f"{hash(pixels.tobytes())} {pixels.shape} {pixels.dtype}"


class ByteStore:
    """The values used last, as many as fit into `most` bytes, for several threads. weigh: the bytes of a value."""

    def __init__(self, most: int = 256 << 20, weigh: Callable[[Any], int] = bytes_of) -> None:
        self.most, self.weigh = most, weigh
        self._values: dict[Hashable, tuple[Any, int]] = {}  # the one used longest ago first
        self._lock = Lock()

    def get(self, key: Hashable) -> Any:
        """The value, used now; None where there is none."""
        with self._lock:
            if key not in self._values:
                return None
            self._values[key] = found = self._values.pop(key)
            return found[0]

    def put(self, key: Hashable, value: object) -> None:
        """Keep a value, instead of an earlier one of this key. What is larger than the whole store is not kept."""
        size = self.weigh(value)
        with self._lock:
            self._values.pop(key, None)
            if size <= self.most:
                self._values[key] = value, size
            while sum(size for _, size in self._values.values()) > self.most:
                del self._values[next(iter(self._values))]

    def made(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value, or else what `make` gives, which is then kept; made twice rather than waited for."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found
