"""The operations of `backend_torch` for one picture on a CPU: OpenCV and numpy, no gradients, several times faster.

Maps are (H, W) float32. Every function means exactly what its namesake in `backend_torch` means.
"""

from __future__ import annotations

import weakref
from collections import deque
from functools import lru_cache
from math import prod
from threading import Lock

import cv2
import numpy as np

Map = np.ndarray
name = "opencv"
BORDER = cv2.BORDER_REPLICATE
# OpenCV's eight-bit L*a*b* holds L·255/100 and a + 128.
_BYTE_TO_LIGHT = np.arange(256, dtype=np.float32) / np.float32(255)
_BYTE_TO_RED_GREEN = np.arange(256, dtype=np.float32) / np.float32(256)


def _teach_allocator() -> None:
    """Allocate and free one large block, untouched.

    The C library hands freed blocks back to the system, and fresh ones cost a page fault per 4 KB: for maps of
    4 MB that doubles or trebles every operation. Seeing one 31 MB block freed, glibc keeps blocks up to that size for
    reuse from then on. Elsewhere it does nothing.
    """
    np.empty(31 << 20, dtype=np.uint8)


_teach_allocator()


def box(maps: Map, radius: int) -> Map:
    side = 2 * radius + 1
    return cv2.boxFilter(maps, cv2.CV_32F, (side, side), borderType=BORDER)


def sobel(maps: Map) -> tuple[Map, Map]:
    along_x = cv2.Sobel(maps, cv2.CV_32F, 1, 0, ksize=3, borderType=BORDER)
    return along_x, cv2.Sobel(maps, cv2.CV_32F, 0, 1, ksize=3, borderType=BORDER)


def magnitude(along_x: Map, along_y: Map) -> Map:
    # Not cv2.magnitude: its last bit depends on where in memory the arrays happen to lie.
    result = np.multiply(along_x, along_x)
    result += np.multiply(along_y, along_y)
    return np.sqrt(result, out=result)


def square_root(maps: Map) -> Map:
    result = np.maximum(maps, np.float32(0))
    return np.sqrt(result, out=result)


def peak(maps: Map) -> np.float32:
    return np.float32(maps.max())


def trough(maps: Map) -> np.float32:
    return np.float32(maps.min())


def mean(maps: Map) -> np.float32:
    return np.float32(cv2.mean(maps)[0])


def at_least(maps: Map, floor: float) -> Map:
    return np.maximum(maps, np.float32(floor))


def clip(maps: Map, low: float = 0.0, high: float = 1.0) -> Map:
    return np.clip(maps, np.float32(low), np.float32(high))


def affine(maps: Map, scale: float | np.float32, shift: float, out: Map | None = None) -> Map:
    # One pass for both; the second operand has no weight.
    return cv2.addWeighted(maps, float(scale), maps, 0.0, shift, dst=out)


def luminance(planes: tuple[Map, Map, Map], out: Map | None = None) -> Map:
    red, green, blue = planes
    partly = cv2.addWeighted(red, 0.299, green, 0.587, 0.0)
    return cv2.addWeighted(partly, 1.0, blue, 0.114, 0.0, dst=out)


def lab(planes: tuple[Map, Map, Map]) -> tuple[Map, Map, Map]:
    light, red_green, yellow_blue = cv2.split(cv2.cvtColor(cv2.merge(planes), cv2.COLOR_RGB2Lab))
    return light, red_green, yellow_blue


def lab_planes(array: np.ndarray, planes: tuple[Map, Map, Map], light: Map, red_green: Map) -> dict[str, Map]:
    """L* and a* of (H, W, 3) RGB scaled to [0, 1], written into two planes; eight bits in, eight bits of precision."""
    if array.dtype == np.uint8:
        encoded = cv2.cvtColor(array, cv2.COLOR_RGB2Lab)
        cv2.LUT(cv2.extractChannel(encoded, 0), _BYTE_TO_LIGHT, dst=light)
        cv2.LUT(cv2.extractChannel(encoded, 1), _BYTE_TO_RED_GREEN, dst=red_green)
    else:
        lightness, redness, _ = lab(planes)
        affine(lightness, 0.01, 0.0, light)
        affine(redness, 1 / 256, 0.5, red_green)
    return {"lab_l": light, "lab_a": red_green}


def shrink(maps: Map, size: tuple[int, int]) -> Map:
    return cv2.resize(maps, (size[1], size[0]), interpolation=cv2.INTER_AREA)


def enlarge(maps: Map, size: tuple[int, int], out: Map | None = None) -> Map:
    return cv2.resize(maps, (size[1], size[0]), dst=out, interpolation=cv2.INTER_LINEAR)


def resize(maps: Map, size: tuple[int, int]) -> Map:
    if maps.shape[:2] == tuple(size):
        return maps
    smaller = size[0] <= maps.shape[0] and size[1] <= maps.shape[1]
    return shrink(maps, size) if smaller else enlarge(maps, size)


