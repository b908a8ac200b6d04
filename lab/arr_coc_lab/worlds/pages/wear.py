"""Pages worn on purpose when they are read: scanned, faxed, photographed, dark, turned, compressed.

Everything is batched and runs where the pictures are. `draw_wear` makes the choices from a seed, `apply_wear`
applies them, `move_boxes` takes boxes along.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F

from arr_coc.core.errors import InputError

KINDS = ("clean", "scanned", "faxed", "photographed", "dark", "turned", "compressed")
SHARES = (0.2, 0.28, 0.14, 0.12, 0.08, 0.08, 0.1)
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


class Wear(NamedTuple):
    """Choices for B pictures, all (B,) but `forward` (B, 3, 3): clean pixels → worn pixels, as homogeneous points."""

    kind: torch.Tensor
    forward: torch.Tensor
    blur: torch.Tensor
    grey: torch.Tensor
    paper: torch.Tensor
    ink: torch.Tensor
    noise: torch.Tensor
    specks: torch.Tensor
    threshold: torch.Tensor
    light: torch.Tensor
    invert: torch.Tensor
    quality: torch.Tensor
    seed: int


def draw_wear(
    n: int, height: int, width: int, seed: int, kinds: tuple[str, ...] = KINDS, device: torch.device | str = "cpu"
) -> Wear:
    """Choose how n pictures are worn. kinds: those allowed; each is as likely among them as in `SHARES`."""
    for kind in kinds:
        if kind not in KINDS:
            raise InputError(f"no wear is called {kind!r}; take some of {', '.join(KINDS)}")
    source = torch.Generator().manual_seed(seed)

    def between(low: float, high: float) -> torch.Tensor:
        return low + (high - low) * torch.rand(n, generator=source)

    def chance(probability: float) -> torch.Tensor:
        return torch.rand(n, generator=source) < probability

    weights = torch.tensor([share if kind in kinds else 0.0 for kind, share in zip(KINDS, SHARES, strict=True)])
    kind = torch.multinomial(weights, n, replacement=True, generator=source)
    scanned, faxed, photo, dark, turned, packed = (kind == number for number in range(1, len(KINDS)))
    none = torch.zeros(n)
    degrees = scanned * between(-1.5, 1.5) + faxed * between(-1, 1) + photo * between(-3, 3) + turned * between(-5, 5)
    scale = torch.where(scanned | photo, between(0.95, 1.01), torch.where(faxed, between(0.97, 1.0), none + 1))
    shift = (
        torch.stack([between(-0.012, 0.012) * width, between(-0.012, 0.012) * height], 1) * (scanned | photo)[:, None]
    )
    bend = photo[:, None, None] * (torch.rand(n, 4, 2, generator=source) - 0.5) * 0.06 * torch.tensor([width, height])
    wear = Wear(
        kind=kind,
        forward=_homography(degrees, scale, shift, bend, height, width),
        blur=torch.where(scanned | faxed, between(0.3, 0.95), torch.where(photo, between(0.3, 1.1), none)),
        grey=(scanned & chance(0.75)) | faxed,
        paper=torch.where(scanned, between(0.82, 1.0), torch.where(photo, between(0.7, 1.0), none + 1)),
        ink=torch.where(scanned | photo, between(0, 0.35), none),
        noise=torch.where(
            scanned, between(0, 0.07), torch.where(faxed, between(0, 0.05), torch.where(photo, between(0, 0.05), none))
        ),
        specks=torch.where(scanned, between(0, 0.004), torch.where(faxed, between(0, 0.008), none)) * chance(0.7),
        threshold=faxed * between(0.58, 0.85),
        light=photo * between(0.1, 0.45) + scanned * chance(0.3) * between(0, 0.12),
        invert=dark,
        quality=torch.where(
            packed, between(15, 60), torch.where((scanned | photo) & chance(0.5), between(35, 85), none)
        ),
        seed=seed,
    )
    return wear._replace(**{name: value.to(device) for name, value in wear._asdict().items() if name != "seed"})


def apply_wear(pictures: torch.Tensor, wear: Wear) -> torch.Tensor:
    """(B, 3, H, W) uint8 → the same, worn. The noise comes from the wear's own seed."""
    source = torch.Generator(pictures.device).manual_seed(wear.seed)
    batch, _, height, width = pictures.shape

    def per(values: torch.Tensor) -> torch.Tensor:
        return values.float().view(-1, 1, 1, 1)

    def static(channels: int) -> torch.Tensor:
        return torch.randn(batch, channels, height, width, generator=source, device=pictures.device)

    value = _warped(pictures.float() / 255, wear.forward)
    value = torch.where(per(wear.grey) > 0, grey(value).expand_as(value), value)
    value = per(wear.ink) + value * (per(wear.paper) - per(wear.ink))
    value = blurred(value, wear.blur)
    value = value * _lamp(wear, height, width)
    value = value + per(wear.noise) * static(1)
    # Dust is noise blurred a little, cut high: spots of some pixels, black ones and white ones alike.
    dust = blurred(static(1), torch.full((batch,), 0.7, device=pictures.device)) * 1.9
    high = math.sqrt(2) * torch.erfinv(1 - 2 * per(wear.specks).clamp(1e-6, 0.4))
    spotted = per(wear.specks) > 0
    value = torch.where(spotted & (dust > high), 0.05, torch.where(spotted & (dust < -high), 1.0, value))
    cut = per(wear.threshold)
    value = torch.where(cut > 0, (value > cut).float(), value)
    value = torch.where(per(wear.invert) > 0, 1 - value, value)
    value = compressed(value.clamp(0, 1), wear.quality)
    return (value.clamp(0, 1) * 255 + 0.5).to(torch.uint8)


