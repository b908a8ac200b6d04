"""DeepSeek-OCR 2: tiles of 768² (144 tokens each), then the whole page (256 tokens, or 144 at 768²), then a separator.

Its own modes are the baseline for any merging, see `own_modes`. A view's tokens are learned queries that read it in an
order of their own. The checkpoint arranges them as 12 × 12 and 16 × 16 and merging follows that arrangement, but
nothing binds a query to the ground it stands on: coarsening a region here saves its tokens, it does not promise that
other places are seen as before. What keeps places is choosing whole tiles, as the model's own modes do.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from ..base import Inputs
from ..tokens.patches import denormalize
from .generic import MergingBackbone, TokenLayout, fit, inner, square_grid

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

DOWNSAMPLING = 4  # two strided convolutions behind the encoder's patches


def tile_side(model: PreTrainedModel, pixels: int) -> int:
    """Queries on the side of a square view of so many pixels: the stock encoder has two sets of them."""
    tower = inner(model).vision_tower
    patches = -(-(pixels // model.config.vision_config.sam_config.patch_size) // DOWNSAMPLING)
    small, large = tower.query_768_resolution, tower.query_1024_resolution
    return int((small if patches**2 <= small.num_embeddings else large).num_embeddings ** 0.5)


def own_modes(model: PreTrainedModel, tiles: int) -> dict[str, int]:
    """Visual tokens of a page in the model's own modes: the page at 768² (`crop_to_patches=False`), the page at 1024²
    (small pages), and the page at 1024² with its 2 to 6 tiles."""
    tower = inner(model).vision_tower
    small, large = tower.query_768_resolution.num_embeddings, tower.query_1024_resolution.num_embeddings
    return {"page_768": small + 1, "page_1024": large + 1, "page_and_tiles": tiles * small + large + 1}


class DeepseekOcr2(MergingBackbone):
    model_types: ClassVar[tuple[str, ...]] = ("deepseek_ocr2",)
    tiled: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "pixel_values_local", "num_local_patches")
    turn_start: ClassVar[str] = "<|User|>"
    turn_ends: ClassVar[tuple[str, ...]] = ("<|Assistant|>",)

    def views(self, inputs: Inputs) -> list[Tensor]:
        """Every view as (3, H, W), in prompt order: the tiles of a picture, then the picture."""
        pages, tiles = inputs["pixel_values"], inputs.get("pixel_values_local")
        if tiles is None:
            return list(pages)
        counts = torch.as_tensor(inputs["num_local_patches"]).tolist()
        return [view for page, group in zip(pages, tiles.split(counts), strict=True) for view in (*group, page)]

    def layout(self, model: PreTrainedModel, inputs: Inputs) -> TokenLayout:
        pages, tiles = inputs["pixel_values"], inputs.get("pixel_values_local")
        local = torch.zeros(len(pages), dtype=torch.int64)
        if tiles is not None:
            local = torch.as_tensor(inputs["num_local_patches"], dtype=torch.int64).cpu()
        widths = [view.shape[-1] for view in self.views(inputs)]
        grids = tuple(square_grid(tile_side(model, width), width) for width in widths)
        # One separator behind each page: the last view of its picture.
        last_view = (local + 1).cumsum(0) - 1
        sizes = torch.tensor([grid.tokens for grid in grids])
        ends = sizes.cumsum(0)[last_view]
        cells = torch.full((int(sizes.sum()) + len(pages),), -1)
        separator = torch.zeros(len(cells), dtype=torch.bool)
        separator[ends + torch.arange(len(pages))] = True
        cells[~separator] = torch.arange(int(sizes.sum()))
        return TokenLayout(grids, cells)

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        views, grids = self.views(inputs), self.layout(model, inputs).grids
        return [fit(denormalize(view, processor), grid) for view, grid in zip(views, grids, strict=True)]
