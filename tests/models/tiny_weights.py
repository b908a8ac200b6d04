"""Weights for tests: a tiny random `mini` and scorer as a training leaves them, and whether the real ones are here."""

from __future__ import annotations

from collections.abc import Generator
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import arr_coc
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.knowing.scorer.reading_scorer import ReadingScorer, ReadingScorerConfig
from arr_coc_lab.train.mini_model import MiniConfig, build_mini, ship


def has_weights() -> bool:
    try:
        return all(part_folder(part).is_dir() for part in (MINI, SCORER))
    except InputError:
        return False


needs_weights = pytest.mark.skipif(not has_weights(), reason="the bundled weights are not in src/arr_coc/weights")


def signs() -> np.ndarray:
    """(256, 384, 3) uint8: a part of the example street with two signs, pink COFFEE and gray BAKERY 593; an eighth of
    it, and so is the time that it takes to be read."""
    with Image.open(Path(arr_coc.__file__).parent / "examples" / "street.png") as street:
        return np.asarray(street.convert("RGB").crop((229, 0, 613, 256)))


def spoken(speaking: Generator[str, None, Any]) -> tuple[list[str], Any]:
    """The pieces of an answer that is streamed, and what is returned behind the last."""
    pieces = []
    while True:
        try:
            pieces.append(next(speaking))
        except StopIteration as end:
            return pieces, end.value


TINY_SCORER = ReadingScorerConfig(
    narrow=8, middle=16, wide=16, query_width=16, fine=1, before=1, after=1, coarse=1, heads=4, waves=4
)


def tiny_scorer(boldness: float = 0.0) -> ReadingScorer:
    """An untrained scorer; boldness: how far it tells places apart."""
    scorer = ReadingScorer(TINY_SCORER)
    if boldness:
        torch.nn.init.normal_(scorer.head.weight, std=boldness)
        torch.nn.init.constant_(scorer.head.bias, -2.5 * boldness)  # about the middle of what the features give
    return scorer


def ship_tiny(folder: Path, heads: int = 1, layers: int = 2, scorer: int = 0) -> Path:
    """A `mini` of so many heads and layers in a folder, untrained; and a scorer of this width, if it is not 0."""
    torch.manual_seed(0)
    config = MiniConfig(width=64, heads=heads, vision_layers=layers, language_layers=layers, deepstack=(0,))
    modules: dict[str, nn.Module] = {"mini": build_mini(config)}
    if scorer:
        modules["scorer"] = tiny_scorer()
    ship(modules, folder)
    return folder


def tiny_weights(folder: Path, seed: int = 0) -> Path:
    """`mini` and `scorer` in a folder, untrained, the scorer bold enough to tell places apart."""
    for name, content in shipped_files(seed).items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    torch.manual_seed(seed)
    return folder


@cache
def shipped_files(seed: int) -> dict[Path, bytes]:
    torch.manual_seed(seed)
    scorer = tiny_scorer(2.0)
    with TemporaryDirectory() as name:
        folder = Path(name)
        ship({"mini": build_mini(MiniConfig(width=64, heads=1)), "scorer": scorer}, folder)
        return {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
