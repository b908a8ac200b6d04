"""`TileBoard`: the tiles and views that show one picture, one below the other, so that passes look at one map."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..attending.frame import Frame
from ..attending.tree import DEFAULT_LEVELS, Tree, build_tree, tree_for
from ..core.values import Allocation
from ..realizing.base import VisualGrid


@dataclass(frozen=True)
class TileBoard:
    """grids: of one picture. whole: which of them shows all of it. levels: the coarsest level; of several grids one
    that fits into the smallest of them. Every tile begins at a whole leaf of that level."""

    grids: tuple[VisualGrid, ...]
    whole: int = 0
    levels: int | None = None

    @classmethod
    def of(cls, grids: Sequence[VisualGrid], whole: int, levels: int | None) -> TileBoard:
        if len(grids) == 1:
            return cls(tuple(grids), 0, levels)
        fits = min(min(one.rows, one.cols) for one in grids).bit_length() - 1
        return cls(tuple(grids), range(len(grids))[whole], min(fits, DEFAULT_LEVELS if levels is None else levels))

    @property
    def side(self) -> int:
        """Cells on the side of the leaves that tiles are made of."""
        return 1 if len(self.grids) == 1 else 1 << (self.levels or 0)

    @property
    def tops(self) -> list[int]:
        """The first row of every tile, and behind them the number of rows."""
        heights = [-(-one.rows // self.side) * self.side for one in self.grids]
        return [0, *np.cumsum(heights).tolist()]

    @property
    def grid(self) -> tuple[int, int]:
        return self.tops[-1], max(-(-one.cols // self.side) * self.side for one in self.grids)

    @property
    def full(self) -> int:
        return sum(one.tokens for one in self.grids)

    @property
    def least(self) -> int:
        """Tokens of the first look: one for each tile."""
        return len(self.grids)

    def frames(self) -> list[Frame]:
        """In pixels of the tiles."""
        return [Frame((one.height, one.width), one.cell) for one in self.grids]

    def tree(self, budget: int) -> Tree:
        if len(self.grids) > 1:
            return build_tree(*self.grid, self.levels or 0)
        (frame,) = self.frames()
        return tree_for(frame.image_size, budget, cell=frame.cell, levels=self.levels)

    def laid(self, maps: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """What is known of each tile, as `PassMaps` takes it; nothing matters where there is no tile."""
        if len(self.grids) == 1:
            return dict(maps[0])

        def put(name: str) -> Tensor | None:
            if maps[0][name] is None:
                return None
            board = torch.zeros(1, *self.grid)
            for top, one in zip(self.tops, maps, strict=False):
                rows, cols = one[name].shape[1:]
                board[:, top : top + rows, :cols] = one[name].cpu()
            return board

        return {"relevance": put("relevance"), "glance": put("glance"), "stakes": maps[0]["stakes"].cpu()}

    def tile(self, leaves: np.ndarray, number: int) -> np.ndarray:
        """Of leaves (N, 3) on the board those that show some of one tile, where they lie there."""
        grid, top = self.grids[number], self.tops[number]
        row = leaves[:, 0] - top
        return (leaves - [top, 0, 0])[(row >= 0) & (row < grid.rows) & (leaves[:, 1] < grid.cols)]

    def allocations(self, leaves: np.ndarray) -> list[Allocation]:
        """Leaves (N, 3) on the board → one allocation for each tile; one that got nothing is seen in one leaf."""
        found = []
        for number, frame in enumerate(self.frames()):
            own = self.tile(leaves, number)
            own = own if len(own) else np.array([[0, 0, self.levels or 0]])
            found.append(frame.allocation(own, own[:, 2] * 0.0, len(own), "esper", sparse=frame.leaves_gaps(own)))
        return found

    def of_whole(self, board: np.ndarray) -> np.ndarray:
        """Of a map (rows, cols) on the board, the part of the view that shows the whole picture."""
        grid, top = self.grids[self.whole], self.tops[self.whole]
        return board[top : top + grid.rows, : grid.cols]
