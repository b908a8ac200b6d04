"""Qwen2.5-VL: one grid per picture, three-axis positions (time, row, column) that a merged token takes the mean of."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ...core.errors import InputError
from ..base import Inputs, VisualGrid
from ..tokens.patches import denormalize, in_order, unpatchify
from .generic import MergingBackbone, TokenLayout, dense_layout, inner

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


class Qwen25VL(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("qwen2_5_vl",)
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "image_grid_thw")

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        vision = model.config.vision_config
        grid = inputs["image_grid_thw"]
        if bool((grid[:, 0] != 1).any()):
            raise InputError("image_grid_thw has a picture of several frames; merging serves still pictures only")
        merge, patch = vision.spatial_merge_size, vision.patch_size
        return dense_layout([VisualGrid(h // merge, w // merge, h * patch, w * patch) for h, w in grid[:, 1:].tolist()])

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        vision = model.config.vision_config
        merge, patch, frames = vision.spatial_merge_size, vision.patch_size, vision.temporal_patch_size
        sizes = [(rows, cols) for rows, cols in inputs["image_grid_thw"][:, 1:].tolist()]
        pictures = in_order(unpatchify(inputs["pixel_values"], sizes, patch, merge, frames))
        return [denormalize(one, processor) for one in pictures]

    def positions(self, model: PreTrainedModel, inputs: Inputs, attention_mask: Tensor) -> Tensor:
        kinds = inputs.get("mm_token_type_ids")
        positions, _ = inner(model).get_rope_index(
            inputs["input_ids"],
            mm_token_type_ids=self.placeholders(model, inputs).int() if kinds is None else kinds,
            image_grid_thw=inputs["image_grid_thw"],
            attention_mask=attention_mask,
        )
        return positions

    def prompt_positions(self, positions: Tensor, attention_mask: Tensor) -> Tensor:
        # Four rows: the first counts the tokens and only serves to build the causal mask, so it must have no gaps.
        plain = (attention_mask.cumsum(-1) - 1).clamp_min(0)
        return torch.cat([plain[None].to(positions.dtype), positions])
