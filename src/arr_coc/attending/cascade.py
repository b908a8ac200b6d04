"""`cascade`: look coarsely everywhere, then finer only where the coarse look was promising.

64² → keep 64 → their 4×4 neighbourhoods at 256² → keep 256 → their 4×4 at 1024² → keep 200. The fine maps are read only
at the candidates: 64·16 + 256·16 places instead of 1024².
"""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor
from torch.nn import functional as F

from ..errors import InputError

SIDES = (64, 256, 1024)
KEEPS = (64, 256, 200)


def cascade_places(
    maps: Tensor, sides: tuple[int, ...] = SIDES, keeps: tuple[int, ...] = KEEPS
) -> tuple[Tensor, Tensor]:
    """(B, h, w) map → places (B, K, 2) as row, col on the finest side² grid, best first, and their scores (B, K)."""
    if len(sides) != len(keeps) or any(fine % coarse for coarse, fine in pairwise(sides)):
        raise InputError(
            f"cascade needs one keep for each side and sides that divide the next, got {sides} and {keeps}"
        )
    batch = len(maps)
    scores = _resample(maps, sides[0]).flatten(1)
    scores, index = _best(scores, keeps[0])
    rows, cols = index // sides[0], index % sides[0]
    for coarse, fine, keep in zip(sides, sides[1:], keeps[1:], strict=False):
        step = fine // coarse
        offset = torch.arange(step, device=maps.device)
        rows = (rows[..., None, None] * step + offset[:, None] + 0 * offset[None, :]).flatten(1)
        cols = (cols[..., None, None] * step + offset[None, :] + 0 * offset[:, None]).flatten(1)
        candidates = _resample(maps, fine).flatten(1).gather(1, rows * fine + cols)
        scores, index = _best(candidates, keep)
        rows, cols = rows.gather(1, index), cols.gather(1, index)
    return torch.stack([rows, cols], dim=-1).view(batch, -1, 2), scores


def _best(scores: Tensor, keep: int) -> tuple[Tensor, Tensor]:
    index = scores.argsort(dim=1, descending=True, stable=True)[:, :keep]
    return scores.gather(1, index), index


def _resample(maps: Tensor, side: int) -> Tensor:
    """Area mean where the map is finer than the grid, bilinear where it is coarser."""
    if min(maps.shape[1:]) >= side:
        return F.adaptive_avg_pool2d(maps[:, None], side)[:, 0]
    return F.interpolate(maps[:, None], size=(side, side), mode="bilinear", align_corners=False)[:, 0]
