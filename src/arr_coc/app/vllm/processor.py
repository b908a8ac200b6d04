"""The processor for vLLM's Qwen3-VL: it decides the tokens of each picture and prepares their patches and positions.

It runs in the process that answers clients, without the model. The question becomes part of the keys of vLLM's
caches, because another question about the same picture leads to another allocation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property, partial
from importlib import import_module
from typing import Any

import torch
from PIL import Image
from torch import Tensor

from ...attending.distance import scaled_size
from ...core.errors import InputError
from ...core.values import JsonObject
from ...pictures.load import load_picture
from ...pictures.load import resized as resized_to
from ...realizing.base import VisualGrid, adapter
from ...realizing.patches import LeafBatch, denormalize, gather_leaf_patches, mip_pyramid, unpatchify
from ...realizing.query import find_questions
from .wishes import KEY, SeenPicture, VllmServer

qwen3_vl = import_module("vllm.model_executor.models.qwen3_vl")
Field = import_module("vllm.multimodal.inputs").MultiModalFieldConfig
Hasher = import_module("vllm.multimodal.hasher").MultiModalHasher
processing = import_module("vllm.multimodal.processing")


def stock(kwargs: Mapping[str, object]) -> JsonObject:
    """Return the keywords of the processor without ours, which the stock classes do not accept."""
    return {name: value for name, value in kwargs.items() if name != KEY}


class FoveatedInfo(qwen3_vl.Qwen3VLProcessingInfo):
    """Information about the model that needs no request."""

    @cached_property
    def server(self) -> VllmServer:
        given = self.ctx.get_mm_config().mm_processor_kwargs or {}
        return VllmServer.of(given.get(KEY), self.model_id)

    def get_mm_max_tokens_per_item(self, seq_len: int, mm_counts: Mapping[str, int]) -> Mapping[str, int]:
        found = dict(super().get_mm_max_tokens_per_item(seq_len, mm_counts))
        if self.server.max_budget is not None:
            found["image"] = min(found["image"], self.server.max_budget)
        return found


class FoveatedProcessor(qwen3_vl.Qwen3VLMultiModalProcessor):
    """The stock processor, but pictures become leaves. Raises `InputError`, which clients get as status 400."""

    info: FoveatedInfo

    def get_dummy_inputs(self, *args: object, **kwargs: object) -> object:
        """Return inputs to profile memory with: pictures at `max_budget`, or in full detail."""
        inputs = super().get_dummy_inputs(*args, **kwargs)
        return replace(inputs, hf_processor_mm_kwargs={KEY: self.info.server.largest})

    def apply(self, inputs: Any, timing_ctx: Any) -> Any:
        kwargs, counts = inputs.hf_processor_mm_kwargs, inputs.mm_data_items.get_all_counts()
        own = stock(kwargs)
        if counts.get("image"):
            if counts.get("video"):
                raise InputError("pictures and videos in one prompt are not supported; pass the frames as pictures")
            own[KEY] = self.info.server.wishes(kwargs.get(KEY), counts["image"], self._question(inputs.prompt))
        return super().apply(replace(inputs, hf_processor_mm_kwargs=own), timing_ctx)

    def _resized(self, grid: VisualGrid, kwargs: Mapping[str, object], times: float) -> VisualGrid:
        """Return the grid of level-0 tokens of a picture enlarged by `times`, as the stock processor resizes it."""
        height, width = scaled_size((grid.height, grid.width), times, grid.cell)
        size, _ = self.info._get_vision_info(
            image_width=width,
            image_height=height,
            image_processor=self.info.get_image_processor(),
            mm_kwargs=kwargs,
        )
        return VisualGrid(size.height // grid.cell, size.width // grid.cell, size.height, size.width)

    def _question(self, prompt: list[int]) -> str:
        processor = self.info.get_hf_processor()
        return find_questions(adapter("qwen3_vl"), processor, {"input_ids": torch.tensor([prompt])})[0]

    # ---- caches: each picture by its own wish ------------------------------------------------------------------------

    def _get_mm_hashes(self, inputs: Any) -> object:
        kwargs = inputs.hf_processor_mm_kwargs
        hashes = dict(super()._get_mm_hashes(replace(inputs, hf_processor_mm_kwargs=stock(kwargs))))
        if KEY in kwargs:
            algorithm = self.info.ctx.get_mm_config().mm_hasher_algorithm
            hashes["image"] = [
                Hasher.hash_kwargs(algorithm, picture=picture, wish=json.dumps(wish, sort_keys=True))
                for picture, wish in zip(hashes["image"], kwargs[KEY], strict=True)
            ]
        return hashes

    def _get_cache_missing_processor_kwargs(self, inputs: Any, mm_is_cached: Mapping[str, list[bool]]) -> object:
        kwargs = inputs.hf_processor_mm_kwargs
        bare = replace(inputs, hf_processor_mm_kwargs=stock(kwargs))
        missing = dict(super()._get_cache_missing_processor_kwargs(bare, mm_is_cached))
        if KEY in kwargs:
            missing[KEY] = [wish for wish, known in zip(kwargs[KEY], mm_is_cached["image"], strict=True) if not known]
        return missing

    # ---- pictures ----------------------------------------------------------------------------------------------------

    def _apply_hf_processor_main(self, mm_items: Any, hf_kwargs: JsonObject) -> object:
        own = stock(hf_kwargs)
        data = super()._apply_hf_processor_main(mm_items, own)
        if "pixel_values" not in data:
            return data
        groups, grids = self._pictures(data)
        given = [load_picture(mm_items["image"].get(number)) for number in range(len(grids))]
        seen = self._seen(groups, raw=data["pixel_values"].dtype == torch.uint8)
        resized = [partial(self._resized, grid, own) for grid in grids]
        pictures = map(SeenPicture, given, seen, grids, resized)
        parts, times = zip(*map(self.info.server.decide, hf_kwargs[KEY], pictures), strict=True)
        if any(one != 1 for one in times):
            # The decision used the pictures as given; now resize them to the scales that it chose.
            larger, images = copy(mm_items), []
            for picture, grid, scale in zip(given, grids, times, strict=True):
                size = scaled_size((grid.height, grid.width), scale, grid.cell)
                images.append(Image.fromarray((picture if scale == 1 else resized_to(picture, size)).pixels))
            larger["image"] = type(mm_items["image"])(images)
            data = super()._apply_hf_processor_main(larger, own)
            groups, grids = self._pictures(data)
        data.update(self._foveated(data["pixel_values"].dtype, groups, grids, parts))
        return data

    def _pictures(self, data: JsonObject) -> tuple[object, list[VisualGrid]]:
        """Turn the patches of the stock processor back into pictures; return them and the level-0 grid of each."""
        vision = self.info.get_hf_config().vision_config
        merge, size = vision.spatial_merge_size, vision.patch_size
        shapes = [(rows, cols) for _, rows, cols in data["image_grid_thw"].tolist()]
        # If vLLM normalises on the device, patches are bytes: average them as floats, since bytes would be rounded;
        # averaging before or after the affine normalisation gives the same result.
        groups = unpatchify(data["pixel_values"].float(), shapes, size, merge, vision.temporal_patch_size)
        return groups, [VisualGrid(rows // merge, cols // merge, rows * size, cols * size) for rows, cols in shapes]

    def _foveated(
        self, dtype: torch.dtype, groups: Any, grids: list[VisualGrid], parts: Sequence[Any]
    ) -> dict[str, Tensor]:
        """Build the patches of the leaves, which replace those of whole pictures; the grids stay the same."""
        vision = self.info.get_hf_config().vision_config
        merge, size, temporal = vision.spatial_merge_size, vision.patch_size, vision.temporal_patch_size
        batch = LeafBatch.pack(parts, [(grid.rows, grid.cols) for grid in grids])
        pyramid = mip_pyramid(groups, batch.levels, cell=merge * size, patch_size=size)
        pixels = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=merge, temporal=temporal)
        kind = torch.float32 if dtype == torch.uint8 else dtype
        return {"pixel_values": pixels.to(kind), "leaves": batch.leaves, "leaf_counts": torch.tensor(batch.counts)}

    def _seen(self, groups: Any, raw: bool) -> list[Tensor]:
        """Return every picture as (3, height, width) in [0, 1]."""
        look = self.info.get_image_processor()
        return [(one / 255).clamp(0, 1) if raw else denormalize(one, look) for one in groups]

    def _get_mm_fields_config(self, hf_inputs: Any, hf_processor_mm_kwargs: JsonObject) -> Mapping[str, object]:
        fields = dict(super()._get_mm_fields_config(hf_inputs, stock(hf_processor_mm_kwargs)))
        if "leaf_counts" in hf_inputs:
            counts = hf_inputs["leaf_counts"]
            patches = self.info.get_hf_config().vision_config.spatial_merge_size ** 2
            fields["pixel_values"] = Field.flat_from_sizes("image", counts * patches)
            fields["leaves"] = Field.flat_from_sizes("image", counts, keep_on_cpu=True)
            fields["leaf_counts"] = Field.batched("image", keep_on_cpu=True)
        return fields

    def _get_prompt_updates(
        self, mm_items: object, hf_processor_mm_kwargs: Mapping[str, object], out_mm_kwargs: Any
    ) -> object:
        """Return one placeholder for each leaf, from which vLLM plans scheduling and memory."""
        updates = super()._get_prompt_updates(mm_items, stock(hf_processor_mm_kwargs), out_mm_kwargs)
        pictures = out_mm_kwargs.get("image", [])
        if not any("leaf_counts" in picture for picture in pictures):
            return updates
        token = self.info.get_hf_config().image_token_id

        def placeholders(number: int) -> list[int]:
            return [token] * int(pictures[number]["leaf_counts"].data)

        return [
            processing.PromptReplacement(modality="image", target=[token], replacement=placeholders)
            if update.modality == "image"
            else update
            for update in updates
        ]
