"""Average pooling behind the tower: neighbours become one token, the same number of them everywhere.

Many models do it, trained with it (Gemma 3 pools 4×4 with its projector); here it is done to one that was not.
"""

from __future__ import annotations

import torch

from .model import PeerScene, PrunableMini, Told, Way


def average_pooling(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    """Blocks of a power of two, as square as the number allows, wider than high where it does not."""
    rows, cols = scene.grid
    area = scene.full // tokens
    high = 1 << (area.bit_length() - 1) // 2
    wide = area // high
    cell = torch.arange(rows * cols, device=scene.device)
    slot = (cell // cols // high) * (cols // wide) + cell % cols // wide
    return Told(mini.full(scene).pool(slot.expand(len(scene), -1), tokens))


WAYS = (Way("average pooling", "peer", "after", False, average_pooling),)
