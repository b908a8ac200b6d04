"""Which trees the reader is trained on: all of them, so that every control later gets its fair chance.

Half of the steps see the whole picture or a plainly down-sampled one; the others a tree around the answer, around
noise, or the tree that the scorer of the moment would choose.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.controls import inherited_gains
from ...attending.gains import split_gains
from ...attending.quadtree import gather_leaves, select_splits
from ...attending.tree import Tree, build_tree
from ..needle.batch import NeedleBatch
from ..needle.renderer import Asked
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


# A first look, and further leaves behind it in the prompt: half of them where the answer is, half of them elsewhere.
LOOK_AGAIN = Kind("again", 1 / 8, 0.12)


def box_cover(boxes: Tensor, mask: Tensor, rows: int, cols: int) -> Tensor:
    """(B, K, 4) boxes x0, y0, x1, y1 in 0–1, mask → (B, rows, cols): the largest share of a cell that one covers."""
    top = torch.arange(rows, device=boxes.device) / rows
    left = torch.arange(cols, device=boxes.device) / cols
    x0, y0, x1, y1 = (boxes[..., index, None] for index in range(4))
    down = (torch.minimum(y1, top + 1 / rows) - torch.maximum(y0, top)).clamp_min(0) * rows
    across = (torch.minimum(x1, left + 1 / cols) - torch.maximum(x0, left)).clamp_min(0) * cols
    cover = down[..., :, None] * across[..., None, :] * mask[..., None, None]
    return cover.amax(1)


def target_cells(batch: TrainingBatch | NeedleBatch | Asked, rows: int, cols: int) -> Tensor:
    """(B, rows, cols) in {0, 1}: cells that the question needs, the answer and what identifies it."""
    cover = torch.maximum(
        box_cover(batch.boxes, batch.box_mask, rows, cols), box_cover(batch.ctx_boxes, batch.ctx_mask, rows, cols)
    )
    return (cover > 0.02).float()


def split_preferences(
    kind: Kind, truth: Tensor, tree: Tree, generator: torch.Generator, scores: Tensor | None, parents: Tensor
) -> Tensor:
    """What each split of the tree gains (B, M) under one kind of allocation. truth, scores: (B, rows, cols)."""
    if kind.name == "random":
        noise = torch.rand(len(truth), len(tree.costs), generator=generator, device=truth.device)
        return inherited_gains(noise, tree, parents)
    if kind.name in ("full", "uniform"):
        return split_gains(torch.ones_like(truth), tree)
    if kind.name == "scorer" and scores is not None:
        return split_gains(scores.float(), tree)
    # The answer, what identifies it, and distractions, so that the reader does not learn that fine means right.
    noise = torch.rand(truth.shape, generator=generator, device=truth.device)
    spots = F.max_pool2d((noise > 0.97).float()[:, None], 3, stride=1, padding=1)[:, 0]
    distraction = 0.8 * spots * torch.rand(len(truth), 1, 1, generator=generator, device=truth.device)
    return split_gains(truth + distraction + 0.02 * noise, tree)


def make_leaves(
    kind: Kind, batch: TrainingBatch, tree: Tree, generator: torch.Generator, scores: Tensor | None
) -> Tensor:
    """The leaves (B, N, 3) of one kind of allocation; the same N for the whole batch."""
    truth = target_cells(batch, tree.rows, tree.cols)
    parents = torch.from_numpy(tree.parents).to(truth.device)
    gains = split_preferences(kind, truth, tree, generator, scores, parents)
    return gather_leaves(select_splits(gains, tree, budget_of(kind, tree)), truth, tree).cells


def budget_of(kind: Kind, tree: Tree) -> int:
    return tree.full if kind.name == "full" else max(tree.floor, round(kind.keep * tree.full))


class LeafTable:
    """`make_leaves` for a training loop: the tree's tables stay on the device and their lengths are known beforehand,
    so that no step waits for the device. Only for trees without an odd edge, where every split costs the same.
    """

    def __init__(self, tree: Tree, device: torch.device | str) -> None:
        assert not tree.has_odd_edge, f"{tree.rows}×{tree.cols} cells have an odd edge at {tree.levels} levels"
        self.tree = tree
        nodes = tree.nodes_table
        order = np.lexsort((nodes[:, 2], nodes[:, 1], nodes[:, 0]))
        # The coarsest nodes are there from the start: they hang on a parent that is always split, kept at the end.
        above = np.where(tree.parents < 0, len(tree.costs), tree.parents)
        below = [tree.offsets[1] + (nodes[-tree.full :, 0] >> 1) * tree.shape(1)[1] + (nodes[-tree.full :, 1] >> 1)]
        parent = np.concatenate([above, *below])[order]
        self.parents = torch.from_numpy(tree.parents).to(device)
        self.nodes, self.order, self.parent = (
            torch.from_numpy(np.ascontiguousarray(part)).to(device) for part in (nodes[order], order, parent)
        )

    def leaves(self, kind: Kind, truth: Tensor, generator: torch.Generator, scores: Tensor | None = None) -> Tensor:
        """(B, N, 3), as `make_leaves`. truth: (B, rows, cols), the cells that the question needs."""
        tree = self.tree
        gains = split_preferences(kind, truth, tree, generator, scores, self.parents)
        budget = budget_of(kind, tree)
        return self.gather(select_splits(gains, tree, budget), tree.reach(budget))

    def again(self, truth: Tensor, generator: torch.Generator, scores: Tensor | None, count: int) -> list[Tensor]:
        """A first look on an eighth of the tokens, and `count` further, finer leaves: blocks (B, N, 3), (B, count, 3).

        The first look follows the scores, or chance; the second goes to the answer in half of the pictures.
        """
        number, device = len(truth), truth.device
        first = self.leaves(Kind("random" if scores is None else "scorer", 1 / 8, 1.0), truth, generator, scores)
        lucky = torch.rand(number, 1, 1, generator=generator, device=device) < 0.5
        noise = torch.rand(truth.shape, generator=generator, device=device)
        elsewhere = F.avg_pool2d(noise[:, None].pow(8), 3, stride=1, padding=1)[:, 0]
        wanted = torch.where(lucky, truth + 0.05 * noise, elsewhere)
        second = self.leaves(Kind("scorer", 1 / 8, 1.0), truth, generator, wanted)
        row, col, level = second.unbind(-1)
        worth = wanted.flatten(1).gather(1, row * self.tree.cols + col)
        # The finest first, then the most wanted; then back into raster order.
        best = (level.float() * 4 - worth).topk(count, dim=1, largest=False).indices.sort(1).values
        return [first, second.gather(1, best[..., None].expand(-1, -1, 3))]

    def gather(self, selected: Tensor, count: int) -> Tensor:
        """(B, M) bool splits that leave `count` leaves each → (B, count, 3) in raster order."""
        batch = len(selected)
        split = F.pad(selected, (0, 1), value=True)
        own = F.pad(selected, (0, self.tree.full))
        leaf = split[:, self.parent] & ~own[:, self.order]
        first = (~leaf).to(torch.uint8).argsort(dim=1, stable=True)[:, :count]
        return self.nodes.index_select(0, first.flatten()).view(batch, count, 3)


def tree_of(size: tuple[int, int], levels: int = LEVELS) -> Tree:
    return build_tree(size[0] // 32, size[1] // 32, levels)


def even_tree_of(size: tuple[int, int]) -> Tree:
    """The deepest tree in which every split costs the same, as `LeafTable` needs it."""
    levels = LEVELS
    while tree_of(size, levels).has_odd_edge:
        levels -= 1
    return tree_of(size, levels)
