"""A picture, a clip and a tiny model for commands that are killed or starved of disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from fault_runs import drawn_pages
from PIL import Image
from tiny_models import picture

from arr_coc_lab.classic.scorer import Scorer, ScorerConfig
from arr_coc_lab.train.checkpoints import ship
from arr_coc_lab.train.mini_model import MiniConfig, build_mini


@pytest.fixture(scope="session")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture, a clip, two pages and a tiny model."""
    folder = tmp_path_factory.mktemp("things")
    # Noise, but in squares: what is drawn of it is packed in no time.
    Image.fromarray(np.asarray(picture(12, 16)).repeat(8, 0).repeat(8, 1)).save(folder / "street.png")
    frames = [Image.fromarray(np.roll(np.asarray(picture(64, 96)), 3 * step, 1)) for step in range(3)]
    frames[0].save(folder / "clip.gif", save_all=True, append_images=frames[1:], duration=100)
    drawn_pages(folder / "pages" / "train-0-all-000000-2.bin")
    torch.manual_seed(0)
    mini = build_mini(MiniConfig(width=64, vision_layers=2, language_layers=2, heads=2, deepstack=(0,)))
    ship({"mini": mini, "scorer": Scorer(ScorerConfig(width=32))}, folder)
    return folder
