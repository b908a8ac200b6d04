"""What scanners, copiers and cameras do to pages, drawn or printed, each picture in its own way.

Every picture has one kind of wear and draws its strengths within that kind's limits. Letters stay legible: blur and
quality follow from the size of the type. Where a picture is turned, `PrintWear.moved` takes places along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.knowing.language.tables import read_table

from ..constants import constant
from ..needle.draws import FloatDraws, mix

Limits = tuple[float, float]
# The strengths of a picture that is not worn. grey: above a half, no colours are left.
NOTHING: dict[str, Limits] = dict.fromkeys(("angle", "blur", "ink", "light", "noise", "quality", "grey"), (0.0, 0.0))
NOTHING |= {"scale": (1.0, 1.0), "paper": (1.0, 1.0)}
_TABLE = read_table(Path(__file__).with_name("data") / "wear.toml")
KINDS: dict[str, dict[str, Limits]] = {
    name: {of: kind[of] for of in kind if of != "share"} for name, kind in _TABLE.items()
}
SHARES: dict[str, float] = {name: kind["share"] for name, kind in _TABLE.items()}
NAMES = tuple(KINDS)
TILE = 512
# What JPEG divides the waves of brightness by.
LUMA = (
    (16, 11, 10, 16, 24, 40, 51, 61),
    (12, 12, 14, 19, 26, 58, 60, 55),
    (14, 13, 16, 24, 40, 57, 69, 56),
    (14, 17, 22, 29, 51, 87, 80, 62),
    (18, 22, 37, 56, 68, 109, 103, 77),
    (24, 35, 55, 64, 81, 104, 113, 92),
    (49, 64, 78, 87, 103, 121, 120, 101),
    (72, 92, 95, 98, 112, 100, 103, 99),
)
# To brightness and two differences of colour, and back.
COLOURS = ((0.299, 0.587, 0.114), (-0.1687, -0.3313, 0.5), (0.5, -0.4187, -0.0813))
BACK = tuple(map(tuple, torch.linalg.inv(torch.tensor(COLOURS, dtype=torch.float64)).tolist()))


@dataclass(frozen=True)
class PrintWear:
    """How B pictures are worn. kind: (B,) into NAMES. strengths: (B, 1, 1, 1) each, by the names of NOTHING. places:
    (B, 3) numbers in 0–1 for where the lamp stands and where the noise begins. size: height, width."""

    kind: Tensor
    strengths: dict[str, Tensor]
    places: Tensor
    size: tuple[int, int]

    def _turned(self, x: Tensor, y: Tensor, back: bool) -> tuple[Tensor, Tensor]:
        """Turn and scale places (B, …) around the middle of the picture, or back.

        Plain sums and products: a matrix product may be of ten bits on a GPU, half a pixel.
        """
        angle, scale = (self.strengths[name].view(-1, *[1] * (x.dim() - 1)) for name in ("angle", "scale"))
        angle = angle * (math.pi / 180) * (-1 if back else 1)
        scale = 1 / scale if back else scale
        middle_x, middle_y = self.size[1] / 2, self.size[0] / 2
        x, y, cos, sin = x - middle_x, y - middle_y, angle.cos() * scale, angle.sin() * scale
        return cos * x - sin * y + middle_x, sin * x + cos * y + middle_y

    def moved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Map places (B, …) on the sheet, in pixels, to the worn picture."""
        return self._turned(x, y, back=False)

    def sheet_places(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Map places (B, …) in the worn picture back to the sheet."""
        return self._turned(x, y, back=True)

    def moved_boxes(self, boxes: Tensor) -> Tensor:
        """Map boxes (B, …, 4) x0, y0, x1, y1 to upright boxes in the worn picture."""
        x0, y0, x1, y1 = boxes.unbind(-1)
        x, y = self.moved(torch.stack([x0, x1, x1, x0], -1), torch.stack([y0, y0, y1, y1], -1))
        return torch.stack([x.amin(-1), y.amin(-1), x.amax(-1), y.amax(-1)], -1)


def draw_wear(
    draws: FloatDraws, size: tuple[int, int], em: Tensor, shares: dict[str, float] | None = None
) -> PrintWear:
    """em: (B,) the small type of each picture, which has to stay legible."""
    shares, device = SHARES if shares is None else shares, draws.device
    ends = constant([shares.get(name, 0.0) for name in NAMES], device=device).cumsum(0)
    kind = torch.searchsorted(ends, draws.uniform("wear/kind")[:, 0] * ends[-1], right=True).clamp_max(len(NAMES) - 1)
    limits = constant([[(NOTHING | KINDS[name])[of] for of in NOTHING] for name in NAMES], device=device)
    low, high = limits[kind].unbind(-1)
    strength = low + (high - low) * draws.uniform("wear/strength", slots=len(NOTHING))
    # Below 0 is: not at all.
    made = {of: strength[:, i].view(-1, 1, 1, 1).clamp_min(-90 if of == "angle" else 0) for i, of in enumerate(NOTHING)}
    legible = em.view(-1, 1, 1, 1)
    made["blur"] = torch.minimum(made["blur"], 0.05 * legible)
    # Coarse cosines wash small letters away.
    made["quality"] = torch.where(made["quality"] > 0, torch.maximum(made["quality"], 75 - 2.5 * legible), 0.0)
    # Much noise is rare.
    made["noise"] = made["noise"] * draws.uniform("wear/noise").view(-1, 1, 1, 1)
    return PrintWear(kind, made, draws.uniform("wear/places", slots=3), size)


def worn(pictures: Tensor, wear: PrintWear, paper: Tensor) -> Tensor:
    """Wear pictures (B, 3, H, W) float32 in 0–1. paper: (B, 3) colour beyond the sheet's edges."""
    s, (height, width), device = wear.strengths, wear.size, pictures.device
    value, beyond = blurred(pictures, s["blur"].view(-1)), paper.view(-1, 3, 1, 1)
    # Every pixel of the worn picture asks which place of the sheet it shows.
    x = torch.arange(width, device=device, dtype=torch.float32).view(1, 1, -1) + 0.5
    y = torch.arange(height, device=device, dtype=torch.float32).view(1, -1, 1) + 0.5
    from_x, from_y = wear.sheet_places(x, y)
    grid = torch.stack([from_x * (2 / width) - 1, from_y * (2 / height) - 1], -1)
    value = F.grid_sample(value - beyond, grid, padding_mode="zeros", align_corners=False) + beyond
    value = torch.where(s["grey"] > 0.5, _mixed(value, COLOURS[:1]).expand_as(value), value)
    # Ink that is not black, paper that is not white, light from one side, grain.
    value = s["ink"] + value * (s["paper"] - s["ink"])
    angle = 2 * math.pi * wear.places[:, :1, None, None]
    across = angle.cos() * (2 * x / width - 1)[None] + angle.sin() * (2 * y / height - 1)[None]
    value = value * (1 - s["light"] * (0.5 + 0.4 * across)) + s["noise"] * noise(wear.places[:, 1:], wear.size)
    return compressed(value.clamp(0, 1), s["quality"].view(-1)).clamp(0, 1)


@cache
def noise_tile(device: torch.device) -> Tensor:
    """Return fixed noise (512 * 512,) float32 of mean 0 and deviation 1."""
    bits = mix(torch.arange(4 * TILE * TILE) + 12_345)
    grain = ((bits.view(4, -1) >> 8).float() * 2.0**-24).sum(0)
    return ((grain - grain.mean()) / grain.std()).to(device)


def noise(places: Tensor, size: tuple[int, int]) -> Tensor:
    """Cut noise (B, 1, H, W) of mean 0 and deviation 1: a corner of the tile for each picture, by (B, 2) in 0–1."""
    tile, shift = noise_tile(places.device), (places * TILE).long()
    y = (torch.arange(size[0], device=places.device) + shift[:, :1]) % TILE
    x = (torch.arange(size[1], device=places.device) + shift[:, 1:]) % TILE
    return tile[(y * TILE)[:, :, None] + x[:, None]][:, None]


# ---- Blur and JPEG, in torch -----------------------------------------------------------------------------------------


def _mixed(planes: Tensor, rows: Sequence[Sequence[float]]) -> Tensor:
    """Mix the three planes of (B, 3, H, W) by rows of weights: (B, rows, H, W)."""
    first, second, third = planes.split(1, 1)
    return torch.cat([a * first + b * second + c * third for a, b, c in rows], 1)


def blurred(pictures: Tensor, sigma: Tensor) -> Tensor:
    """Blur (B, C, H, W) by Gaussians with a width for each picture, as sums of shifted pictures."""
    spread = 2 * sigma.clamp(min=0.05).view(-1, 1, 1, 1) ** 2
    near, far = torch.exp(-1 / spread), torch.exp(-4 / spread)
    whole = 1 + 2 * (near + far)
    for axis in (2, 3):
        length = pictures.shape[axis]
        padded = F.pad(pictures, (0, 0, 2, 2) if axis == 2 else (2, 2, 0, 0), mode="replicate")
        parts = [padded.narrow(axis, start, length) for start in range(5)]
        pictures = (parts[2] + near * (parts[1] + parts[3]) + far * (parts[0] + parts[4])) / whole
    return pictures


def compressed(pictures: Tensor, quality: Tensor) -> Tensor:
    """Imitate JPEG at each picture's own quality (0: unchanged): 8 × 8 cosines, rounded, and back."""
    batch, _, height, width = pictures.shape
    waves, steps = cosines(pictures.device)
    strength = torch.where(quality < 50, 50 / quality.clamp(min=1), 2 - quality / 50)
    steps = (steps * strength.view(-1, 1, 1)).clamp(min=1).view(batch, 3, 1, 1, 64)
    padded = F.pad(pictures * 255 - 128, (0, -width % 8, 0, -height % 8), mode="replicate")
    rows, cols = padded.shape[2] // 8, padded.shape[3] // 8
    blocks = _mixed(padded, COLOURS).view(batch, 3, rows, 8, cols, 8).transpose(3, 4).reshape(-1, 64)
    found = (blocks @ waves.mT).view(batch, 3, rows, cols, 64)
    found = (torch.round(found / steps) * steps).view(-1, 64) @ waves
    rgb = _mixed(found.view(batch, 3, rows, cols, 8, 8).transpose(3, 4).reshape(padded.shape), BACK)
    rgb = (rgb[..., :height, :width] + 128) / 255
    return torch.where(quality.view(-1, 1, 1, 1) > 0, rgb, pictures)


@cache
def cosines(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return (64, 64) waves of an 8 × 8 block, and (3, 64) steps of quality 50; sent to a device once."""
    at = torch.arange(8).float()
    one = torch.cos((2 * at[None] + 1) * at[:, None] * math.pi / 16) * 0.5
    one[0] /= math.sqrt(2)
    luma = torch.tensor(LUMA).float().view(64)
    steps = torch.stack([luma, luma.clamp(min=17) * 1.4, luma.clamp(min=17) * 1.4])
    return torch.kron(one, one).to(device), steps.to(device)
