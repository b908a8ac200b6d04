"""What is printed besides text and rules: logos, pictures, bar codes, stamps and fine patterns behind the words."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ..needle.draws import FloatDraws, mix

KINDS = ("logo", "ring", "picture", "bars", "stamp")
LOGO, RING, PICTURE, BARS, STAMP = range(5)
NUMBER = 4  # in a picture at most: the first may be a picture, the last is a stamp
STAMPS = (NUMBER - 1,)


@dataclass(frozen=True)
class Ornaments:
    """NUMBER ornaments of B pictures. kind, strength: (B, K); boxes: (B, K, 4) pixels; colours: (B, K, 2, 3) in 0–1;
    key: (B, K) int64 random bits. pattern: (B, 4): strength and shape of the lines behind everything."""

    kind: Tensor
    strength: Tensor
    boxes: Tensor
    colours: Tensor
    key: Tensor
    pattern: Tensor


def draw_ornaments(draws: FloatDraws, size: tuple[int, int], areas: Tensor, there: Tensor) -> Ornaments:
    """Only a stamp may lie on text. areas: (B, R, 4) pixels of the text that is there (B, R)."""
    place = torch.arange(NUMBER, device=draws.device)
    kind = draws.integers("ornament/kind", 0, STAMP, NUMBER)
    kind = torch.where((kind == PICTURE) & (place > 0), LOGO, torch.where(place == NUMBER - 1, STAMP, kind))
    wide = torch.exp(draws.uniform("ornament/wide", -3.0, -1.0, NUMBER)) * size[1]
    high = wide * draws.uniform("ornament/shape", 0.5, 1.2, NUMBER) * torch.where(kind == BARS, 0.4, 1.0)
    x = draws.uniform("ornament/x", -0.02, 0.98, NUMBER) * size[1]
    y = draws.uniform("ornament/y", -0.02, 0.98, NUMBER) * size[0]
    boxes = torch.stack([x, y, x + wide, y + high], -1)
    a, b = boxes[:, :, None], torch.where(there[..., None], areas, -9).float()[:, None]
    meets = (a[..., 0] - 2 < b[..., 2]) & (b[..., 0] < a[..., 2] + 2)
    meets &= (a[..., 1] - 2 < b[..., 3]) & (b[..., 1] < a[..., 3] + 2)
    free = ~meets.any(-1)
    stamped = draws.chance("ornament/stamped", 7, NUMBER)
    shown = torch.where(kind == STAMP, stamped, free & draws.chance("ornament/shown", 30, NUMBER))
    strength = shown * torch.where(kind == STAMP, draws.uniform("ornament/ink", 0.2, 0.5, NUMBER), 1.0)
    colours = draws.uniform("ornament/colour", 0.05, 0.9, 6 * NUMBER).view(-1, NUMBER, 2, 3)
    lines = torch.cat(
        [
            draws.uniform("pattern/strength", 0.02, 0.13) * draws.chance("pattern/shown", 8),
            draws.uniform("pattern/down", 0.2, 1.6),
            draws.uniform("pattern/wave", 2.0, 25.0),
            draws.uniform("pattern/length", 0.02, 0.09),
        ],
        1,
    )
    return Ornaments(kind, strength, boxes, colours, draws.bits("ornament/key", NUMBER), lines)


def paint_ornaments(canvas: Tensor, ornaments: Ornaments, clouds: Tensor, over: bool) -> Tensor:
    """(B, 3, H, W) float32 in 0–1 with them laid over it: over the text stamps, under it everything else. clouds:
    (B, 1, H, W) slow noise, for pictures."""
    height, width = canvas.shape[2:]
    device = canvas.device
    x = torch.arange(width, device=device, dtype=torch.float32).view(1, 1, 1, -1) + 0.5
    y = torch.arange(height, device=device, dtype=torch.float32).view(1, 1, -1, 1) + 0.5
    if not over:
        strength, down, wave, length = (ornaments.pattern[:, i].view(-1, 1, 1, 1) for i in range(4))
        lines = 0.5 + 0.5 * torch.sin(y * down + wave * torch.sin(x * length))
        canvas = canvas * (1 - strength * lines)
    for number in STAMPS if over else range(NUMBER - 1):
        kind, strength = (values[:, number].view(-1, 1, 1, 1) for values in (ornaments.kind, ornaments.strength))
        x0, y0, x1, y1 = (ornaments.boxes[:, number, i].view(-1, 1, 1, 1) for i in range(4))
        reach = (x1 - x0) / 2
        far = (((x - x0) / reach - 1) ** 2 + ((y - y0) * 2 / (y1 - y0) - 1) ** 2).sqrt()
        # A disc is all that is less than 1 from the middle, a ring what is near 0.88.
        ring = (kind == RING) | (kind == STAMP)
        middle, half = torch.where(ring, 0.88, 0.0), torch.where(ring, 0.09, 1.0)
        mask = ((half - (far - middle).abs()) * reach).clamp(0, 1)
        # Bars of a sixtieth of the width, black by chance.
        bar = mix(ornaments.key[:, number].view(-1, 1, 1, 1) + ((x - x0) / (x1 - x0) * 60).floor().long())
        across = (x >= x0) & (x < x1) & ((kind != BARS) | ((bar & 3) < 2))
        within = (across.float() * strength) * ((y >= y0) & (y < y1))
        mask = torch.where((kind == PICTURE) | (kind == BARS), within, mask * strength)
        colour, other = (ornaments.colours[:, number, i].view(-1, 3, 1, 1) for i in range(2))
        if number == 0:  # the only one that may be a picture
            shades = (0.5 + 0.5 * clouds + 0.3 * (y - y0) / (y1 - y0)).clamp(0, 1) * (kind == PICTURE)
            colour = torch.lerp(colour, other, shades)
        colour = torch.where(kind == BARS, 0.05, colour)
        canvas = torch.lerp(canvas, colour, mask)
    return canvas
