"""HoloV: every part of the picture gets a quota, the most attended tokens fill it.

Zou et al., "Don't Just Chase Highlighted Tokens in MLLMs: Revisiting Visual Holistic Context Retention", NeurIPS 2025,
arXiv 2510.02912.
Rule: 16 crops, runs of tokens in raster order. A token's score is its attention and, brought to the same size, 0.09 of
the variance of its likeness to the crop's others; a crop's quota follows its mean score, and is filled by attention.
Differs: attention is received from all, for want of a class token; what a crop cannot hold goes to the next heaviest
ones (the released code pads with zeros). As in that code the variance is scaled to the crop's mean attention, so that
it all but leaves the quotas as attention alone would have them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .maths import cosines
from .model import PeerScene, PrunableMini, Told, Way

CROPS, VARIANCE = 16, 0.09


def crop_scores(features: Tensor, attention: Tensor) -> Tensor:
    """(B, crops, S, F) and (B, crops, S) → (B, crops)."""
    size = attention.shape[2]
    alike = cosines(features.flatten(0, 1)).unflatten(0, features.shape[:2]) * (
        1 - torch.eye(size, device=features.device)
    )
    mean = alike.sum(3, keepdim=True) / max(1, size - 1)
    spread = (alike - mean).square().sum(3) / max(1, size - 1)
    scale = attention.mean(2, keepdim=True) / (spread.mean(2, keepdim=True) + 1e-6)
    return (attention + VARIANCE * spread * scale).mean(2)


def quotas(scores: Tensor, tokens: int, size: int) -> Tensor:
    """(B, crops) → (B, crops) int64 that sum to `tokens`, none above `size`: in proportion, then one each from the
    heaviest down, to those with room."""
    weight = scores / scores.sum(1, keepdim=True)
    given = (weight * tokens).floor().long().clamp_max(size)
    while bool((left := tokens - given.sum(1, keepdim=True)).any()):
        room = given < size
        rank = weight.masked_fill(~room, -1).argsort(dim=1, descending=True, stable=True).argsort(dim=1)
        given = given + (room & (rank < left))
    return given


def holov(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    full, attention = mini.full(scene), mini.received(scene)
    crops = min(CROPS, scene.full)
    features, seen = (values.unflatten(1, (crops, -1)) for values in (full.embeds, attention))
    size = seen.shape[2]
    quota = quotas(crop_scores(features, seen), tokens, size)
    rank = seen.argsort(dim=2, descending=True, stable=True).argsort(dim=2)
    kept = (rank < quota[..., None]).flatten(1)
    return Told(full.take(kept.nonzero()[:, 1].view(len(scene), tokens)))


WAYS = (Way("HoloV", "peer", "after", False, holov, "arXiv 2510.02912"),)
