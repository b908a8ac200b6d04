"""FastV: after K layers, only the tokens to which the prompt's last token attended most.

Chen et al., "An Image is Worth 1/2 Tokens After Layer 2", ECCV 2024, arXiv 2403.06764.
Rule: the attention of the last token in layer K, mean over heads, ranks the visual tokens; the best stay.
Differs: K = 2 as published, but of 5 layers and not of 32, so a larger share of the language model still reads
everything; K = 3 is there because in `mini` the third layer is the first that looks at what was asked about. The row of
attention is computed beside the layer, where the original takes it from an eager layer.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

from torch import Tensor

from .maths import best
from .model import Flow, Inside, PeerScene, PrunableMini, Told, Way

PAPER = "arXiv 2403.06764"


@dataclass
class FastV(Inside):
    tokens: int
    layer: int

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        if index == self.layer - 1:
            flow.keep(best(flow.attention(query, key, *flow.scene.last_row()), self.tokens))


def fastv(mini: PrunableMini, scene: PeerScene, tokens: int, layer: int) -> Told:
    return Told(mini.full(scene), FastV(tokens, layer))


WAYS = tuple(Way(f"FastV, K = {layer}", "peer", "inside", True, partial(fastv, layer=layer), PAPER) for layer in (2, 3))
