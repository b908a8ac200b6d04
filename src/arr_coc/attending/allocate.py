"""The one call: `allocate(relevance, budget, …) -> Allocation`.

One picture's quadtree from a numpy map is made in numpy, everything else in torch (`allocate_batch`), which is then
imported; the answers are the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import InputError
from ..values import DEFAULT_CELL, Allocation, Relevance
from .frame import Frame, check_maps, to_cells
from .quadtree_numpy import quadtree_numpy
from .strategies import check_strategy
from .tree import build_tree, check_budget, tree_for

if TYPE_CHECKING:
    from torch import Tensor


def allocate(
    relevance: Relevance | np.ndarray | Tensor, budget: int, *, strategy: str = "quadtree", **how: Any
) -> Allocation:
    """One relevance map (h, w) and a budget → its `Allocation`; the arguments are those of `allocate_batch`.

    >>> import numpy as np
    >>> allocate(np.eye(32), 256).tokens
    256
    """
    check_strategy(strategy)
    shape = relevance.map.shape if isinstance(relevance, Relevance) else relevance.shape
    if len(shape) == 3 and shape[0] != 1:
        raise InputError(f"allocate takes one map, got a batch of {shape[0]}; use allocate_batch")
    if strategy == "quadtree" and isinstance(relevance, Relevance | np.ndarray):
        return _quadtree_of_one(relevance, budget, **how)
    from .allocate_batch import allocate_batch

    return allocate_batch(relevance, budget, strategy=strategy, **how)[0]


def _quadtree_of_one(
    relevance: Relevance | np.ndarray,
    budget: int,
    *,
    image_size: tuple[int, int] | None = None,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    seed: int = 0,
    **options: Any,
) -> Allocation:
    """What `allocate_batch` does with strategy "quadtree", for one numpy map; `seed` and foreign options do nothing."""
    given = relevance.map if isinstance(relevance, Relevance) else relevance
    maps = check_maps(np.asarray(given, dtype=np.float32))
    if image_size is None:
        image_size = canvas or (maps.shape[1] * cell, maps.shape[2] * cell)
    frame = Frame((int(image_size[0]), int(image_size[1])), cell, canvas)
    tokens = check_budget(budget, frame.full)
    if levels is None:
        tree = tree_for(frame.image_size, tokens, cell=cell, canvas=canvas)
    else:
        tree = build_tree(*frame.grid, levels)
    leaves = quadtree_numpy(to_cells(maps, frame)[0], tree, tokens, options.get("criterion", "mass"))
    return frame.allocation(leaves.cells, leaves.scores, tokens, "quadtree")
