"""Reading from several looks at once, with gradients: what the loop of `Esper` sees, for training and for measuring.

One forward pass over head, blocks, tail and a given answer. `Esper` reaches the same numbers look by look, with caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.nn import functional as F

from ..backbones.qwen3_vl_attention import vision_attention
from ..backbones.qwen3_vl_encode import VisualTokens, encode_leaves, run_language_model
from ..realizing.patches import LeafBatch, Pyramid, gather_leaf_patches, mip_pyramid
from .looks import Looks
from .prompt import Prompts, leaf_row, looks_mask, text_row
from .tower import LOOKING_AGAIN, Look, TowerMemory, look_attention

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class LooksRead:
    """answer: mean cross entropy of the answers' tokens. right: (B,) bool, every one of them right. chance: (B,) the
    log-probability of the whole answer. tokens: what the vision tower made of each block."""

    answer: Tensor
    right: Tensor
    chance: Tensor
    tokens: tuple[VisualTokens, ...]


def picture_pyramid(model: PreTrainedModel, pictures: Tensor, levels: int) -> Pyramid:
    """Pictures (B, C, H, W), normalised as the processor does it → mip levels up to `levels`, once for all looks."""
    vision = model.config.vision_config
    cell = vision.spatial_merge_size * vision.patch_size
    return mip_pyramid(pictures, levels + 1, cell=cell, patch_size=vision.patch_size)


def encode_block(
    model: PreTrainedModel, pyramid: Pyramid, leaves: Tensor, grid: tuple[int, int], tower: TowerMemory | None = None
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
    with vision_attention(model, LOOKING_AGAIN, look_attention):
        return encode_leaves(model, patches, batch, look=Look.of(tower or TowerMemory(), there, merge**2))


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


def read_looks(
    model: PreTrainedModel, pictures: Tensor, looks: Looks, prompts: Prompts, answers: Tensor, end: int
) -> LooksRead:
    """Teacher-forced reading of answers (B, A) int64, 0 = padding; `end` is the token that closes an answer.

    pictures: (B, C, H, W), normalised. The model must attend by "sdpa", which takes a mask of true and false.
    """
    grid = looks.tree.rows, looks.tree.cols
    pyramid = picture_pyramid(model, pictures, looks.tree.levels)
    tower = TowerMemory()
    tokens = tuple(encode_block(model, pyramid, leaves, grid, tower) for leaves in looks.blocks)
    image, start = model.config.image_token_id, prompts.head.shape[1]
    row = text_row(prompts.head, torch.ones_like(prompts.head, dtype=torch.bool), 0.0)
    for leaves in looks.blocks:
        row = row + leaf_row(leaves, grid, float(start), image)
    closed = torch.cat([answers, torch.zeros_like(answers[:, :1])], 1)
    closed = closed.scatter(1, (answers > 0).sum(1, keepdim=True), end)
    asked = torch.cat([prompts.there, torch.zeros_like(closed, dtype=torch.bool)], 1)
    spoken = torch.cat([torch.zeros_like(prompts.there), closed > 0], 1)
    ids = torch.cat([prompts.tail, closed], 1)
    # Pack question and answer to the left, so that padding stands behind everything real.
    order = (~(asked | spoken)).to(torch.uint8).argsort(dim=1, stable=True)
    ids, asked, spoken = (item.gather(1, order) for item in (ids, asked, spoken))
    row = row + text_row(ids * (asked | spoken), asked | spoken, float(start + max(grid)))
    seen = interleave(tokens, tuple(leaves[..., 2] >= 0 for leaves in looks.blocks))
    mask = looks_mask(row.there, looks.blocks, start)
    output = run_language_model(model, row.ids, seen, row.positions(), mask, use_cache=False)
    said = F.pad(spoken, (row.ids.shape[1] - spoken.shape[1], 0))[:, 1:]
    wanted = row.ids[:, 1:][said]
    logits = model.lm_head(output.last_hidden_state[:, :-1][said]).float()
    losses = F.cross_entropy(logits, wanted, reduction="none")
    owner = said.nonzero()[:, 0]
    zeros = torch.zeros(len(row.ids), device=owner.device)
    wrong = zeros.index_add(0, owner, (logits.argmax(-1) != wanted).float())
    return LooksRead(losses.mean(), wrong == 0, -zeros.index_add(0, owner, losses), tokens)
