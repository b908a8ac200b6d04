"""A picture that is the same everywhere, and allocations of it, that the tests of drawing share."""

from __future__ import annotations

import cv2
import numpy as np

from arr_coc.attending.allocate import allocate
from arr_coc.core.values import Allocation


def scene(height: int, width: int, seed: int = 0) -> np.ndarray:
    """(height, width, 3) uint8: smooth ground, a bright square, fine stripes; the same everywhere."""
    rng = np.random.default_rng(seed)
    ground = cv2.resize(
        rng.integers(40, 200, (6, 8, 3), dtype=np.uint8), (width, height), interpolation=cv2.INTER_NEAREST
    )
    ground[height // 8 : height // 3, width // 8 : width // 3] = (240, 230, 90)
    ground[height // 2 :, width // 2 :: 4] //= 3
    return ground


def tree(height: int, width: int, *, cell: int = 32, corner: str = "left") -> Allocation:
    """A tiling of level-1 leaves with one of them split: the upper left one, or the upper right one."""
    rows, cols = -(-height // (2 * cell)), -(-width // (2 * cell))
    y, x = np.divmod(np.arange(rows * cols), cols)
    cells = np.stack([2 * y, 2 * x, np.ones_like(y)], axis=1)
    split = 0 if corner == "left" else cols - 1
    first = cells[split]
    fine = np.array([[first[0] + dy, first[1] + dx, 0] for dy in (0, 1) for dx in (0, 1)])
    fine = fine[(fine[:, 0] * cell < height) & (fine[:, 1] * cell < width)]
    cells = np.concatenate([fine, np.delete(cells, split, axis=0)])
    start = cells[:, :2] * cell
    stop = np.minimum(start + (cell << cells[:, 2:]), (height, width))
    return Allocation(
        boxes=np.concatenate([start, stop - start], axis=1),
        levels=cells[:, 2],
        counts=np.ones(len(cells)),
        scores=np.linspace(1, 0, len(cells)),
        height=height,
        width=width,
        budget=len(cells),
        full=-(-height // cell) * -(-width // cell),
        strategy="quadtree",
        cell=cell,
    )


def spotted(height: int = 256, width: int = 384) -> Allocation:
    """An overlay: coarse leaves everywhere, single cells on the middle of one of them, some between."""
    relevance = np.zeros((height // 32, width // 32), dtype=np.float32)
    relevance[3:5, 3:5] = relevance[6, 10] = 1
    return allocate(relevance, 16, image_size=(height, width))
