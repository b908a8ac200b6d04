"""Between a prompt and vLLM's Qwen3-VL: how many tokens each picture gets, which patches they are, and where they lie.

This runs in the process that answers clients, without the model. The question becomes part of what vLLM's caches are
keyed by: another question about the same picture is another allocation. With `order: overview_first` a picture becomes
two items, and only the second is keyed by the question.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from copy import copy
from dataclasses import replace
from functools import cached_property
from importlib import import_module
from typing import Any

import torch
from torch import Tensor

from ...core.errors import InputError
from ...models.base import VisualGrid, adapter
from ...models.query import find_questions
from ...models.tokens.patches import LeafBatch, gather_leaf_patches, mip_pyramid, unpatchify
from ...pictures.load import load_picture
from .wishes import DETAIL, KEY, PART, VllmServer

qwen3_vl: Any = import_module("vllm.model_executor.models.qwen3_vl")
Field: Any = import_module("vllm.multimodal.inputs").MultiModalFieldConfig
Hasher: Any = import_module("vllm.multimodal.hasher").MultiModalHasher
processing: Any = import_module("vllm.multimodal.processing")


def stock(kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Keywords of the processor without ours, which the stock classes do not know."""
    return {name: value for name, value in kwargs.items() if name != KEY}


class FoveatedInfo(qwen3_vl.Qwen3VLProcessingInfo):
    """What is known about the model before any request."""

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
    """The stock processor, whose pictures are then cut into leaves. Raises `InputError`, which clients see as a 400."""

    info: FoveatedInfo

    def get_dummy_inputs(self, *args: Any, **kwargs: Any) -> Any:
        """The memory is profiled with pictures at `max_budget`, or whole."""
        inputs = super().get_dummy_inputs(*args, **kwargs)
        return replace(inputs, hf_processor_mm_kwargs={KEY: self.info.server.largest})

    def apply(self, inputs: Any, timing_ctx: Any) -> Any:
        kwargs, counts = inputs.hf_processor_mm_kwargs, inputs.mm_data_items.get_all_counts()
        own = stock(kwargs)
        if counts.get("image"):
            if counts.get("video"):
                raise InputError("pictures and videos in one prompt are not foveated; pass the frames as pictures")
            wishes = self.info.server.wishes(kwargs.get(KEY), counts["image"], self._question(inputs.prompt))
            if wishes[0].get("total"):
                items = inputs.mm_data_items["image"]
                sizes = [_size_of(items, number) for number in range(counts["image"])]
                pictures = [load_picture(items.get(number)).pixels for number in range(counts["image"])]
                wishes = self.info.server.shared(wishes, pictures, [self._grid(size, own) for size in sizes])
            parts = [VllmServer.in_parts(wish) for wish in wishes]
            own[KEY] = [one for several in parts for one in several]
            inputs = self._shown_in_parts(inputs, [len(several) for several in parts])
        return super().apply(replace(inputs, hf_processor_mm_kwargs=own), timing_ctx)

    def _shown_in_parts(self, inputs: Any, parts: list[int]) -> Any:
        """The prompt with every picture as often as it has parts, one behind the other. Each is an item with a hash and
        placeholders of its own, so that caches find an overview whatever is asked."""
        if all(number == 1 for number in parts):
            return inputs
        token, numbers = self.info.get_hf_config().image_token_id, iter(parts)
        prompt = [one for given in inputs.prompt for one in [given] * (next(numbers) if given == token else 1)]
        items = copy(inputs.mm_data_items)
        pictures = [items["image"].get(place) for place, number in enumerate(parts) for _ in range(number)]
        items["image"] = type(items["image"])(pictures)
        return replace(inputs, prompt=prompt, mm_data_items=items, **self._uuids_in_parts(inputs, parts))

    @staticmethod
    def _uuids_in_parts(inputs: Any, parts: list[int]) -> dict[str, Any]:
        """The names that a client gave to its pictures, repeated like them."""
        given = getattr(inputs, "mm_uuid_items", None)
        if not given or not given.get("image"):
            return {}
        names = [name for name, number in zip(given["image"], parts, strict=True) for _ in range(number)]
        return {"mm_uuid_items": {**given, "image": names}}

    def _grid(self, size: tuple[int, int], kwargs: Mapping[str, Any]) -> VisualGrid:
        """The level-0 tokens of a picture of a size, as the stock processor resizes it."""
        vision = self.info.get_hf_config().vision_config
        cell = vision.spatial_merge_size * vision.patch_size
        resized, _ = self.info._get_vision_info(
            image_width=size[1],
            image_height=size[0],
            image_processor=self.info.get_image_processor(),
            mm_kwargs=kwargs,
        )
        return VisualGrid(resized.height // cell, resized.width // cell, resized.height, resized.width)

    def _question(self, prompt: list[int]) -> str:
        processor = self.info.get_hf_processor()
        return find_questions(adapter("qwen3_vl"), processor, {"input_ids": torch.tensor([prompt])})[0]

    # ---- caches: each picture by its own wish ------------------------------------------------------------------------

    def _get_mm_hashes(self, inputs: Any) -> Any:
        kwargs = inputs.hf_processor_mm_kwargs
        hashes = dict(super()._get_mm_hashes(replace(inputs, hf_processor_mm_kwargs=stock(kwargs))))
        if KEY in kwargs:
            algorithm = self.info.ctx.get_mm_config().mm_hasher_algorithm
            hashes["image"] = [
                Hasher.hash_kwargs(algorithm, picture=picture, wish=json.dumps(wish, sort_keys=True))
                for picture, wish in zip(hashes["image"], kwargs[KEY], strict=True)
            ]
        return hashes

    def _get_cache_missing_processor_kwargs(self, inputs: Any, mm_is_cached: Mapping[str, list[bool]]) -> Any:
        kwargs = inputs.hf_processor_mm_kwargs
        bare = replace(inputs, hf_processor_mm_kwargs=stock(kwargs))
        missing = dict(super()._get_cache_missing_processor_kwargs(bare, mm_is_cached))
        if KEY in kwargs:
            missing[KEY] = [wish for wish, known in zip(kwargs[KEY], mm_is_cached["image"], strict=True) if not known]
        return missing

    # ---- pictures ----------------------------------------------------------------------------------------------------

    def _apply_hf_processor_main(self, mm_items: Any, hf_kwargs: Mapping[str, Any]) -> Any:
        data = super()._apply_hf_processor_main(mm_items, stock(hf_kwargs))
        if "pixel_values" in data:
            sizes = [_size_of(mm_items["image"], number) for number in range(len(data["image_grid_thw"]))]
            data.update(self._foveated(data["pixel_values"], data["image_grid_thw"], sizes, hf_kwargs[KEY]))
        return data

    def _foveated(
        self, patches: Tensor, grid_thw: Tensor, sizes: list[tuple[int, int]], wishes: list[dict[str, Any]]
    ) -> dict[str, Tensor]:
        """The patches of the leaves in place of those of the whole pictures; grids stay those of the whole."""
        vision = self.info.get_hf_config().vision_config
        merge, size, temporal = vision.spatial_merge_size, vision.patch_size, vision.temporal_patch_size
        shapes = [(rows, cols) for _, rows, cols in grid_thw.tolist()]
        # Bytes, where vLLM normalises on the device: averages are taken of numbers, since bytes would round them, and
        # before an affine map or after it makes no difference.
        groups = unpatchify(patches.float(), shapes, size, merge, temporal)
        seen = self._seen(groups, raw=patches.dtype == torch.uint8)
        grids = [VisualGrid(rows // merge, cols // merge, rows * size, cols * size) for rows, cols in shapes]
        server = self.info.server
        parts = [server.leaves(*one) for one in zip(wishes, seen, grids, sizes, strict=True)]
        detail = torch.tensor([wish.get(PART) == DETAIL for wish in wishes])
        batch = LeafBatch.pack(parts, [(grid.rows, grid.cols) for grid in grids])
        pyramid = mip_pyramid(groups, batch.levels, cell=merge * size, patch_size=size)
        pixels = gather_leaf_patches(pyramid, batch.leaves, batch.owner, merge=merge, temporal=temporal)
        kind = torch.float32 if patches.dtype == torch.uint8 else patches.dtype
        counts = torch.tensor(batch.counts)
        return {"pixel_values": pixels.to(kind), "leaves": batch.leaves, "leaf_counts": counts, "detail": detail}

    def _seen(self, groups: Any, raw: bool) -> list[Tensor]:
        """Every picture as (3, height, width) in [0, 1]."""
        look, found = self.info.get_image_processor(), {}
        for members, pictures in groups.values():
            if raw:
                pictures = pictures / 255
            elif look.do_normalize:
                mean, deviation = (torch.tensor(values).view(-1, 1, 1) for values in (look.image_mean, look.image_std))
                pictures = pictures * deviation + mean
            found.update(zip(members, pictures.clamp(0, 1), strict=True))
        return [found[number] for number in range(len(found))]

    def _get_mm_fields_config(self, hf_inputs: Any, hf_processor_mm_kwargs: Mapping[str, Any]) -> Mapping[str, Any]:
        fields = dict(super()._get_mm_fields_config(hf_inputs, stock(hf_processor_mm_kwargs)))
        if "leaf_counts" in hf_inputs:
            counts = hf_inputs["leaf_counts"]
            patches = self.info.get_hf_config().vision_config.spatial_merge_size ** 2
            fields["pixel_values"] = Field.flat_from_sizes("image", counts * patches)
            fields["leaves"] = Field.flat_from_sizes("image", counts, keep_on_cpu=True)
            fields["leaf_counts"] = Field.batched("image", keep_on_cpu=True)
            fields["detail"] = Field.batched("image", keep_on_cpu=True)
        return fields

    def _get_prompt_updates(self, mm_items: Any, hf_processor_mm_kwargs: Mapping[str, Any], out_mm_kwargs: Any) -> Any:
        """One placeholder for each leaf; the scheduler and the memory follow from their number."""
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


def _size_of(pictures: Any, number: int) -> tuple[int, int]:
    """(height, width) of a picture as it was given."""
    size = pictures.get_image_size(number)
    return size.height, size.width
