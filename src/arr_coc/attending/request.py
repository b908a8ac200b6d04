"""What every strategy is handed: relevance on the grid, the budget, and what some strategies need besides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..errors import InputError
from .frame import Frame, to_cells
from .grids import as_maps
from .tree import Tree, build_tree, tree_for


@dataclass(frozen=True)
class Request:
    """One call of `allocate_batch`.

    maps: (B, h, w) relevance as given, at its own resolution. cells: (B, rows, cols) the same on level-0 cells.
    budgets: tokens for each picture. options: what a strategy takes by name (criterion, boxes, k, labels, …).
    """

    maps: Tensor
    cells: Tensor
    budgets: tuple[int, ...]
    frame: Frame
    seed: int = 0
    levels: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def batch(self) -> int:
        return len(self.maps)

    @property
    def budget(self) -> int:
        return self.budgets[0]

    def tree(self, budget: int | None = None) -> Tree:
        """The tree that serves the smallest budget of the batch, so that the whole batch shares it."""
        smallest = min(self.budgets) if budget is None else budget
        if self.levels is not None:
            return build_tree(*self.frame.grid, self.levels)
        return tree_for(self.frame.image_size, smallest, cell=self.frame.cell, canvas=self.frame.canvas)

    def generator(self) -> torch.Generator:
        """Random numbers are drawn on the CPU, so that a seed means the same on every device."""
        return torch.Generator().manual_seed(self.seed)

    def option(self, name: str, default: Any = None) -> Any:
        return self.options.get(name, default)

    def need(self, name: str, strategy: str, what: str) -> Any:
        value = self.options.get(name)
        if value is None:
            raise InputError(f"strategy {strategy!r} needs {name}= ({what})")
        return value

    def map_option(self, name: str, strategy: str, what: str) -> Tensor:
        """An option that is a map like the relevance, brought to the grid of cells: (B, rows, cols)."""
        maps = to_cells(as_maps(self.need(name, strategy, what)), self.frame).to(self.cells)
        if len(maps) not in (1, self.batch):
            raise InputError(f"{name}= has {len(maps)} maps for a batch of {self.batch}; give one for each picture")
        return maps.expand(self.batch, -1, -1)
