"""Backgrounds that several families share."""

from __future__ import annotations

import torch

from .scene import Background, Stage
from .textures import LINEN, PAPER, STONE, WOOD

# Table tops: colour and the texture that suits it.
TABLES = (
    ((196, 158, 116), WOOD),
    ((150, 108, 74), WOOD),
    ((222, 200, 168), WOOD),
    ((108, 130, 116), LINEN),
    ((120, 132, 152), LINEN),
    ((206, 198, 184), LINEN),
    ((178, 180, 182), STONE),
    ((214, 216, 214), PAPER),
)


def table(stage: Stage, pale: int = 0) -> Background:
    """A table top of wood, cloth, stone or paper; `pale` percent of white are mixed in."""
    draws = stage.draws
    which = draws.integers("table", 0, len(TABLES), place=True)[:, 0]
    base = stage.constant([colour for colour, _ in TABLES])[which]
    colour = (base + draws.integers("table/colour", -14, 15, 3, place=True)).clamp(0, 255)
    colour = (colour * (100 - pale) + 240 * pale) // 100
    shade = draws.integers("table/shade", -16, 17)
    texture = stage.constant([kind for _, kind in TABLES])[which]
    strength = draws.integers("table/strength", 10, 26)[:, 0]
    return Background((colour + shade).clamp(0, 255), (colour - shade).clamp(0, 255), texture, strength)


def paper_colour(stage: Stage, name: str, slots: int = 1) -> torch.Tensor:
    """(B, slots, 3) white, cream or pale paper."""
    draws = stage.draws
    level = draws.integers(f"{name}/level", 232, 254, slots, place=True)[..., None]
    warm = draws.integers(f"{name}/warm", -4, 16, slots, place=True)[..., None]
    tint = stage.constant([0, -1, -4])
    return (level + ((warm * tint) >> 2)).clamp(0, 255)
