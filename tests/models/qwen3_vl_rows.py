"""Prompts of a tiny Qwen3-VL, and what is allocated of their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
from tiny_models import picture

from arr_coc.attending.allocate import allocate
from arr_coc.core.values import Allocation
from arr_coc.realizing.base import backbone_for

ROWS = (
    ([picture(96, 128)], "what colour is the square"),
    ([picture(64, 64, 1), picture(160, 96, 2)], "where is the red square on the left"),
    ([picture(64, 96, 3)], "how many"),
)


def allocations(
    model: Any, inputs: dict[str, Any], keep: float = 1.0, backbone: Any = None, **how: Any
) -> list[Allocation]:
    random = np.random.default_rng(5)
    return [
        allocate(
            random.random((grid.rows, grid.cols)) ** 4,
            max(1, round(grid.tokens * keep)),
            image_size=(grid.height, grid.width),
            cell=grid.cell,
            **how,
        )
        for grid in (backbone or backbone_for(model)).grids(model, inputs)
    ]
