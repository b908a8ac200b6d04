"""Gemma 3: square pictures (and square crops of them), each a block whose tokens see one another in both directions.

`token_type_ids` marks the blocks; it is shortened with the prompt. Local layers count their window in tokens, so after
merging a window reaches further back over the prompt than before.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, ClassVar

from ..base import Inputs
from .generic import MergingBackbone, TokenLayout, dense_layout, square_grids

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class Gemma3(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("gemma3",)
    tensor_features: ClassVar[bool] = True
    turn_start: ClassVar[str] = "<start_of_turn>user"
    turn_ends: ClassVar[tuple[str, ...]] = ("<end_of_turn>",)

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        side = math.isqrt(model.config.mm_tokens_per_image)
        return dense_layout(square_grids(len(pixels), side, pixels.shape[-1]))
