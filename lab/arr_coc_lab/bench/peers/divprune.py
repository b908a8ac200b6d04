"""DivPrune: the subset whose closest two tokens are as far apart as can be.

Alvar et al., "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models", CVPR 2025, arXiv 2503.02175.
Rule: greedy max–min diversity of the visual tokens by cosine distance; the first is the one whose nearest is farthest.
Differs: nothing but the model.
"""

from __future__ import annotations

from .maths import cosines, max_min
from .model import PeerScene, PrunableMini, Told, Way


def divprune(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    full = mini.full(scene)
    return Told(full.take(max_min(1 - cosines(full.embeds), tokens)))


WAYS = (Way("DivPrune", "peer", "after", False, divprune, "arXiv 2503.02175"),)
