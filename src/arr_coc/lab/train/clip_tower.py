"""`mini`'s vision tower on frames with different numbers of leaves, in one pass: only attention needs padding.

The frames of a clip may have four leaves or hundreds. Frame by frame, or one number of leaves after the other, would be
dozens of passes of a small model, each too small for a fast device. Everything but attention works on single patches,
so these stay packed; for attention they are laid out in rows of the longest frame, with a mask. The parameters are the
stock model's own, and a test holds the result equal to it.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import functional as F

from ...attending.quadtree import Leaves
from ...backbones.qwen3_vl_encode import VisualTokens
from ...realizing.patches import LeafBatch, gather_leaf_patches, mip_pyramid
from ...realizing.positions import position_taps, vision_positions
from .allocations import LEVELS
from .reading import normalise_pictures
from .swift import Rotate, pair

CELL, PATCH = 32, 16
# Rows of attention are as long as a multiple of this: kernels want masks of such lengths.
ALIGNED = 16


class Rows(NamedTuple):
    """How packed patches are laid out for attention. number, length: of the rows. place: (P,) int64, each patch's place
    among number · length. mask: (number, 1, 1, length) bool, where there is a patch; None where rows are full."""

    number: int
    length: int
    place: Tensor | None
    mask: Tensor | None

    def spread(self, packed: Tensor) -> Tensor:
        """(P, …) → (number, length, …), zero where there is no patch."""
        if self.place is None:
            return packed.unflatten(0, (self.number, self.length))
        laid_out = packed.new_zeros(self.number * self.length, *packed.shape[1:])
        return laid_out.index_copy(0, self.place, packed).unflatten(0, (self.number, self.length))

    def gather(self, laid_out: Tensor) -> Tensor:
        """The inverse."""
        flat = laid_out.flatten(0, 1)
        return flat if self.place is None else flat.index_select(0, self.place)


def rows_of(counts: tuple[int, ...], device: torch.device) -> Rows:
    """Rows for frames of so many patches each."""
    longest = max(counts)
    if min(counts) == longest:
        return Rows(len(counts), longest, None, None)
    length = -(-longest // ALIGNED) * ALIGNED
    lengths = torch.tensor(counts)
    there = torch.arange(length) < lengths[:, None]
    place = there.flatten().nonzero()[:, 0]
    return Rows(
        len(counts), length, place.to(device, non_blocking=True), there[:, None, None].to(device, non_blocking=True)
    )


def pack_leaves(leaves: Leaves, grid: tuple[int, int], levels: int) -> LeafBatch:
    """Leaves of M frames of one grid, frame after frame without gaps."""
    device, counts = leaves.cells.device, tuple(leaves.lengths.tolist())
    valid = torch.arange(leaves.cells.shape[1], device=device) < leaves.lengths[:, None]
    owner = torch.arange(len(counts), device=device).repeat_interleave(leaves.lengths, output_size=sum(counts))
    size = pair(*grid, device).expand(len(counts), 2)
    return LeafBatch(leaves.cells[valid].long(), owner, size, counts, levels)


def see_frames(model: Any, pictures: Tensor, leaves: Leaves) -> tuple[VisualTokens, LeafBatch]:
    """uint8 pictures (M, 3, H, W) and leaves of different numbers → visual tokens, packed picture after picture."""
    grid = pictures.shape[2] // CELL, pictures.shape[3] // CELL
    # As many mip levels as there can be: asking how coarse the leaves are would make the processor wait.
    levels = 1 + math.ceil(math.log2(max(2, *grid)))
    batch = pack_leaves(leaves, grid, max(levels, LEVELS + 1))
    pyramid = mip_pyramid(normalise_pictures(pictures), batch.levels, cell=CELL, patch_size=PATCH)
    patches = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=2, temporal=1)
    return run_ragged_tower(model.model.visual, patches, batch), batch


def run_ragged_tower(tower: Any, patches: Tensor, batch: LeafBatch) -> VisualTokens:
    """The tower on packed patches (4·leaves, 768) of the batch; frames do not see each other."""
    width, heads = tower.config.hidden_size, tower.config.num_heads
    positions = vision_positions(batch.leaves, 2).view(-1, 2)
    size = (batch.grid * 2)[batch.owner].repeat_interleave(4, dim=0)
    indices, weights = position_taps(positions, size, tower.num_grid_per_side)
    projection = tower.patch_embed.proj
    dtype = projection.weight.dtype
    placed = (F.embedding(indices, tower.pos_embed.weight) * weights[..., None].to(dtype)).sum(1)
    hidden = F.linear(patches.to(dtype), projection.weight.view(width, -1), projection.bias) + placed
    # (P, 2, frequencies) → (P, 1, 1, half a head): rows first, then columns
    angles = (positions[..., None] * tower.rotary_pos_emb.inv_freq).flatten(1)[:, None, None]
    cosine, sine = angles.cos(), angles.sin()
    rows = rows_of(tuple(4 * count for count in batch.counts), patches.device)
    planes = []
    for index, block in enumerate(tower.blocks):
        mixed = block.attn.qkv(block.norm1(hidden)).view(len(hidden), 3, heads, -1)
        turned = Rotate.apply(mixed[:, :2], cosine.to(mixed.dtype), sine.to(mixed.dtype))
        laid_out = rows.spread(torch.cat([turned, mixed[:, 2:]], 1)).permute(2, 0, 3, 1, 4)
        attended = F.scaled_dot_product_attention(*laid_out, attn_mask=rows.mask)
        hidden = hidden + block.attn.proj(rows.gather(attended.transpose(1, 2)).flatten(1))
        hidden = hidden + block.mlp(block.norm2(hidden))
        if index in tower.deepstack_visual_indexes:
            merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(index)]
            planes.append(merger(hidden))
    return VisualTokens(tower.merger(hidden), tuple(planes))
