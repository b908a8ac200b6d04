"""A real llama.cpp server with a tiny random model of Qwen3-VL's shape; run as a program, it tells its address.

    python tiny_gguf.py FOLDER

The server is llama.cpp's own, from the wheel `xllamacpp`; the model is written by the package `gguf`. It says nothing
that makes sense, and counts visual tokens as llama.cpp does.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

WIDTH, HEADS, LAYERS, DEEP = 64, 4, 2, (0,)
PATCH, MERGE, SIDE = 16, 2, 256
SPECIAL = ("<|im_start|>", "<|im_end|>", "<|vision_start|>", "<|vision_end|>", "<|image_pad|>", "<|endoftext|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{% if message.content is string %}"
    "{{ message.content }}{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def letters() -> list[str]:
    """The 256 bytes as GPT-2 writes them."""
    plain = [*range(33, 127), *range(161, 173), *range(174, 256)]
    more = iter(range(256, 512))
    return [chr(byte) if byte in plain else chr(next(more)) for byte in range(256)]


def write_text(path: Path, draw: np.random.Generator) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "qwen3vl")
    tokens = [*letters(), "th", *SPECIAL]
    kinds = [gguf.TokenType.NORMAL] * 257 + [gguf.TokenType.CONTROL] * len(SPECIAL)
    writer.add_name("tiny")
    writer.add_block_count(LAYERS)
    writer.add_context_length(8192)
    writer.add_embedding_length(WIDTH)
    writer.add_feed_forward_length(2 * WIDTH)
    writer.add_head_count(HEADS)
    writer.add_head_count_kv(HEADS)
    writer.add_key_length(WIDTH // HEADS)
    writer.add_value_length(WIDTH // HEADS)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(10000.0)
    writer.add_rope_dimension_sections([4, 2, 2, 0])
    writer.add_num_deepstack_layers(len(DEEP))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["t h"])
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(TEMPLATE)

    def add(name: str, *shape: int, ones: bool = False) -> None:
        drawn = np.ones(shape) if ones else draw.normal(0, 0.2, shape)
        writer.add_tensor(f"{name}.weight", drawn.astype(np.float32))

    add("token_embd", len(tokens), WIDTH)
    add("output_norm", WIDTH, ones=True)
    for number in range(LAYERS):
        for name in ("attn_norm", "ffn_norm"):
            add(f"blk.{number}.{name}", WIDTH, ones=True)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            add(f"blk.{number}.{name}", WIDTH, WIDTH)
        for name in ("attn_q_norm", "attn_k_norm"):
            add(f"blk.{number}.{name}", WIDTH // HEADS, ones=True)
        for name in ("ffn_gate", "ffn_up"):
            add(f"blk.{number}.{name}", 2 * WIDTH, WIDTH)
        add(f"blk.{number}.ffn_down", WIDTH, 2 * WIDTH)
    finish(writer)


def write_sight(path: Path, draw: np.random.Generator) -> None:
    import gguf

    writer = gguf.GGUFWriter(path, "clip")
    writer.add_type(gguf.GGUFType.MMPROJ)
    writer.add_clip_has_vision_encoder(True)
    writer.add_clip_projector_type(gguf.VisionProjectorType.QWEN3VL)
    writer.add_vision_use_gelu(True)
    writer.add_vision_image_size(SIDE)
    writer.add_vision_patch_size(PATCH)
    writer.add_vision_embedding_length(WIDTH)
    writer.add_vision_feed_forward_length(2 * WIDTH)
    writer.add_vision_block_count(LAYERS)
    writer.add_vision_head_count(HEADS)
    writer.add_vision_attention_layernorm_eps(1e-6)
    writer.add_vision_projection_dim(WIDTH)
    writer.add_vision_image_mean([0.5] * 3)
    writer.add_vision_image_std([0.5] * 3)
    writer.add_vision_spatial_merge_size(MERGE)
    writer.add_vision_is_deepstack_layers([number in DEEP for number in range(LAYERS)])

    def add(name: str, *shape: int, bias: int = 0, ones: bool = False) -> None:
        drawn = np.ones(shape) if ones else draw.normal(0, 0.2, shape)
        writer.add_tensor(f"{name}.weight", drawn.astype(np.float32))
        if bias:
            writer.add_tensor(f"{name}.bias", np.zeros(bias, np.float32))

    writer.add_tensor("v.patch_embd.weight", draw.normal(0, 0.2, (WIDTH, 3, PATCH, PATCH)).astype(np.float32))
    writer.add_tensor("v.patch_embd.weight.1", draw.normal(0, 0.2, (WIDTH, 3, PATCH, PATCH)).astype(np.float32))
    writer.add_tensor("v.patch_embd.bias", np.zeros(WIDTH, np.float32))
    add("v.position_embd", (SIDE // PATCH) ** 2, WIDTH)
    for number in range(LAYERS):
        for name in ("ln1", "ln2"):
            add(f"v.blk.{number}.{name}", WIDTH, bias=WIDTH, ones=True)
        add(f"v.blk.{number}.attn_qkv", 3 * WIDTH, WIDTH, bias=3 * WIDTH)
        add(f"v.blk.{number}.attn_out", WIDTH, WIDTH, bias=WIDTH)
        add(f"v.blk.{number}.ffn_up", 2 * WIDTH, WIDTH, bias=2 * WIDTH)
        add(f"v.blk.{number}.ffn_down", WIDTH, 2 * WIDTH, bias=WIDTH)
    add("v.post_ln", WIDTH, bias=WIDTH, ones=True)
    wide = MERGE * MERGE * WIDTH
    add("mm.0", wide, wide, bias=wide)
    add("mm.2", WIDTH, wide, bias=WIDTH)
    for number in DEEP:
        add(f"v.deepstack.{number}.norm", wide, bias=wide, ones=True)
        add(f"v.deepstack.{number}.fc1", wide, wide, bias=wide)
        add(f"v.deepstack.{number}.fc2", WIDTH, wide, bias=WIDTH)
    finish(writer)


def finish(writer: Any) -> None:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def main(folder: Path) -> None:
    import xllamacpp

    draw = np.random.default_rng(5)
    write_text(folder / "tiny.gguf", draw)
    write_sight(folder / "mmproj.gguf", draw)
    params = xllamacpp.CommonParams()
    params.model.path, params.mmproj.path = str(folder / "tiny.gguf"), str(folder / "mmproj.gguf")
    params.n_ctx, params.n_parallel, params.n_gpu_layers, params.warmup = 4096, 1, 0, False
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.port = 0
    params.sampling.temp = 0.0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    while True:
        time.sleep(1)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
