"""What was made of pictures and may be wanted again: kept by the pixels it was made of, up to a number of bytes.

A `ByteStore` forgets what was used longest ago. Nothing in it is ever changed: who was handed something keeps it, also
when the store forgets it meanwhile. Several threads may use one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from threading import Lock
from typing import Any, TypeVar

import numpy as np

Made = TypeVar("Made")
MOST_BYTES = 256 << 20


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
    """A name that only equal pixels of an equal size have, whatever their file is called."""
    # Processors have instructions for SHA-256: a third of the time of BLAKE2, which is half of a short look on a GPU.
    return f"{hashlib.sha256(np.ascontiguousarray(pixels).data).hexdigest()} {pixels.shape} {pixels.dtype}"


class ByteStore:
    """The values used last, as many as fit into `most` bytes. size: bytes held now. hits, misses: of `get`. weigh: the
    bytes of a value."""

    def __init__(self, most: int = MOST_BYTES, weigh: Callable[[Any], int] = bytes_of) -> None:
        self.most, self.size, self.hits, self.misses, self.weigh = most, 0, 0, 0, weigh
        self._values: OrderedDict[Hashable, tuple[object, int]] = OrderedDict()
        self._lock = Lock()

    def __len__(self) -> int:
        return len(self._values)

    def __getstate__(self) -> dict[str, object]:
        """Its limit: what it holds belongs to this process."""
        return {"most": self.most}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.__init__(state["most"])

    def get(self, key: Hashable) -> Any:
        """The value, used now; None where there is none."""
        with self._lock:
            found = self._values.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._values.move_to_end(key)
            return found[0]

    def put(self, key: Hashable, value: object) -> None:
        """Keep a value, instead of an earlier one of this key. What is larger than the whole store is not kept."""
        size = self.weigh(value)
        with self._lock:
            self.size -= self._values.pop(key, (None, 0))[1]
            if size > self.most:
                return
            self._values[key] = value, size
            self.size += size
            while self.size > self.most:
                self.size -= self._values.popitem(last=False)[1][1]

    def made(self, key: Hashable, make: Callable[[], Made]) -> Made:
        """The value, or else what `make` gives, which is then kept; made twice rather than waited for."""
        found = self.get(key)
        if found is None:
            found = make()
            self.put(key, found)
        return found

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._values.clear()
            self.size = 0


@dataclass(frozen=True)
class PictureStore:
    """The part of a store that belongs to one picture. picture: its `pixels_key`. scope: whose it is; nobody is handed
    what another scope has made."""

    store: ByteStore
    picture: str
    scope: str = ""

    def get(self, name: Hashable) -> Any:
        """What is kept under a name, or None."""
        return self.store.get((self.scope, self.picture, name))

    def put(self, name: Hashable, value: object) -> None:
        """Keep something under a name."""
        self.store.put((self.scope, self.picture, name), value)

    def made(self, name: Hashable, make: Callable[[], Made]) -> Made:
        """What is kept under a name, or else what `make` gives, which is then kept."""
        return self.store.made((self.scope, self.picture, name), make)
