"""Participatory knowing: what this question couples to, by the cosine of semantic channels with the query.

The query comes as one vector per token. Each token gets its own map, and tokens whose map has a shape (they point
somewhere) count for more than tokens whose map is flat ("where", "the"), so they do not average into mush.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from arr_coc.core.errors import InputError
from arr_coc.sensing import backend_torch as ops
from arr_coc.sensing.pyramid import unit
from arr_coc.sensing.texture import Texture

# Semantic channels are enlarged from a few dozen cells; nothing is lost by comparing at this size.
VIEW = 128
FLAT = 1e-4


@dataclass(frozen=True)
class CosineCalibration:
    """cosine → probability that the place is what was asked for: sigmoid(scale · cosine + shift)."""

    scale: float
    shift: float

    def __call__(self, cosine: torch.Tensor) -> torch.Tensor:
        return torch.sigmoid(self.scale * cosine + self.shift)


def fit_calibration(cosines: torch.Tensor, relevant: torch.Tensor, steps: int = 50) -> CosineCalibration:
    """Logistic regression of relevance (0 or 1) on the cosine, by Newton's method with a little shrinkage."""
    if cosines.shape != relevant.shape or cosines.ndim != 1 or not len(cosines):
        raise InputError(f"calibration needs two equal lists of numbers, got {cosines.shape} and {relevant.shape}")
    inputs = torch.stack([cosines.double(), torch.ones_like(cosines, dtype=torch.float64)], 1)
    target = relevant.double()
    weights = torch.zeros(2, dtype=torch.float64)
    ridge = torch.diag(torch.tensor([1e-4, 1e-6], dtype=torch.float64))
    for _ in range(steps):
        probability = torch.sigmoid(inputs @ weights)
        slope = inputs.T @ (probability - target) / len(target) + ridge @ weights
        spread = probability * (1 - probability)
        curvature = (inputs * spread[:, None]).T @ inputs / len(target) + ridge
        step = torch.linalg.solve(curvature, slope)
        # Newton overshoots where the classes separate cleanly; half steps keep it on the road.
        weights = weights - step * min(1.0, 20.0 / float(step.norm().clamp_min(1e-9)))
    return CosineCalibration(float(weights[0]), float(weights[1]))


def participatory(
    texture: Texture,
    query: torch.Tensor,
    mask: torch.Tensor | None = None,
    calibration: CosineCalibration | None = None,
    sharpness: float = 4.0,
) -> torch.Tensor:
    """(H, W) or (B, H, W) in [0, 1]; zero where the texture has no semantic channels.

    query: (16,), (T, 16) or (B, T, 16): the query's tokens, through the projection the texture's channels came by.
    mask: (T,) or (B, T), true for tokens that count. calibration: without one, each token's map is standardised over
    the picture. sharpness: 0 averages the tokens, large takes only the one that points most clearly.
    """
    semantic = texture.semantic if texture.batched else texture.semantic[None]
    tokens = query.to(semantic)
    tokens = (
        tokens.reshape(1, *tokens.shape)
        if tokens.ndim == 2
        else tokens.reshape(1, 1, -1)
        if tokens.ndim == 1
        else tokens
    )
    if tokens.ndim != 3 or tokens.shape[-1] != semantic.shape[1] or len(tokens) not in (1, len(semantic)):
        raise InputError(
            f"query must be (T, {semantic.shape[1]}) or (B, T, {semantic.shape[1]}), got {tuple(query.shape)}"
        )
    size = (semantic.shape[-2], semantic.shape[-1])
    view = (min(size[0], VIEW), min(size[1], VIEW))
    small = unit(ops.shrink(semantic, view), 1)
    cosine = torch.einsum("btc,bchw->bthw", unit(tokens, -1).expand(len(small), -1, -1), small)
    spread = cosine.std((-2, -1), correction=0, keepdim=True)
    if calibration is None:
        middle = cosine.mean((-2, -1), keepdim=True)
        scores = torch.sigmoid(2 * (cosine - middle) / (spread + FLAT) - 1)
    else:
        scores = calibration(cosine)
    strongest = spread.amax(1, keepdim=True).clamp_min(FLAT)
    votes = sharpness * spread / strongest
    if mask is not None:
        counted = mask.to(votes.device).bool().reshape(-1, tokens.shape[1], 1, 1)
        votes = votes.masked_fill(~counted, float("-inf"))
        if not bool(counted.any(1).all()):
            raise InputError("every query needs at least one token that counts, got a mask that is all false")
    combined = (scores * votes.softmax(1)).sum(1)
    # No semantic channels means no coupling, not a coupling of one half.
    sensed = (small.square().sum(1) > 0).to(combined)
    result = ops.enlarge(combined * sensed, size).clamp(0, 1)
    return result if texture.batched else result[0]
