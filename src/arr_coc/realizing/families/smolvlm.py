"""SmolVLM: square tiles with "row 1, column 2" texts between them, and the whole picture last.

The processor pads every prompt to the same number of tiles with tiles of zeros; the stock encoder skips those, and so
do the grids.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from torch import Tensor

from ..base import Inputs
from ..tokens.patches import denormalize
from .generic import MergingBackbone, TokenLayout, dense_layout, fit, square_grids, whole_patches

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


def real_tiles(pixel_values: Tensor) -> Tensor:
    """(B, T, 3, H, W) -> (B * T,) bool: which tiles the stock encoder keeps."""
    real = pixel_values.flatten(0, 1).flatten(1).ne(0).any(1)
    real[0] |= ~real.any()  # the stock encoder keeps one empty tile where there is no other
    return real


class SmolVLM(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("smolvlm",)
    tiled: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "pixel_attention_mask")
    turn_start: ClassVar[str] = "User:"
    turn_ends: ClassVar[tuple[str, ...]] = ("<end_of_utterance>",)

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        patch = model.config.vision_config.patch_size
        patches = pixels.shape[-1] // patch
        side = patches // model.config.scale_factor
        return dense_layout(square_grids(int(real_tiles(pixels).sum()), side, patches * patch))

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        pixels = inputs["pixel_values"]
        tiles = denormalize(pixels.flatten(0, 1)[real_tiles(pixels)], processor)
        tiles = whole_patches(tiles, model.config.vision_config.patch_size)
        return [fit(tile, grid) for tile, grid in zip(tiles, self.layout(model, inputs).grids, strict=True)]
