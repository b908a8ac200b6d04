"""What every strategy is handed: relevance on the grid, the budget, and what some strategies need besides."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..core.checks import frozen
from ..core.errors import InputError
from ..core.values import Allocation, Relevance
from .frame import Frame, check_maps, check_reading
from .gains import Criterion
from .overlay import overlay
from .quadtree import quadtree
from .tree import Leaves, Tree, tree_for


def as_maps(relevance: Relevance | np.ndarray | Tensor | Sequence[Relevance]) -> Tensor:
    """Any form of relevance → (B, h, w) float tensor, checked."""
    if isinstance(relevance, Relevance):
        maps = torch.tensor(relevance.map)
    elif isinstance(relevance, np.ndarray):
        maps = torch.as_tensor(relevance if relevance.flags.writeable else relevance.copy())
    elif isinstance(relevance, Tensor):
        maps = relevance
    else:
        many = isinstance(relevance, Iterable) and not isinstance(relevance, str | bytes | Mapping)
        items = list(relevance) if many else []
        if not items:
            raise InputError("got no relevance map; give one map for each picture")
        maps = torch.cat([as_maps(item) for item in items])
    return check_maps(maps.float())


def boxes_to_cells(boxes: Sequence[Sequence[float]] | np.ndarray, frame: Frame) -> Tensor:
    """Boxes (K, 4) as x0, y0, x1, y1 in 0–1 of the picture → (rows, cols) share of each cell's area they cover."""
    array = frozen(boxes, "boxes", np.float64) if len(boxes) else np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4 or (array[:, 2:] < array[:, :2]).any():
        raise InputError("boxes must be x0, y0, x1, y1 in 0–1 with x1 ≥ x0 and y1 ≥ y0, four numbers for each box")
    rows, cols = frame.grid
    height, width = frame.seen
    tops, lefts = np.arange(rows) * frame.cell / height, np.arange(cols) * frame.cell / width
    tall, wide = frame.cell / height, frame.cell / width
    down = np.clip(np.minimum(tops + tall, array[:, 3:4]) - np.maximum(tops, array[:, 1:2]), 0, None) / tall
    across = np.clip(np.minimum(lefts + wide, array[:, 2:3]) - np.maximum(lefts, array[:, 0:1]), 0, None) / wide
    covered = (down[:, :, None] * across[:, None, :]).max(axis=0, initial=0)
    return torch.from_numpy(covered.astype(np.float32))


@dataclass(frozen=True)
class AllocationJob:
    """One call of `allocate_batch`.

    maps: (B, h, w) relevance as given, at its own resolution. cells: (B, rows, cols) the same on level-0 cells.
    budgets: tokens for each picture. options: what a strategy takes by name.
    """

    maps: Tensor
    cells: Tensor
    budgets: tuple[int, ...]
    frame: Frame
    seed: int = 0
    levels: int | None = None
    options: Mapping[str, object] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        return len(self.maps)

    @property
    def budget(self) -> int:
        return self.budgets[0]

    def tree(self, budget: int | None = None) -> Tree:
        """The tree that serves the smallest budget of the batch, so that the whole batch shares it."""
        frame = self.frame
        smallest = min(self.budgets) if budget is None else budget
        return tree_for(frame.image_size, smallest, cell=frame.cell, canvas=frame.canvas, levels=self.levels)

    def leaves(self, cells: Tensor, criterion: Criterion = "mass") -> Leaves:
        """Leaves of a map (B, rows, cols) by the allocator that `shape=` names, on the request's budgets."""
        shape = self.option("shape", "overlay")
        if shape == "overlay":
            return overlay(cells, self.budgets, levels=self.levels, overview=self.option("overview"))
        if shape != "quadtree":
            raise InputError(f"shape={shape!r} is unknown; use overlay or quadtree")
        return quadtree(cells, self.tree(), self.budgets, self.option("criterion", criterion))

    def generator(self) -> torch.Generator:
        """Random numbers are drawn on the CPU, so that a seed means the same on every device."""
        return torch.Generator().manual_seed(self.seed)

    def option(self, name: str, default: object = None) -> Any:
        return self.options.get(name, default)

    def need(self, name: str, strategy: str, what: str) -> Any:
        value = self.options.get(name)
        if value is None:
            raise InputError(f"strategy {strategy!r} needs {name}= ({what})")
        return value

    def allocations(
        self, leaves: Leaves, strategy: str, fixated: Sequence[Sequence[Sequence[int]]] | None = None
    ) -> list[Allocation]:
        """Leaves of every picture → one `Allocation` each. fixated: where the eye rested, for each picture."""
        frame = self.frame
        cells, scores = leaves.cells.cpu().numpy(), leaves.scores.cpu().numpy()
        return [
            frame.allocation(
                cells[picture, :length],
                scores[picture, :length],
                frame.full if strategy == "full" else self.budgets[picture],
                strategy,
                sparse=frame.leaves_gaps(cells[picture, :length]),
                fixated=() if fixated is None else fixated[picture],
            )
            for picture, length in enumerate(leaves.lengths.tolist())
        ]


def overlay_leaves(job: AllocationJob) -> Leaves:
    """The strategy "overlay"."""
    reading = check_reading(job.option("reading"), job.frame.grid)
    return overlay(
        job.cells,
        job.budgets,
        levels=job.levels,
        overview=job.option("overview"),
        reading=None if reading is None else torch.tensor(reading).to(job.cells),
    )


def quadtree_leaves(job: AllocationJob) -> Leaves:
    """The strategy "quadtree"."""
    return quadtree(job.cells, job.tree(), job.budgets, job.option("criterion", "mass"))
