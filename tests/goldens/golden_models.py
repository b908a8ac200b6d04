"""Tiny random models of the families that `attach` knows, each with a prompt that shows one picture.

Weights are so large that the picture matters: with stock initialisation it would move the logits by less than the
tolerance.
"""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tokenizers import Tokenizer, models, pre_tokenizers

PAD, IMAGE, NEWLINE, SPECIAL, FIRST_WORD, VOCABULARY = 0, 1, 2, 3, 12, 96
MEAN, STD = [0.48, 0.45, 0.40], [0.26, 0.25, 0.27]
LAYERS = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
TEXT: dict[str, Any] = {
    **LAYERS,
    "vocab_size": VOCABULARY,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "pad_token_id": PAD,
    "bos_token_id": None,
    "eos_token_id": None,
}
SIGLIP = {**LAYERS, "model_type": "siglip_vision_model", "image_size": 32, "vision_use_head": False}
FAMILIES = ("qwen3_vl", "qwen3_vl_moe", "qwen2_5_vl", "llava_onevision", "internvl", "gemma3", "ovis2", "deepseek_ocr2")


def pictures(count: int, side: int, seed: int = 0) -> torch.Tensor:
    """(count, 3, side, side): smooth random scenes, normalized."""
    noise = np.random.default_rng(seed).integers(0, 256, (count, 5, 5, 3), dtype=np.uint8)
    made = [np.asarray(Image.fromarray(one).resize((side, side), Image.Resampling.BICUBIC)) for one in noise]
    pixels = torch.from_numpy(np.stack(made).astype(np.float32) / 255).permute(0, 3, 1, 2)
    return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def qwen(name: str) -> tuple[Any, dict[str, Any], list[int]]:
    vision: dict[str, Any] = {"depth": 2, "hidden_size": 32, "intermediate_size": 64, "num_heads": 4, "in_channels": 3}
    vision |= {"out_hidden_size": 32, "patch_size": 4, "spatial_merge_size": 2, "temporal_patch_size": 2}
    text = TEXT | {"rope_parameters": {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}}
    ids = {"image_token_id": IMAGE, "video_token_id": SPECIAL}
    ids |= {"vision_start_token_id": SPECIAL + 1, "vision_end_token_id": SPECIAL + 2}
    if name == "qwen2_5_vl":
        vision |= {"window_size": 16, "fullatt_block_indexes": [1], "tokens_per_second": 2, "in_chans": 3}
        make = transformers.Qwen2_5_VLConfig
    else:
        vision |= {"num_position_embeddings": 16, "deepstack_visual_indexes": [0, 1]}
        make = transformers.Qwen3VLConfig
    if name == "qwen3_vl_moe":
        text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
        make = transformers.Qwen3VLMoeConfig
    # 8 × 7 cells of 2 × 2 patches, in the order of the stock processor: cells first, then patches in a cell.
    scene = pictures(1, 64)[0, :, :, :56]
    cells = scene.reshape(3, 8, 2, 4, 7, 2, 4).permute(1, 4, 2, 5, 0, 3, 6)
    patches = cells[..., None, :, :].expand(*cells.shape[:5], 2, 4, 4).reshape(8 * 7 * 4, -1)
    data = {"pixel_values": patches.contiguous(), "image_grid_thw": torch.tensor([[1, 16, 14]])}
    return make(text_config=text, vision_config=vision, **ids), data, [SPECIAL + 1, *[IMAGE] * 56, SPECIAL + 2]


def llava_onevision() -> tuple[Any, dict[str, Any], list[int]]:
    how = {"vision_feature_layer": -1, "vision_feature_select_strategy": "full", "vision_aspect_ratio": "anyres_max_2"}
    ids = {"image_token_index": IMAGE, "image_token_id": IMAGE, "video_token_index": SPECIAL}
    config = transformers.LlavaOnevisionConfig(
        text_config=TEXT | {"model_type": "llama"},
        vision_config={**SIGLIP, "patch_size": 4},
        image_grid_pinpoints=[[32, 64], [64, 32], [64, 64]],
        **how,
        **ids,
    )
    data = {"pixel_values": pictures(5, 32)[None], "image_sizes": torch.tensor([[64, 64]])}
    return config, {**data, "batch_num_images": torch.tensor([1])}, [IMAGE] * 196


