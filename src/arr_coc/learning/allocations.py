"""Which trees the reader is trained on: all of them, so that every control later gets its fair chance.

Half of the steps see the whole picture or a plainly down-sampled one; the others a tree around the answer, around
noise, or the tree that the scorer of the moment would choose.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ..attending.controls import inherited_gains
from ..attending.quadtree import gather_leaves, quadtree, select_splits
from ..attending.tree import Tree, build_tree
from .pictures import TrainingBatch

LEVELS = 3


@dataclass(frozen=True)
class Kind:
    """One way to allocate: name, share of the level-0 tokens kept, how often it is drawn."""

    name: str
    keep: float
    weight: float


NURSERY_KINDS = (Kind("full", 1, 0.6), Kind("uniform", 1 / 4, 0.2), Kind("oracle", 1 / 2, 0.2))
KINDS = (
    Kind("full", 1, 0.30),
    Kind("uniform", 1 / 4, 0.20),
    Kind("uniform", 1 / 8, 0.04),
    Kind("uniform", 1 / 16, 0.04),
    Kind("oracle", 1 / 4, 0.14),
    Kind("oracle", 1 / 8, 0.09),
    Kind("oracle", 1 / 16, 0.07),
    Kind("random", 1 / 4, 0.06),
    Kind("random", 1 / 8, 0.02),
    Kind("random", 1 / 16, 0.04),
)
# Once the scorer knows something, the reader also sees the trees that the scorer would make.
SCORER_KINDS = (Kind("scorer", 1 / 4, 0.15), Kind("scorer", 1 / 8, 0.10), Kind("scorer", 1 / 16, 0.08))


def box_cover(boxes: Tensor, mask: Tensor, rows: int, cols: int) -> Tensor:
    """(B, K, 4) boxes x0, y0, x1, y1 in 0–1, mask → (B, rows, cols): the largest share of a cell that one covers."""
    top = torch.arange(rows, device=boxes.device) / rows
    left = torch.arange(cols, device=boxes.device) / cols
    x0, y0, x1, y1 = (boxes[..., index, None] for index in range(4))
    down = (torch.minimum(y1, top + 1 / rows) - torch.maximum(y0, top)).clamp_min(0) * rows
    across = (torch.minimum(x1, left + 1 / cols) - torch.maximum(x0, left)).clamp_min(0) * cols
    cover = down[..., :, None] * across[..., None, :] * mask[..., None, None]
    return cover.amax(1)


def target_cells(batch: TrainingBatch, rows: int, cols: int) -> Tensor:
    """(B, rows, cols) in {0, 1}: cells that the question needs, the answer and what identifies it."""
    cover = torch.maximum(
        box_cover(batch.boxes, batch.box_mask, rows, cols), box_cover(batch.ctx_boxes, batch.ctx_mask, rows, cols)
    )
    return (cover > 0.02).float()


def make_leaves(
    kind: Kind, batch: TrainingBatch, tree: Tree, generator: torch.Generator, scores: Tensor | None
) -> Tensor:
    """The leaves (B, N, 3) of one kind of allocation; the same N for the whole batch."""
    number, device = len(batch), batch.pictures.device
    budget = max(tree.floor, round(kind.keep * tree.full))
    shape = (number, tree.rows, tree.cols)
    if kind.name == "full":
        return quadtree(torch.ones(shape, device=device), tree, tree.full).cells
    if kind.name == "uniform":
        return quadtree(torch.ones(shape, device=device), tree, budget).cells
    if kind.name == "random":
        noise = torch.rand(number, len(tree.costs), generator=generator, device=device)
        selected = select_splits(inherited_gains(noise, tree), tree, budget)
        return gather_leaves(selected, torch.ones(shape, device=device), tree).cells
    if kind.name == "scorer" and scores is not None:
        return quadtree(scores.float(), tree, budget).cells
    # The answer, what identifies it, and distractions, so that the reader does not learn that fine means right.
    truth = target_cells(batch, tree.rows, tree.cols)
    noise = torch.rand(shape, generator=generator, device=device)
    spots = F.max_pool2d((noise > 0.97).float()[:, None], 3, stride=1, padding=1)[:, 0]
    distraction = 0.8 * spots * torch.rand(number, 1, 1, generator=generator, device=device)
    return quadtree(truth + distraction + 0.02 * noise, tree, budget).cells


def tree_of(size: tuple[int, int], levels: int = LEVELS) -> Tree:
    return build_tree(size[0] // 32, size[1] // 32, levels)
