"""Qwen3-VL-MoE: the same vision tower and prompt as Qwen3-VL; only the language model's layers differ."""

from __future__ import annotations

from typing import ClassVar

from .adapter import Qwen3VL


class Qwen3VLMoe(Qwen3VL):
    """Foveation of the stock `Qwen3VLMoeForConditionalGeneration`."""

    model_types: ClassVar[tuple[str, ...]] = ("qwen3_vl_moe",)

    @staticmethod
    def features_class() -> type:
        from transformers.models.qwen3_vl_moe.modeling_qwen3_vl_moe import BaseModelOutputWithDeepstackFeatures

        return BaseModelOutputWithDeepstackFeatures
