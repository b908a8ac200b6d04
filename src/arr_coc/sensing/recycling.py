"""Memory for textures, used again once a texture is gone.

A fresh block of 52 MB (one mvp13 texture of 1024²) costs the system about 13 000 page faults, as long as computing all
its channels takes. So the block of a texture that nobody holds any longer is kept for the next one: at most
`MOST_KEPT` bytes, and never while a tensor, a view or an array made from it is alive.
"""

from __future__ import annotations

import weakref
from math import prod
from threading import Lock

import numpy as np

MOST_KEPT = 192 << 20


class _Lent(np.ndarray):
    """A link in the chain of views: numpy lets a view of a view hold on to the innermost array of the same type only,
    so without a change of type nobody would hold on to the array in between, whose end is what is watched."""


class RecycledMemory:
    """Hands out float32 arrays and takes their memory back when they are garbage-collected."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._free: list[np.ndarray] = []
        self._lock = Lock()

    def take(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of that shape with arbitrary contents."""
        wanted = prod(shape)
        with self._lock:
            fitting = [place for place, block in enumerate(self._free) if wanted <= block.size <= 2 * wanted]
            block = self._free.pop(fitting[0]) if fitting else None
        if block is None:
            block = np.empty(wanted, dtype=np.float32)
        # An array over `_Lent` is held by every view and tensor made from it, so it dies with the last of them.
        array = block[:wanted].view(_Lent).reshape(shape).view(np.ndarray)
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _give_back(self, block: np.ndarray) -> None:
        with self._lock:
            self._free.append(block)
            while sum(kept.nbytes for kept in self._free) > self._most_kept:
                self._free.pop(0)

    def forget(self) -> None:
        """Let go of everything kept."""
        with self._lock:
            self._free.clear()


texture_memory = RecycledMemory()
