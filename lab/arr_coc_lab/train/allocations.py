"""Draw the allocations on which the reader is trained: all kinds, so that every control is compared fairly.

More than half of the steps see the whole picture or a down-sampled one. The others see overlapping leaves or a tree
around the answer or around noise, because a reader learns to read from few well placed tokens sooner than to find among
many; some see the whole picture in the tower and only a few of its tokens in the language model, as methods that prune
after the encoder do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import Tree, build_tree, gather_leaves, select_splits, split_gains

from ..worlds.needle.batch import NeedleBatch
from ..worlds.needle.renderer import Asked

LEVELS = 3


@dataclass(frozen=True)
class Kind:
    """A kind of allocation: name, share of the level-0 tokens kept, and how often it is drawn.

    full, uniform: the whole picture, evenly. overlay: overlapping leaves around the answer and distractions; scattered:
    around noise. oracle, random: the same as tilings. again: a second look. dropped: tokens dropped after the tower.
    """

    name: str
    keep: float
    weight: float

    @property
    def lays_over(self) -> bool:
        """Tell whether its leaves may overlap, so that every budget from 1 on is met."""
        return self.name in ("overlay", "scattered", "again")

    @property
    def whole(self) -> bool:
        """Tell whether the tower sees every cell at level 0."""
        return self.name in ("full", "dropped")

    @property
    def shared(self) -> bool:
        """Tell whether all pictures of a canvas get the same leaves."""
        return self.whole or self.name == "uniform"


NURSERY_KINDS = (Kind("full", 1, 0.6), Kind("uniform", 1 / 4, 0.2), Kind("oracle", 1 / 2, 0.2))
KINDS = (
    Kind("full", 1, 1.0),
    Kind("uniform", 1 / 4, 0.10),
    Kind("uniform", 1 / 8, 0.03),
    Kind("uniform", 1 / 16, 0.04),
    Kind("uniform", 1 / 32, 0.02),
    Kind("overlay", 1 / 4, 0.12),
    Kind("overlay", 1 / 8, 0.12),
    Kind("overlay", 1 / 16, 0.11),
    Kind("overlay", 1 / 32, 0.06),
    Kind("scattered", 1 / 4, 0.03),
    Kind("scattered", 1 / 16, 0.02),
    Kind("oracle", 1 / 4, 0.02),
    Kind("oracle", 1 / 16, 0.02),
    Kind("random", 1 / 8, 0.02),
    Kind("dropped", 1 / 4, 0.03),
    Kind("dropped", 1 / 8, 0.03),
)
# A first look, and further leaves after it in the prompt: half of them at the answer, half elsewhere.
LOOK_AGAIN = Kind("again", 1 / 8, 0.10)


def box_cover(boxes: Tensor, mask: Tensor, rows: int, cols: int) -> Tensor:
    """Return the largest share of each cell, (B, rows, cols), covered by a box of (B, K, 4) x0, y0, x1, y1 in 0–1."""
    top = torch.arange(rows, device=boxes.device) / rows
    left = torch.arange(cols, device=boxes.device) / cols
    x0, y0, x1, y1 = (boxes[..., index, None] for index in range(4))
    down = (torch.minimum(y1, top + 1 / rows) - torch.maximum(y0, top)).clamp_min(0) * rows
    across = (torch.minimum(x1, left + 1 / cols) - torch.maximum(x0, left)).clamp_min(0) * cols
    cover = down[..., :, None] * across[..., None, :] * mask[..., None, None]
    return cover.amax(1)


def target_cells(batch: NeedleBatch | Asked, rows: int, cols: int) -> Tensor:
    """Return the cells that the question needs, the answer and what identifies it: (B, rows, cols) in {0, 1}."""
    cover = torch.maximum(
        box_cover(batch.boxes, batch.box_mask, rows, cols), box_cover(batch.ctx_boxes, batch.ctx_mask, rows, cols)
    )
    return (cover > 0.02).float()


def seen_share(leaves: Tensor, truth: Tensor) -> Tensor:
    """Return the share (B,) of relevant cells (B, rows, cols) that leaves (B, N, 3) show at level 0."""
    place = (leaves[..., 0] * truth.shape[2] + leaves[..., 1]).clamp_min(0)
    fine = ((leaves[..., 2] == 0) & (leaves[..., 0] >= 0)).float()
    seen = torch.zeros_like(truth).flatten(1).scatter_add_(1, place, fine) * truth.flatten(1)
    return seen.sum(1) / truth.sum((1, 2)).clamp_min(1)


def split_preferences(kind: Kind, truth: Tensor, tree: Tree, generator: torch.Generator) -> Tensor:
    """Return the gain of each split of the tree, (B, M), for one kind of tiling. truth: (B, rows, cols)."""
    if kind.name == "random":
        # Uniform numbers, each times its parent's: no node gains more than its parent.
        gains = torch.rand(len(truth), len(tree.costs), generator=generator, device=truth.device)
        parents = torch.from_numpy(tree.parents).to(truth.device)
        for level in range(tree.levels - 1, 0, -1):
            gains[:, tree.nodes(level)] *= gains[:, parents[tree.nodes(level)]]
        return gains
    if kind.name in ("full", "uniform", "dropped"):
        return split_gains(torch.ones_like(truth), tree)
    return split_gains(distracted(truth, generator), tree)


def distracted(truth: Tensor, generator: torch.Generator) -> Tensor:
    """Imitate a scorer's map of the cells of answer and context (B, rows, cols): varying strength, some cells missed,
    some spread to their neighbours, distractions elsewhere, so that the reader does not learn that fine detail means
    right."""

    def uniform(*shape: int) -> Tensor:
        return torch.rand(*shape, generator=generator, device=truth.device)

    number, noise = len(truth), uniform(*truth.shape)
    spots = F.max_pool2d((noise > 0.97).float()[:, None], 3, stride=1, padding=1)[:, 0]
    missed = (uniform(*truth.shape) < 0.25) & (uniform(number, 1, 1) < 0.2)
    found = truth * (0.35 + 0.65 * uniform(number, 1, 1)) * ~missed
    spread = F.max_pool2d(found[:, None], 3, stride=1, padding=1)[:, 0] * 0.4 * (uniform(number, 1, 1) < 0.3)
    return torch.maximum(found, spread) + 0.8 * spots * uniform(number, 1, 1) + 0.02 * noise


def budget_of(kind: Kind, tree: Tree) -> int:
    """Return the number of tokens of the tower."""
    if kind.name in ("full", "dropped"):
        return tree.full
    return max(1 if kind.lays_over else tree.floor, round(kind.keep * tree.full))


def looks(kind: Kind, truth: Tensor, tree: Tree, generator: torch.Generator) -> tuple[list[Tensor], Tensor | None]:
    """Draw the leaves of every look, (B, N, 3) each or (1, N, 3) for all, and the tokens (B, n) that the language model
    gets; None: all. truth: (B, rows, cols), the cells that the question needs. Every split of the tree must cost the
    same (`even_tree_of`), so that all pictures have the same number of leaves."""
    if kind.name == "again":
        return look_again(truth, tree, generator, max(1, tree.full // 16)), None
    found = [leaves_of(kind, truth[:1] if kind.shared else truth, tree, generator)]
    return found, kept_tokens(kind, truth, tree, generator) if kind.name == "dropped" else None


def leaves_of(kind: Kind, truth: Tensor, tree: Tree, generator: torch.Generator) -> Tensor:
    """Draw the leaves of one look, (B, N, 3)."""
    if kind.lays_over:
        wanted = distracted(truth, generator)
        if kind.name == "scattered":
            noise = torch.rand(truth.shape, generator=generator, device=truth.device)
            wanted = F.avg_pool2d(noise[:, None].pow(8), 3, stride=1, padding=1)[:, 0]
        return overlay(wanted.float(), [budget_of(kind, tree)] * len(truth)).cells
    gains = split_preferences(kind, truth, tree, generator)
    return gather_leaves(select_splits(gains, tree, budget_of(kind, tree)), truth, tree).cells


def kept_tokens(kind: Kind, truth: Tensor, tree: Tree, generator: torch.Generator) -> Tensor:
    """Draw the tokens of the whole picture to keep, (B, n) int64: random, in half of the pictures near the answer."""
    noise = torch.rand(truth.shape, generator=generator, device=truth.device)
    near = torch.rand(len(truth), 1, 1, generator=generator, device=truth.device) < 0.5
    wanted = noise + near * distracted(truth, generator)
    return wanted.flatten(1).topk(max(1, round(kind.keep * tree.full)), dim=1).indices.sort(1).values


def look_again(truth: Tensor, tree: Tree, generator: torch.Generator, count: int) -> list[Tensor]:
    """Draw a random first look with an eighth of the tokens, and `count` single cells over it: (B, N, 3), (B, count,
    3). The second look goes to the answer in half of the pictures."""
    number, device, cols = len(truth), truth.device, tree.cols
    first = leaves_of(Kind("scattered", LOOK_AGAIN.keep, 1.0), truth, tree, generator)
    lucky = torch.rand(number, 1, 1, generator=generator, device=device) < 0.5
    noise = torch.rand(truth.shape, generator=generator, device=device)
    elsewhere = F.avg_pool2d(noise[:, None].pow(8), 3, stride=1, padding=1)[:, 0]
    wanted = torch.where(lucky, truth + 0.05 * noise, elsewhere).flatten(1)
    # Nothing is encoded twice: cells of the first look come last.
    row, col, level = first.unbind(-1)
    seen = torch.zeros_like(wanted).scatter_reduce_(1, row * cols + col, (level == 0).to(wanted.dtype), "amax")
    best = (wanted - 2 * seen).topk(count, dim=1).indices.sort(1).values
    return [first, torch.stack([best // cols, best % cols, torch.zeros_like(best)], -1)]


def tree_of(size: tuple[int, int], levels: int = LEVELS) -> Tree:
    return build_tree(size[0] // 32, size[1] // 32, levels)


def coarsest_of(size: tuple[int, int]) -> int:
    """Return the coarsest level of leaves on a canvas: one leaf that covers all of it."""
    return max(LEVELS, math.ceil(math.log2(max(size) / 32)))


def even_tree_of(size: tuple[int, int]) -> Tree:
    """Return the deepest tree in which every split costs the same, for `looks`."""
    levels = LEVELS
    while tree_of(size, levels).has_odd_edge:
        levels -= 1
    return tree_of(size, levels)