def internvl() -> tuple[Any, dict[str, Any], list[int]]:
    vision = {**LAYERS, "model_type": "internvl_vision", "image_size": [32, 32], "patch_size": [4, 4]}
    text = TEXT | {"model_type": "qwen2"}
    config = transformers.InternVLConfig(
        text_config=text, vision_config=vision, image_token_id=IMAGE, downsample_ratio=0.5
    )
    return config, {"pixel_values": pictures(3, 32)}, [SPECIAL, *[IMAGE] * 48, SPECIAL + 1]


def gemma3() -> tuple[Any, dict[str, Any], list[int]]:
    text = {"sliding_window": 1024, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 8}
    ids = {"image_token_index": IMAGE, "image_token_id": IMAGE}
    config = transformers.Gemma3Config(
        text_config=TEXT | text,
        vision_config={**SIGLIP, "patch_size": 2},
        mm_tokens_per_image=64,
        boi_token_index=SPECIAL,
        eoi_token_index=SPECIAL + 1,
        **ids,
    )
    return config, {"pixel_values": pictures(1, 32)}, [NEWLINE, SPECIAL, *[IMAGE] * 64, SPECIAL + 1, NEWLINE]


def ovis2() -> tuple[Any, dict[str, Any], list[int]]:
    vision = {**LAYERS, "image_size": 32, "patch_size": 4, "hidden_stride": 2, "vocab_size": 40}
    config = transformers.Ovis2Config(
        text_config=TEXT | {"model_type": "qwen2"},
        vision_config={**vision, "num_visual_indicator_tokens": 5},
        image_token_id=IMAGE,
        hidden_size=32,
        vocab_size=VOCABULARY,
        visual_indicator_token_ids=[SPECIAL + number for number in range(5)],
    )
    start, grid, column, _, end = range(SPECIAL, SPECIAL + 5)
    tile = [IMAGE] * 16
    return config, {"pixel_values": pictures(3, 32)}, [start, *tile, grid, *tile, column, *tile, end]


def deepseek_ocr2() -> tuple[Any, dict[str, Any], list[int]]:
    sam = {**LAYERS, "output_channels": 16, "image_size": 64, "patch_size": 4, "window_size": 4, "mlp_dim": 64}
    sam |= {"global_attn_indexes": [], "downsample_channels": [16, 32]}
    experts = {"n_routed_experts": 4, "n_shared_experts": 1, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    experts |= {"mlp_layer_types": ["dense", "sparse"], "n_group": 1, "topk_group": 1, "num_key_value_heads": 4}
    config = transformers.DeepseekOcr2Config(
        vision_config={"sam_config": sam, "encoder_config": {**LAYERS, "num_key_value_heads": 2}},
        text_config={name: value for name, value in TEXT.items() if name != "head_dim"} | experts,
        image_token_id=IMAGE,
    )
    data = {"pixel_values": pictures(1, 208), "pixel_values_local": pictures(2, 48, 1)}
    return config, {**data, "num_local_patches": torch.tensor([2])}, [IMAGE] * (2 * 144 + 256 + 1)


def build(name: str) -> tuple[Any, Any, dict[str, Any]]:
    """Model, processor and the inputs of one prompt."""
    config, data, run = qwen(name) if name.startswith("qwen") else globals()[name]()
    torch.manual_seed(0)
    model: Any = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="sdpa").eval()
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for label, parameter in model.named_parameters():
            if parameter.ndim >= 2 or "newline" in label or "separator" in label:
                fan_in = parameter[0].numel() if parameter.ndim >= 2 and "embed" not in label else 1
                scale = 1.5 / math.sqrt(fan_in) if parameter.ndim >= 2 else 1.0
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    model.generation_config.pad_token_id, model.generation_config.eos_token_id = PAD, None
    words = np.random.default_rng(0).integers(FIRST_WORD, VOCABULARY, 9).tolist()
    ids = torch.tensor([[*words[:3], *run, *words[3:]]])
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids), **data}
    if name.startswith("qwen") or name == "gemma3":
        inputs["token_type_ids" if name == "gemma3" else "mm_token_type_ids"] = (ids == IMAGE).long()
    return model, processor(), inputs


def processor() -> Any:
    """The image side of a processor, and a tokenizer of numbered words."""
    vocabulary = {"[pad]": PAD, "[image]": IMAGE, **{f"w{i}": i for i in range(2, VOCABULARY - 1)}, "?": VOCABULARY - 1}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, pad_token="[pad]", unk_token="?")
    return SimpleNamespace(
        image_processor=SimpleNamespace(image_mean=MEAN, image_std=STD, do_normalize=True), tokenizer=fast
    )
