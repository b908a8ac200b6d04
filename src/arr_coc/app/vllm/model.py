"""vLLM's Qwen3-VL with leaves instead of whole pictures, by methods that vLLM offers to subclasses."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from typing import Any

import numpy as np
import torch
from torch import Tensor

from .places import LEAST_ROOM, PromptPicture, halved_table, prompt_places, tower_places
from .processor import FoveatedInfo, FoveatedProcessor

qwen3_vl = import_module("vllm.model_executor.models.qwen3_vl")
registry: Any = import_module("vllm.multimodal").MULTIMODAL_REGISTRY
Attention = import_module("vllm.model_executor.layers.attention.mm_encoder_attention").MMEncoderAttention


@registry.register_processor(FoveatedProcessor, info=FoveatedInfo, dummy_inputs=qwen3_vl.Qwen3VLDummyInputsBuilder)
class ArrCocQwen3VL(qwen3_vl.Qwen3VLForConditionalGeneration):
    """Qwen3-VL with the weights of a stock checkpoint; without a picture it is the stock model."""

    def __init__(self, *, vllm_config: Any, prefix: str = "model") -> None:
        super().__init__(vllm_config=vllm_config, prefix=prefix)
        longest = vllm_config.model_config.max_model_len
        self.half = add_halves(self.language_model, longest + LEAST_ROOM)
        self.spare = max(self.half - longest, 0)

    def embed_multimodal(self, **kwargs: Any) -> object:
        """Return one (leaves, width) tensor for each picture, with its DeepStack features concatenated."""
        leaves, counts = kwargs.pop("leaves", None), kwargs.pop("leaf_counts", None)
        if leaves is None:
            return super().embed_multimodal(**kwargs)
        numbers: list[int] = counts.flatten().tolist()
        merge = self.visual.spatial_merge_size
        grids = (kwargs["image_grid_thw"][:, 1:] // merge).cpu().repeat_interleave(torch.tensor(numbers), dim=0)
        metadata = self.encoder_metadata(leaves.cpu(), grids, numbers)
        return self.visual(kwargs["pixel_values"], grid_thw=[], encoder_metadata=metadata).split(numbers)

    def encoder_metadata(self, leaves: Tensor, grids: Tensor, counts: list[int]) -> dict[str, Tensor | None]:
        """Build the metadata for the vision tower: positions of all patches, and where pictures end."""
        tower = self.visual
        rotary = tower.rotary_pos_emb
        indices, weights, cosines, sines = (
            table.to(tower.device, non_blocking=True)
            for table in tower_places(
                leaves, grids, tower.spatial_merge_size, tower.num_grid_per_side, rotary.base, rotary.rotary_dim
            )
        )
        learned = (tower.pos_embed.weight[indices] * weights[..., None]).sum(1)
        ends = np.cumsum([0, *(count * tower.spatial_merge_unit for count in counts)], dtype=np.int32)
        backend, device = tower.attn_backend, tower.device
        return {
            "pos_embeds": learned.to(tower.dtype),
            "rotary_pos_emb_cos": cosines.to(tower.dtype),
            "rotary_pos_emb_sin": sines.to(tower.dtype),
            "sequence_lengths": Attention.maybe_compute_seq_lens(backend, ends, device),
            "max_seqlen": torch.tensor(Attention.compute_max_seqlen(backend, ends), dtype=torch.int32),
            "cu_seqlens": Attention.maybe_recompute_cu_seqlens(
                backend,
                ends,
                tower.hidden_size,
                tower.tp_size,
                device,
                fp8_padded_hidden_size=tower.fp8_padded_hidden_size,
            ),
        }

    def get_mrope_input_positions(self, input_tokens: list[int], mm_features: list[Any]) -> tuple[Tensor, int]:
        """Return positions: text keeps those it has around the whole picture, a leaf gets the centre of its area."""
        if not mm_features or any("leaves" not in feature.data for feature in mm_features):
            return super().get_mrope_input_positions(input_tokens, mm_features)
        merge = self.config.vision_config.spatial_merge_size
        pictures = [
            PromptPicture(
                feature.mm_position.offset,
                feature.data["leaves"].data,
                feature.data["image_grid_thw"].data[1:] // merge,
            )
            for feature in mm_features
        ]
        return prompt_places(len(input_tokens), pictures, self.half, self.spare)

    def get_encoder_cudagraph_config(self) -> object:
        """Disable CUDA graphs of the encoder, which support whole grids only."""
        return replace(super().get_encoder_cudagraph_config(), modalities=[])


def add_halves(language_model: Any, rows: int) -> int:
    """Append the rotations of p + ½ to every rotary table of a language model; return the row at which they begin.

    All layers share one table, and vLLM keeps it for other models of the process; a table that already has them is
    left unchanged.
    """
    tables = [module for module in language_model.modules() if hasattr(module, "cos_sin_cache")]
    for module in tables:
        if not hasattr(module, "halves_begin"):
            whole = max(len(module.cos_sin_cache), rows)
            module.cos_sin_cache = halved_table(module.cos_sin_cache, module.base, whole)
            module.halves_begin = whole
    return min(module.halves_begin for module in tables)
