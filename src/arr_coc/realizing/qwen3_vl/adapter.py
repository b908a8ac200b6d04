"""Qwen3-VL: levels of detail before the vision encoder, so that encoder and language model both get cheaper."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from ...core.errors import InputError
from ...core.values import Allocation
from ..base import Backbone, Inputs, Realized, VisualGrid, VisualTokens, check_allocations
from ..patches import LeafBatch, denormalize, unpatchify
from ..positions import placeholder_owner, placeholder_rows
from ..query import mask_of, pack, padding_side, shortened
from .encode import foveate, leaf_positions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


class Qwen3VL(Backbone):
    """Foveation of the stock `Qwen3VLForConditionalGeneration`, and of its mixture of experts."""

    model_types: ClassVar[tuple[str, ...]] = ("qwen3_vl", "qwen3_vl_moe")
    before_encoder: ClassVar[bool] = True
    picture_keys: ClassVar[tuple[str, ...]] = ("pixel_values", "image_grid_thw")
    # Frames that a patch repeats; None: as many as the model's patches have.
    temporal: ClassVar[int | None] = None
    # What the stock class calls what is shown.
    modality: ClassVar[str] = "image"

    def grids(self, model: PreTrainedModel, inputs: Inputs) -> list[VisualGrid]:
        vision = model.config.vision_config
        merge, pixels = vision.spatial_merge_size, vision.patch_size
        sizes = self._patch_grids(inputs)
        counts = np.array([rows * cols // merge**2 for rows, cols in sizes])
        # The row in which each picture begins, in prompt order.
        prompt_rows = placeholder_rows(inputs["input_ids"].cpu().numpy() == self.image_token_id(model), counts)
        return [
            VisualGrid(rows // merge, cols // merge, rows * pixels, cols * pixels, row)
            for (rows, cols), row in zip(sizes, prompt_rows, strict=True)
        ]

    def pixels(self, model: PreTrainedModel, processor: ProcessorMixin, inputs: Inputs) -> list[Tensor]:
        # Of several frames side by side (a video), the first; a picture is one frame.
        pictures = [one.unflatten(0, (3, -1))[:, 0] for one in self.normalised_pixels(model, inputs)]
        return [denormalize(one, processor) for one in pictures]

    def normalised_pixels(self, model: PreTrainedModel, inputs: Inputs) -> list[Tensor]:
        """Return the pictures in `pixel_values`, as the vision tower sees them; of a video groups of frames, which are
        channels, in a patch's own order."""
        vision = model.config.vision_config
        merge, frames = vision.spatial_merge_size, self.temporal or vision.temporal_patch_size
        patches = inputs[self.picture_keys[0]]
        return unpatchify(patches, self._patch_grids(inputs), vision.patch_size, merge, frames)

    def realize(
        self,
        model: PreTrainedModel,
        inputs: Inputs,
        allocations: Sequence[Allocation],
        *,
        tower: Callable[[Tensor, LeafBatch], VisualTokens] | None = None,
    ) -> Realized:
        """Encode the leaves of every picture and put them in the place of its placeholders.

        tower: `encode_leaves` in another form, such as a recorded one.
        """
        merge, pixels = model.config.vision_config.spatial_merge_size, inputs[self.picture_keys[0]]
        check_allocations(allocations, [(rows // merge, cols // merge) for rows, cols in self._patch_grids(inputs)])
        batch = LeafBatch.of(allocations, pixels.device)
        tokens = foveate(model, self.normalised_pixels(model, inputs), batch, tower, self.temporal)
        return self.splice(model, inputs, batch, tokens)

    def splice(self, model: PreTrainedModel, inputs: Inputs, batch: LeafBatch, tokens: VisualTokens) -> Realized:
        """Return the prompt with one placeholder per leaf; text keeps the positions it has around the full picture."""
        ids, image = inputs["input_ids"], self.image_token_id(model)
        device = ids.device
        mask = mask_of(inputs)
        counts = torch.tensor(batch.counts, device=device)
        owner, rank = placeholder_owner(ids == image, batch.grid.to(device).prod(1))
        keep = mask.bool() & ((owner < 0) | (rank < counts[owner.clamp_min(0)]))
        index = pack(keep, padding_side(mask))

        consumed = {*self.picture_keys, "mm_token_type_ids", "position_ids", "attention_mask"}
        short = shortened(model, inputs, index, consumed)
        attention_mask = (index >= 0).to(mask.dtype)
        positions, next_position = leaf_positions(short["input_ids"], batch, image, attention_mask)
        # Beams and several answers repeat the features in place, so every call builds its own container.
        kind = model.config.model_type
        stock = import_module(f"transformers.models.{kind}.modeling_{kind}")
        features = stock.BaseModelOutputWithDeepstackFeatures(
            pooler_output=list(tokens.embeds.split(batch.counts)),
            deepstack_features=[list(plane.split(batch.counts)) for plane in tokens.planes],
        )
        prepared = {
            **short,
            "attention_mask": attention_mask,
            "position_ids": positions,
            "mm_encoder_outputs": {self.modality: features},
        }
        notes = {"leaves": batch, "tokens": tokens}
        return Realized(prepared, index, next_position, notes)

    @classmethod
    def _patch_grids(cls, inputs: Inputs) -> list[tuple[int, int]]:
        """Return (patch rows, patch cols) of every picture, or of every group of frames of every video."""
        pixels, grid = (inputs.get(key) for key in cls.picture_keys)
        if grid is None or pixels is None:
            raise InputError(f"{' and '.join(cls.picture_keys)} are needed, as the Qwen3-VL processor gives them")
        if grid.ndim != 2 or grid.shape[1] != 3:
            raise InputError(f"{cls.picture_keys[1]} must be (pictures, 3), got {tuple(grid.shape)}")
        if inputs.get("pixel_values") is not None and inputs.get("pixel_values_videos") is not None:
            raise InputError("a prompt with pictures and videos cannot be foveated; pass the frames as pictures")
        return [(rows, cols) for times, rows, cols in grid.tolist() for _ in range(times)]
