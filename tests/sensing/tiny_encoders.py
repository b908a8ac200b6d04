"""Tiny random image-text encoders of the stock classes, as folders."""

from __future__ import annotations

from pathlib import Path

import torch

WORDS = ("where", "is", "the", "red", "car", "sign", "a", "blue", "number", "tree")


def save_encoder(kind: str, folder: Path) -> Path:
    """A random model of the stock class with a word tokenizer, as a folder that `from_pretrained` takes."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import (
        CLIPConfig,
        CLIPModel,
        PreTrainedTokenizerFast,
        Siglip2Config,
        Siglip2Model,
        SiglipConfig,
        SiglipModel,
    )

    torch.manual_seed(0)
    text = {"vocab_size": 40, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2}
    text |= {"num_attention_heads": 4, "max_position_embeddings": 16}
    text |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
    vision = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    vision |= {"patch_size": 8}
    if kind == "clip":
        shared = {"projection_dim": 24}
        model = CLIPModel(CLIPConfig(text_config=text, vision_config=vision | {"image_size": 32}, **shared))
    elif kind == "siglip":
        text |= {"projection_size": 32}
        model = SiglipModel(SiglipConfig(text_config=text, vision_config=vision | {"image_size": 32}))
    else:
        text |= {"projection_size": 32}
        model = Siglip2Model(Siglip2Config(text_config=text, vision_config=vision | {"num_patches": 25}))
    model.save_pretrained(folder)
    vocabulary = {word: number for number, word in enumerate(("<pad>", "<s>", "</s>", "<unk>", *WORDS))}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    ends = [("<s>", 1), ("</s>", 2)]
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A </s>", special_tokens=ends)
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>"
    ).save_pretrained(folder)
    return folder
