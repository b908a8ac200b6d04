"""Ways to spend one total on a clip, all of exactly the same cost: what the bench compares and the training mixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import DEFAULT_LEVELS, Leaves, build_tree
from arr_coc.core.errors import InputError
from arr_coc.video.spending import demand_of, grow_forest

from .temporal_model import ClipMotion, TemporalBlend

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


def clip_leaves(system: str, maps: ClipMaps, keep: float, generator: torch.Generator, share: float = 1.0) -> Leaves:
    """Leaves of N · T frames, clip after clip: for each clip as many tokens as keep · full in each of its frames.

    share: of that total, for the systems that plan over the whole clip; the others take all of it.

    temporal: one order of tokens over carried relevance, new ground first. frame by frame: each frame's own scores and
    an even share. one frame: all of the budget in the first frame, a token elsewhere. shuffled: temporal with its map
    permuted. Scores of the leaves are the relevance beneath them.
    """
    frames, rows, cols = maps.scores.shape[1:]
    flat = maps.scores.flatten(0, 1)
    full, each = rows * cols, max(1, round(keep * rows * cols))
    total = max(frames, int(share * frames * each))
    if system == "full":
        return overlay(flat, [full] * len(flat))
    if system == "frame by frame":
        return overlay(flat, [each] * len(flat))
    if system == "uniform":
        return overlay(torch.ones_like(flat), [each] * len(flat), scored=flat)
    if system == "random":
        # A map of few loud places, as the control of single pictures has it: an even one would be down-sampling.
        noise = torch.rand(flat.shape, generator=generator).pow(16).to(flat)
        return overlay(noise, [each] * len(flat), scored=flat)
    if system == "one frame":
        first = torch.zeros_like(maps.scores)
        first[:, 0] = maps.scores[:, 0] + 1e-6
        return grow_forest(first, total, relevance=maps.scores)
    demand = demand_of(maps.relevance, maps.same_ground)
    if system == "shuffled":
        # Every frame is permuted alike, so that what was one place stays one place through time.
        seed, tree = int(torch.randint(2**31, (1,), generator=generator)), build_tree(rows, cols, DEFAULT_LEVELS)
        frames_alike = [
            permute_along_tree(demand[:, time], tree, torch.Generator().manual_seed(seed)) for time in range(frames)
        ]
        demand = torch.stack(frames_alike, 1)
    elif system != "temporal":
        raise InputError(f"no way to share a clip's tokens is called {system!r}; choose {', '.join(SYSTEMS)}")
    return grow_forest(demand, total, relevance=maps.relevance)


# ---- How alike the allocations of neighbouring frames are, for whole batches of clips --------------------------------

# Share of a frame's tokens that a standing allocation has: what similarity compares.
STANDING = 1 / 8


def neighbour_similarity(relevance: Tensor, keep: float, same_ground: Tensor | None = None) -> Tensor:
    """(N, T, rows, cols) → (N, T − 1): `spending.kept_share` of each frame's allocation and the next one's.

    same_ground: (N, T, rows, cols), what of each cell was there in the frame before. Without it, places alone are
    compared, whatever stands there: `values.compare(…).similarity`.
    """
    flat, (rows, cols) = relevance.flatten(0, 1), relevance.shape[2:]
    leaves = overlay(flat, [max(1, round(keep * rows * cols))] * len(flat))
    density = torch.stack([grid / area for _, grid, area in leaves_by_level(leaves, rows, cols)]).sum(0)
    density = density.unflatten(0, relevance.shape[:2])
    both = torch.minimum(density[:, 1:], density[:, :-1])
    if same_ground is not None:
        both = both * same_ground[:, 1:]
    return both.sum((2, 3)) / density.sum((2, 3)).amax(1, keepdim=True)


def leaves_by_level(leaves: Leaves, rows: int, cols: int) -> Iterator[tuple[int, Tensor, Tensor]]:
    """Each level with (B, rows, cols) bool, the cells under its leaves, and (rows, cols), the cells that a leaf there
    has: one at the edge has fewer."""
    row, col, level = leaves.cells.unbind(-1)
    device, number = row.device, len(row)
    for one in range(int(level.max()) + 1):
        shape, side = (-(-rows >> one), -(-cols >> one)), 1 << one
        which, place = torch.where(level == one)  # padding has level -1
        grid = torch.zeros(number, *shape, dtype=torch.bool, device=device)
        grid[which, row[which, place] >> one, col[which, place] >> one] = True
        high = (rows - torch.arange(shape[0], device=device) * side).clamp_max(side)
        wide = (cols - torch.arange(shape[1], device=device) * side).clamp_max(side)
        area = high[:, None] * wide
        yield one, _spread(grid, side)[:, :rows, :cols], _spread(area[None], side)[0, :rows, :cols]


def _spread(grid: Tensor, side: int) -> Tensor:
    """Every node's value on all of its cells."""
    return grid.repeat_interleave(side, 1).repeat_interleave(side, 2)
