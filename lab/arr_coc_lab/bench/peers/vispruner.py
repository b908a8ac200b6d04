"""VisPruner: half by the tower's attention, half what is least double of the rest.

Zhang et al., "Beyond Text-Visual Attention: Exploiting Visual Cues for Effective Token Pruning in VLMs", ICCV 2025,
arXiv 2412.01818.
Rule: half of the tokens are the most attended. The others, most attended first, are laid out in two rows; the eight
of the first row that have the nearest partner in the second go, again and again, until the other half is left.
Differs: attention is received from all, for want of a class token; likeness is that of the visual tokens as the
language model gets them.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .maths import best, cosines, gather
from .model import PeerScene, PrunableMini, Told, Way

AT_ONCE = 8


def without_doubles(features: Tensor, order: Tensor, wanted: int) -> Tensor:
    """(B, N, F), the candidates' order (B, R) → (B, wanted) of them."""
    while order.shape[1] > wanted:
        first, second = order[:, ::2], order[:, 1::2]
        number = min(AT_ONCE, order.shape[1] - wanted, first.shape[1])
        double = cosines(gather(features, first), gather(features, second)).amax(2)
        left = double.argsort(dim=1, descending=True, stable=True)[:, number:]
        order = torch.cat([first.gather(1, left), second], 1)
    return order


def vispruner(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    full, half = mini.full(scene), tokens // 2
    order = best(mini.received(scene), scene.full)
    diverse = without_doubles(full.embeds, order[:, half:], tokens - half)
    return Told(full.take(torch.cat([order[:, :half], diverse], 1)))


WAYS = (Way("VisPruner", "peer", "after", False, vispruner, "arXiv 2412.01818"),)
