"""`allocate(relevance, budget, …) -> Allocation`, and the same for a batch.

Maps stay where they are: overlay and quadtree work on numpy arrays and on tensors of any device alike. The controls and
what other packages add are written in torch, which is imported for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING

import numpy as np

from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError, whole
from ..core.values import DEFAULT_CELL, Allocation, JsonObject, Relevance
from .frame import Frame, check_maps, to_cells
from .overlay import overlay
from .strategies import DEFAULT_STRATEGY, AllocationJob, check_options, find_strategy
from .tree import Leaves, quadtree

if TYPE_CHECKING:
    import torch


def allocate(
    relevance: Relevance | Array,
    budget: int | str,
    *,
    image_size: tuple[int, int] | None = None,
    strategy: str = DEFAULT_STRATEGY,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    seed: int = 0,
    strategy_options: Mapping[str, object] | None = None,
) -> Allocation:
    """Spend a budget on one relevance map.

    Args:
        relevance: (h, w) in [0, 1], an array, a tensor or a `Relevance`.
        budget: Tokens that may be spent, or a share such as "25%". Above the full count means all of the picture.
        image_size: (height, width) of the picture; without it the map has one value for each cell.
        strategy: How relevance becomes regions.
        cell: Pixels on the side of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level; 3 by default, or coarser where the budget needs it.
        seed: For strategies that draw random numbers.
        strategy_options: What the strategy takes by name, such as {"boxes": [[0.1, 0.2, 0.4, 0.5]]} for "oracle".

    Returns:
        An `Allocation` that costs exactly the budget, or the full count where that is less.

    Example:
        >>> import numpy as np
        >>> allocate(np.eye(32), 250).tokens
        250
    """
    shape = relevance.map.shape if isinstance(relevance, Relevance) else getattr(relevance, "shape", ())
    if len(shape) == 3 and shape[0] != 1:
        raise InputError(f"allocate takes one map, got a batch of {shape[0]}; use allocate_batch")
    placed: JsonObject = {"image_size": image_size, "cell": cell, "canvas": canvas, "levels": levels}
    chosen: JsonObject = {"strategy": strategy, "seed": seed, "strategy_options": strategy_options}
    return allocate_batch(relevance, budget, **placed, **chosen)[0]


def allocate_batch(
    relevance: Relevance | Array | Sequence[Relevance],
    budget: int | str | Sequence[int | str],
    *,
    image_size: tuple[int, int] | None = None,
    strategy: str = DEFAULT_STRATEGY,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    seed: int = 0,
    strategy_options: Mapping[str, object] | None = None,
) -> list[Allocation]:
    """Spend budgets on maps (B, h, w) of pictures of one size. budget: one for all, or one for each."""
    options = dict(strategy_options or {})
    check_options(strategy, options)
    chosen = find_strategy(strategy)
    maps = as_maps(relevance)
    if not chosen.without_torch:
        maps = as_tensor(maps)
    # Without a size the maps have one value for each cell.
    frame = Frame(image_size or canvas or (maps.shape[1] * cell, maps.shape[2] * cell), cell, canvas)
    budgets = list(budget) if isinstance(budget, Sequence) and not isinstance(budget, str) else [budget]
    if len(budgets) not in (1, len(maps)):
        raise InputError(f"got {len(budgets)} budgets for {len(maps)} relevance maps; give one, or one for each map")
    budgets = budgets * (len(maps) if len(budgets) == 1 else 1)
    checked = [frame.check_budget(one) for one in budgets]
    job = AllocationJob(
        maps=maps,
        cells=to_cells(maps, frame),
        budgets=tuple(count for count, _ in checked),
        frame=frame,
        seed=whole(seed, "seed", -(1 << 63)),
        levels=None if levels is None else whole(levels, "levels"),
        options=options,
    )
    result = chosen(job)
    allocations = job.allocations(result, strategy) if isinstance(result, Leaves) else result
    return [
        replace(one, notes=(*notes, *one.notes)) if notes else one
        for one, (_, notes) in zip(allocations, checked, strict=True)
    ]


def as_maps(relevance: Relevance | Array | Sequence[Relevance]) -> Array:
    """Relevance in every form → (B, h, w) float32, checked."""
    if isinstance(relevance, Relevance):
        relevance = relevance.map
    if isinstance(relevance, np.ndarray) or arrays.is_tensor(relevance):
        return check_maps(arrays.float32(relevance))
    many = isinstance(relevance, Iterable) and not isinstance(relevance, str | bytes | Mapping)
    items = [as_maps(item) for item in relevance] if many else []
    if not items:
        raise InputError("got no relevance map; give one map for each picture")
    return arrays.namespace(items[0]).concatenate(items)


def as_tensor(array: Array) -> torch.Tensor:
    """An array as a tensor on the CPU; a tensor as it is."""
    if arrays.is_tensor(array):
        return array
    return import_module("torch").as_tensor(array if array.flags.writeable else array.copy())


def overlay_leaves(job: AllocationJob) -> Leaves:
    """The strategy "overlay"."""
    reading = job.option("reading")
    if reading is not None:
        reading = arrays.like(np.asarray(reading, np.float32)[None], job.cells)
    return overlay(job.cells, job.budgets, levels=job.levels, reading=reading)


def quadtree_leaves(job: AllocationJob) -> Leaves:
    """The strategy "quadtree"."""
    return quadtree(job.cells, job.tree, job.budgets)
