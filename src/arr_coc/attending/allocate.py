"""The one call: `allocate(relevance, budget, …) -> Allocation`.

One picture's overlay or quadtree from a numpy map is made in numpy, everything else in torch (`allocate_batch`), which
is then imported; the answers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..core.checks import whole
from ..core.errors import InputError
from ..core.values import DEFAULT_CELL, Allocation, Relevance
from .frame import Frame, check_maps, check_reading, to_cells
from .overlay import overlay
from .quadtree_numpy import quadtree_numpy
from .strategies import DEFAULT_STRATEGY, check_options, without_torch
from .tree import tree_for

if TYPE_CHECKING:
    from torch import Tensor


def allocate(
    relevance: Relevance | np.ndarray | Tensor,
    budget: int | str,
    *,
    strategy: str = DEFAULT_STRATEGY,
    seed: int = 0,
    **how: Any,
) -> Allocation:
    """Spend a budget on one relevance map.

    Args:
        relevance: (h, w) in [0, 1], an array, a tensor or a `Relevance`.
        budget: Tokens that may be spent, or a share such as "25%".
        strategy: How relevance becomes regions.
        seed: For strategies that draw lots.
        **how: The other arguments of `allocate_batch`: image_size, cell, canvas, levels, and what a strategy takes.

    Returns:
        An `Allocation` that costs exactly the budget, or the full count where that is less.

    Example:
        >>> import numpy as np
        >>> allocate(np.eye(32), 250).tokens
        250
    """
    in_numpy = without_torch(strategy)
    shape = relevance.map.shape if isinstance(relevance, Relevance) else getattr(relevance, "shape", ())
    if len(shape) == 3 and shape[0] != 1:
        raise InputError(f"allocate takes one map, got a batch of {shape[0]}; use allocate_batch")
    if in_numpy and isinstance(relevance, Relevance | np.ndarray):
        whole(seed, "seed", -(1 << 63))
        return _one_in_numpy(relevance, budget, strategy, **how)
    from .allocate_batch import allocate_batch

    return allocate_batch(relevance, budget, strategy=strategy, seed=seed, **how)[0]


def _one_in_numpy(
    relevance: Relevance | np.ndarray,
    budget: int | str,
    strategy: str,
    *,
    image_size: tuple[int, int] | None = None,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    **options: Any,
) -> Allocation:
    """What `allocate_batch` does with one numpy map; nothing is left to chance here."""
    check_options(strategy, options)
    levels = None if levels is None else whole(levels, "levels")
    given = relevance.map if isinstance(relevance, Relevance) else relevance
    maps = check_maps(np.asarray(given, dtype=np.float32))
    frame = Frame.of(maps, image_size, cell, canvas)
    tokens, notes = frame.check_budget(budget)
    cells = to_cells(maps, frame)
    if strategy == "overlay":
        leaves = overlay(
            cells,
            [tokens],
            levels=levels,
            overview=options.get("overview"),
            reading=check_reading(options.get("reading"), frame.grid),
        )
        found = leaves.cells[0], leaves.scores[0]
    else:
        tree = tree_for(frame.image_size, tokens, cell=frame.cell, canvas=frame.canvas, levels=levels)
        found = quadtree_numpy(cells[0], tree, tokens, options.get("criterion", "mass"))
    gaps = frame.leaves_gaps(found[0])
    return frame.allocation(*found, tokens, strategy, sparse=gaps, notes=notes)
