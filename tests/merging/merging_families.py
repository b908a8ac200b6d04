"""Tiny random models of every merged family and prompts as their stock processors would make them. Nothing downloaded.

Weights are drawn so large that pictures matter: with stock initialisation a picture moves the logits by less than the
tolerances of the tests, and a test of merging could not fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from PIL import Image
from tests.goldens import golden_models
from tests.goldens.golden_models import FIRST_WORD, IMAGE, MEAN, NEWLINE, PAD, SPECIAL, STD, VOCABULARY
from torch import Tensor

PINPOINTS = [[32, 64], [64, 32], [64, 64], [32, 96], [96, 32]]
PROCESSOR = SimpleNamespace(image_processor=SimpleNamespace(image_mean=MEAN, image_std=STD, do_normalize=True))


@dataclass(frozen=True)
class Family:
    """name; encode(pictures of each prompt) -> (inputs of the pictures, placeholder
    ids of each picture, per prompt); pictures: prompts for batches of 1 and 3, each a list of picture sizes (H, W)."""

    name: str
    encode: Callable[[list[list[np.ndarray]]], tuple[dict[str, Any], list[list[list[int]]]]]
    one: list[list[tuple[int, int]]]
    three: list[list[tuple[int, int]]]

    def config(self) -> Any:
        """The stock configuration."""
        made = golden_models.qwen(self.name) if self.name.startswith("qwen") else getattr(golden_models, self.name)()
        if self.name == "llava_onevision":
            made[0].image_grid_pinpoints = PINPOINTS
        return made[0]


def photo(size: tuple[int, int], seed: int) -> np.ndarray:
    """(H, W, 3) uint8: a smooth random scene, never wholly black."""
    noise = np.random.default_rng(seed).integers(0, 256, (5, 5, 3), dtype=np.uint8)
    return np.asarray(Image.fromarray(noise).resize(size[::-1], Image.Resampling.BICUBIC))


def normalized(picture: np.ndarray, size: tuple[int, int] | None = None) -> Tensor:
    """(H, W, 3) uint8 -> (3, h, w) float32 as encoders take it."""
    if size is not None:
        picture = np.asarray(Image.fromarray(picture).resize(size[::-1], Image.Resampling.BICUBIC))
    pixels = torch.from_numpy(picture.astype(np.float32) / 255).permute(2, 0, 1)
    return (pixels - torch.tensor(MEAN).view(3, 1, 1)) / torch.tensor(STD).view(3, 1, 1)


def tiles_of(picture: np.ndarray, side: int, rows: int, cols: int) -> Tensor:
    """(rows * cols, 3, side, side): the picture resized and cut."""
    whole = normalized(picture, (rows * side, cols * side))
    return whole.unflatten(1, (rows, side)).unflatten(3, (cols, side)).permute(1, 3, 0, 2, 4).flatten(0, 1)


# ---------------------------------------------------------------------------------------------------------- Qwen


def qwen_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    processor = Qwen2VLImageProcessorPil(
        patch_size=4,
        merge_size=2,
        temporal_patch_size=2,
        image_mean=MEAN,
        image_std=STD,
        min_pixels=64,
        max_pixels=25600,
    )
    encoded = processor(images=[picture for prompt in prompts for picture in prompt], return_tensors="pt")
    grid = encoded["image_grid_thw"]
    counts = iter((grid.prod(-1) // 4).tolist())
    runs = [[[SPECIAL + 1, *[IMAGE] * next(counts), SPECIAL + 2] for _ in prompt] for prompt in prompts]
    return {"pixel_values": encoded["pixel_values"], "image_grid_thw": grid}, runs


# --------------------------------------------------------------------------------------------------------- LLaVA


def llava_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    flat = [picture for prompt in prompts for picture in prompt]
    common = {"image_grid_pinpoints": PINPOINTS, "image_mean": MEAN, "image_std": STD}
    from transformers.models.llava_onevision.image_processing_pil_llava_onevision import (
        LlavaOnevisionImageProcessorPil as Stock,
    )
    from transformers.models.llava_onevision.processing_llava_onevision import LlavaOnevisionProcessor as Processor

    counter = SimpleNamespace(
        num_image_tokens=64, vision_feature_select_strategy="full", vision_aspect_ratio="anyres_max_2"
    )
    encoded = Stock(**common, size={"height": 32, "width": 32})(images=prompts, return_tensors="pt")
    data = {name: encoded[name] for name in ("pixel_values", "image_sizes", "batch_num_images")}
    # The counts come from the stock processor's own arithmetic.
    counter.image_processor = SimpleNamespace(image_grid_pinpoints=PINPOINTS)
    counter.image_token = "\x01"
    for name in ("_get_number_of_features", "_get_unpadded_features"):
        setattr(counter, name, getattr(Processor, name).__get__(counter))
    counts = iter([len(Processor.replace_image_token(counter, data, i)) for i in range(len(flat))])
    return data, [[[IMAGE] * next(counts) for _ in prompt] for prompt in prompts]


# ------------------------------------------------------------------------------------------------------ square tiles


def internvl_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import GotOcr2ImageProcessorPil

    processor = GotOcr2ImageProcessorPil(size={"height": 32, "width": 32}, image_mean=MEAN, image_std=STD)
    flat = [picture for prompt in prompts for picture in prompt]
    encoded = processor(images=flat, return_tensors="pt", crop_to_patches=True, min_patches=1, max_patches=3)
    counts = iter(torch.as_tensor(encoded["num_patches"]).tolist())
    runs = [[[SPECIAL, *[IMAGE] * 16 * next(counts), SPECIAL + 1] for _ in prompt] for prompt in prompts]
    return {"pixel_values": encoded["pixel_values"]}, runs


def gemma_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    pixels = torch.stack([normalized(picture, (32, 32)) for prompt in prompts for picture in prompt])
    run = [NEWLINE, SPECIAL, *[IMAGE] * 64, SPECIAL + 1, NEWLINE]
    return {"pixel_values": pixels}, [[run for _ in prompt] for prompt in prompts]


def ovis_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    from transformers.models.ovis2.image_processing_pil_ovis2 import Ovis2ImageProcessorPil

    processor = Ovis2ImageProcessorPil(size={"height": 32, "width": 32}, image_mean=MEAN, image_std=STD)
    flat = [picture for prompt in prompts for picture in prompt]
    encoded = processor(images=flat, return_tensors="pt", crop_to_patches=True, max_patches=3)
    start, grid_token, column, row_token, end = (SPECIAL + i for i in range(5))
    atoms = [IMAGE] * 16
    grids = iter(torch.as_tensor(encoded["grids"]).tolist())
    runs = []
    for prompt in prompts:
        runs.append([])
        for _ in prompt:
            rows, cols = next(grids)
            ids = [start, *atoms, grid_token]
            for row in range(rows if rows * cols > 1 else 0):
                for col in range(cols):
                    ids += atoms + ([column] if col < cols - 1 else [])
                ids += [row_token] if row < rows - 1 else []
            runs[-1].append([*ids, end])
    return {"pixel_values": encoded["pixel_values"]}, runs


# ----------------------------------------------------------------------------------------------------- DeepSeek-OCR 2


def deepseek_encode(prompts: list[list[np.ndarray]]) -> tuple[dict[str, Any], list[list[list[int]]]]:
    """Pages at 208² (13² = 169 patches, so 256 queries), tiles at 48² (144 queries): the stock arithmetic, shrunk."""
    flat = [picture for prompt in prompts for picture in prompt]
    pages = torch.stack([normalized(picture, (208, 208)) for picture in flat])
    shapes = [
        (math.ceil(p.shape[0] / 48), math.ceil(p.shape[1] / 48)) if max(p.shape[:2]) > 48 else (0, 0) for p in flat
    ]
    tiles = [tiles_of(p, 48, *shape) for p, shape in zip(flat, shapes, strict=True) if shape[0]]
    counts = torch.tensor([rows * cols for rows, cols in shapes])
    data: dict[str, Any] = {"pixel_values": pages, "num_local_patches": counts}
    if tiles:
        data["pixel_values_local"] = torch.cat(tiles)
    tokens = iter((counts * 144 + 256 + 1).tolist())
    return data, [[[IMAGE] * next(tokens) for _ in prompt] for prompt in prompts]


FAMILIES: dict[str, Family] = {
    family.name: family
    for family in (
        Family("qwen2_5_vl", qwen_encode, [[(64, 56)]], [[(64, 48), (32, 40)], [(48, 64)], [(56, 32)]]),
        Family(
            "llava_onevision",
            llava_encode,
            [[(60, 50)]],
            [[(64, 64)], [(30, 64), (50, 50)], [(90, 20)]],
        ),
        Family("internvl", internvl_encode, [[(30, 64)]], [[(30, 64), (30, 30)], [(64, 32)], [(32, 32)]]),
        Family("gemma3", gemma_encode, [[(32, 32)]], [[(32, 32), (20, 30)], [(30, 30)], [(16, 20)]]),
        Family("ovis2", ovis_encode, [[(30, 64)]], [[(30, 64), (30, 30)], [(64, 32)], [(32, 32)]]),
        Family("deepseek_ocr2", deepseek_encode, [[(90, 40)]], [[(40, 40)], [(40, 90)], [(30, 40)]]),
    )
}


@cache
def build_model(name: str, attention: str = "sdpa", seed: int = 0) -> Any:
    """The stock class of a family with large random weights, float32, in evaluation mode."""
    torch.manual_seed(seed)
    config = FAMILIES[name].config()
    model = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation=attention).eval()
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter_name, parameter in model.named_parameters():
            if parameter.ndim >= 2 or "newline" in parameter_name or "separator" in parameter_name:
                fan_in = parameter[0].numel() if "embed" not in parameter_name else 1
                scale = 1.5 / math.sqrt(fan_in) if parameter.ndim >= 2 else 1.0
                parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    model.generation_config.pad_token_id = PAD
    model.generation_config.eos_token_id = None
    return model


def build_prompts(
    name: str, batch: int, seed: int = 0, *, side: str = "left", shown: list[list[tuple[int, int]]] | None = None
) -> dict[str, Any]:
    """What the family's processor would return for `batch` prompts (1 or 3), padded. shown: other sizes of pictures."""
    family = FAMILIES[name]
    sizes = shown or (family.one if batch == 1 else family.three)
    counter = iter(range(1000))
    pictures = [[photo(size, seed * 1000 + next(counter)) for size in prompt] for prompt in sizes]
    data, runs = family.encode(pictures)
    generator = np.random.default_rng(seed)
    rows: list[list[int]] = []
    for index, prompt in enumerate(runs):
        ids = words(generator, 2 + index)
        for run in prompt:
            ids = [*ids, *run, *words(generator, 3)]
        rows.append([*ids, *words(generator, 4)])
    longest = max(map(len, rows))
    left = side == "left"
    padded = [[PAD] * (longest - len(row)) + row if left else row + [PAD] * (longest - len(row)) for row in rows]
    masks = [
        [0] * (longest - len(row)) + [1] * len(row) if left else [1] * len(row) + [0] * (longest - len(row))
        for row in rows
    ]
    inputs: dict[str, Any] = {"input_ids": torch.tensor(padded), "attention_mask": torch.tensor(masks), **data}
    kinds = (inputs["input_ids"] == IMAGE).long()
    if name.startswith("qwen"):
        inputs["mm_token_type_ids"] = kinds
    if name == "gemma3":
        inputs["token_type_ids"] = kinds
    return inputs


