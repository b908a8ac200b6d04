"""A picture, a clip and a tiny model for commands that are killed or starved of disk."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tiny_models import picture
from tiny_weights import ship_tiny


@pytest.fixture(scope="session")
def things(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A picture, a clip and a tiny model."""
    folder = tmp_path_factory.mktemp("things")
    # Noise, but in squares: what is drawn of it is packed in no time.
    Image.fromarray(np.asarray(picture(12, 16)).repeat(8, 0).repeat(8, 1)).save(folder / "street.png")
    frames = [Image.fromarray(np.roll(np.asarray(picture(64, 96)), 3 * step, 1)) for step in range(3)]
    frames[0].save(folder / "clip.gif", save_all=True, append_images=frames[1:], duration=100)
    return ship_tiny(folder, heads=2, scorer=32)
