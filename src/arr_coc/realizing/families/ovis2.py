"""Ovis2: square tiles. The encoder gives every token a distribution over a visual vocabulary, and the visual embedding
table turns it into a vector; merging comes after the table, where an average is a mixture of the members' words.

The indicator tokens between tiles (start, grid, column, row, end) are ordinary places of the prompt: they stay.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..base import Inputs
from .generic import MergingBackbone, TokenLayout, dense_layout, square_grids

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Ovis2(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("ovis2",)
    tiled: ClassVar[bool] = True
    whole_view: ClassVar[int] = 0
    tensor_features: ClassVar[bool] = True

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        vision = model.config.vision_config
        side = -(-(pixels.shape[-1] // vision.patch_size) // vision.hidden_stride)
        return dense_layout(square_grids(len(pixels), side, pixels.shape[-1]))
