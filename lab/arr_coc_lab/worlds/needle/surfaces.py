"""Surfaces to put things on: tileable textures, table tops and paper."""

from __future__ import annotations

from functools import cache

import torch

from .draws import mix
from .scene import Background, Stage

SIDE = 256
PAPER, STONE, WOOD, LINEN = range(4)


def _lattice(step_y: int, step_x: int, key: int) -> torch.Tensor:
    """Make tileable noise of the given wavelengths in whole numbers, (SIDE, SIDE) int64 in [0, 255]."""
    rows, cols = SIDE // step_y, SIDE // step_x
    corner = mix(torch.arange(rows * cols) + key * 7919).view(rows, cols) & 255
    y, x = torch.arange(SIDE), torch.arange(SIDE)
    iy, ix = y // step_y, x // step_x
    fy, fx = (y % step_y)[:, None], (x % step_x)[None, :]
    top = corner[iy][:, ix] * (step_x - fx) + corner[iy][:, (ix + 1) % cols] * fx
    low = corner[(iy + 1) % rows][:, ix] * (step_x - fx) + corner[(iy + 1) % rows][:, (ix + 1) % cols] * fx
    return torch.div(top * (step_y - fy) + low * fy, step_x * step_y, rounding_mode="floor")


@cache
def textures(device: torch.device | str) -> torch.Tensor:
    """Return (4, 256 * 256) int32 around 0, within -128 … 127."""
    grain = _lattice(1, 1, 1)
    paper = (2 * grain + 2 * _lattice(2, 2, 2) + 3 * _lattice(32, 32, 3) + _lattice(4, 8, 4)) // 8
    stone = (3 * grain + 2 * _lattice(4, 4, 5) + 2 * _lattice(16, 16, 6) + _lattice(64, 64, 7)) // 8
    wood = (grain + 3 * _lattice(2, 64, 8) + 3 * _lattice(8, 128, 9) + _lattice(32, 64, 10)) // 8
    weave = ((torch.arange(SIDE)[:, None] // 2 + torch.arange(SIDE)[None, :] // 2) % 2) * 90 + 80
    linen = (2 * grain + 4 * weave + 2 * _lattice(64, 64, 11)) // 8
    # Each is centred by its own whole-number mean, so that a texture never changes the colour it is laid on.
    surfaces = [surface - int(surface.sum()) // SIDE**2 for surface in (paper, stone, wood, linen)]
    return torch.stack(surfaces).view(4, -1).to(torch.int32).to(device)


# ---- Backgrounds that several families share -------------------------------------------------------------------------

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
    """Draw a table top of wood, cloth, stone or paper; `pale` percent of white are mixed in."""
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
    """Draw paper colours (B, slots, 3): white, cream or pale."""
    draws = stage.draws
    level = draws.integers(f"{name}/level", 232, 254, slots, place=True)[..., None]
    warm = draws.integers(f"{name}/warm", -4, 16, slots, place=True)[..., None]
    tint = stage.constant([0, -1, -4])
    return (level + ((warm * tint) >> 2)).clamp(0, 255)
