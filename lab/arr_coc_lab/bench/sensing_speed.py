"""How long sensing takes, against the plain way of doing the same, in the same run.

Every function returns rows of (name, milliseconds, naive form, its milliseconds): medians on one picture of 1024², with
as many threads as torch is set to.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import median
from time import perf_counter
from typing import NamedTuple

import numpy as np
import torch.nn.functional as F

from arr_coc.sensing.batch import sense
from arr_coc.sensing.pyramid import pyramid
from arr_coc.sensing.texture import Texture, get_layout

from ..train.run import torch_scope

SIDE = 1024


class SpeedRow(NamedTuple):
    """One line of the table."""

    name: str
    milliseconds: float
    naive: str
    naive_milliseconds: float

    @property
    def ratio(self) -> float:
        return self.naive_milliseconds / self.milliseconds


def side_by_side(fast: Callable[[], object], naive: Callable[[], object], repeats: int) -> tuple[float, float]:
    """Median milliseconds of both, taken in turns, so that whatever else the machine does hits both alike."""
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(2):
        fast(), naive()
    for _ in range(repeats):
        for work, found in zip((fast, naive), times, strict=True):
            start = perf_counter()
            work()
            found.append((perf_counter() - start) * 1000)
    return median(times[0]), median(times[1])


def made_picture(side: int = SIDE, seed: int = 0) -> np.ndarray:
    """(side, side, 3) uint8: smooth colour, coloured squares and a page of stroke-like marks; made, not read."""
    generator = np.random.default_rng(seed)
    y, x = np.mgrid[0:side, 0:side] / side
    picture = np.stack([x, y, 1 - x], axis=-1) * 160 + 40
    for top, left, size in generator.integers(0, side * 3 // 4, (24, 3)):
        extent = side // 32 + size // 8
        picture[top : top + extent, left : left + extent] = generator.integers(0, 256, 3)
    marks = generator.random((side // 4, side // 8)) < 0.35
    picture[side // 2 : side // 2 + side // 4, side // 2 : side // 2 + side // 8][marks] = 15
    return np.clip(picture + generator.normal(0, 2, picture.shape), 0, 255).astype(np.uint8)


def texture_rows(layout: str, side: int = SIDE, repeats: int = 15) -> list[SpeedRow]:
    """The texture by the OpenCV back end against the same channels by plain torch operations."""
    picture = made_picture(side)
    fast, naive = side_by_side(lambda: sense(picture, layout), lambda: sense(picture, layout, backend="torch"), repeats)
    return [SpeedRow(f"{layout} {side}²", fast, "torch, channel by channel", naive)]


def pyramid_rows(side: int = SIDE, repeats: int = 15, levels: int = 5) -> list[SpeedRow]:
    """The 40-channel pyramid with all its reducers against bare average pooling of the same tensor (NCHW)."""
    texture: Texture = sense(made_picture(side), "full40")
    data = texture.batch()

    def plain() -> None:
        current = data
        for _ in range(levels - 1):
            current = F.avg_pool2d(current, 2)

    fast, naive = side_by_side(lambda: pyramid(texture, levels), plain, repeats)
    return [SpeedRow(f"pyramid {len(get_layout('full40'))}×{side}²", fast, "avg_pool2d, NCHW", naive)]


def sensing_speed(side: int = SIDE, repeats: int = 15, threads: int = 2) -> list[SpeedRow]:
    """All rows: mvp13, full40 (with SLIC and text regions, without semantic channels), pyramid."""
    with torch_scope(threads=threads):
        return [
            *texture_rows("mvp13", side, repeats),
            *texture_rows("full40", side, repeats),
            *pyramid_rows(side, repeats),
        ]
