"""`allocate(relevance, budget, …) -> Allocation`.

Overlay and quadtree work on numpy arrays and on tensors of any device, where the maps are. Strategies of other packages
are written in torch, which is imported for them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..balancing.tensions import distance_to_top
from ..core import arrays
from ..core.arrays import Array
from ..core.errors import InputError, whole
from ..core.values import DEFAULT_CELL, Allocation, Relevance
from .frame import Frame, as_maps, to_cells
from .strategies import DEFAULT_STRATEGY, AllocationJob, check_options, find_strategy
from .tree import Leaves, check_budget

# Value of the surroundings of the best places at full focus, as a share of the map's maximum.
NEAR = 0.12


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
        budget: Number of tokens, or a share such as "25%". Above the full count means the whole picture.
        image_size: (height, width) of the picture; by default the map has one value for each cell.
        strategy: How relevance becomes regions.
        cell: Side in pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level; by default chosen by the strategy for the budget.
        seed: Seed of strategies that draw random numbers.
        strategy_options: Options of the strategy by name, such as {"boxes": [[0.1, 0.2, 0.4, 0.5]]} for the
            laboratory's "oracle".

    Returns:
        An `Allocation` with exactly the budget, or the full count if that is less.

    Example:
        >>> import numpy as np
        >>> allocate(np.eye(32), 250).tokens
        250
    """
    options = dict(strategy_options or {})
    check_options(strategy, options)
    # Without a size the map has one value for each cell.
    _, rows, cols = as_maps(relevance).shape
    frame = Frame(image_size or canvas or (rows * cell, cols * cell), cell, canvas)
    how = strategy, levels, seed, options, [{}]
    (found,) = allocate_each([relevance], [check_budget(budget, frame.full)], [frame], *how)
    if isinstance(budget, str) or budget <= frame.full:
        return found
    note = f"budget {budget} is above the {frame.full} tokens of the whole picture: shown in full detail"
    return replace(found, notes=(note, *found.notes))


def allocate_each(
    relevance: Sequence[Relevance | Array], tokens: Sequence[int], frames: Sequence[Frame], strategy: str, *how: Any
) -> list[Allocation]:
    """Spend tokens on each of several maps, in one pass where grid and tokens are equal. how: levels, seed, options,
    and other fields of each allocation."""
    chosen, alike, found = find_strategy(strategy), defaultdict(list), {}
    levels, seed, options, more = how
    seed, levels = whole(seed, "seed", -(1 << 63)), None if levels is None else whole(levels, "levels")
    for number, (known, budget, frame) in enumerate(zip(relevance, tokens, frames, strict=True)):
        maps = as_maps(surrounded(known))
        if len(maps) != 1:
            raise InputError(f"allocate takes one map, got {len(maps)}; call it once for each picture")
        maps = maps if chosen.without_torch else arrays.as_tensor(maps)
        job = AllocationJob(maps, to_cells(maps, frame), budget, frame, seed, levels, options)
        key = budget, job.cells.shape, type(maps), maps.device
        alike[key if chosen.without_torch else number].append((number, job))
    for members in alike.values():
        cells = [job.cells for _, job in members]
        made = chosen(replace(members[0][1], cells=arrays.namespace(cells[0]).concatenate(cells)))
        for place, (number, job) in enumerate(members):
            found[number] = _laid_out(made, place, job, strategy, more[number])
    return [found[number] for number in range(len(found))]


def _laid_out(made: Leaves | Allocation, place: int, job: AllocationJob, strategy: str, more: Mapping) -> Allocation:
    if isinstance(made, Allocation):
        return replace(made, **{**more, "notes": (*made.notes, *more.get("notes", ()))})
    cells, scores = (arrays.to_numpy(part[place, : int(made.lengths[place])]) for part in made[:2])
    return job.frame.allocation(cells, scores, job.frame.full if strategy == "full" else job.budget, strategy, **more)


def surrounded(relevance: Relevance | Array) -> Relevance | Array:
    """Raise the surroundings of the best places by the focus of the map's tensions, so that spare tokens go there. Maps
    without tensions stay unchanged."""
    if not isinstance(relevance, Relevance) or "focus_diversify" not in relevance.tensions:
        return relevance
    plane = relevance.map
    near = NEAR * (1 - relevance.tensions["focus_diversify"]) * (1 - distance_to_top(plane[None])[0])
    return (plane + near * plane.max()) / (1 + near.max())
