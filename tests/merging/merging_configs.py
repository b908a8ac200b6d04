"""Tiny stock configurations of every merged family: two layers, 32 wide, tiles of 32 × 32 pixels."""

from __future__ import annotations

from typing import Any

import transformers

PAD, IMAGE, NEWLINE, SPECIAL, FIRST_WORD, VOCABULARY = 0, 1, 2, 3, 12, 96
MEAN, STD = [0.48, 0.45, 0.40], [0.26, 0.25, 0.27]

TEXT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 8,
    "max_position_embeddings": 4096,
    "pad_token_id": PAD,
    "bos_token_id": None,
    "eos_token_id": None,
}
VISION: dict[str, Any] = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
PINPOINTS = [[32, 64], [64, 32], [64, 64], [32, 96], [96, 32]]


def qwen_config(kind: str) -> Any:
    rope = {"rope_type": "default", "mrope_section": [2, 1, 1], "rope_theta": 10000.0}
    ids = {
        "image_token_id": IMAGE,
        "video_token_id": SPECIAL,
        "vision_start_token_id": SPECIAL + 1,
        "vision_end_token_id": SPECIAL + 2,
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "intermediate_size": 64,
        "num_heads": 4,
        "out_hidden_size": 32,
        "patch_size": 4,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "in_channels": 3,
    }
    if kind == "qwen2_5_vl":
        vision |= {"window_size": 16, "fullatt_block_indexes": [1], "tokens_per_second": 2, "in_chans": 3}
        return transformers.Qwen2_5_VLConfig(text_config=TEXT | {"rope_parameters": rope}, vision_config=vision, **ids)
    vision |= {"num_position_embeddings": 16}
    if kind == "qwen3_vl":
        vision |= {"deepstack_visual_indexes": [0, 1]}
        return transformers.Qwen3VLConfig(text_config=TEXT | {"rope_parameters": rope}, vision_config=vision, **ids)
    text = TEXT | {
        "num_hidden_layers": 4,
        "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "linear_key_head_dim": 8,
        "linear_value_head_dim": 8,
        "rope_parameters": rope | {"partial_rotary_factor": 1.0},
    }
    return transformers.Qwen3_5Config(text_config=text, vision_config=vision, **ids)


LLAVA = {"image_token_index": IMAGE, "image_token_id": IMAGE, "image_grid_pinpoints": PINPOINTS}
LLAVA |= {"vision_feature_layer": -1}


def llava_config() -> Any:
    text = TEXT | {"model_type": "llama"}
    vision = VISION | {"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 4, "vision_use_head": False}
    how = {
        "vision_feature_select_strategy": "full",
        "vision_aspect_ratio": "anyres_max_2",
        "video_token_index": SPECIAL,
    }
    return transformers.LlavaOnevisionConfig(text_config=text, vision_config=vision, **LLAVA, **how)


def internvl_config() -> Any:
    vision = VISION | {"model_type": "internvl_vision", "image_size": [32, 32], "patch_size": [4, 4]}
    return transformers.InternVLConfig(
        text_config=TEXT | {"model_type": "qwen2"}, vision_config=vision, image_token_id=IMAGE, downsample_ratio=0.5
    )


def gemma_config() -> Any:
    text = TEXT | {
        "sliding_window": 1024,
        "layer_types": ["sliding_attention", "full_attention"],
        "query_pre_attn_scalar": 8,
        "num_hidden_layers": 2,
    }
    vision = VISION | {"model_type": "siglip_vision_model", "image_size": 32, "patch_size": 2, "vision_use_head": False}
    return transformers.Gemma3Config(
        text_config=text,
        vision_config=vision,
        mm_tokens_per_image=64,
        image_token_index=IMAGE,
        image_token_id=IMAGE,
        boi_token_index=SPECIAL,
        eoi_token_index=SPECIAL + 1,
    )


def ovis_config() -> Any:
    vision = VISION | {
        "image_size": 32,
        "patch_size": 4,
        "hidden_stride": 2,
        "vocab_size": 40,
        "num_visual_indicator_tokens": 5,
    }
    return transformers.Ovis2Config(
        text_config=TEXT | {"model_type": "qwen2"},
        vision_config=vision,
        image_token_id=IMAGE,
        hidden_size=32,
        vocab_size=VOCABULARY,
        visual_indicator_token_ids=[SPECIAL + i for i in range(5)],
    )


def deepseek_config() -> Any:
    sam = VISION | {
        "output_channels": 16,
        "image_size": 64,
        "patch_size": 4,
        "window_size": 4,
        "global_attn_indexes": [],
        "mlp_dim": 64,
        "downsample_channels": [16, 32],
    }
    encoder = VISION | {"num_key_value_heads": 2}
    text = {k: v for k, v in TEXT.items() if k != "head_dim"} | {
        "num_key_value_heads": 4,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "moe_intermediate_size": 32,
        "mlp_layer_types": ["dense", "sparse"],
        "n_group": 1,
        "topk_group": 1,
    }
    return transformers.DeepseekOcr2Config(
        vision_config={"sam_config": sam, "encoder_config": encoder}, text_config=text, image_token_id=IMAGE
    )
