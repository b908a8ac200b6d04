"""Controls that an honest table needs: what the same number of tokens buys without the question.

`random` looks anywhere, `shuffled` has the same sizes of leaves elsewhere, `center` looks at the middle. All are
overlays, made by the allocator that they control.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.frame import Frame
from arr_coc.attending.strategies import AllocationJob, Strategy
from arr_coc.attending.tree import Leaves, Tree
from arr_coc.core.arrays import overlaps
from arr_coc.core.errors import InputError, frozen, shown


def random(job: AllocationJob) -> Leaves:
    """Return leaves of the same cost at random places.

    (An even random map would not do: its mass is nearly equal everywhere, which is uniform down-sampling again. So the
    overlay gets a map of few loud places.)
    """
    return job.leaves(torch.rand(job.cells.shape, generator=job.generator()).pow(16).to(job.cells))


def shuffled(job: AllocationJob) -> Leaves:
    """Return the same relevance and the same sizes of leaves in other places.

    The map is permuted along the tree: whole coarse blocks change places, then the four children inside each node. So
    every mass that the splits looked at exists again somewhere else. (Permuting single cells would instead flatten
    the map, and with it the tree.)
    """
    return job.leaves(permute_along_tree(job.cells, job.tree, job.generator()))


def permute_along_tree(cells: Tensor, tree: Tree, generator: torch.Generator) -> Tensor:
    """Convert (B, rows, cols) → the same cells, blocks permuted at every level of the tree.

    Blocks that reach beyond the picture only change places with blocks of their own kind (right edge, bottom edge).
    """
    result, side = cells.clone(), 1 << tree.levels
    rows, cols = tree.rows // side, tree.cols // side
    inner, right, low = slice(0, rows * side), slice(cols * side, tree.cols), slice(rows * side, tree.rows)
    across = slice(0, cols * side)
    if rows * cols:
        blocks = _permute(_blocks(cells[:, inner, across], side), generator)
        for level in range(tree.levels, 0, -1):
            quarters = _permute(_blocks(blocks.flatten(0, 1), 1 << (level - 1)), generator)
            blocks = quarters.unflatten(0, (len(cells), -1)).flatten(1, 2)
        # Now (B, cells in tree order, 1, 1): rebuild the picture bottom up.
        for _ in range(tree.levels):
            blocks = _join(blocks.unflatten(1, (-1, 4)).flatten(0, 1), 2, 2).unflatten(0, (len(cells), -1))
        result[:, inner, across] = _join(blocks, rows, cols)
    if rows and cols * side < tree.cols:
        strip = cells[:, inner, right].unflatten(1, (rows, side))
        result[:, inner, right] = _permute(strip, generator).flatten(1, 2)
    if cols and rows * side < tree.rows:
        strip = cells[:, low, across].unflatten(2, (cols, side)).transpose(1, 2)
        result[:, low, across] = _permute(strip, generator).transpose(1, 2).flatten(2, 3)
    return result


def _blocks(grid: Tensor, side: int) -> Tensor:
    """Convert (B, h, w) → (B, blocks, side, side)."""
    return grid.unflatten(1, (-1, side)).unflatten(3, (-1, side)).transpose(2, 3).flatten(1, 2)


def _join(blocks: Tensor, rows: int, cols: int) -> Tensor:
    """Return the inverse of `_blocks`."""
    return blocks.unflatten(1, (rows, cols)).transpose(2, 3).flatten(3, 4).flatten(1, 2)


def _permute(items: Tensor, generator: torch.Generator) -> Tensor:
    """Convert (B, n, …) → each row's n items in an order of its own."""
    keys = torch.rand(items.shape[:2], generator=generator).argsort(1).to(items.device)
    return items.gather(1, keys.view(*keys.shape, *[1] * (items.ndim - 2)).expand_as(items))


def center(job: AllocationJob) -> Leaves:
    """Spend detail in the middle of the picture."""
    rows, cols = job.frame.grid
    height, width = job.frame.seen
    y = ((torch.arange(rows) + 0.5) * job.frame.cell / height - 0.5).clamp(max=0.5)
    x = ((torch.arange(cols) + 0.5) * job.frame.cell / width - 0.5).clamp(max=0.5)
    closeness = 1 - torch.sqrt(y[:, None] ** 2 + x[None, :] ** 2) / 0.5**0.5
    # Squared twice: a plain cone's mass is so even that the tree would come out uniform.
    maps = closeness.clamp_min(0).pow(4).to(job.cells)
    return job.leaves(maps[None])


def oracle(job: AllocationJob) -> Leaves:
    """Spend detail on the true boxes (`boxes=`: x0, y0, x1, y1 in 0–1)."""
    boxes = job.need("boxes", "oracle", "the relevant boxes as x0, y0, x1, y1 in 0–1")
    if not isinstance(boxes, Sequence | np.ndarray) or isinstance(boxes, str):
        raise InputError(f"boxes must be a list of x0, y0, x1, y1 in 0–1, got {shown(boxes)}")
    covered = boxes_to_cells(boxes, job.frame).to(job.cells)[None]
    # A little of the neighbourhood breaks the ties of what remains towards the box's surroundings.
    near = F.avg_pool2d(covered[:, None], 5, stride=1, padding=2)[:, 0]
    touched = (covered > 0).float()
    return job.leaves(touched + 1e-2 * near)


def boxes_to_cells(boxes: Sequence[Sequence[float]] | np.ndarray, frame: Frame) -> Tensor:
    """Return the share (rows, cols) of each cell that boxes (K, 4), x0, y0, x1, y1 in 0–1 of the picture, cover."""
    array = frozen(boxes, "boxes", np.float64) if len(boxes) else np.zeros((0, 4))
    if array.ndim != 2 or array.shape[1] != 4 or (array[:, 2:] < array[:, :2]).any():
        raise InputError("boxes must be x0, y0, x1, y1 in 0–1 with x1 ≥ x0 and y1 ≥ y0, four numbers for each box")
    rows, cols = frame.grid
    height, width = frame.seen
    x0, y0, x1, y1 = array.T
    down, across = (
        overlaps(start * side / frame.cell, stop * side / frame.cell, number)
        for start, stop, side, number in ((y0, y1, height, rows), (x0, x1, width, cols))
    )
    covered = (down[:, :, None] * across[:, None, :]).max(axis=0, initial=0)
    return torch.from_numpy(covered.astype(np.float32))


RANDOM, SHUFFLED, CENTER = Strategy("random", random), Strategy("shuffled", shuffled), Strategy("center", center)
ORACLE = Strategy("oracle", oracle, ("boxes",))
