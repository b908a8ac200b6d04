"""The size at which the scorer reads a picture, the same on every device: no larger than `MOST_PIXELS`, and its letters
no taller than those that the scorer learned to read."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from ...texture.type_height import is_low, letters_of

if TYPE_CHECKING:
    import torch

Found = TypeVar("Found")
# Larger pictures are read at this many pixels: a page of A4 at 100 dots an inch, in well under a second.
MOST_PIXELS = 1024 * 1280
# Pixels of capitals: taller ones are found worse, and are reduced to the second.
TALL, WANTED = 20.0, 12.0
# Letters that are lower than this share of `TALL` in a view of half the size are not tall in the picture either.
LOW = 0.9


def reading_size(pixels: np.ndarray) -> tuple[int, int]:
    """(height, width) at which the scorer reads (H, W, 3) uint8: its own, or a smaller one."""
    import cv2

    size, half = _sizes(pixels.shape[:2])
    grey = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    return size if _is_low(cv2.resize(grey, half[::-1], interpolation=cv2.INTER_AREA)) else _by_letters(pixels)


class ReadingSizes:
    """`reading_size` of each of (B, 3, H, W), uint8 or in [0, 1]. likely: the size of those without tall letters, which
    most have none of: a device can read at it while `found` senses the letters.

    Small grey views are made where the pictures lie; only pictures with tall letters are brought to the processor.
    """

    def __init__(self, pictures: torch.Tensor) -> None:
        import torch

        from ...texture.pixels import luminance

        self.likely, half = _sizes((pictures.shape[2], pictures.shape[3]))
        levels = pictures if pictures.dtype == torch.uint8 else (pictures.float().clamp(0, 1) * 255).round()
        self.levels = levels.float()
        self.views = (
            area_shrink(luminance((self.levels[:, 0], self.levels[:, 1], self.levels[:, 2])), half)
            .round()
            .to(torch.uint8)
            .cpu()
            .numpy()
        )

    def found(self) -> list[tuple[int, int]]:
        """(height, width) of each picture."""
        import torch

        low = _each(_is_low, list(self.views))
        tall = [number for number, fine in enumerate(low) if not fine]
        if not tall:
            return [self.likely] * len(low)
        shown = self.levels[tall].to(torch.uint8).permute(0, 2, 3, 1).contiguous().cpu().numpy()
        by_letters = iter(_each(_by_letters, list(shown)))
        return [self.likely if fine else next(by_letters) for fine in low]


def _sizes(size: tuple[int, ...]) -> tuple[tuple[int, int], tuple[int, int]]:
    """(height, width) of a picture as it is read where its letters are not tall, and half of that."""
    height, width = size
    times = _times(height, width)
    return _sized(height, width, times), _sized(height, width, times / 2)


def _times(height: int, width: int) -> float:
    return min(1.0, math.sqrt(MOST_PIXELS / (height * width)))


def _sized(height: int, width: int, times: float) -> tuple[int, int]:
    return (height, width) if times >= 1 else (max(1, round(height * times)), max(1, round(width * times)))


def _is_low(view: np.ndarray) -> bool:
    """Are the letters of a picture not tall? view: (H, W) grey, of half its size. Sensing those of the whole picture
    takes four times as long."""
    return is_low(view, LOW * TALL / 2)


def _by_letters(pixels: np.ndarray) -> tuple[int, int]:
    """`reading_size` by the letters of the whole picture."""
    height, width = pixels.shape[:2]
    times = _times(height, width)
    tall = letters_of(pixels).median() * times
    return _sized(height, width, times * (WANTED / tall if tall > TALL else 1.0))


def _each(work: Callable[[np.ndarray], Found], arrays: list[np.ndarray]) -> list[Found]:
    """What is found in each of them, beside each other."""
    if len(arrays) < 2:
        return [work(one) for one in arrays]
    with ThreadPoolExecutor(min(8, len(arrays))) as pool:
        return list(pool.map(work, arrays))


def reduced_pixels(pixels: np.ndarray) -> np.ndarray:
    """(H, W, 3) uint8 at the size at which it is read."""
    import cv2

    size = reading_size(pixels)
    if size == pixels.shape[:2]:
        return pixels
    return cv2.resize(pixels, size[::-1], interpolation=cv2.INTER_AREA)


def reduced_batch(pictures: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """(B, 3, H, W) in [0, 1] → the same at `size`, by the areas that `reduced_pixels` takes, in whole levels."""
    import torch

    if size == tuple(pictures.shape[-2:]):
        return pictures
    return torch.round(area_shrink(pictures.float(), size) * 255) / 255


def size_note(size: tuple[int, int], given: tuple[int, int]) -> tuple[str, ...]:
    """What a reader should know, where the scorer reads a smaller picture than it was given."""
    if size == given:
        return ()
    return (f"the scorer reads this picture at {size[0] / given[0]:.2g} of its size: {size[1]}×{size[0]} pixels",)


def area_shrink(maps: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    """Average exactly by area onto a smaller grid, any ratio: (…, H, W) → (…, h, w)."""
    rows = _area_weights(maps.shape[-2], size[0], maps.device)
    columns = _area_weights(maps.shape[-1], size[1], maps.device)
    return rows @ (maps @ columns.T)


@lru_cache(maxsize=16)
def _area_weights(source: int, target: int, device: torch.device) -> torch.Tensor:
    """(target, source): how much of each source pixel lies in each target pixel; rows sum to one."""
    import torch

    scale, made_on = source / target, device if device.type == "cuda" else torch.device("cpu")
    with torch.inference_mode(False):  # kept for the next caller, also for one that wants gradients
        edges = torch.arange(target + 1, dtype=torch.float64, device=made_on) * scale
        pixels = torch.arange(source, dtype=torch.float64, device=made_on)
        overlap = torch.minimum(edges[1:, None], pixels + 1) - torch.maximum(edges[:-1, None], pixels)
        return (overlap.clamp_min(0) / scale).float().to(device)
