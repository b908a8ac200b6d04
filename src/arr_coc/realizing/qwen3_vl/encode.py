"""The vision tower and the language model of a stock Qwen3-VL, fed with leaves. Works from transformers 5.17 on.

These functions call public modules of the model with arguments that those take from any caller; they change nothing in
it. `attach` is built on them, and a training loop can call them directly, with gradients.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from ...core.errors import InputError
from ..base import VisualTokens
from ..patches import LeafBatch, Pictures, leaf_patches
from ..positions import language_positions, position_taps, prompt_positions, vision_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class PatchPlaces:
    """Where patches of leaves are. positions: (P, 2) float32 row, col. indices, weights: (P, 4), taps of a table."""

    positions: Tensor
    indices: Tensor
    weights: Tensor

    @classmethod
    def of(cls, tower: Any, leaves: Tensor, grids: Tensor) -> PatchPlaces:
        """Build it from leaves (M, 3) or (M, 4). grids: (M, 2) or (2,), rows and cols of level-0 tokens by picture."""
        merge, unit = tower.spatial_merge_size, tower.spatial_merge_unit
        positions = vision_positions(leaves, merge).reshape(-1, 2)
        size = grids * merge
        size = size.repeat_interleave(unit, dim=0) if size.ndim == 2 else size
        return cls(positions, *position_taps(positions, size, tower.num_grid_per_side))


def row_boundaries(tower: nn.Module, lengths: Sequence[int], device: torch.device) -> dict[str, object]:
    """Return what the tower's attention needs to know about rows of `lengths` patches, as arguments of its blocks.

    Boundaries stay on the CPU, where the tower reads them as a list in every layer. A flash kernel wants them beside
    the patches, and the longest length as a number.
    """
    from transformers.utils.generic import is_flash_attention_requested

    boundaries = torch.tensor([0, *lengths]).cumsum(0, dtype=torch.int32)
    if is_flash_attention_requested(tower.config):
        return {"cu_seqlens": boundaries.to(device), "max_seqlen": max(lengths)}
    return {"cu_seqlens": boundaries}


def encode_leaves(model: PreTrainedModel, patches: Tensor, batch: LeafBatch) -> VisualTokens:
    """Run the vision tower on mixed-resolution patches with their true positions.

    patches: (M·merge², C·T·P·P) from `gather_leaf_patches`, in the order of the batch. Pictures do not see each other.
    """
    tower = model.model.visual
    places = PatchPlaces.of(tower, batch.leaves, batch.grid[batch.owner])
    lengths = [count * tower.spatial_merge_unit for count in batch.counts]
    output = tower(
        patches.to(tower.dtype),
        grid_thw=None,
        position_ids=places.positions,
        interp_indices=places.indices,
        interp_weights=places.weights,
        return_dict=True,
        **row_boundaries(tower, lengths, patches.device),
    )
    return VisualTokens(output.pooler_output, tuple(output.deepstack_features))


def foveate(
    model: PreTrainedModel,
    pictures: Pictures,
    batch: LeafBatch,
    tower: Callable[[Tensor, LeafBatch], VisualTokens] | None = None,
    temporal: int | None = None,
) -> VisualTokens:
    """Pictures, normalised as the processor does it, and their leaves -> visual tokens, in the order of the batch.

    tower: `encode_leaves` in another form. temporal: frames that a patch repeats, the model's own number by default.
    """
    vision = model.config.vision_config
    merge, size = vision.spatial_merge_size, vision.patch_size
    repeated = vision.temporal_patch_size if temporal is None else temporal
    patches = leaf_patches(pictures, batch, merge=merge, patch_size=size, temporal=repeated)
    return encode_leaves(model, patches, batch) if tower is None else tower(patches, batch)


def leaf_positions(
    input_ids: Tensor, batch: LeafBatch, image_token_id: int, attention_mask: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """M-RoPE of a prompt that has one placeholder per leaf: position_ids (4, B, L) and the next position (B,)."""
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    offsets = language_positions(batch.leaves, batch.grid[batch.owner])
    counts = torch.tensor(batch.counts, device=input_ids.device)
    return prompt_positions(input_ids == image_token_id, counts, batch.grid.amax(1), offsets, mask)


def run_language_model(
    model: PreTrainedModel,
    input_ids: Tensor,
    tokens: VisualTokens,
    position_ids: Tensor,
    attention_mask: Tensor | None = None,
    **arguments: object,
) -> Any:
    """Run the language model on a prompt with one placeholder per visual token. input_ids: (B, L)."""
    core, visual = model.model, input_ids == model.config.image_token_id
    if int(visual.sum()) != len(tokens.embeds):
        raise InputError(
            f"the prompt holds {int(visual.sum())} picture placeholders for {len(tokens.embeds)} visual tokens; "
            "give every leaf one placeholder"
        )
    embeds = core.get_input_embeddings()(input_ids)
    embeds = embeds.masked_scatter(visual[..., None], tokens.embeds.to(embeds.device, embeds.dtype))
    # A 2-D mask is always passed: without one, gaps in the positions would be read as borders of packed prompts.
    mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
    return core.language_model(
        input_ids=None,
        inputs_embeds=embeds,
        attention_mask=mask,
        position_ids=position_ids,
        visual_pos_masks=visual,
        deepstack_visual_embeds=list(tokens.planes),
        **arguments,
    )
