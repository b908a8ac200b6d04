"""`tokens_for`: what a picture costs, here or at a provider's, by its size alone."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ...attending.strategies import check_strategy
from ...attending.tree import check_budget, grid_of, tree_for
from ...core.errors import whole
from ...core.values import DEFAULT_CELL
from .tables import table_for


def tokens_for(
    image_size: Any,
    budget: int | str | None = None,
    *,
    strategy: str = "overlay",
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    model: str | None = None,
    total: bool = False,
) -> int:
    """Tell how many visual tokens a picture will cost at a budget; no pixels needed.

    Args:
        image_size: (height, width), or a list of them: what all of these pictures cost together.
        budget: Tokens that may be spent, or a share such as "25%"; None is the full count. Of a list, that of each, or
            with `total` that of all.
        strategy: "quadtree" reaches only some counts: the largest one at or below the budget.
        cell: Pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level of detail.
        model: One that is not touched, by its name: what its provider counts (`packing.prices`), at most the budget.
        total: One budget for all pictures of a list.

    Returns:
        The number of tokens: the budget, or the full count where that is less.

    Example:
        >>> tokens_for((1024, 1024))
        1024
        >>> tokens_for((1024, 1024), 251)
        251
        >>> tokens_for((1024, 1024), "25%")
        256
        >>> tokens_for((1024, 1024), 251, strategy="quadtree")
        250
        >>> tokens_for((1024, 1024), model="gpt-4o")
        765
        >>> tokens_for([(1024, 1024), (320, 320)], 251), tokens_for([(1024, 1024), (320, 320)], 251, total=True)
        (351, 251)
    """
    check_strategy(strategy)
    several = isinstance(image_size, Sequence) and not isinstance(image_size, str | bytes) and len(image_size) > 0
    if several and not isinstance(image_size[0], int | float | np.number | str | bytes):
        cost = partial(tokens_for, strategy=strategy, cell=cell, canvas=canvas, levels=levels, model=model)
        each = [cost(size, None if total else budget) for size in image_size]
        return sum(each) if budget is None or not total else check_budget(budget, sum(each))
    if model is not None:
        full = table_for(model).tokens(image_size)
        return full if budget is None else check_budget(budget, full)
    rows, cols = grid_of(image_size if canvas is None else canvas, cell)
    if levels is not None:
        whole(levels, "levels")
    if budget is None:
        return rows * cols
    count = check_budget(budget, rows * cols)
    if strategy != "quadtree":
        return count
    return tree_for(image_size, count, cell=cell, canvas=canvas, levels=levels).reach(count)
