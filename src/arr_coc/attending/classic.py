"""The classic scale: 64 to 400 tokens for each selected patch, at five levels of detail.

The five levels are grids of 8×8, 8×16, 16×16, 16×24 and 20×20 tokens. `power_curve` gives each patch a count by
score ** steepness, the total enforced by water-filling; `lod` the nearest of the five levels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import InputError

CLASSIC_GRIDS: tuple[tuple[int, int], ...] = ((8, 8), (8, 16), (16, 16), (16, 24), (20, 20))
# height × width of each grid; the selectors in `knowing`, a lower room, count in the same steps.
# The five classic levels of detail, coarse to fine: grids of 8×8, 8×16, 16×16, 16×24, 20×20.
CLASSIC_TOKENS = (64, 128, 256, 384, 400)
LEAST, MOST = CLASSIC_TOKENS[0], CLASSIC_TOKENS[-1]


@dataclass(frozen=True)
class ClassicPreset:
    """patches: how many places are selected. budget: tokens for all of them together."""

    patches: int
    budget: int


# v02's total of 5 120 cannot give 273 patches their least 64 each, so it selects 40, 128 tokens apiece on average.
PRESETS = {"classic": ClassicPreset(patches=273, budget=100_000), "v02": ClassicPreset(patches=40, budget=5_120)}


def mip_level(tokens: Tensor) -> Tensor:
    """Classic token count → mip level: at least 300 → 0, at least 200 → 1, at least 100 → 2, else 3."""
    return 3 - (tokens >= 100).long() - (tokens >= 200).long() - (tokens >= 300).long()


def select_patches(cells: Tensor, patches: int) -> tuple[Tensor, Tensor]:
    """(B, rows, cols) → index (B, K) in raster order and scores (B, K) of the K best cells; ties by position."""
    flat = cells.flatten(1)
    count = min(patches, flat.shape[1])
    index = flat.argsort(dim=1, descending=True, stable=True)[:, :count].sort(dim=1).values
    return index, flat.gather(1, index)


def check_classic_budget(budget: int, patches: int) -> None:
    if budget < patches * LEAST:
        raise InputError(
            f"a budget of {budget} tokens cannot give {patches} patches their least {LEAST} each; "
            f"ask for at least {patches * LEAST} tokens or at most {budget // LEAST} patches"
        )


# ---- power_curve ----------------------------------------------------------------------------------------------------


def power_curve_tokens(scores: Tensor, budget: int, steepness: float | Tensor = 2.0) -> Tensor:
    """(B, K) scores in [0, 1] → (B, K) int64 tokens, each 64 to 400, together at most `budget`.

    Where the wish exceeds the budget a water level is found that caps the largest wishes, so that every patch keeps its
    least and nothing is dropped; the tokens that rounding leaves over go to the best-scored patches.
    """
    check_classic_budget(budget, scores.shape[1])
    wish = desired_tokens(scores, steepness)
    cap = _water_level(wish, budget)
    capped = torch.minimum(wish, cap)
    tokens = capped.floor().long()
    allowed = torch.minimum(capped.sum(1).round().long(), torch.full_like(tokens[:, 0], budget))
    left = (allowed - tokens.sum(1)).clamp_min(0)
    room = tokens < MOST
    order = scores.masked_fill(~room, -1).argsort(dim=1, descending=True, stable=True)
    rank = torch.empty_like(order).scatter_(
        1, order, torch.arange(order.shape[1], device=order.device).expand_as(order)
    )
    return tokens + ((rank < left[:, None]) & room)


def desired_tokens(scores: Tensor, steepness: float | Tensor) -> Tensor:
    """The wish before any budget: 64 + 336 · score ** steepness. Differentiable in both."""
    return LEAST + (MOST - LEAST) * scores.clamp(0, 1).clamp_min(1e-6) ** steepness


def _water_level(wish: Tensor, budget: int) -> Tensor:
    """(B, 1) the level c with sum(min(wish, c)) = budget, or the largest wish where that is affordable.

    Sorted ascending, the level between the i-th and (i+1)-th wish costs prefix(i) + (K − i) · c: linear, so it is
    solved for every i at once and the first consistent one is taken.
    """
    ordered = wish.sort(dim=1).values
    number = wish.shape[1]
    below = ordered.cumsum(1) - ordered
    remaining = number - torch.arange(number, device=wish.device)
    level = (budget - below) / remaining
    consistent = level <= ordered
    first = consistent.int().argmax(1, keepdim=True)
    return torch.where(consistent.any(1, keepdim=True), level.gather(1, first), ordered[:, -1:])


class PowerCurve(nn.Module):
    """A learnable steepness in [0.5, 4.5]; starts in the middle, at 2.5."""

    def __init__(self) -> None:
        super().__init__()
        self.raw = nn.Parameter(torch.zeros(()))

    @property
    def steepness(self) -> Tensor:
        return 0.5 + 4.0 * torch.sigmoid(self.raw)

    def forward(self, scores: Tensor) -> Tensor:
        """(B, K) scores → (B, K) wished tokens, differentiable."""
        return desired_tokens(scores, self.steepness)

    @torch.no_grad()
    def allocate(self, scores: Tensor, budget: int) -> Tensor:
        return power_curve_tokens(scores, budget, self.steepness)


# ---- lod ------------------------------------------------------------------------------------------------------------


Mapping = Literal["linear", "square", "sigmoid"]


def lod_tokens(scores: Tensor, budget: int, mapping: Mapping = "linear") -> Tensor:
    """(B, K) scores in [0, 1] → (B, K) int64 of 64, 128, 256, 384 or 400, together at most `budget`.

    Where the levels wished for exceed the budget, the least relevant patches step down first, rung by rung to the
    lowest, until the total fits.
    """
    check_classic_budget(budget, scores.shape[1])
    ladder = torch.tensor(CLASSIC_TOKENS, device=scores.device)
    wish = LEAST + (MOST - LEAST) * map_score(scores, mapping)
    level = (wish[..., None] - ladder).abs().argmin(-1)
    excess = (ladder[level].sum(1) - budget).clamp_min(0)
    # All possible steps down in the order they would be taken: patch by rising score, rung by falling height.
    patch = scores.argsort(dim=1, stable=True)
    rungs = torch.arange(len(CLASSIC_TOKENS) - 1, 0, -1, device=scores.device)
    possible = level.gather(1, patch)[..., None] >= rungs
    saving = ((ladder[rungs] - ladder[rungs - 1]) * possible).flatten(1)
    # The shortest prefix that saves enough.
    needed = (saving.cumsum(1) - saving < excess[:, None]).view_as(possible) & possible
    down = torch.zeros_like(level).scatter(1, patch, needed.sum(-1))
    return ladder[level - down]


def map_score(scores: Tensor, mapping: Mapping) -> Tensor:
    """Score → share of the way from 64 to 400."""
    scores = scores.clamp(0, 1)
    if mapping == "linear":
        return scores
    if mapping == "square":
        return scores.square()
    if mapping == "sigmoid":
        return torch.sigmoid(10 * (scores - 0.5))
    raise InputError(f"unknown mapping {mapping!r}; choose linear, square or sigmoid")
