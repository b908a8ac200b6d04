"""PruMerge+: attended tokens and an even sample, each taking a little of what goes.

Shang et al., "LLaVA-PruMerge: Adaptive Token Reduction for Efficient Large Multimodal Models", ICCV 2025, arXiv
2403.15388.
Rule: a quarter of the tokens are the most attended, three quarters an even sample of the others; each adds its 32
nearest by key among those that go, each times its attention.
Differs: the asked number is met exactly (the original takes outliers of the attention, so many as there are, and three
times as many samples); attention is received from all, for want of a class token; neighbours are sought only among what
goes (the released code also looks among what stays); no extra token for the sum of what went.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .maths import best, cosines, gather, others
from .model import PeerScene, PrunableMini, Told, Way

IMPORTANT, NEIGHBOURS = 1 / 4, 32


def prumerge(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    full, metric, attention = mini.full(scene), mini.recorded(scene).metric, mini.received(scene)
    important = best(attention, round(tokens * IMPORTANT))
    rest = others(important, scene.full)
    even = torch.linspace(0, rest.shape[1] - 1, tokens - important.shape[1], device=scene.device).round().long()
    kept = torch.cat([important, rest[:, even]], 1).sort(1).values
    gone = others(kept, scene.full)
    if not gone.shape[1]:
        return Told(full)
    nearest = cosines(gather(metric, kept), gather(metric, gone)).topk(min(NEIGHBOURS, gone.shape[1]), dim=2).indices
    # (B, kept, gone): each neighbour's attention
    share = torch.zeros(len(scene), tokens, gone.shape[1], device=scene.device).scatter(2, nearest, 1.0)
    share = share * attention.gather(1, gone)[:, None]

    def absorb(values: Tensor) -> Tensor:
        return gather(values, kept) + (share @ gather(values, gone).float()).to(values.dtype)

    return Told(full.map(absorb).at(gather(full.places, kept)))


WAYS = (Way("PruMerge+", "peer", "after", False, prumerge, "arXiv 2403.15388"),)
