"""The size at which the scorer reads a picture, the same on every device: no larger than `MOST_PIXELS`, and its letters
no taller than those that the scorer learned to read."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import numpy as np

from ...sensing.type_height import letters_of

if TYPE_CHECKING:
    import torch

# Larger pictures are read at this many pixels: a page of A4 at 100 dots an inch, in well under a second.
MOST_PIXELS = 1024 * 1280
# Pixels of capitals: taller ones are found worse, and are reduced to the second (docs/grip.md has the table).
TALL, WANTED = 20.0, 12.0


def reading_size(pixels: np.ndarray) -> tuple[int, int]:
    """(height, width) at which the scorer reads (H, W, 3) uint8: its own, or a smaller one."""
    height, width = pixels.shape[:2]
    times = min(1.0, math.sqrt(MOST_PIXELS / (height * width)))
    tall = letters_of(pixels).median() * times
    times *= WANTED / tall if tall > TALL else 1.0
    if times >= 1:
        return height, width
    return max(1, round(height * times)), max(1, round(width * times))


def reading_sizes(pictures: torch.Tensor) -> list[tuple[int, int]]:
    """`reading_size` of each of (B, 3, H, W), uint8 or in [0, 1]: in whole levels where they lie, then beside each
    other."""
    import torch

    if pictures.dtype != torch.uint8:
        pictures = torch.round(pictures.float().clamp(0, 1) * 255).to(torch.uint8)
    shown = list(pictures.permute(0, 2, 3, 1).contiguous().cpu().numpy())
    if len(shown) == 1:
        return [reading_size(shown[0])]
    with ThreadPoolExecutor(min(8, len(shown))) as pool:
        return list(pool.map(reading_size, shown))


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

    from ...sensing.backend_torch import shrink

    if size == tuple(pictures.shape[-2:]):
        return pictures
    return torch.round(shrink(pictures.float(), size) * 255) / 255


def size_note(size: tuple[int, int], given: tuple[int, int]) -> tuple[str, ...]:
    """What a reader should know, where the scorer reads a smaller picture than it was given."""
    if size == given:
        return ()
    return (f"the scorer reads this picture at {size[0] / given[0]:.2g} of its size: {size[1]}×{size[0]} pixels",)
