"""Tiny random Qwen3-VL models with tokenizer and processor: the stock classes, nothing downloaded, no torchvision."""

from __future__ import annotations

from copy import deepcopy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    PreTrainedTokenizerFast,
    Qwen2VLImageProcessorPil,
    Qwen3VLConfig,
    Qwen3VLForConditionalGeneration,
    Qwen3VLMoeConfig,
    Qwen3VLMoeForConditionalGeneration,
)

from arr_coc.core.alphabet import text_row
from arr_coc.realizing.query import PictureProcessor
from arr_coc_lab.train.mini_model import NAMED_TOKENS, SPECIAL_TOKENS

SPECIAL = ("<|endoftext|>", *SPECIAL_TOKENS)
CHAT = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{% if m['content'] is string %}{{ m['content'] }}{% else %}"
    "{% for c in m['content'] %}{% if c['type']=='image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif c['type']=='text' %}{{ c['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CORPUS = "user assistant describe the picture please what colour is the red square on the left where number how many"


@cache
def tiny_tokenizer() -> PreTrainedTokenizerFast:
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=512, special_tokens=list(SPECIAL), initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        padding_side="left",
        extra_special_tokens=NAMED_TOKENS,
    )


def tiny_processor() -> PictureProcessor:
    images = Qwen2VLImageProcessorPil(
        patch_size=16,
        temporal_patch_size=2,
        merge_size=2,
        size={"shortest_edge": 32 * 32 * 4, "longest_edge": 32 * 32 * 4096},
        image_mean=[0.5] * 3,
        image_std=[0.5] * 3,
    )
    return PictureProcessor(images, tiny_tokenizer(), None, chat_template=CHAT)


def characters(*texts: str) -> torch.Tensor:
    """(B, L) of `mini`'s alphabet, 0 = padding."""
    length = max(map(len, texts))
    return torch.tensor([text_row(text, length) for text in texts])


def tiny_model(seed: int = 0, attention: str = "sdpa", moe: bool = False, layers: int = 4) -> Any:
    """A stock model of under a million parameters, with weights large enough for the picture to matter."""
    model = deepcopy(drawn_model(seed, attention, moe, layers))
    torch.manual_seed(seed)  # what a test draws next is the same whether the model was drawn here or before
    return model


@cache
def drawn_model(seed: int, attention: str, moe: bool, layers: int) -> Any:
    """Not to be changed: each test gets a copy, which takes a fraction of the time."""
    tokenizer = tiny_tokenizer()

    def number(token: str) -> int:
        return tokenizer.get_vocab()[token]

    text: dict[str, Any] = {
        "vocab_size": len(tokenizer),
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "max_position_embeddings": 32768,
        "pad_token_id": number("<|endoftext|>"),
        "eos_token_id": number("<|im_end|>"),
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [4, 2, 2],
            "mrope_interleaved": True,
        },
    }
    if moe:
        text |= {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 32}
    vision = {
        "depth": 4,
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_heads": 4,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": 64,
        "num_position_embeddings": 48 * 48,
        "deepstack_visual_indexes": [0, 1, 2],
    }
    kind, head = (
        (Qwen3VLMoeConfig, Qwen3VLMoeForConditionalGeneration)
        if moe
        else (Qwen3VLConfig, Qwen3VLForConditionalGeneration)
    )
    config = kind(
        text_config=text,
        vision_config=vision,
        image_token_id=number("<|image_pad|>"),
        video_token_id=number("<|video_pad|>"),
        vision_start_token_id=number("<|vision_start|>"),
        vision_end_token_id=number("<|vision_end|>"),
        tie_word_embeddings=False,
    )
    config._attn_implementation = attention
    torch.manual_seed(seed)
    model = head(config).eval()
    for parameter in model.parameters():
        if parameter.ndim > 1:
            torch.nn.init.normal_(parameter, std=0.15)
    return model


def picture(height: int, width: int, seed: int = 0) -> Image.Image:
    """Smooth blobs and noise: every level of detail looks different."""
    random = np.random.default_rng(seed)
    coarse = random.random((max(height // 32, 2), max(width // 32, 2), 3)) * 255
    smooth = np.asarray(Image.fromarray(coarse.astype(np.uint8)).resize((width, height), Image.Resampling.BICUBIC))
    noise = random.integers(-60, 60, (height, width, 3))
    return Image.fromarray(np.clip(smooth.astype(int) + noise, 0, 255).astype(np.uint8))


def prompt(processor: Any, rows: list[tuple[list[Image.Image], str]], generation: bool = True) -> dict[str, Any]:
    """Ordinary processor output for a batch of (pictures, question)."""
    texts = [
        processor.apply_chat_template(
            [{"role": "user", "content": [*({"type": "image"} for _ in pictures), {"type": "text", "text": question}]}],
            add_generation_prompt=generation,
            tokenize=False,
        )
        for pictures, question in rows
    ]
    pictures = [item for group, _ in rows for item in group]
    return dict(processor(text=texts, images=pictures or None, padding=True, return_tensors="pt"))


def save_stock(folder: Path, dtype: torch.dtype = torch.float32, **options: Any) -> Path:
    """A folder as a user would download it, saved by the stock classes."""
    tiny_model(**options).to(dtype).save_pretrained(folder)
    processor = tiny_processor()
    processor.image_processor.save_pretrained(folder)
    processor.tokenizer.save_pretrained(folder)
    (folder / "chat_template.jinja").write_text(CHAT, encoding="utf-8")
    return folder


# Three prompts of different lengths, one of them with two pictures; and how they are answered.
ROWS = [
    ([picture(256, 256)], "what colour is the square"),
    ([picture(64, 64, 1), picture(160, 96, 2)], "where is the red square on the left"),
    ([picture(128, 192, 3)], "how many"),
]
GREEDY: dict[str, Any] = {"max_new_tokens": 6, "do_sample": False}


def new_part(output: torch.Tensor, inputs: dict[str, Any]) -> torch.Tensor:
    """What was generated after the prompt."""
    return output[:, inputs["input_ids"].shape[1] :]
