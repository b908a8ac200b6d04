"""A tiny random Qwen3-VL behind an `Eye`, and what a batch of its pictures needs for the loop. Nothing downloaded."""

from __future__ import annotations

from functools import cache

import numpy as np
import torch
from tiny_models import picture, tiny_model, tiny_processor

from arr_coc.answering.eye import Eye
from arr_coc.answering.passes import PassJob, Prompts
from arr_coc.attending.tree import build_tree

QUESTIONS = ("what colour is the red square", "how many", "where is the picture on the left")
SIDE = 256


def bright(pixels: torch.Tensor, query: str) -> np.ndarray:
    """A relevance source that is quick and differs from picture to picture: brightness by cell."""
    cells = torch.nn.functional.avg_pool2d(pixels.mean(0)[None, None], 32)[0, 0]
    return ((cells - cells.min()) / (cells.max() - cells.min() + 1e-6)).numpy()


@cache
def tiny_eye() -> Eye:
    return Eye(tiny_model(), tiny_processor(), relevance=bright)


def pixels_of(number: int) -> torch.Tensor:
    """(number, 3, SIDE, SIDE) in [0, 1]."""
    arrays = [np.asarray(picture(SIDE, SIDE, seed)) for seed in range(number)]
    return torch.from_numpy(np.stack(arrays)).permute(0, 3, 1, 2).float() / 255


def normalised(pixels: torch.Tensor) -> torch.Tensor:
    """As the tiny processor does it."""
    return (pixels - 0.5) / 0.5


def job_of(*numbers: int) -> PassJob:
    """These pictures, with questions of different lengths."""
    eye, pixels = tiny_eye(), pixels_of(3)[list(numbers)]
    tree = build_tree(SIDE // 32, SIDE // 32, 3)
    maps = torch.from_numpy(np.stack([bright(one, "") for one in pixels]))
    prompts = Prompts.of(eye.processor, [QUESTIONS[number] for number in numbers])
    return PassJob.of(eye.model, normalised(pixels), prompts, maps, tree)
