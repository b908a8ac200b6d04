"""Pictures as callers have them (PIL, numpy, torch) → planes of float32 in [0, 1]."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np

from ..core.arrays import is_tensor, sized
from ..core.checks import whole, whole_size
from ..core.errors import InputError

if TYPE_CHECKING:
    import torch

LARGEST_SIDE = 1 << 14  # sensing more would take gigabytes for every channel
_BYTE_TO_UNIT = np.arange(256, dtype=np.float32) / np.float32(255)


def resolve_size(given: tuple[int, int], size: int | tuple[int, int] | None) -> tuple[int, int]:
    """The size to sense at: as given; or the longer side scaled to an integer; or exactly (height, width)."""
    if size is None:
        return given
    if isinstance(size, int | float | np.number):
        return sized(given, whole(size, "size", 1, LARGEST_SIDE), grow=True)
    height, width = whole_size(size, "size")
    return whole(height, "size: the height", 1, LARGEST_SIDE), whole(width, "size: the width", 1, LARGEST_SIDE)


def picture_array(picture: object) -> np.ndarray:
    """(H, W, 3) uint8 or float32 in [0, 1], from PIL, numpy (H, W), (H, W, 1|3|4), or a (3, H, W) tensor."""
    if is_tensor(picture):
        tensor = picture.detach().cpu()
        if tensor.ndim == 4 and tensor.shape[0] == 1:
            tensor = tensor[0]
        if tensor.ndim != 3 or tensor.shape[0] not in (1, 3):
            raise InputError(f"a picture tensor must be (3, H, W), got {tuple(tensor.shape)}")
        array = tensor.permute(1, 2, 0).numpy()
    elif convert := getattr(picture, "convert", None):
        array = np.asarray(picture if getattr(picture, "mode", "") == "RGB" else convert("RGB"))
    else:
        array = np.asarray(picture)
    if array.ndim == 2:
        array = array[:, :, None]
    if array.ndim != 3 or array.shape[2] not in (1, 3, 4) or not array.size:
        raise InputError(f"a picture must be (H, W), (H, W, 1), (H, W, 3) or (H, W, 4), got {array.shape}")
    array = array[:, :, :3] if array.shape[2] >= 3 else np.repeat(array, 3, axis=2)
    return np.ascontiguousarray(unit_range(array))


def unit_range(array: np.ndarray) -> np.ndarray:
    """uint8 passes; other integers and booleans become float32 in [0, 1]; floats are checked."""
    if array.dtype == np.uint8:
        return array
    if array.dtype == np.bool_:
        return array.astype(np.float32)
    if np.issubdtype(array.dtype, np.integer):
        return array.astype(np.float32) / np.float32(np.iinfo(array.dtype).max)
    if not np.issubdtype(array.dtype, np.floating):
        raise InputError(f"a picture must hold numbers, got {array.dtype}")
    result = array.astype(np.float32, copy=False)
    # Written so that NaN fails as well.
    if not (result.min() >= -1e-3 and result.max() <= 1 + 1e-3):
        raise InputError(
            f"a floating-point picture must lie in [0, 1], got {float(result.min()):g} to {float(result.max()):g}; "
            "divide by 255, or pass uint8"
        )
    return np.clip(result, 0, 1)


def picture_planes(
    array: np.ndarray, out: np.ndarray, each: Callable[..., Iterable[object]] = map
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(H, W, 3) uint8 or float32 → three (H, W) float32 planes in [0, 1], written into `out` (3, H, W).

    each: what spreads the planes over threads: `map`, or an executor's.
    """
    import cv2

    def write(place: int) -> None:
        plane = cv2.extractChannel(array, place)
        if array.dtype == np.uint8:
            cv2.LUT(plane, _BYTE_TO_UNIT, dst=out[place])
        else:
            np.copyto(out[place], plane)

    list(each(write, range(3)))
    return out[0], out[1], out[2]


def picture_batch(picture: object, size: int | tuple[int, int] | None) -> tuple[torch.Tensor, bool]:
    """(B, 3, H, W) float32 in [0, 1], resized, and whether a batch was given, for the torch back end."""
    import torch

    from . import backend_torch

    if isinstance(picture, torch.Tensor):
        batched = picture.ndim == 4
        tensor = picture if batched else picture[None]
        if tensor.ndim != 4 or tensor.shape[1] not in (1, 3) or not tensor.numel():
            raise InputError(f"a picture tensor must be (3, H, W) or (B, 3, H, W), got {tuple(picture.shape)}")
        if tensor.dtype == torch.uint8:
            tensor = tensor.float() * (1 / 255)
        elif not tensor.is_floating_point():
            raise InputError(f"a picture tensor must be uint8 or floating point in [0, 1], got {tensor.dtype}")
        else:
            low, high = tensor.detach().aminmax()
            if not (low >= -1e-3 and high <= 1 + 1e-3):
                raise InputError(f"a picture tensor must lie in [0, 1], got {low:g} to {high:g}; divide by 255")
            tensor = tensor.float().clamp(0, 1)
    else:
        batched = False
        array = unit_range(picture_array(picture))
        tensor = torch.tensor(array).permute(2, 0, 1)[None].float()
        if array.dtype == np.uint8:
            tensor = tensor * (1 / 255)
    tensor = tensor.expand(-1, 3, -1, -1)
    target = resolve_size((tensor.shape[-2], tensor.shape[-1]), size)
    flat = backend_torch.resize(tensor.flatten(0, 1), target)
    return flat.unflatten(0, (-1, 3)), batched
