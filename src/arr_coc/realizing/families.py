"""The families whose tokens are merged behind their encoder: Qwen2.5-VL, InternVL, Gemma 3, Ovis2, LLaVA-OneVision and
DeepSeek-OCR 2. Each says where its tokens lie and how its pixels look; `merging` does the rest."""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ..core.errors import InputError
from .base import Inputs, VisualGrid
from .merging import MergingBackbone, TokenLayout, dense_layout, fit, inner, square_grid
from .patches import denormalize, unpatchify

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


class Qwen25VL(MergingBackbone):
    """One grid per picture, three-axis positions (time, row, column) that a merged token takes the mean of."""

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
        pictures = unpatchify(inputs["pixel_values"], sizes, patch, merge, frames)
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


class SquareBackbone(MergingBackbone):
    """Every picture or tile of `pixel_values` is a square grid of tokens, in order."""

    tensor_features: ClassVar[bool] = True

    @abstractmethod
    def side(self, model: PreTrainedModel, pixels: int) -> int:
        """Return tokens on the side of a tile of this many pixels."""

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pixels = inputs["pixel_values"]
        return dense_layout([square_grid(self.side(model, pixels.shape[-1]), pixels.shape[-1])] * len(pixels))


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


LINE_BREAK = -1.0


class LlavaOnevision(MergingBackbone):
    """A square view of the whole picture, then its tiles put together into one grid without padding.

    Every row of that grid ends in a learned line break (`image_newline`); line breaks lie in no grid and are always
    kept. How the tiles are put together is asked of the stock model itself, so the layout here cannot drift from the
    one there. A prompt with several pictures shows each as one view, and the stock packing shrinks a very large grid to
    at most nine tiles' worth of tokens.
    """

    model_types: ClassVar[tuple[str, ...]] = ("llava_onevision",)
    tiled: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "image_sizes", "batch_num_images")

    def tile_counts(self, model: PreTrainedModel, inputs: Inputs) -> list[int]:
        """Return the views of every picture: the whole one and its tiles."""
        from transformers.models.llava_next.modeling_llava_next import image_size_to_num_patches

        size, pinpoints = model.config.vision_config.image_size, model.config.image_grid_pinpoints
        counts = [image_size_to_num_patches(one, pinpoints, size) for one in inputs["image_sizes"]]
        per_prompt = inputs.get("batch_num_images")
        if per_prompt is None:
            return counts
        per_prompt = torch.as_tensor(per_prompt)
        alone = (per_prompt == 1).repeat_interleave(per_prompt).tolist()
        return [count if single else 1 for count, single in zip(counts, alone, strict=True)]

    def side(self, model: PreTrainedModel) -> int:
        """Return tokens on the side of one tile."""
        return model.config.vision_config.image_size // model.config.vision_config.patch_size

    def packed_breaks(self, model: PreTrainedModel, inputs: Inputs) -> list[Tensor]:
        """Return a mask (tokens,) for each picture of its line breaks, as the stock model packs them."""
        tiles = [torch.zeros(count, self.side(model) ** 2, 1) for count in self.tile_counts(model, inputs)]
        ratio = inputs.get("vision_aspect_ratio") or model.config.vision_aspect_ratio
        how = {"image_newline": torch.full((1,), LINE_BREAK), "vision_aspect_ratio": ratio}
        packed = inner(model).pack_image_features(tiles, inputs["image_sizes"], **how)[0]
        return [one[:, 0] == LINE_BREAK for one in packed]

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
        # The last rows and columns of a tile that fill no patch are never seen.
        pixels, side = inputs["pixel_values"], self.side(model) * model.config.vision_config.patch_size
        pixels, counts = denormalize(pixels, processor)[..., :side, :side], self.tile_counts(model, inputs)
        if pixels.ndim == 5:  # the processor pads every picture to the same number of tiles
            pixels = torch.cat([one[:count] for one, count in zip(pixels, counts, strict=True)])
        grids, pictures = iter(self.layout(model, inputs).grids), []
        for views, size in zip(pixels.split(counts), inputs["image_sizes"], strict=True):
            pictures.append(fit(views[0], next(grids)))
            if len(views) > 1:
                pictures.append(fit(self.assemble(model, views[1:], size), next(grids)))
        return pictures

    def assemble(self, model: PreTrainedModel, parts: Tensor, size: Tensor) -> Tensor:
        """Join tiles (tiles, 3, S, S) to (3, height, width), without the padding that the tokens lose, too."""
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


DOWNSAMPLING = 4  # two strided convolutions behind the encoder's patches


def tile_side(model: PreTrainedModel, pixels: int) -> int:
    """Return the queries on a side of a square view of `pixels` a side: the stock encoder has two sets."""
    tower = inner(model).vision_tower
    patches = -(-(pixels // model.config.vision_config.sam_config.patch_size) // DOWNSAMPLING)
    small, large = tower.query_768_resolution, tower.query_1024_resolution
    return int((small if patches**2 <= small.num_embeddings else large).num_embeddings ** 0.5)


class DeepseekOcr2(MergingBackbone):
    """Tiles of 768² (144 tokens each), then the whole page (256 tokens, or 144 at 768²), then a separator.

    A view's tokens are learned queries that read it in an order of their own. The checkpoint arranges them as 12 × 12
    and 16 × 16 and merging follows that arrangement, but nothing binds a query to the ground it stands on: coarsening a
    region here saves its tokens, it does not promise that other places are seen as before. What keeps places is
    choosing whole tiles, as the model's own modes do.
    """

    model_types: ClassVar[tuple[str, ...]] = ("deepseek_ocr2",)
    tiled: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "pixel_values_local", "num_local_patches")
    turn_start: ClassVar[str] = "<|User|>"
    turn_ends: ClassVar[tuple[str, ...]] = ("<|Assistant|>",)

    def views(self, inputs: Inputs) -> list[Tensor]:
        """Return every view as (3, H, W), in prompt order: the tiles of a picture, then the picture."""
        pages, tiles = inputs["pixel_values"], inputs.get("pixel_values_local")
        if tiles is None:
            return list(pages)
        counts = torch.as_tensor(inputs["num_local_patches"]).tolist()
        return [view for page, group in zip(pages, tiles.split(counts), strict=True) for view in (*group, page)]

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        widths, tiles = [view.shape[-1] for view in self.views(inputs)], inputs.get("pixel_values_local")
        grids = tuple(square_grid(tile_side(model, width), width) for width in widths)
        counts = [0] * len(inputs["pixel_values"]) if tiles is None else inputs["num_local_patches"]
        # One separator behind each page: the last view of its picture.
        last = (torch.as_tensor(counts).cpu() + 1).cumsum(0) - 1
        parts, first = [], 0
        for number, grid in enumerate(grids):
            parts += [torch.arange(first, first + grid.tokens), torch.full((int((last == number).sum()),), -1)]
            first += grid.tokens
        return TokenLayout(grids, torch.cat(parts))

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        views, grids = self.views(inputs), self.layout(model, inputs).grids
        return [fit(denormalize(view, processor), grid) for view, grid in zip(views, grids, strict=True)]
