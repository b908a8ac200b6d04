"""Order the leaves of an allocation as the tokens of a model, and check that a model can use them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..core.errors import InputError
from ..core.values import COARSEST_LEVEL, Allocation
from .frame import Frame


def leaves_of(allocation: Allocation) -> np.ndarray:
    """Return (N, 3) int64 (row, col, level) in raster order of the first cell, so that level 0 everywhere is the order
    of an untouched model. Leaves may overlap; of those that begin at one cell the coarse one comes first."""
    if len(allocation) == 0:
        raise InputError("the allocation has no region; every picture needs at least one token")
    if (allocation.counts != 1).any():
        raise InputError(
            f"strategy {allocation.strategy!r} gives some regions more than one token, and here every region must have "
            "one: use overlay, quadtree, top_k or uniform"
        )
    return ordered_leaves(allocation.leaf_cells(), *allocation.grid)


def tokens_of(allocation: Allocation) -> np.ndarray:
    """Return `leaves_of`, or if regions have several tokens (T, 4) float64: top, left, height and width in cells of
    every token, in the same order."""
    if not len(allocation) or (allocation.counts == 1).all():
        return leaves_of(allocation)
    boxes = token_boxes(allocation)
    return boxes[np.lexsort((-boxes[:, 2:].prod(1), boxes[:, 1], boxes[:, 0]))]


def token_grids(counts: np.ndarray, extents: np.ndarray) -> np.ndarray:
    """Arrange the tokens of regions, with extents (N, 2) in cells, in (N, 2) int64 rows and columns: exactly the count,
    as square as possible; of two equal ways the one with fewer rows, because text runs horizontally."""
    kinds, inverse = np.unique(np.column_stack([counts, extents]), axis=0, return_inverse=True)
    grids = np.ones((len(kinds), 2), dtype=np.int64)
    for number, (count, height, width) in enumerate(kinds.tolist()):
        rows = np.arange(1, count + 1)
        rows = rows[count % rows == 0]
        away = np.abs(np.log(rows * width * rows / (count * height)))
        best = rows[np.argmin(np.round(away, 9))]
        grids[number] = best, count // best
    return grids[inverse.reshape(-1)]


def token_boxes(allocation: Allocation) -> np.ndarray:
    """Return (T, 4) float64: top, left, height, width in cells of every token, region by region, row by row."""
    first, extent = allocation.leaf_cells()[:, :2].astype(np.float64), allocation.extents()
    grids = token_grids(allocation.counts, extent)
    owner = np.repeat(np.arange(len(allocation)), allocation.counts)
    local = np.arange(len(owner)) - np.repeat(np.cumsum(allocation.counts) - allocation.counts, allocation.counts)
    place = np.stack([local // grids[owner, 1], local % grids[owner, 1]], axis=1)
    size = (extent / grids)[owner]
    return np.concatenate([first[owner] + place * size, size], axis=1)


def ordered_leaves(leaves: np.ndarray, rows: int, cols: int) -> np.ndarray:
    """Sort leaves (N, 3) in the order of `leaves_of`; raise `InputError` if one is not on the grid of rows × cols."""
    level = leaves[:, 2]
    if (level < 0).any() or (level > COARSEST_LEVEL).any():
        raise InputError(f"the level of a region must be 0 to {COARSEST_LEVEL}")
    if (leaves[:, :2] % (1 << level)[:, None]).any() or (leaves < 0).any() or (leaves[:, :2] >= [rows, cols]).any():
        raise InputError(
            f"the allocation has regions off the {rows}×{cols} grid of cells: a region of level l must start inside "
            "the picture at a multiple of 2**l cells"
        )
    return leaves[np.lexsort((-level, leaves[:, 1], leaves[:, 0]))]


def check_grid(allocation: Allocation, rows: int, cols: int) -> None:
    """Raise `InputError` unless the allocation was made for a picture of rows × cols level-0 tokens."""
    if allocation.grid != (rows, cols):
        have_rows, have_cols = allocation.grid
        raise InputError(
            f"the allocation is for {have_rows}×{have_cols} tokens but the processor made {rows}×{cols} of this "
            f"picture; allocate with canvas=({rows * allocation.cell}, {cols * allocation.cell})"
        )


def in_picture(allocation: Allocation, size: tuple[int, int]) -> Allocation:
    """Convert the regions from pixels of the model's canvas to pixels of the picture as given (height, width)."""
    frame = Frame(size, allocation.cell, allocation.canvas or (allocation.height, allocation.width))
    boxes = frame.rectangles(allocation.leaf_cells()[:, :2], allocation.extents())
    height, width = frame.image_size
    return replace(allocation, boxes=boxes, height=height, width=width, canvas=frame.canvas)
