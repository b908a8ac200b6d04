"""Ways to spend one total on a clip, all of exactly the same cost: what the bench compares and the training mixes."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.controls import inherited_gains, permute_along_tree
from ...attending.gains import node_sums
from ...attending.quadtree import Leaves, gather_leaves, quadtree, select_splits
from ...attending.tree import Tree
from ...errors import InputError
from ...video.forest import deepest_tree, demand_of, grow_forest
from ...video.temporal_model import ClipMotion, TemporalBlend

SYSTEMS = ("temporal", "frame by frame", "uniform", "random", "shuffled", "one frame", "full")


@dataclass(frozen=True)
class ClipMaps:
    """What is known of N clips before a token is spent. All (N, T, rows, cols).

    scores: each frame on its own. relevance: carried through time. same_ground: share of each cell seen before.
    """

    scores: Tensor
    relevance: Tensor
    same_ground: Tensor


def carry_scores(scores: Tensor, motion: ClipMotion, temporal: TemporalBlend, scenes: Tensor | None = None) -> ClipMaps:
    """Scores of every frame (N, T, rows, cols) → the same carried along the motion that was found."""
    with torch.no_grad():
        return carry_and_look(scores, motion, temporal, True, scenes)[0]


def carry_and_look(
    scores: Tensor, motion: ClipMotion, temporal: TemporalBlend, every_frame: bool, scenes: Tensor | None = None
) -> tuple[ClipMaps, Tensor]:
    """As `carry_scores`, with gradients, and where it was looked again: (N, T, h, w), at the motion's size."""
    grid, size = (scores.shape[2], scores.shape[3]), (motion.flow.shape[-2], motion.flow.shape[-1])
    carried = temporal(enlarge(scores, size), motion, every_frame, scenes)
    return ClipMaps(scores, to_grid(carried.relevance, grid), to_grid(carried.same_ground, grid)), carried.looked


def enlarge(maps: Tensor, size: tuple[int, int]) -> Tensor:
    """(N, T, rows, cols) → (N, T, h, w), bilinearly."""
    return F.interpolate(maps, size, mode="bilinear", align_corners=False)


def to_grid(maps: Tensor, grid: tuple[int, int]) -> Tensor:
    """(N, T, h, w) → (N, T, rows, cols): the mean of each cell."""
    return F.adaptive_avg_pool2d(maps, grid)


def clip_leaves(
    system: str,
    maps: ClipMaps,
    keep: float,
    generator: torch.Generator,
    tree: Tree | None = None,
    share: float = 1.0,
) -> Leaves:
    """Leaves of N · T frames, clip after clip: for each clip as many tokens as keep · full in each of its frames.

    share: of that total, for the systems that plan over the whole clip; the others take all of it.

    temporal: the forest over carried relevance, new ground first. frame by frame: each frame's own scores and an even
    share. one frame: all of the budget in the first frame, the floor elsewhere. shuffled: temporal with its map
    permuted. Scores of the leaves are the relevance beneath them.
    """
    frames, rows, cols = maps.scores.shape[1:]
    tree = tree or deepest_tree(rows, cols)
    flat = maps.scores.flatten(0, 1)
    each = max(tree.floor, round(keep * tree.full))
    # What an even share really costs: a tree moves in steps, and no system may gain by rounding.
    total = max(frames * tree.floor, int(share * frames * tree.reach(each)))
    if system == "full":
        return quadtree(flat, tree, tree.full)
    if system == "frame by frame":
        return quadtree(flat, tree, each)
    if system == "uniform":
        selected = select_splits(inherited_ones(len(flat), tree, flat.device), tree, each)
        return gather_leaves(selected, flat, tree)
    if system == "random":
        noise = torch.rand(len(flat), len(tree.costs), generator=generator).to(flat.device)
        return gather_leaves(select_splits(inherited_gains(noise, tree), tree, each), flat, tree)
    if system == "one frame":
        first = torch.zeros_like(maps.scores)
        first[:, 0] = maps.scores[:, 0] + 1e-6
        return grow_forest(first, tree, total).leaves(tree, maps.scores)
    demand = demand_of(maps.relevance, maps.same_ground)
    if system == "shuffled":
        # Every frame is permuted alike, so that what was one place stays one place through time.
        seed = int(torch.randint(2**31, (1,), generator=generator))
        frames_alike = [
            permute_along_tree(demand[:, time], tree, torch.Generator().manual_seed(seed)) for time in range(frames)
        ]
        demand = torch.stack(frames_alike, 1)
    elif system != "temporal":
        raise InputError(f"no way to share a clip's tokens is called {system!r}; choose {', '.join(SYSTEMS)}")
    return grow_forest(demand, tree, total).leaves(tree, maps.relevance)


def inherited_ones(number: int, tree: Tree, device: torch.device) -> Tensor:
    """Gains of a constant map: coarse nodes first."""
    areas = torch.from_numpy(tree.areas[: len(tree.costs)]).to(device)
    return areas.expand(number, -1).contiguous()


# ---- How alike the allocations of neighbouring frames are, for whole batches of clips --------------------------------

# Share of a frame's tokens that a standing allocation has: what similarity compares.
STANDING = 1 / 8


def neighbour_similarity(relevance: Tensor, tree: Tree, keep: float, same_ground: Tensor | None = None) -> Tensor:
    """(N, T, rows, cols) → (N, T − 1): `shown.kept_share` of each frame's allocation and the next one's.

    same_ground: (N, T, rows, cols), what of each cell was there in the frame before. Without it, places alone are
    compared, whatever stands there: `values.compare(…).similarity`.
    """
    flat = relevance.flatten(0, 1)
    budget = max(tree.floor, round(keep * tree.full))
    selected = select_splits(node_sums(flat, tree)[:, : len(tree.costs)], tree, budget)
    density = cell_density(selected, tree).unflatten(0, relevance.shape[:2])
    both = torch.minimum(density[:, 1:], density[:, :-1])
    if same_ground is not None:
        both = both * same_ground[:, 1:]
    return both.sum((2, 3)) / density.sum((2, 3)).amax(1, keepdim=True)


def cell_density(selected: Tensor, tree: Tree) -> Tensor:
    """(B, M) splits → (B, rows, cols): tokens per level-0 cell; a leaf at the edge counts on the cells it has."""
    number, device = len(selected), selected.device
    areas = torch.from_numpy(tree.areas).to(device)
    density = torch.zeros(number, tree.rows, tree.cols, device=device)
    exists = torch.ones(number, *tree.shape(tree.levels), dtype=torch.bool, device=device)
    start = 0
    for level in range(tree.levels, -1, -1):
        rows, cols = tree.shape(level)
        area = areas[start : start + rows * cols].view(rows, cols)
        start += rows * cols
        split = torch.zeros_like(exists)
        if level:
            split = exists & selected[:, tree.nodes(level)].view(number, rows, cols)
        leaf = (exists & ~split) / area
        density += _spread(leaf, level)[:, : tree.rows, : tree.cols]
        if level:
            below = tree.shape(level - 1)
            exists = _spread(split, 1)[:, : below[0], : below[1]]
    return density


def _spread(grid: Tensor, level: int) -> Tensor:
    """Every node's value on all of its cells `level` steps below."""
    return grid.repeat_interleave(1 << level, 1).repeat_interleave(1 << level, 2)
