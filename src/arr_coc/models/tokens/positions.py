"""Where leaves are: in the vision tower's rotary grid, in its learned position table, and in the language model.

All functions are pure and batched. A level-0 leaf gets exactly the integer positions of an untouched model; a coarser
one gets the fractional centre of what it covers. Positions are float32 throughout: bfloat16 cannot hold them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from ...core.errors import InputError
from .splice import placeholder_owner


def vision_positions(leaves: Tensor, merge: int = 2) -> Tensor:
    """Centres of a leaf's patches on the level-0 patch grid. Returns (..., merge², 2): row, col.

    leaves: (..., 3) row, col, level, or (..., 4) top, left, height, width in cells, which may be fractions.
    """
    scale = torch.exp2(leaves[..., 2:3].float()) if leaves.shape[-1] == 3 else leaves[..., 2:].float()
    scale = scale[..., None, :]  # (..., 1, 1 or 2)
    block = torch.arange(merge, device=leaves.device)
    inside = torch.stack(torch.meshgrid(block, block, indexing="ij"), dim=-1).view(-1, 2)
    return merge * leaves[..., None, :2].float() + (inside + 0.5) * scale - 0.5


def position_taps(positions: Tensor, size: Tensor, side: int) -> tuple[Tensor, Tensor]:
    """Four bilinear taps into a learned (side × side) position table, corners aligned.

    positions: (N, 2) patch row and col, may be fractional. size: (N, 2) or (2,) patch rows and cols of the picture.
    Returns indices (N, 4) int64 and weights (N, 4) float32. Positions beyond the edge take the edge.
    """
    source = positions.float() * (side - 1) / (size.to(positions.device) - 1).clamp_min(1)
    source = source.clamp(0, side - 1)
    floor = source.floor()
    offsets = torch.arange(2, device=positions.device)
    taps = (floor.long()[..., None] + offsets).clamp(0, side - 1)  # (N, 2, 2): axis, tap
    weights = (1 - (source[..., None] - floor[..., None] - offsets).abs()).clamp_min(0)
    indices = (taps[:, 0, :, None] * side + taps[:, 1, None, :]).flatten(1)
    return indices, (weights[:, 0, :, None] * weights[:, 1, None, :]).flatten(1)


def language_positions(leaves: Tensor, grid: Tensor) -> Tensor:
    """M-RoPE offsets of leaves from the start of their picture: the centre of the cells a leaf covers in the picture.

    leaves: (..., 3), or (..., 4) as for `vision_positions`. grid: (..., 2) or (2,), rows and cols of level-0 tokens.
    Returns (3, ...) float32: time, row, col.
    """
    first = leaves[..., :2]
    extent = (1 << leaves[..., 2:3]) if leaves.shape[-1] == 3 else leaves[..., 2:]
    last = torch.minimum(first + extent, grid.to(leaves.device)) - 1
    centre = (first + last).float() / 2
    return torch.stack([torch.zeros_like(centre[..., 0]), centre[..., 0], centre[..., 1]])


def prompt_positions(
    is_placeholder: Tensor, counts: Tensor, spans: Tensor, offsets: Tensor, attention_mask: Tensor
) -> tuple[Tensor, Tensor]:
    """Positions of a whole prompt: text counts on, a picture takes `span`, however few tokens it has.

    is_placeholder, attention_mask: (B, L). counts: (P,) tokens of each picture in this prompt. spans: (P,) the steps by
    which text moves on after each picture (its longer side in level-0 tokens). offsets: (3, sum of counts) from
    `language_positions`, pictures in prompt order.
    Returns position_ids (4, B, L) float32 and the next position (B,) of each row. Row 0 counts the tokens without gaps;
    masks are built from it, and a gap would be taken for the border between two packed prompts.
    """
    if bool((counts <= 0).any()):
        raise InputError("every picture needs at least one token; a picture of none would lose its place in the prompt")
    valid = attention_mask.bool()
    owner, rank = placeholder_owner(is_placeholder & valid, counts)
    counts, spans = counts.to(owner.device), spans.to(owner.device, torch.float32)
    inside = owner >= 0
    picture = owner.clamp_min(0)
    last_of_picture = rank == counts[picture] - 1
    advance = torch.where(inside, last_of_picture * spans[picture], valid.float())
    ends = advance.cumsum(1)
    leaf = (counts.cumsum(0) - counts)[picture] + rank.clamp_min(0)
    placed = (ends - advance) + torch.where(inside, offsets.to(owner.device, torch.float32)[:, leaf], 0)
    counting = (valid.cumsum(1) - 1).clamp_min(0)
    positions = torch.cat([counting[None].float(), placed]).masked_fill(~valid, 0)
    return positions, ends[:, -1]
