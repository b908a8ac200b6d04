"""Array operations that numpy and torch spell differently, so that a formula can be written once for both.

numpy serves one picture on a CPU, where importing torch would take longer than the work; torch serves batches,
gradients and other devices. A formula uses operators, `namespace(array)` for the functions that both libraries have
under one name (`maximum`, `where`, `sqrt`, `amin(…, axis=, keepdims=)`), and this module for the rest. Only `as_tensor`
imports torch; all others meet a tensor only if the caller has imported it.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeGuard

import numpy as np

if TYPE_CHECKING:
    from torch import Tensor

# A numpy array or a torch tensor.
Array = Any


def namespace(array: Array) -> ModuleType:
    """Return the library of an array as a module: numpy or torch."""
    return np if isinstance(array, np.ndarray | np.generic) else sys.modules["torch"]


def sized(size: tuple[int, ...], longest: int, *, grow: bool = False) -> tuple[int, int]:
    """Scale (height, width) so that the longer side is at most `longest`, or exactly that if it may grow."""
    scale = longest / max(size)
    scale = scale if grow else min(1.0, scale)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def like(values: Array, array: Array) -> Array:
    """Convert `values` to the library and device of `array`; they keep their dtype."""
    return namespace(array).asarray(values, device=array.device)


def as_tensor(array: Array) -> Tensor:
    """Return an array as a tensor on the CPU, which imports torch; return a tensor unchanged."""
    if is_tensor(array):
        return array
    return import_module("torch").as_tensor(array if array.flags.writeable else array.copy())  # torch warns of others


def constant(values: np.ndarray, array: Array) -> Array:
    """Convert `values` to the library of `array`; for torch also to its dtype."""
    return values if isinstance(array, np.ndarray) else like(np.array(values), array).to(array.dtype)


def to_numpy(array: Array) -> np.ndarray:
    """Return an array or tensor as numpy."""
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def whole_levels(pixels: np.ndarray) -> np.ndarray:
    """Convert (H, W, 3) uint8 or floats in [0, 1] to uint8; a round trip leaves a picture the same."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(pixels)


def float32(array: Array) -> Array:
    return array.astype(np.float32, copy=False) if isinstance(array, np.ndarray) else array.float()


def count(number: int, array: Array) -> Array:
    """Return 0 … number - 1 in the library and on the device of `array`."""
    return namespace(array).arange(number, device=array.device)


def float64(array: Array) -> Array:
    """Convert to double precision if the device has it; a tensor on Apple's GPUs stays unchanged."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float64, copy=False)
    return array if array.device.type == "mps" else array.double()


def zeros(shape: tuple[int, ...], kind: str, array: Array) -> Array:
    """Return zeros in the library and on the device of `array`."""
    library = namespace(array)
    return library.zeros(shape, dtype=getattr(library, kind), device=array.device)


def pad_end(grid: Array, bottom: int, right: int) -> Array:
    """Pad (…, h, w) with rows of zeros below and columns of zeros to the right."""
    if not (bottom or right):
        return grid
    if isinstance(grid, np.ndarray):
        return np.pad(grid, [(0, 0)] * (grid.ndim - 2) + [(0, bottom), (0, right)])
    return sys.modules["torch"].nn.functional.pad(grid, (0, right, 0, bottom))


def pad_edge(grid: Array) -> Array:
    """Pad (…, h, w) by repeating its edge once on every side."""
    join = namespace(grid).concatenate
    grid = join([grid[..., :1], grid, grid[..., -1:]], axis=-1)
    return join([grid[..., :1, :], grid, grid[..., -1:, :]], axis=-2)


def overlaps(start: np.ndarray, stop: np.ndarray, number: int) -> np.ndarray:
    """Return (N, number): the share of each of `number` places in a row that lies between start (N,) and stop (N,)."""
    place = np.arange(number)
    return np.clip(np.minimum(stop[:, None], place + 1) - np.maximum(start[:, None], place), 0, None)


def doubled(grid: Array, rows: int, cols: int) -> Array:
    """Enlarge (B, h, w) to (B, rows, cols): every value fills a 2×2 block, cut off at rows and cols."""
    return grid[:, count(rows, grid) // 2][:, :, count(cols, grid) // 2]


def largest_first(rows: Array, count: int) -> Array:
    """Return indices (B, count) of the largest values of (B, N); among equals, earlier positions come first."""
    return (-rows).argsort(stable=True)[:, :count]


def marked(index: Array, width: int) -> Array:
    """Mark the places (B, N) in a (B, width) bool array; places of `width` or beyond are ignored."""
    result = zeros((len(index), width + 1), "bool", index)
    result[count(len(index), index)[:, None], index.clip(0, width)] = True
    return result[:, :width]


def ranks(order: Array) -> Array:
    """Invert permutations (B, N): return the place of every entry."""
    result = zeros(order.shape, "int64", order)
    result[count(len(order), order)[:, None], order] = count(order.shape[1], order)
    return result


def take(rows: Array, index: Array) -> Array:
    """Index each row of (…, N) with its own places (…, K)."""
    return np.take_along_axis(rows, index, axis=-1) if isinstance(rows, np.ndarray) else rows.gather(-1, index)


def log_softmax(rows: Array) -> Array:
    """Return the log-softmax over the last axis; for numpy in double precision."""
    if not isinstance(rows, np.ndarray):
        return rows.log_softmax(-1)
    shifted = rows.astype(np.float64) - rows.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Return whether `value` is a torch tensor; without importing torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