def count_in_blocks(codes: Map, kinds: int, block: int) -> list[Map]:
    height, width = codes.shape
    rows, columns = -(-height // block), -(-width // block)
    cell = (np.arange(height, dtype=np.int32) // block)[:, None] * columns + np.arange(width, dtype=np.int32) // block
    counts = np.bincount((cell * kinds + codes).ravel(), minlength=rows * columns * kinds)
    return list(np.moveaxis(counts.reshape(rows, columns, kinds), -1, 0).astype(np.float32))


def largest_in_blocks(maps: Map, size: tuple[int, int]) -> Map:
    """As torch's adaptive pooling: cell i covers floor(i·H/h) to ceil((i+1)·H/h)."""
    for axis, target in enumerate(size):
        source = maps.shape[axis]
        starts = np.arange(target) * source // target
        ends = -(-(np.arange(1, target + 1) * source) // target)
        reduced = np.maximum.reduceat(maps, starts, axis=axis)
        # Cells overlap by one pixel where the sizes do not divide; reduceat's cells never do.
        maps = np.maximum(reduced, maps.take(ends - 1, axis=axis))
    return maps


def amplitude(spectrum: np.ndarray) -> Map:
    return np.abs(spectrum).astype(np.float32)


@lru_cache(maxsize=4)
def _position(size: tuple[int, int]) -> tuple[Map, Map]:
    height, width = size
    y = ((np.arange(height, dtype=np.float32) + np.float32(0.5)) / np.float32(height))[:, None]
    x = ((np.arange(width, dtype=np.float32) + np.float32(0.5)) / np.float32(width))[None, :]
    return np.broadcast_to(y, size), np.broadcast_to(x, size)


def position(size: tuple[int, int], like: Map) -> tuple[Map, Map]:
    return _position(size)


@lru_cache(maxsize=4)
def _distance_from(size: tuple[int, int], point: tuple[float, float], scale: float) -> Map:
    down = np.arange(size[0], dtype=np.float32)[:, None] + np.float32(0.5 - point[0])
    across = np.arange(size[1], dtype=np.float32)[None, :] + np.float32(0.5 - point[1])
    distance = np.sqrt(down * down + across * across) * np.float32(scale)
    distance.flags.writeable = False  # kept for the next picture of this size
    return distance


def distance_from(size: tuple[int, int], point: tuple[float, float], like: Map, scale: float) -> Map:
    return _distance_from(size, point, scale)


def distance_to(mask: Map) -> Map:
    height, width = mask.shape
    if not mask.any():
        return np.full(mask.shape, height + width, dtype=np.float32)
    distance = cv2.distanceTransform((~mask).astype(np.uint8), cv2.DIST_L2, cv2.DIST_MASK_PRECISE)
    # OpenCV's last bit depends on where the memory lies. The square of a distance between pixels is a whole number.
    return np.sqrt(np.rint(distance * distance))


# ---- memory for textures, used again once a texture is gone ---------------------------------------------------------


# A fresh block of 52 MB (one mvp13 texture of 1024²) costs the system about 13 000 page faults, as long as computing
# all its channels takes. So the block of a texture that nobody holds any longer is kept for the next one: at most so
# many bytes, and never while a tensor, a view or an array made from it is alive.
MOST_KEPT = 192 << 20


class _Lent(np.ndarray):
    """A link in the chain of views: numpy lets a view of a view hold on to the innermost array of the same type only,
    so without a change of type nobody would hold on to the array in between, whose end is what is watched."""


class RecycledMemory:
    """Hands out float32 arrays and takes their memory back when they are garbage-collected."""

    def __init__(self, most_kept: int = MOST_KEPT) -> None:
        self._most_kept = most_kept
        self._free: list[np.ndarray] = []
        self._returned: deque[np.ndarray] = deque()
        self._lock = Lock()

    def take(self, shape: tuple[int, ...]) -> np.ndarray:
        """An array of that shape with arbitrary contents."""
        wanted = prod(shape)
        with self._lock:
            self._settle()
            fitting = [place for place, block in enumerate(self._free) if wanted <= block.size <= 2 * wanted]
            block = self._free.pop(fitting[0]) if fitting else None
        if block is None:
            block = np.empty(wanted, dtype=np.float32)
        # An array over `_Lent` is held by every view and tensor made from it, so it dies with the last of them.
        array = block[:wanted].view(_Lent).reshape(shape).view(np.ndarray)
        weakref.finalize(array, self._give_back, block).atexit = False
        return array

    def _give_back(self, block: np.ndarray) -> None:
        # Garbage is collected at any time, also in a thread that holds the lock: waiting for it here could be for ever.
        self._returned.append(block)
        if self._lock.acquire(blocking=False):
            try:
                self._settle()
            finally:
                self._lock.release()

    def _settle(self) -> None:
        """What came back is free, the oldest of it forgotten where that is too much; the lock is held."""
        while self._returned:
            self._free.append(self._returned.popleft())
        while sum(kept.nbytes for kept in self._free) > self._most_kept:
            self._free.pop(0)

    def forget(self) -> None:
        """Let go of everything kept."""
        with self._lock:
            self._settle()
            self._free.clear()


texture_memory = RecycledMemory()
