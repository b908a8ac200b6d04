"""The committed drawings as tensors: glyphs by column and sprites by texel, cached per device."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import torch

ASSETS = Path(__file__).parent / "assets"
SPRITE_SIDE = 128
PANEL_SIDE = 64
SLICED = ("panel", "round_panel", "sign_panel", "sheet")


@dataclass(frozen=True)
class GlyphAtlas:
    """Coverage of every glyph, column by column.

    coverage: (texels,) uint8: column after column, each `height` texels from top to bottom; texel 0 is empty.
    first: (faces, sizes, ids) int64, the first texel of a glyph. advance: same shape, the number of its columns.
    height, ascent, cap: (faces, sizes) int64, in pixels; ascent and cap are measured from the baseline up.
    sizes: (sizes,) int64 in pixels. train, test: (n,) int64 face numbers.
    """

    coverage: torch.Tensor
    first: torch.Tensor
    advance: torch.Tensor
    height: torch.Tensor
    ascent: torch.Tensor
    cap: torch.Tensor
    sizes: torch.Tensor
    train: torch.Tensor
    test: torch.Tensor

    def faces(self, split: str) -> torch.Tensor:
        """Return the typefaces of a split."""
        return self.test if split == "test" else self.train


@cache
def _glyph_arrays() -> dict[str, np.ndarray]:
    with np.load(ASSETS / "glyphs.npz") as file:
        packed = {name: file[name] for name in file.files}
    advance = packed["advances"].astype(np.int64)
    heights = packed["heights"].astype(np.int64)
    texels = advance * heights[:, :, None]
    # Two texels of sixteen levels in a byte; in front of all glyphs one texel with nothing on it.
    coverage = np.zeros(2 * len(packed["coverage"]) + 1, np.uint8)
    coverage[1::2], coverage[2::2] = (packed["coverage"] >> 4) * 17, (packed["coverage"] & 15) * 17
    first = 1 + (np.cumsum(texels) - texels.ravel()).reshape(texels.shape)
    return packed | {"coverage": coverage, "first": first, "advance": advance, "heights": heights}


@cache
def glyphs(device: torch.device | str) -> GlyphAtlas:
    arrays = _glyph_arrays()

    def tensor(name: str, dtype: torch.dtype = torch.int64) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(arrays[name])).to(device=device, dtype=dtype)

    held_out = torch.from_numpy(arrays["held_out"])
    return GlyphAtlas(
        coverage=tensor("coverage", torch.uint8),
        first=tensor("first"),
        advance=tensor("advance"),
        height=tensor("heights"),
        ascent=tensor("ascents"),
        cap=tensor("caps"),
        sizes=tensor("sizes"),
        train=torch.nonzero(~held_out)[:, 0].to(device),
        test=torch.nonzero(held_out)[:, 0].to(device),
    )


def typefaces(split: str = "all") -> tuple[str, ...]:
    """Return names of the typefaces: all of them, or those of a split."""
    arrays = _glyph_arrays()
    keep = {"all": arrays["held_out"] >= 0, "test": arrays["held_out"]}.get(split, ~arrays["held_out"])
    return tuple(str(name) for name, wanted in zip(arrays["faces"], keep, strict=True) if wanted)


@cache
def _sprite_arrays() -> tuple[tuple[str, ...], np.ndarray]:
    with np.load(ASSETS / "sprites.npz") as file:
        return tuple(str(name) for name in file["names"]), file["masks"]


@cache
def sprite_numbers() -> dict[str, int]:
    return {name: index for index, name in enumerate(_sprite_arrays()[0])}


@dataclass(frozen=True)
class SpriteAtlas:
    """texels: (sprites * mips * 128 * 128,) int32: three masks of 8 bits each. sliced: (sprites,) bool."""

    texels: torch.Tensor
    sliced: torch.Tensor


@cache
def sprites(device: torch.device | str) -> SpriteAtlas:
    """Return every sprite at three resolutions (128, 64, 32), each in a field of 128² so that one stride serves all."""
    names, masks = _sprite_arrays()
    field = np.zeros((len(names), 3, SPRITE_SIDE, SPRITE_SIDE), np.int32)
    level = masks.astype(np.int32)
    for mip in range(3):
        side = level.shape[-1]
        field[:, mip, :side, :side] = level[:, 0] | (level[:, 1] << 8) | (level[:, 2] << 16)
        level = (level.reshape(*level.shape[:2], side // 2, 2, side // 2, 2).sum((3, 5)) + 2) // 4
    sliced = [name in SLICED for name in names]
    return SpriteAtlas(torch.from_numpy(field.ravel()).to(device), torch.tensor(sliced, device=device))
