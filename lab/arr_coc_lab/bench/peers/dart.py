"""DART: a few pivots, and the tokens that are least like them.

Wen et al., "Stop Looking for Important Tokens in Multimodal Language Models: Duplication Matters More", EMNLP 2025,
arXiv 2502.11494.
Rule: behind layer 2 the four visual and four text tokens with the largest keys (L1) are pivots; each in turn takes the
tokens that its state resembles least (cosine of the normed states), of those that nobody took yet.
Differs: layer 2 of 5, not of 32; the asked number is met exactly, the visual pivots among it; text pivots come from the
prompt only, because here the right answer already stands behind it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ...train.swift import rms_norm
from .maths import best, cosines, gather
from .model import Flow, Inside, PeerScene, PrunableMini, Told, Way

LAYER, PIVOTS = 2, 4


@dataclass
class Dart(Inside):
    tokens: int

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        if index == LAYER - 1:
            states = rms_norm(flow.hidden, flow.language.norm)
            size = key.float().abs().sum((1, 3))  # (B, L)
            text = size[:, flow.tail :].masked_fill(~flow.scene.prompt, -1)
            pivots = gather(states[:, flow.tail :], best(text, min(PIVOTS, text.shape[1])))
            flow.keep(least_alike(states[:, flow.seen], size[:, flow.seen], pivots, self.tokens))


def least_alike(states: Tensor, size: Tensor, text: Tensor, tokens: int) -> Tensor:
    """(B, N, D) states, (B, N) sizes of their keys, (B, P, D) text pivots → (B, tokens)."""
    own = best(size, min(PIVOTS, -(-tokens // 2)))
    pivots = torch.cat([gather(states, own), text], 1)
    alike = cosines(states, pivots)
    taken = torch.zeros_like(size, dtype=torch.bool).scatter(1, own, True)
    left, number = tokens - own.shape[1], pivots.shape[1]
    chosen = [own]
    for turn in range(number):
        share = left // number + (turn < left % number)
        chosen.append(best((-alike[..., turn]).masked_fill(taken, -9), share))
        taken = taken.scatter(1, chosen[-1], True)
    return torch.cat(chosen, 1)


def dart(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return Told(mini.full(scene), Dart(tokens))


WAYS = (Way("DART", "peer", "inside", True, dart, "arXiv 2502.11494"),)
