"""Families whose pictures are square grids of tokens: InternVL, Gemma 3 and Ovis2."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

from ..base import Inputs
from .generic import MergingBackbone, TokenLayout, dense_layout, square_grids

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class SquareBackbone(MergingBackbone):
    """Every picture or tile of `pixel_values` is a square grid of tokens, in order."""

    tensor_features: ClassVar[bool] = True

    @abstractmethod
    def side(self, model: PreTrainedModel, pixels: int) -> int:
        """Tokens on the side of a tile of this many pixels."""

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        return dense_layout(square_grids(len(pixels), self.side(model, pixels.shape[-1]), pixels.shape[-1]))


class InternVL(SquareBackbone):
    """Tiles, a thumbnail last, each shrunk by pixel shuffle."""

    model_types: ClassVar[tuple[str, ...]] = ("internvl",)
    tiled: ClassVar[bool] = True

    def side(self, model: PreTrainedModel, pixels: int) -> int:
        patch = model.config.vision_config.patch_size
        return int(pixels // (patch if isinstance(patch, int) else patch[0]) * model.config.downsample_ratio)


class Gemma3(SquareBackbone):
    """Pictures and crops of them, each a block whose tokens see one another in both directions.

    `token_type_ids` marks the blocks; it is shortened with the prompt. Local layers count their window in tokens, so
    after merging a window reaches further back over the prompt than before.
    """

    model_types: ClassVar[tuple[str, ...]] = ("gemma3",)
    turn_start: ClassVar[str] = "<start_of_turn>user"
    turn_ends: ClassVar[tuple[str, ...]] = ("<end_of_turn>",)

    def side(self, model: PreTrainedModel, pixels: int) -> int:
        return math.isqrt(model.config.mm_tokens_per_image)


class Ovis2(SquareBackbone):
    """Tiles whose tokens are distributions over a visual vocabulary.

    Merging comes after the visual embedding table, where an average is a mixture of the members' words. The indicator
    tokens between tiles (start, grid, column, row, end) are ordinary places of the prompt: they stay.
    """

    model_types: ClassVar[tuple[str, ...]] = ("ovis2",)
    tiled: ClassVar[bool] = True
    whole_view: ClassVar[int] = 0

    def side(self, model: PreTrainedModel, pixels: int) -> int:
        vision = model.config.vision_config
        return -(-(pixels // vision.patch_size) // vision.hidden_stride)
