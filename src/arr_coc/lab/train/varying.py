"""Small changes of a picture that leave its text legible: bolder, lighter or softer strokes, more or less light.

There are few typefaces to train on and others to be read later; strokes of any weight and sharpness stand in for them.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

# Shares of the pictures that become lighter, bolder or softer; the rest keep their strokes.
LIGHTER, BOLDER, SOFTER = 0.2, 0.2, 0.2
STRONGEST = 0.6


@torch.no_grad()
def vary(pictures: Tensor, generator: torch.Generator, dtype: torch.dtype = torch.float32) -> Tensor:
    """(B, 3, H, W) uint8 → the same pictures, each changed in its own way, uint8."""
    number, device = len(pictures), pictures.device
    which, how_much, light, contrast = torch.rand(4, number, 1, 1, 1, generator=generator, device=device).to(dtype)
    pixels = pictures.to(dtype)
    strength = STRONGEST * how_much
    padded = F.pad(pixels, (0, 1, 0, 1), mode="replicate")
    brightest = F.max_pool2d(padded, 2, stride=1)
    darkest = -F.max_pool2d(-padded, 2, stride=1)
    average = F.avg_pool2d(F.pad(pixels, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    first, second = LIGHTER, LIGHTER + BOLDER
    target = torch.where(which < first, brightest, torch.where(which < second, darkest, average))
    changed = torch.lerp(pixels, target, strength * (which < second + SOFTER))
    # Up to a tenth more or less light, and up to a fifth less contrast, about the middle grey.
    changed = (changed - 128) * (1 - 0.2 * contrast) + 128 + 25 * (light - 0.5)
    return changed.round_().clamp_(0, 255).to(torch.uint8)
