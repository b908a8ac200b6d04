"""How each kind of channel shrinks: majority, maximum and mean over blocks, in torch.

Blocks are given as the last axis, (..., n) values of the pixels of one cell, or as strided 2×2 neighbours.
"""

from __future__ import annotations

import torch

NOTHING = -1.0


def majority(blocks: torch.Tensor) -> torch.Tensor:
    """(..., n) identifiers → (...): the most frequent one, the smallest of equals; `NOTHING` (padding) never counts.

    Sorted, equal identifiers stand together, and the length of the run up to each place is its distance from the
    run's start: the longest run wins, and the first longest is the smallest identifier.
    """
    ordered = blocks.sort(dim=-1).values
    places = torch.arange(blocks.shape[-1], device=blocks.device)
    starts_here = torch.ones_like(ordered, dtype=torch.bool)
    starts_here[..., 1:] = ordered[..., 1:] != ordered[..., :-1]
    start = torch.where(starts_here, places, 0).cummax(dim=-1).values
    length = torch.where(ordered == NOTHING, -1, places - start)
    return ordered.gather(-1, length.argmax(dim=-1, keepdim=True))[..., 0]


def split_blocks(maps: torch.Tensor, side: int) -> torch.Tensor:
    """(..., H, W) → (..., H/side, W/side, side²), for sizes that divide."""
    height, width = maps.shape[-2:]
    tiles = maps.reshape(*maps.shape[:-2], height // side, side, width // side, side)
    return tiles.transpose(-3, -2).flatten(-2)


def block_majority(maps: torch.Tensor, side: int) -> torch.Tensor:
    """(..., H, W) identifiers → (..., H/side, W/side) true majority over each side×side block.

    Nearly all blocks lie inside one cluster, where the answer needs no counting: only mixed blocks are counted.
    """
    tiles = split_blocks(maps, side)
    result = tiles[..., 0].clone()
    mixed = (tiles != tiles[..., :1]).any(dim=-1)
    result[mixed] = majority(tiles[mixed])
    return result


def unit(vectors: torch.Tensor, dim: int) -> torch.Tensor:
    """Vectors of length one along `dim`; zero vectors stay zero."""
    length = vectors.square().sum(dim, keepdim=True).clamp_min(1e-20).sqrt()
    return vectors / length