def words(generator: np.random.Generator, count: int) -> list[int]:
    return generator.integers(FIRST_WORD, VOCABULARY, count).tolist()


def shapes(grids: Sequence[Any]) -> list[tuple[int, int]]:
    return [(grid.rows, grid.cols) for grid in grids]


def numbered_words(token: str) -> Any:
    """A tokenizer of numbered words; token: that of a picture."""
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    words = {"[pad]": PAD, token: IMAGE} | {f"w{i}": i for i in range(2, VOCABULARY - 1)} | {"?": VOCABULARY - 1}
    plain = Tokenizer(models.WordLevel(words, unk_token="?"))
    plain.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    special = {"image_token": token, "video_token": "w3", "vision_start_token": "w4", "vision_end_token": "w5"}
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=plain, pad_token="[pad]", unk_token="?", extra_special_tokens=special
    )
    chat = "{% for m in messages %}{% for c in m['content'] %}{{ c['text'] if c['type'] == 'text' else 'IMAGE' }} "
    tokenizer.chat_template = (chat + "{% endfor %}{% endfor %}").replace("IMAGE", token)
    return tokenizer


class FamilyProcessor:
    """What a family's stock processor does, with its stock cutting into tiles and a tokenizer of numbered words."""

    image_token = "<image>"

    def __init__(self, name: str) -> None:
        self.encode, self.tokenizer = FAMILIES[name].encode, numbered_words(self.image_token)
        self.image_processor = FamilyPictures(self.encode)
        self.chat_template = self.tokenizer.chat_template

    def apply_chat_template(self, messages: Any, **how: Any) -> Any:
        return self.tokenizer.apply_chat_template(messages, **how)

    def __call__(self, text: list[str], images: list[Any], return_tensors: str = "pt") -> dict[str, Any]:
        data, (runs,) = self.encode([[np.asarray(image) for image in images]])
        parts = [self.tokenizer.encode(part, add_special_tokens=False) for part in text[0].split(self.image_token)]
        ids = parts[0] + [one for run, part in zip(runs, parts[1:], strict=True) for one in (*run, *part)]
        return {"input_ids": torch.tensor([ids]), "attention_mask": torch.ones(1, len(ids), dtype=torch.int64), **data}


class FamilyPictures:
    """The side of a `FamilyProcessor` that sees pictures."""

    image_mean, image_std, do_normalize = MEAN, STD, True

    def __init__(self, encode: Callable[..., Any]) -> None:
        self.encode = encode

    def __call__(self, images: Any, return_tensors: str = "pt") -> dict[str, Any]:
        pictures = images if isinstance(images, list) else [images]
        return self.encode([[np.asarray(image) for image in pictures]])[0]


def save_family(folder: Path, name: str) -> Path:
    """Save a tiny family that takes Qwen2-VL's processor, with that and a tokenizer of numbered words."""
    from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

    build_model(name).save_pretrained(folder)
    numbered_words("<|image_pad|>").save_pretrained(folder)
    sizes = {"patch_size": 4, "merge_size": 2, "temporal_patch_size": 2, "min_pixels": 64, "max_pixels": 4096}
    Qwen2VLImageProcessorPil(**sizes, image_mean=[0.5] * 3, image_std=[0.5] * 3).save_pretrained(folder)
    return folder