def move_boxes(boxes: torch.Tensor, wear: Wear, height: int, width: int) -> torch.Tensor:
    """(B, N, 4) x0 y0 x1 y1 in pixels → the upright boxes around them on the worn pictures, cut at the edges."""
    x0, y0, x1, y1 = boxes.float().unbind(-1)
    corners = torch.stack([torch.stack([x0, x1, x1, x0], -1), torch.stack([y0, y0, y1, y1], -1)], -1)
    points = torch.cat([corners, torch.ones_like(corners[..., :1])], -1)
    there = torch.einsum("bij,bnkj->bnki", wear.forward, points)
    there = there[..., :2] / there[..., 2:]
    low, high = there.amin(2), there.amax(2)
    limit = torch.tensor([width, height], device=boxes.device)
    return torch.cat([low.clamp(min=0).minimum(limit), high.clamp(min=0).minimum(limit)], -1)


def _homography(
    degrees: torch.Tensor, scale: torch.Tensor, shift: torch.Tensor, bend: torch.Tensor, height: int, width: int
) -> torch.Tensor:
    """(B, 3, 3) that takes the page's corners where turning, scaling, shifting and bending (B, 4, 2) put them."""
    corners = torch.tensor([[0.0, 0.0], [width, 0.0], [width, height], [0.0, height]])
    centre = torch.tensor([width / 2, height / 2])
    angle = degrees * math.pi / 180
    turn = torch.stack([torch.stack([angle.cos(), -angle.sin()], -1), torch.stack([angle.sin(), angle.cos()], -1)], 1)
    there = torch.einsum("bij,kj->bki", turn, corners - centre) * scale[:, None, None] + centre + shift[:, None] + bend
    here = corners.expand(len(degrees), 4, 2)
    one, zero = torch.ones(len(degrees), 4), torch.zeros(len(degrees), 4)
    x, y, u, v = here[..., 0], here[..., 1], there[..., 0], there[..., 1]
    upper = torch.stack([x, y, one, zero, zero, zero, -u * x, -u * y], -1)
    lower = torch.stack([zero, zero, zero, x, y, one, -v * x, -v * y], -1)
    solved = torch.linalg.solve(torch.cat([upper, lower], 1).double(), torch.cat([u, v], 1).double())
    return torch.cat([solved, torch.ones(len(degrees), 1)], 1).view(-1, 3, 3).float()


def _warped(pictures: torch.Tensor, forward: torch.Tensor) -> torch.Tensor:
    """Pictures seen through `forward`; past the edge the page's edge goes on."""
    height, width = pictures.shape[-2:]
    back = torch.linalg.inv(forward)
    xs = torch.arange(width, device=pictures.device) + 0.5
    ys = torch.arange(height, device=pictures.device) + 0.5
    points = torch.stack(
        [
            xs.expand(height, width),
            ys[:, None].expand(height, width),
            torch.ones(height, width, device=pictures.device),
        ],
        -1,
    )
    there = torch.einsum("bij,hwj->bhwi", back, points)
    size = torch.tensor([width, height], device=pictures.device)
    return F.grid_sample(
        pictures, there[..., :2] / there[..., 2:] / size * 2 - 1, padding_mode="border", align_corners=False
    )


def grey(pictures: torch.Tensor) -> torch.Tensor:
    return _mixed(pictures, COLOURS[:1])


def _mixed(planes: torch.Tensor, rows: Sequence[Sequence[float]]) -> torch.Tensor:
    """(B, 3, H, W) → (B, rows, H, W): sums of the three planes, each row's own."""
    first, second, third = planes.split(1, 1)
    return torch.cat([a * first + b * second + c * third for a, b, c in rows], 1)


def blurred(pictures: torch.Tensor, sigma: torch.Tensor) -> torch.Tensor:
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


def _lamp(wear: Wear, height: int, width: int) -> torch.Tensor:
    """(B, 1, H, W): light from one side, weaker towards the other; the side follows from the seed and the row."""
    device = wear.light.device
    angle = torch.arange(len(wear.light), device=device) * 2.4 + wear.seed % 628 / 100
    xs, ys = torch.linspace(-1, 1, width, device=device), torch.linspace(-1, 1, height, device=device)
    slope = angle.cos()[:, None, None] * xs[None, None] + angle.sin()[:, None, None] * ys[None, :, None]
    return (1 - wear.light[:, None, None] * (0.5 + 0.35 * slope))[:, None]


def compressed(
    pictures: torch.Tensor, quality: torch.Tensor, tables: tuple[torch.Tensor, torch.Tensor] | None = None
) -> torch.Tensor:
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
def cosines(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """(64, 64) waves of an 8 × 8 block, and (3, 64) steps of quality 50; sent to a device once."""
    at = torch.arange(8).float()
    one = torch.cos((2 * at[None] + 1) * at[:, None] * math.pi / 16) * 0.5
    one[0] /= math.sqrt(2)
    luma = torch.tensor(LUMA).float().view(64)
    steps = torch.stack([luma, luma.clamp(min=17) * 1.4, luma.clamp(min=17) * 1.4])
    return torch.kron(one, one).to(device), steps.to(device)
