"""`allocate_batch`: every strategy, batched, on any device, in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import whole
from ..errors import InputError
from ..values import DEFAULT_CELL, Allocation, Relevance
from . import controls
from .classic import classic_regions
from .frame import Frame, to_cells
from .overlay import overlay
from .places import cascade, clusters, fixations_of, saccades, top_k
from .quadtree import quadtree
from .request import Request, as_maps
from .strategies import DEFAULT_STRATEGY, check_options, check_strategy
from .tree import Leaves

RelevanceLike = Relevance | np.ndarray | Tensor | Sequence[Relevance]


def _overlay(request: Request) -> Leaves:
    return overlay(request.cells, request.budgets, levels=request.levels, overview=request.option("overview"))


def _quadtree(request: Request) -> Leaves:
    return quadtree(request.cells, request.tree(), request.budgets, request.option("criterion", "mass"))


_LEAF_STRATEGIES: dict[str, Callable[[Request], Leaves]] = {
    "overlay": _overlay,
    "quadtree": _quadtree,
    "saccades": saccades,
    "cascade": cascade,
    "clusters": clusters,
    "top_k": top_k,
    "uniform": controls.uniform,
    "random": controls.random,
    "shuffled": controls.shuffled,
    "edge": controls.edge,
    "center": controls.center,
    "oracle": controls.oracle,
    "full": controls.full,
}


def _classic(request: Request) -> list[Allocation]:
    """Patches of about 20×20 cells with 64 to 400 tokens each, and single cells for what no patch can take."""
    how = {"curve": request.option("curve", "power"), "steepness": request.option("steepness", 2.0)}
    found = classic_regions(request.cells, torch.tensor(request.budgets), request.frame, **how)
    results = []
    for budget, one in zip(request.budgets, found, strict=True):
        given, patches = one.patches
        few = f"budget {budget} gives {given} of {patches} patches their least 64 tokens: the others are not seen"
        results.append(
            replace(
                _with_boxes(
                    request,
                    "classic",
                    boxes=request.frame.rectangles(one.first, one.extent),
                    levels=one.levels,
                    counts=one.counts,
                    scores=one.scores,
                    budget=budget,
                ),
                sparse=given < patches,
                notes=(few,) if given < patches else (),
            )
        )
    return results


def _with_boxes(request: Request, strategy: str, **columns: Any) -> Allocation:
    frame = request.frame
    return Allocation(
        height=frame.image_size[0],
        width=frame.image_size[1],
        full=frame.full,
        strategy=strategy,
        sparse=True,
        cell=frame.cell,
        canvas=frame.canvas,
        **columns,
    )


_PLACE_STRATEGIES: dict[str, Callable[[Request], list[Allocation]]] = {
    "classic": _classic,
}


def allocate_batch(
    relevance: RelevanceLike,
    budget: int | Sequence[int],
    *,
    image_size: tuple[int, int] | None = None,
    strategy: str = DEFAULT_STRATEGY,
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    seed: int = 0,
    **options: Any,
) -> list[Allocation]:
    """A batch of relevance maps (B, h, w) of pictures of one size → one `Allocation` each.

    budget: one for all or one for each. image_size: (height, width) of the pictures as given; without it the maps are
    taken to have one value for each cell. canvas: the size the backbone resizes the picture to. levels: the coarsest
    level; by default 3, or coarser where the budget needs it. options: what a strategy takes by name
    (`strategies.OPTIONS`): `overview` (overlay: the most tokens of its overview), `criterion` (quadtree: mass,
    variance, peak), `shape` (controls: overlay or quadtree), `boxes` (oracle), `edges` (edge), `level` (top_k),
    `labels`, `saliency`, `parents`, `gaze` (clusters), `curve`, `steepness` (classic), `fovea` (saccades).
    A budget above the full count means all of the picture; the allocation's notes then say so.
    """
    check_strategy(strategy)
    check_options(strategy, options)
    maps = as_maps(relevance)
    frame = Frame.of(maps, image_size, cell, canvas)
    budgets = list(budget) if isinstance(budget, Sequence) else [budget]
    if len(budgets) not in (1, len(maps)):
        raise InputError(f"got {len(budgets)} budgets for {len(maps)} relevance maps; give one, or one for each map")
    budgets = budgets * (len(maps) if len(budgets) == 1 else 1)
    checked = [frame.check_budget(one) for one in budgets]
    request = Request(
        maps=maps,
        cells=to_cells(maps, frame),
        budgets=tuple(count for count, _ in checked),
        frame=frame,
        seed=whole(seed, "seed", -(1 << 63)),
        levels=None if levels is None else whole(levels, "levels"),
        options=options,
    )
    if strategy in _PLACE_STRATEGIES:
        found = _PLACE_STRATEGIES[strategy](request)
        return [replace(one, notes=(*notes, *one.notes)) for one, (_, notes) in zip(found, checked, strict=True)]
    leaves = _LEAF_STRATEGIES[strategy](request)
    cells, scores = leaves.cells.cpu().numpy(), leaves.scores.cpu().numpy()
    paths = fixations_of(request) if strategy == "saccades" else None
    return [
        frame.allocation(
            cells[picture, :length],
            scores[picture, :length],
            frame.full if strategy == "full" else request.budgets[picture],
            strategy,
            sparse=frame.leaves_gaps(cells[picture, :length]),
            notes=checked[picture][1],
            fixated=() if paths is None else paths.points[picture][paths.made[picture]].tolist(),
        )
        for picture, length in enumerate(leaves.lengths.tolist())
    ]
