"""A texture as a picture: every channel in colours that suit it, all of them on one sheet."""

from __future__ import annotations

import cv2
import numpy as np
from PIL import Image

from ..texture.texture import Texture
from .layout import fit, resize
from .palette import relevance_scale
from .sheets import contact_sheet

CHANNEL_SIDE = 256
# Coordinates, colours and identifiers are told apart by their own colours; all else is on the scale of relevance.
GREY = ("red", "green", "blue", "lab_l", "lab_a", "luminance")


def channel_pixels(texture: Texture, name: str) -> np.ndarray:
    """(h, w, 3) uint8 of one channel, enlarged cell by cell so that a coarse level shows its cells."""
    values = np.asarray(texture[name], dtype=np.float32)
    if name == "cluster_id":
        colours = identifier_colours(values.astype(np.int64))
    elif name.startswith("semantic"):
        colours = relevance_scale()[np.rint(np.clip((values + 1) / 2, 0, 1) * 255).astype(np.uint8)]
    elif name in GREY:
        colours = np.repeat(np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)[..., None], 3, axis=-1)
    else:
        colours = relevance_scale()[np.rint(np.clip(values, 0, 1) * 255).astype(np.uint8)]
    size = fit(*values.shape, CHANNEL_SIDE, CHANNEL_SIDE)
    if size[0] < values.shape[0]:
        return resize(colours, size)
    return cv2.resize(colours, size[::-1], interpolation=cv2.INTER_NEAREST)


def identifier_colours(labels: np.ndarray) -> np.ndarray:
    """(h, w) integers → (h, w, 3) uint8; neighbours in number are far apart in hue."""
    hue = (labels * 67 % 180).astype(np.uint8)
    value = (150 + labels * 41 % 90).astype(np.uint8)
    return cv2.cvtColor(np.stack([hue, np.full_like(hue, 130), value], -1), cv2.COLOR_HSV2RGB)


def range_words(texture: Texture, name: str) -> str:
    values = np.asarray(texture[name])
    low, high = float(values.min()), float(values.max())
    return "zero here" if low == high == 0 else f"{low:.2g} to {high:.2g}"


def texture_sheet(texture: Texture, columns: int = 8) -> Image.Image:
    """Every channel with its name and range; (C, H, W) textures of one picture."""
    names = texture.names
    captions = [f"{name}: {range_words(texture, name)}" for name in names]
    return contact_sheet([channel_pixels(texture, name) for name in names], captions, columns=columns, width=1920)
