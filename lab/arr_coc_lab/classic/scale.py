"""The strategy "classic": 64, 100, 160, 256 or 400 tokens for each patch of about 20×20 cells.

    relevance (B, rows, cols) ─→ patches ─→ a count for each, the total exact ─→ regions of 8×8 … 20×20 tokens

A patch of 20×20 cells (640 pixels at 32 a cell) is seen at the resolution that its count yields: 8×8 tokens of 2.5
cells each, 10×10 of 2, 10×16 of 2 × 1.25, 16×16 of 1.25, or 20×20, which is full resolution. Tokens are shared in
proportion to score ** steepness (or another curve), clipped to the scale: relevance decides however tight the budget.
What no patch can take any more is spent on single cells at full resolution, the best first, so that the total is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from arr_coc.attending.frame import Frame
from arr_coc.attending.leaves import token_grids
from arr_coc.attending.strategies import AllocationJob, Strategy
from arr_coc.core.errors import InputError
from arr_coc.core.values import Allocation

# height × width of each grid over a square patch, coarse to fine.
CLASSIC_GRIDS: tuple[tuple[int, int], ...] = ((8, 8), (10, 10), (10, 16), (16, 16), (20, 20))
CLASSIC_TOKENS = tuple(rows * cols for rows, cols in CLASSIC_GRIDS)
LEAST, MOST = CLASSIC_TOKENS[0], CLASSIC_TOKENS[-1]
# Cells on the side of a patch, as near as the grid divides.
SIDE = 20
# A patch is as relevant as this share of its cells, the best ones: a line of text is a few cells of four hundred.
BEST_SHARE = 0.02

Curve = Literal["power", "linear", "square", "sigmoid"]


def mip_level(tokens: Tensor) -> Tensor:
    """Convert a classic token count to a mip level: at least 300 → 0, at least 200 → 1, at least 100 → 2, else 3."""
    return 3 - (tokens >= 100).long() - (tokens >= 200).long() - (tokens >= 300).long()


# ---- how relevance becomes a share ----------------------------------------------------------------------------------


def curve_weights(scores: Tensor, curve: Curve = "power", steepness: float | Tensor = 2.0) -> Tensor:
    """Convert scores in [0, 1] to weights: a patch's tokens are proportional to them. Differentiable."""
    scores = scores.clamp(0, 1).clamp_min(1e-6)
    if curve == "power":
        return scores**steepness
    if curve == "linear":
        return scores
    if curve == "square":
        return scores.square()
    if curve == "sigmoid":
        return torch.sigmoid(10 * (scores - 0.5))
    raise InputError(f"unknown curve {curve!r}; choose {', '.join(get_args(Curve))}")


# ---- patches --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Patches:
    """A grid of rows × cols cells cut into patches of about 20×20. first, extent: (P, 2) int64 cells. ladder: (P, 5)
    int64 tokens of each level; a level finer than the cells themselves repeats the one below."""

    first: np.ndarray
    extent: np.ndarray
    ladder: np.ndarray

    @classmethod
    def of(cls, grid: tuple[int, int]) -> Patches:
        if min(grid) < CLASSIC_GRIDS[0][0]:
            raise InputError(
                f"the classic scale sees a patch by at least 8×8 tokens, but this picture has {grid[0]}×{grid[1]}; "
                "use strategy overlay"
            )
        edges = [np.rint(np.linspace(0, side, max(1, round(side / SIDE)) + 1)).astype(np.int64) for side in grid]
        first = np.stack(np.meshgrid(edges[0][:-1], edges[1][:-1], indexing="ij"), -1).reshape(-1, 2)
        extent = np.stack(np.meshgrid(np.diff(edges[0]), np.diff(edges[1]), indexing="ij"), -1).reshape(-1, 2)
        grids = [token_grids(np.full(len(first), count), extent) for count in CLASSIC_TOKENS]
        fits = np.stack([(one <= extent).all(1) for one in grids], axis=1)
        fits[:, 0] = True
        ladder = np.maximum.accumulate(np.where(fits, np.array(CLASSIC_TOKENS), 0), axis=1)
        return cls(first, extent, ladder)

    def __len__(self) -> int:
        return len(self.first)

    def owner(self, grid: tuple[int, int]) -> np.ndarray:
        """Return (rows · cols,) int64: the patch of every cell."""
        tops, lefts = np.unique(self.first[:, 0]), np.unique(self.first[:, 1])
        row = np.searchsorted(tops, np.arange(grid[0]), side="right") - 1
        col = np.searchsorted(lefts, np.arange(grid[1]), side="right") - 1
        return (row[:, None] * len(lefts) + col[None, :]).ravel()


def patch_scores(cells: Tensor, owner: Tensor, patches: int) -> Tensor:
    """Convert (B, rows, cols) and the patch of every cell → (B, P) mean of each patch's best cells."""
    flat = cells.flatten(1)
    order = flat.argsort(dim=1, descending=True, stable=True)
    sorted_owner = owner[order]
    one_hot = torch.nn.functional.one_hot(sorted_owner, patches)
    rank = (one_hot.cumsum(1) * one_hot).sum(-1)  # 1 for the best cell of its patch
    most = (torch.bincount(owner, minlength=patches) * BEST_SHARE).ceil()
    chosen = (rank <= most[sorted_owner]).to(flat)
    total = torch.zeros(len(flat), patches, device=flat.device)
    return total.scatter_add(1, sorted_owner, flat.gather(1, order) * chosen) / most


