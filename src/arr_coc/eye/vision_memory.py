"""The vision tower's memory: new leaves see the leaves of earlier looks, and none of those is encoded again.

Keys and values of every layer are kept. What was seen first was encoded without what came later, as in a language model
with a cache; a leaf that was encoded alone, without the rest of the picture around it, is read much worse.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ..models.qwen3_vl.encode import VisualTokens, encode_leaves
from ..models.qwen3_vl.walk import own_attention
from ..models.tokens.patches import LeafBatch, PatchPyramid, gather_leaf_patches, mip_pyramid

if TYPE_CHECKING:
    from transformers import PreTrainedModel

LOOKING_AGAIN = "arr_coc_looking_again"


@dataclass
class TowerMemory:
    """there: (B, P) bool, which patches of all looks are not padding. seen: keys and values (B, heads, P, head size) of
    each layer's attention."""

    there: Tensor | None = None
    seen: dict[nn.Module, tuple[Tensor, Tensor]] = field(default_factory=dict)

    def copy(self) -> TowerMemory:
        """As it is now; what is added to one does not change the other."""
        return TowerMemory(self.there, dict(self.seen))


class Rows(NamedTuple):
    """How packed patches are laid out for attention: `number` rows of `length`. place: (P,) int64, each patch's place
    among number · length; None where the rows are full."""

    number: int
    length: int
    place: Tensor | None

    @classmethod
    def of(cls, there: Tensor) -> Rows:
        """there: (number, length) bool, the places with a patch."""
        place = None if bool(there.all()) else there.flatten().nonzero()[:, 0]
        return cls(there.shape[0], there.shape[1], place)

    def spread(self, packed: Tensor) -> Tensor:
        """(P, …) → (number, length, …), zero where there is no patch."""
        if self.place is not None:
            padded = packed.new_zeros(self.number * self.length, *packed.shape[1:])
            packed = padded.index_copy(0, self.place, packed)
        return packed.unflatten(0, (self.number, self.length))

    def pack(self, spread: Tensor) -> Tensor:
        """The inverse."""
        flat = spread.flatten(0, 1)
        return flat if self.place is None else flat.index_select(0, self.place)


@dataclass(frozen=True)
class LookBlock:
    """One look on its way through the tower. mask: (B, 1, 1, P) bool over all patches that may be attended; None where
    all may."""

    memory: TowerMemory
    rows: Rows
    mask: Tensor | None

    @classmethod
    def of(cls, memory: TowerMemory, there: Tensor, patches: int) -> LookBlock:
        """there: (B, N) bool, the leaves that are not padding; patches: of one leaf. The memory then knows of them."""
        mask = there.repeat_interleave(patches, 1)
        rows = Rows.of(mask)
        memory.there = mask if memory.there is None else torch.cat([memory.there, mask], 1)
        everything = rows.place is None and bool(memory.there.all())
        return cls(memory, rows, None if everything else memory.there[:, None, None])

    def spread(self, packed: Tensor) -> Tensor:
        """(1, heads, M, head size) → (B, heads, N, head size), zeros where there is padding."""
        return self.rows.spread(packed[0].transpose(0, 1)).transpose(1, 2)

    def pack(self, spread: Tensor) -> Tensor:
        """(B, heads, N, head size) → (1, M, heads, head size), as a layer of the tower wants it."""
        return self.rows.pack(spread.transpose(1, 2))[None]


def look_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    look: LookBlock,
    scaling: float | None = None,
    **_: Any,
) -> tuple[Tensor, None]:
    """Attention of a look's patches over themselves and all that was seen before; query: (1, heads, M, head size)."""
    asked, keys, values = (look.spread(item) for item in (query, key, value))
    if module in look.memory.seen:
        before = look.memory.seen[module]
        keys, values = (torch.cat(pair, 2) for pair in zip(before, (keys, values), strict=True))
    look.memory.seen[module] = keys, values
    mixed = F.scaled_dot_product_attention(asked, keys, values, attn_mask=look.mask, scale=scaling)
    return look.pack(mixed), None


def encode_look(model: PreTrainedModel, patches: Tensor, batch: LeafBatch, look: LookBlock) -> VisualTokens:
    """`encode_leaves` of a batch whose patches attend in the rows of `look`, and to what its memory holds."""
    with own_attention(model.model.visual, LOOKING_AGAIN, look_attention):
        return encode_leaves(model, patches, batch, look=look)


def picture_pyramid(model: PreTrainedModel, pictures: Tensor, levels: int) -> PatchPyramid:
    """Pictures (B, C, H, W), normalised as the processor does it → mip levels up to `levels`, once for all looks."""
    vision = model.config.vision_config
    cell = vision.spatial_merge_size * vision.patch_size
    return mip_pyramid(pictures, levels + 1, cell=cell, patch_size=vision.patch_size)


def encode_block(
    model: PreTrainedModel,
    pyramid: PatchPyramid,
    leaves: Tensor,
    grid: tuple[int, int],
    tower: TowerMemory | None = None,
) -> VisualTokens:
    """A block of leaves (B, N, 3), -1 for padding → visual tokens, packed picture after picture.

    tower: with it, the leaves see each other and those of all earlier blocks, which it remembers; without, a block is
    encoded on its own.
    """
    vision = model.config.vision_config
    merge = vision.spatial_merge_size
    batch = LeafBatch.equal(leaves, grid, pyramid.levels)
    there = leaves[..., 2] >= 0
    if not bool(there.all()):
        batch = batch.select(there.flatten())
    patches = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=merge, temporal=vision.temporal_patch_size)
    return encode_look(model, patches, batch, LookBlock.of(tower or TowerMemory(), there, merge**2))


def interleave(blocks: tuple[VisualTokens, ...], there: tuple[Tensor, ...]) -> VisualTokens:
    """Blocks, each packed picture after picture, → one, picture after picture. there: (B, N) bool of each block."""
    if len(blocks) == 1:
        return blocks[0]
    # Sorting by picture is stable, so within a picture the blocks keep their order.
    owner = torch.cat([mask.nonzero()[:, 0] for mask in there])
    order = owner.argsort(stable=True)
    planes = zip(*(block.planes for block in blocks), strict=True)
    return VisualTokens(
        torch.cat([block.embeds for block in blocks])[order], tuple(torch.cat(plane)[order] for plane in planes)
    )
