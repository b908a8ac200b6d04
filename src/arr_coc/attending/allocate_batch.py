"""`allocate_batch`: every strategy, batched, on any device, in torch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from torch import Tensor

from ..core.checks import whole
from ..core.errors import InputError
from ..core.values import DEFAULT_CELL, Allocation, Relevance
from .frame import Frame, to_cells
from .job import AllocationJob, as_maps
from .strategies import DEFAULT_STRATEGY, check_options, find_strategy
from .tree import Leaves

RelevanceLike = Relevance | np.ndarray | Tensor | Sequence[Relevance]


def allocate_batch(
    relevance: RelevanceLike,
    budget: int | str | Sequence[int | str],
    *,
    image_size: tuple[int, int] | None = None,
    strategy: str = DEFAULT_STRATEGY,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    seed: int = 0,
    **options: object,
) -> list[Allocation]:
    """A batch of relevance maps (B, h, w) of pictures of one size → one `Allocation` each.

    budget: one for all or one for each, tokens or "25%". image_size: (height, width) of the pictures as given; without
    it the maps are taken to have one value for each cell. canvas: the size the backbone resizes the picture to. levels:
    the coarsest level; by default 3, or coarser where the budget needs it. options: what a strategy takes by name
    (`Strategy.options`): `overview` (overlay: the most tokens of its overview), `criterion` (quadtree: mass,
    variance, peak), `shape` (controls: overlay or quadtree), `boxes` (oracle), `edges` (edge), `level` (top_k),
    `labels`, `saliency` (clusters), `curve`, `steepness` (classic), `fovea` (saccades).
    A budget above the full count means all of the picture; the allocation's notes then say so.
    """
    check_options(strategy, options)
    maps = as_maps(relevance)
    frame = Frame.of(maps, image_size, cell, canvas)
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
    result = find_strategy(strategy)(job)
    allocations = job.allocations(result, strategy) if isinstance(result, Leaves) else result
    told = zip(allocations, checked, strict=True)
    return [replace(one, notes=(*notes, *one.notes)) if notes else one for one, (_, notes) in told]