def ladder_tokens(weights: Tensor, ladder: Tensor, budgets: Tensor) -> Tensor:
    """(B, P) weights, (P, 5) ladder, (B,) budgets → (B, P) int64: each patch a count of its ladder, or 0 where the
    budget does not give every patch the least, together at most the budget.

    Tokens in proportion to the weights make the sum of weight · log(tokens) largest; here the steps up the ladders are
    taken in the order of what each brings to that sum for a token, as long as they can be paid for.
    """
    number = weights.shape[1]
    affordable = (budgets // LEAST).clamp_max(number)
    rank = weights.argsort(dim=1, descending=True, stable=True).argsort(dim=1)
    chosen = rank < affordable[:, None]
    cost = ladder.diff(dim=1)  # (P, 4)
    gain = ladder.log().diff(dim=1) / cost.clamp_min(1)
    worth = (weights[..., None] * gain).masked_fill((cost == 0) | ~chosen[..., None], -1).flatten(1)
    price = cost.flatten().expand_as(worth)
    order = worth.argsort(dim=1, descending=True, stable=True)
    offered = worth.gather(1, order) > 0
    left = budgets - affordable * LEAST
    taken = offered & ((price.gather(1, order) * offered).cumsum(1) <= left[:, None])
    taken = torch.zeros_like(offered).scatter(1, order, taken)
    # A step that costs too much may precede cheaper ones: less than one step's tokens are left.
    while True:
        left = budgets - affordable * LEAST - (price * taken).sum(1)
        steps = taken.unflatten(1, (number, -1))
        below = torch.cat([torch.ones_like(steps[..., :1]), steps[..., :-1]], -1)
        next_one = (~steps & below).flatten(1) & (worth > 0) & (price <= left[:, None])
        if not bool(next_one.any()):
            break
        best = worth.masked_fill(~next_one, -1).argmax(1, keepdim=True)
        taken = taken | (torch.zeros_like(taken).scatter(1, best, True) & next_one)
    return (LEAST + (price * taken).unflatten(1, (number, -1)).sum(-1)) * chosen


@dataclass(frozen=True)
class ClassicRegions:
    """One picture's: first, extent (N, 2) int64 in cells, levels, counts (N,) and scores (N,). patches: how many of
    them were given tokens, of how many."""

    first: np.ndarray
    extent: np.ndarray
    levels: np.ndarray
    counts: np.ndarray
    scores: np.ndarray
    patches: tuple[int, int]


def classic_regions(
    cells: Tensor, budgets: Tensor, frame: Frame, curve: Curve = "power", steepness: float = 2.0
) -> list[ClassicRegions]:
    """Convert (B, rows, cols) relevance and (B,) budgets → the patches and the single cells of each picture."""
    smallest = int(budgets.min())
    if smallest < LEAST:
        raise InputError(f"the classic scale starts at {LEAST} tokens for a patch, got a budget of {smallest}")
    grid = frame.grid
    patches = Patches.of(grid)
    owner = torch.from_numpy(patches.owner(grid)).to(cells.device)
    scores = patch_scores(cells, owner, len(patches))
    ladder = torch.from_numpy(patches.ladder).to(cells.device)
    budgets = budgets.to(cells.device)
    counts = ladder_tokens(curve_weights(scores, curve, steepness), ladder, budgets)
    # Cells of patches that are seen in full have nothing to gain; those of patches not seen at all have most.
    area = torch.bincount(owner, minlength=len(patches))
    coarse = 1 - counts / area  # (B, P)
    worth = cells.flatten(1).clamp_min(1e-6) * coarse.gather(1, owner.expand(len(cells), -1))
    best = worth.argsort(dim=1, descending=True, stable=True)
    levels = mip_level(counts)
    found = []
    for picture, (left, full) in enumerate(
        zip((budgets - counts.sum(1)).tolist(), (budgets >= frame.full).tolist(), strict=True)
    ):
        single = torch.arange(frame.full, device=cells.device) if full else best[picture, :left].sort().values
        seen = np.zeros(len(patches), dtype=bool) if full else (counts[picture] > 0).cpu().numpy()
        at = torch.stack([single // grid[1], single % grid[1]], -1).cpu().numpy()
        found.append(
            ClassicRegions(
                np.concatenate([patches.first[seen], at]),
                np.concatenate([patches.extent[seen], np.ones_like(at)]),
                np.concatenate([levels[picture].cpu().numpy()[seen], np.zeros(len(at), dtype=np.int64)]),
                np.concatenate([counts[picture].cpu().numpy()[seen], np.ones(len(at), dtype=np.int64)]),
                np.concatenate([scores[picture].cpu().numpy()[seen], cells.flatten(1)[picture, single].cpu().numpy()]),
                (len(patches) if full else int(seen.sum()), len(patches)),
            )
        )
    return found


def classic_allocation(job: AllocationJob) -> Allocation:
    """Allocate patches of about 20×20 cells with 64 to 400 tokens each, and single cells with the rest."""
    how = {"curve": job.option("curve", "power"), "steepness": job.option("steepness", 2.0)}
    budget, frame = job.budget, job.frame
    (one,) = classic_regions(job.cells, torch.tensor([budget]), frame, **how)
    given, patches = one.patches
    few = f"budget {budget} gives {given} of {patches} patches their least 64 tokens: the others are not seen"
    return Allocation(
        height=frame.image_size[0],
        width=frame.image_size[1],
        boxes=frame.rectangles(one.first, one.extent),
        levels=one.levels,
        counts=one.counts,
        scores=one.scores,
        budget=budget,
        full=frame.full,
        strategy="classic",
        sparse=given < patches,
        cell=frame.cell,
        canvas=frame.canvas,
        notes=(few,) if given < patches else (),
    )


STRATEGY = Strategy("classic", classic_allocation, ("curve", "steepness"), leaves=False)
