"""InternVL: square tiles (a thumbnail last), each shrunk by pixel shuffle to a square grid of tokens."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from ..base import Inputs
from .generic import MergingBackbone, TokenLayout, dense_layout, square_grids

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class InternVL(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("internvl",)
    tiled: ClassVar[bool] = True
    tensor_features: ClassVar[bool] = True

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        patch = model.config.vision_config.patch_size
        patch = patch if isinstance(patch, int) else patch[0]
        side = int(pixels.shape[-1] // patch * model.config.downsample_ratio)
        return dense_layout(square_grids(len(pixels), side, pixels.shape[-1]))
