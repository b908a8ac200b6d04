"""`allocate_batch`: every strategy, batched, on any device, in torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..checks import whole
from ..errors import InputError
from ..values import DEFAULT_CELL, Allocation, Relevance
from . import controls
from .classic import PRESETS, lod_tokens, mip_level, power_curve_tokens, select_patches
from .frame import Frame, to_cells
from .overlay import overlay
from .places import cascade, clusters, saccades, top_k
from .quadtree import quadtree
from .request import Request, as_maps
from .strategies import CLASSIC_SCALE, DEFAULT_STRATEGY, check_options, check_strategy
from .tree import Leaves, check_budget

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


def _classic(request: Request, strategy: str) -> list[Allocation]:
    """Patches of the classic scale: 64 to 400 tokens for each of the K best cells."""
    preset = PRESETS[request.option("preset", "classic")]
    patches = int(request.option("patches", preset.patches))
    index, scores = select_patches(request.cells, patches)
    if strategy == "lod":
        tokens = lod_tokens(scores, request.budget, request.option("mapping", "linear"))
    else:
        tokens = power_curve_tokens(scores, request.budget, request.option("steepness", 2.0))
    cols = request.frame.grid[1]
    cells = torch.stack([index // cols, index % cols, torch.zeros_like(index)], dim=-1).cpu().numpy()
    levels = mip_level(tokens).cpu().numpy()
    results = []
    for picture in range(request.batch):
        boxes = request.frame.boxes(cells[picture])
        results.append(
            _with_boxes(
                request,
                strategy,
                boxes=boxes,
                levels=levels[picture],
                counts=tokens[picture].cpu().numpy(),
                scores=scores[picture].cpu().numpy(),
                budget=request.budgets[picture],
            )
        )
    return results


def _power_curve(request: Request) -> list[Allocation]:
    return _classic(request, "power_curve")


def _lod(request: Request) -> list[Allocation]:
    return _classic(request, "lod")


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
    "power_curve": _power_curve,
    "lod": _lod,
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
    `labels`, `saliency`, `parents`, `gaze` (clusters), `preset`, `patches`, `steepness`, `mapping` (power_curve, lod),
    `fovea` (saccades). A budget above the full count means all of the picture; the allocation's notes then say so.
    """
    check_strategy(strategy)
    check_options(strategy, options)
    maps = as_maps(relevance)
    frame = Frame.of(maps, image_size, cell, canvas)
    budgets = list(budget) if isinstance(budget, Sequence) else [budget]
    if len(budgets) not in (1, len(maps)):
        raise InputError(f"got {len(budgets)} budgets for {len(maps)} relevance maps; give one, or one for each map")
    budgets = budgets * (len(maps) if len(budgets) == 1 else 1)
    if strategy in CLASSIC_SCALE:
        checked = [(check_budget(one, 2**31), ()) for one in budgets]
    else:
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
        return _PLACE_STRATEGIES[strategy](request)
    leaves = _LEAF_STRATEGIES[strategy](request)
    cells, scores = leaves.cells.cpu().numpy(), leaves.scores.cpu().numpy()
    return [
        frame.allocation(
            cells[picture, :length],
            scores[picture, :length],
            frame.full if strategy == "full" else request.budgets[picture],
            strategy,
            sparse=frame.leaves_gaps(cells[picture, :length]),
            notes=checked[picture][1],
        )
        for picture, length in enumerate(leaves.lengths.tolist())
    ]
