"""What scanners, fax machines, copiers, cameras and time do to pages, drawn or printed, each picture in its own way.

Every picture has one kind of wear and draws its strengths within that kind's limits. Letters stay legible: how coarse a
fax may be follows from the size of the type. Where a picture is turned or bent, `PrintWear.moved` takes places along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple, Self

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.knowing.language.tables import read_table

from ..constants import constant
from ..needle.draws import FloatDraws, mix
from .writer import DATA

Limits = tuple[float, float]
STRENGTHS = (
    "angle", "tilt", "bend", "scale", "weight", "blur", "across", "down", "ink", "paper", "cast", "light", "cloud",
    "noise", "specks", "edges", "streaks", "cut", "hard", "fade", "quality", "grey", "dark",
)  # fmt: skip
NOTHING: dict[str, Limits] = dict.fromkeys(STRENGTHS, (0.0, 0.0))
NOTHING |= dict.fromkeys(("scale", "across", "down", "paper"), (1.0, 1.0))
# Lowest and highest of every strength that a kind has. grey: above a half, no colours are left.
_KINDS = read_table(DATA / "wear.toml")
KINDS: dict[str, dict[str, Limits]] = {
    name: {of: kind[of] for of in kind if of != "share"} for name, kind in _KINDS.items()
}
SHARES: dict[str, float] = {name: kind["share"] for name, kind in _KINDS.items()}
NAMES = tuple(KINDS)
TILE = 512
GRAIN, SPOTS, CLOUDS = range(3)
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


@cache
def noise_tiles(device: torch.device) -> Tensor:
    """(3, 512, 512) float32 of mean 0 and deviation 1: grain, spots of a pixel or two, clouds; the same everywhere."""
    bits = mix(torch.arange(4 * TILE * TILE) + 12_345)
    grain = ((bits.view(4, TILE, TILE) >> 8).float() * 2.0**-24).sum(0)
    spots = F.avg_pool2d(F.pad(grain[None, None], (1, 1, 1, 1), mode="circular"), 3, 1)[0, 0]
    corners = F.pad(grain[None, None, ::64, ::64], (1, 1, 1, 1), mode="circular")
    clouds = F.interpolate(corners, scale_factor=64, mode="bicubic")[0, 0, 64:-64, 64:-64]
    tiles = [(tile - tile.mean()) / tile.std() for tile in (grain, spots, clouds)]
    return torch.stack(tiles).to(device)


@dataclass(frozen=True)
class PrintWear:
    """How B pictures are worn. kind: (B,) into NAMES. strengths: (B, 1, 1, 1) each, by the names of NOTHING. places:
    (B, 10) numbers in 0–1 for where lamps, streaks and noises lie. size: height, width."""

    kind: Tensor
    strengths: dict[str, Tensor]
    places: Tensor
    size: tuple[int, int]

    def _bent(self, x: Tensor) -> Tensor:
        """How far down a place is bent, by its x; both (B, …)."""
        shape = (-1, *[1] * (x.dim() - 1))
        height, width = self.size
        waves = (0.5 + self.places[:, 1]).view(shape) * (2 * math.pi / width)
        return self.strengths["bend"].view(shape) * height * torch.sin(x * waves + 6.3 * self.places[:, 2].view(shape))

    def _geometry(self, dims: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Cosine and sine of the turn times its scale, and how much the sheet leans across and down, (B, 1, …) each.

        Places are worked out by plain sums and products: a matrix product may be of ten bits on a GPU, half a pixel.
        """
        angle, tilt, scale = (self.strengths[name].view(-1, *[1] * (dims - 1)) for name in ("angle", "tilt", "scale"))
        side = (2 * self.places[:, 0] - 1).view_as(tilt)
        angle = angle * (math.pi / 180)
        return angle.cos() * scale, angle.sin() * scale, tilt / self.size[1], tilt * side / self.size[0]

    def moved(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Places (B, …) on the sheet, in pixels → where they lie in the worn picture."""
        cos, sin, lean_x, lean_y = self._geometry(x.dim())
        middle_x, middle_y = self.size[1] / 2, self.size[0] / 2
        x, y = x - middle_x, y + self._bent(x) - middle_y
        x, y = cos * x - sin * y, sin * x + cos * y
        depth = 1 + lean_x * x + lean_y * y
        return x / depth + middle_x, y / depth + middle_y

    def sheet_places(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """The other way round: places (B, …) in the worn picture → what of the sheet lies there."""
        cos, sin, lean_x, lean_y = self._geometry(x.dim())
        middle_x, middle_y = self.size[1] / 2, self.size[0] / 2
        x, y = x - middle_x, y - middle_y
        depth = (1 - lean_x * x - lean_y * y) * (cos * cos + sin * sin)
        x, y = (cos * x + sin * y) / depth + middle_x, (cos * y - sin * x) / depth + middle_y
        return x, y - self._bent(x)

    def moved_boxes(self, boxes: Tensor) -> Tensor:
        """(B, …, 4) x0, y0, x1, y1 → the upright boxes around where they lie."""
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
    signed = constant([of in ("angle", "tilt", "bend", "weight") for of in NOTHING], device=device)
    strength = torch.where(signed, strength, strength.clamp_min(0))
    made = {of: strength[:, i].view(-1, 1, 1, 1) for i, of in enumerate(NOTHING)}
    # Strokes are a tenth of the em: a third of the em of an 8 is all that a fax may blur together.
    legible = em.view(-1, 1, 1, 1)
    for of in ("across", "down"):
        made[of] = torch.minimum(made[of], (legible / 7).clamp_min(1.0))
    made["blur"] = torch.minimum(made["blur"], 0.05 * legible)
    made["weight"] = made["weight"] * (legible / 28).clamp(0.1, 1.0)
    # Grey edges that turn black close the counters of small letters; coarse cosines wash them away.
    made["cut"] = torch.minimum(made["cut"], 0.5 + 0.3 * (legible / 24).clamp(0.2, 1.0))
    made["quality"] = torch.where(made["quality"] > 0, torch.maximum(made["quality"], 75 - 2.5 * legible), 0.0)
    # Much noise is rare, and loud.
    made["noise"] = made["noise"] * draws.uniform("wear/noise").view(-1, 1, 1, 1)
    return PrintWear(kind, made, draws.uniform("wear/places", slots=10), size)


class WearTables(NamedTuple):
    """What all wear on a device shares: `noise_tiles`, and JPEG's `cosines`."""

    noises: Tensor
    waves: Tensor
    steps: Tensor

    @classmethod
    def of(cls, device: torch.device) -> Self:
        return cls(noise_tiles(device), *cosines(device))


def worn(pictures: Tensor, wear: PrintWear, paper: Tensor, tables: WearTables) -> Tensor:
    """(B, 3, H, W) float32 in 0–1 → the same, worn. paper: (B, 3) what lies beyond the sheet's edges."""
    s, height, width = wear.strengths, *wear.size
    weight = s["weight"]
    fat, thin = -F.max_pool2d(-pictures, 3, 1, 1), F.max_pool2d(pictures, 3, 1, 1)
    value = torch.lerp(pictures, torch.where(weight > 0, fat, thin), weight.abs())
    coarse = ((s["across"] - 1) ** 2 + (s["down"] - 1) ** 2).sqrt()
    value = blurred(value, (s["blur"] + 0.3 * coarse).view(-1))
    beyond = paper.view(-1, 3, 1, 1)
    value = _warped(value - beyond, wear) + beyond
    value = torch.where(s["grey"] > 0.5, grey(value).expand_as(value), value)
    # Ink that fades in bands and clouds, paper that is not white, light from one side.
    clouds, grain, spots = (noise(tables.noises, wear.places, wear.size, which) for which in (CLOUDS, GRAIN, SPOTS))
    kept = (1 - s["fade"] * (0.5 + 0.35 * clouds).clamp(0, 1)).clamp(0.12, 1)
    value = 1 - (1 - value) * kept
    value = s["ink"] + value * (s["paper"] - s["ink"])
    cast = wear.places[:, 3:6].view(-1, 3, 1, 1) * s["cast"]
    y = torch.linspace(-1, 1, height, device=value.device).view(1, 1, -1, 1)
    x = torch.linspace(-1, 1, width, device=value.device).view(1, 1, 1, -1)
    angle = 6.2832 * wear.places[:, 6].view(-1, 1, 1, 1)
    lamp = (
        1 - s["light"] * (0.5 + 0.4 * (angle.cos() * x + angle.sin() * y)) - 0.4 * s["cloud"] * clouds.clamp(-1.5, 1.5)
    )
    value = value * lamp * (1 - cast)
    # A copier's lid leaves dark edges, dirt on its glass streaks.
    first = wear.places[:, 7].view(-1, 1, 1, 1)
    reach = 0.01 + 0.05 * wear.places[:, 8].view(-1, 1, 1, 1)
    edge = torch.exp(-torch.where(first < 0.5, 1 + x, 1 - x) / reach) + torch.exp(-(1 - y) / reach) * (first > 0.3)
    value = value * (1 - s["edges"] * edge.clamp(0, 1))
    streak = ((x - (2 * first - 1)).abs() < 1.2 / width).float()
    value = value * (1 - streak * (0.6 * s["streaks"]).clamp(0, 0.8))
    value = value + s["noise"] * grain
    # Spots that pass a height that so many of them pass: black ones and white ones.
    high = math.sqrt(2) * torch.erfinv(1 - 2 * s["specks"].clamp(1e-6, 0.4))
    spotted = s["specks"] > 1e-5
    value = torch.where(spotted & (spots > high), 0.06, torch.where(spotted & (spots < -high), 1.0, value))
    # One bit, or nearly: above the cut is paper.
    cut = s["cut"] * s["paper"]
    value = torch.where(s["cut"] > 0, 1 - 1.25 * (1 - value), value)
    sharp = ((value - cut) * (4 + 60 * s["hard"])).sigmoid()
    value = torch.where(s["hard"] >= 1, (value > cut).float(), torch.where(s["hard"] > 0.1, sharp, value))
    value = torch.where(s["dark"] > 0, 1 - value, value).clamp(0, 1)
    return compressed(value, s["quality"].view(-1), (tables.waves, tables.steps)).clamp(0, 1)


def _warped(pictures: Tensor, wear: PrintWear) -> Tensor:
    """Every pixel of the worn picture asks which place of the sheet it shows; coarse ones ask for all their pixels."""
    height, width = wear.size
    s = wear.strengths
    x = torch.arange(width, device=pictures.device, dtype=torch.float32).view(1, 1, -1) + 0.5
    y = torch.arange(height, device=pictures.device, dtype=torch.float32).view(1, -1, 1) + 0.5
    across, down = s["across"].view(-1, 1, 1), s["down"].view(-1, 1, 1)
    x = torch.where(across > 1.02, ((x / across).floor() + 0.5) * across, x)
    y = torch.where(down > 1.02, ((y / down).floor() + 0.5) * down, y)
    from_x, from_y = wear.sheet_places(x, y)
    grid = torch.stack([from_x * (2 / width) - 1, from_y * (2 / height) - 1], -1)
    return F.grid_sample(pictures, grid, padding_mode="zeros", align_corners=False)


def noise(tiles: Tensor, places: Tensor, size: tuple[int, int], which: int) -> Tensor:
    """(B, 1, H, W) of mean 0 and deviation 1: each picture's own corner of one of the `noise_tiles`, by (B, 10) numbers
    in 0–1."""
    tile = tiles[which].view(-1)
    shift = (places[:, which + 1 : which + 3] * 9973 + places[:, 9:] * 7919).long()
    y = (torch.arange(size[0], device=tile.device) + shift[:, :1]) % TILE
    x = (torch.arange(size[1], device=tile.device) + shift[:, 1:]) % TILE
    place = (y * TILE)[:, :, None] + x[:, None]
    return tile.index_select(0, place.view(-1).to(torch.int32)).view(-1, 1, *size)


# ---- Grey, blur and JPEG, in torch -----------------------------------------------------------------------------------


def grey(pictures: Tensor) -> Tensor:
    return _mixed(pictures, COLOURS[:1])


def _mixed(planes: Tensor, rows: Sequence[Sequence[float]]) -> Tensor:
    """(B, 3, H, W) → (B, rows, H, W): sums of the three planes, each row's own."""
    first, second, third = planes.split(1, 1)
    return torch.cat([a * first + b * second + c * third for a, b, c in rows], 1)


def blurred(pictures: Tensor, sigma: Tensor) -> Tensor:
    """Gaussian blur of (B, C, H, W) with a width of its own for every picture.

    Sums of moved pictures: a GPU is slow at convolutions of one channel each, and sums can be compiled.
    """
    spread = 2 * sigma.clamp(min=0.05).view(-1, 1, 1, 1) ** 2
    near, far = torch.exp(-1 / spread), torch.exp(-4 / spread)
    whole = 1 + 2 * (near + far)
    for axis in (2, 3):
        length = pictures.shape[axis]
        padded = F.pad(pictures, (0, 0, 2, 2) if axis == 2 else (2, 2, 0, 0), mode="replicate")
        parts = [padded.narrow(axis, start, length) for start in range(5)]
        pictures = (parts[2] + near * (parts[1] + parts[3]) + far * (parts[0] + parts[4])) / whole
    return pictures


def compressed(pictures: Tensor, quality: Tensor, tables: tuple[Tensor, Tensor] | None = None) -> Tensor:
    """What JPEG would leave, at each picture's own quality (0: untouched): 8 × 8 cosines, rounded, and back. tables:
    `cosines` of the device, for those who compile this."""
    batch, _, height, width = pictures.shape
    waves, steps = cosines(pictures.device) if tables is None else tables
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
    """(64, 64) waves of an 8 × 8 block, and (3, 64) steps of quality 50; sent to a device once."""
    at = torch.arange(8).float()
    one = torch.cos((2 * at[None] + 1) * at[:, None] * math.pi / 16) * 0.5
    one[0] /= math.sqrt(2)
    luma = torch.tensor(LUMA).float().view(64)
    steps = torch.stack([luma, luma.clamp(min=17) * 1.4, luma.clamp(min=17) * 1.4])
    return torch.kron(one, one).to(device), steps.to(device)
