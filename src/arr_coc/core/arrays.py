"""The few array operations that numpy and torch spell differently, so that a formula can be written once for both.

numpy serves one picture on a CPU, where importing torch would take longer than the work; torch serves batches,
gradients and other devices. A formula uses operators, `namespace(array)` for the functions that both libraries have
under one name (`maximum`, `where`, `sqrt`, `amin(…, axis=, keepdims=)`), and this module for the rest. Only `as_tensor`
imports torch: else a tensor can only come from a caller who has.
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
    """The library that the array belongs to, as a module: numpy or torch."""
    return np if isinstance(array, np.ndarray | np.generic) else sys.modules["torch"]


def sized(size: tuple[int, ...], longest: int, *, grow: bool = False) -> tuple[int, int]:
    """(height, width) whose longer side is at most `longest`, or just that where it may grow."""
    scale = longest / max(size)
    scale = scale if grow else min(1.0, scale)
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def like(values: Array, array: Array) -> Array:
    """`values` in the library and on the device of `array`, with their own dtype."""
    return namespace(array).asarray(values, device=array.device)


def as_tensor(array: Array) -> Tensor:
    """An array as a tensor on the CPU, which imports torch; a tensor as it is."""
    if is_tensor(array):
        return array
    return import_module("torch").as_tensor(array if array.flags.writeable else array.copy())  # torch warns of others


def constant(values: np.ndarray, array: Array) -> Array:
    """`values` in the library of `array`, and where that is torch, of its dtype."""
    return values if isinstance(array, np.ndarray) else like(np.array(values), array).to(array.dtype)


def to_numpy(array: Array) -> np.ndarray:
    """An array or tensor as numpy."""
    return array if isinstance(array, np.ndarray) else array.detach().cpu().numpy()


def whole_levels(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 or in [0, 1] → uint8: a picture that was scaled and scaled back stays the same."""
    if pixels.dtype != np.uint8:
        pixels = np.rint(np.clip(pixels, 0, 1) * 255).astype(np.uint8)
    return np.ascontiguousarray(pixels)


def float32(array: Array) -> Array:
    return array.astype(np.float32, copy=False) if isinstance(array, np.ndarray) else array.float()


def count(number: int, array: Array) -> Array:
    """0 … number - 1 in the library and on the device of `array`."""
    return namespace(array).arange(number, device=array.device)


def float64(array: Array) -> Array:
    """Double precision where the device has it; a tensor on Apple's GPUs stays as it is."""
    if isinstance(array, np.ndarray):
        return array.astype(np.float64, copy=False)
    return array if array.device.type == "mps" else array.double()


def zeros(shape: tuple[int, ...], kind: str, array: Array) -> Array:
    """Zeros in the library and on the device of `array`."""
    library = namespace(array)
    return library.zeros(shape, dtype=getattr(library, kind), device=array.device)


def pad_end(grid: Array, bottom: int, right: int) -> Array:
    """(…, h, w) with rows of zeros below and columns of zeros to the right."""
    if not (bottom or right):
        return grid
    if isinstance(grid, np.ndarray):
        return np.pad(grid, [(0, 0)] * (grid.ndim - 2) + [(0, bottom), (0, right)])
    return sys.modules["torch"].nn.functional.pad(grid, (0, right, 0, bottom))


def pad_edge(grid: Array) -> Array:
    """(…, h, w) with its edge repeated once on every side."""
    join = namespace(grid).concatenate
    grid = join([grid[..., :1], grid, grid[..., -1:]], axis=-1)
    return join([grid[..., :1, :], grid, grid[..., -1:, :]], axis=-2)


def overlaps(start: np.ndarray, stop: np.ndarray, number: int) -> np.ndarray:
    """(N,) and (N,) → (N, number): how much of each of `number` places in a row lies between start and stop."""
    place = np.arange(number)
    return np.clip(np.minimum(stop[:, None], place + 1) - np.maximum(start[:, None], place), 0, None)


def doubled(grid: Array, rows: int, cols: int) -> Array:
    """(B, h, w) → (B, rows, cols): every value on a 2×2 block, cut off at rows and cols."""
    return grid[:, count(rows, grid) // 2][:, :, count(cols, grid) // 2]


def largest_first(rows: Array, count: int) -> Array:
    """(B, N) → (B, count) indices of the largest values; the earlier position comes first among equals."""
    return (-rows).argsort(stable=True)[:, :count]


def marked(index: Array, width: int) -> Array:
    """(B, N) places → (B, width) bool: true at every place named, places of `width` or beyond left out."""
    result = zeros((len(index), width + 1), "bool", index)
    result[count(len(index), index)[:, None], index.clip(0, width)] = True
    return result[:, :width]


def ranks(order: Array) -> Array:
    """(B, N) permutations → (B, N): the place of every entry in them."""
    result = zeros(order.shape, "int64", order)
    result[count(len(order), order)[:, None], order] = count(order.shape[1], order)
    return result


def take(rows: Array, index: Array) -> Array:
    """(…, N), (…, K) → (…, K): each row at its own places."""
    return np.take_along_axis(rows, index, axis=-1) if isinstance(rows, np.ndarray) else rows.gather(-1, index)


def log_softmax(rows: Array) -> Array:
    """Over the last axis; numpy's in double precision."""
    if not isinstance(rows, np.ndarray):
        return rows.log_softmax(-1)
    shifted = rows.astype(np.float64) - rows.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def is_tensor(value: object) -> TypeGuard[Tensor]:
    """Whether `value` is a torch tensor; false, without an import, where torch was never imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
