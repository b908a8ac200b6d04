"""LLaVA-OneVision: a square view of the whole picture, then its tiles put together into one grid without padding.

Every row of that grid ends in a learned line break (`image_newline`); line breaks lie in no grid and are always kept.
How the tiles are put together is asked of the stock model itself: it packs the numbers of the cells instead of the
tokens, so the layout here cannot drift from the one there. A prompt with several pictures shows each as one view, and
the stock packing shrinks a very large grid to at most nine tiles' worth of tokens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ..base import Inputs, VisualGrid
from ..tokens.patches import denormalize
from .generic import MergingBackbone, TokenLayout, fit, inner, whole_patches

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

LINE_BREAK = -1.0


class LlavaOnevision(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("llava_onevision",)
    tiled: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "image_sizes", "batch_num_images")

    def tile_counts(self, model: PreTrainedModel, inputs: Inputs) -> list[int]:
        """Views of every picture: the whole one and its tiles."""
        from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

        size, pinpoints = model.config.vision_config.image_size, model.config.image_grid_pinpoints
        counts = [image_size_to_num_patches(one, pinpoints, size) for one in inputs["image_sizes"]]
        per_prompt = inputs.get("batch_num_images")
        if per_prompt is None:
            return counts
        per_prompt = torch.as_tensor(per_prompt)
        alone = (per_prompt == 1).repeat_interleave(per_prompt).tolist()
        return [count if single else 1 for count, single in zip(counts, alone, strict=True)]

    def pack(self, model: PreTrainedModel, inputs: Inputs, features: list[Tensor]) -> list[Tensor]:
        """The stock packing of per-tile features (tiles, n, C), with line breaks of the value LINE_BREAK."""
        newline = torch.full((features[0].shape[-1],), LINE_BREAK)
        ratio = inputs.get("vision_aspect_ratio") or model.config.vision_aspect_ratio
        return inner(model).pack_image_features(
            features, inputs["image_sizes"], image_newline=newline, vision_aspect_ratio=ratio
        )[0]

    def side(self, model: PreTrainedModel) -> int:
        """Tokens on the side of one tile."""
        return model.config.vision_config.image_size // model.config.vision_config.patch_size

    def packed_breaks(self, model: PreTrainedModel, inputs: Inputs) -> list[Tensor]:
        """Per picture (tokens,) bool: which of its packed tokens are line breaks."""
        tokens = self.side(model) ** 2
        tiles = [torch.zeros(count, tokens, 1) for count in self.tile_counts(model, inputs)]
        return [packed[:, 0] == LINE_BREAK for packed in self.pack(model, inputs, tiles)]

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        side, patch = self.side(model), model.config.vision_config.patch_size
        breaks = self.packed_breaks(model, inputs)
        grids: list[VisualGrid] = []
        for line_break in breaks:
            grids.append(VisualGrid(side, side, side * patch, side * patch))
            rows = int(line_break.sum())
            cols = (len(line_break) - side * side) // rows - 1
            if cols:  # a picture of one view ends in a single line break and has no second grid
                grids.append(VisualGrid(rows, cols, rows * patch, cols * patch))
        is_break = torch.cat(breaks)
        return TokenLayout(tuple(grids), torch.where(is_break, -1, (~is_break).cumsum(0) - 1))

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        pixels = whole_patches(denormalize(inputs["pixel_values"], processor), model.config.vision_config.patch_size)
        tiles = self.tiles(pixels, self.tile_counts(model, inputs))
        grids = iter(self.layout(model, inputs).grids)
        pictures = []
        for views, size in zip(tiles, inputs["image_sizes"], strict=True):
            whole, parts = views[:1], views[1:]
            pictures.append(fit(whole[0], next(grids)))
            if len(parts):
                pictures.append(fit(self.assemble(model, parts, size), next(grids)))
        return pictures

    def assemble(self, model: PreTrainedModel, parts: Tensor, size: Tensor) -> Tensor:
        """(tiles, 3, S, S) -> (3, height, width): the tiles side by side, less the padding that the tokens lose too."""
        from transformers.models.llava_next.modeling_llava_next import get_anyres_image_grid_shape, unpad_image

        vision, pinpoints = model.config.vision_config, model.config.image_grid_pinpoints
        rows, cols = get_anyres_image_grid_shape(size, pinpoints, vision.image_size)
        mosaic = parts.unflatten(0, (rows, cols)).permute(2, 0, 3, 1, 4).flatten(3, 4).flatten(1, 2)
        # The stock function cuts whole tokens, so it is asked with the numbers of the tokens.
        side, patch = self.side(model), vision.patch_size
        numbers = torch.meshgrid(torch.arange(rows * side), torch.arange(cols * side), indexing="ij")
        kept = unpad_image(torch.stack(numbers), size)
        (top, left), (bottom, right) = kept[:, 0, 0].tolist(), kept[:, -1, -1].tolist()
        return mosaic[:, top * patch : (bottom + 1) * patch, left * patch : (right + 1) * patch]

    def tiles(self, pixel_values: Tensor, counts: list[int]) -> list[Tensor]:
        """Per picture (tiles, 3, S, S); the processor pads every picture to the same number of tiles."""
        if pixel_values.ndim == 4:
            return list(pixel_values.split(counts))
        return [one[:count] for one, count in zip(pixel_values, counts, strict=True)]
