"""PyramidDrop: the picture shrinks at three doors on the way up.

Xing et al., "PyramidDrop: Accelerating Your Large Vision-Language Models via Pyramid Visual Redundancy Reduction", CVPR
2025, arXiv 2410.17247.
Rule: at a quarter, half and three quarters of the depth the last token's attention in the *coming* layer ranks the
visual tokens, and an equal share of them goes.
Differs: the share is set so that exactly the asked number is left after the third door (the original halves, whatever
comes of it); with 5 layers the doors stand before layers 1, 2 and 3, counted from 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from .maths import best, stages
from .model import Flow, Inside, PeerScene, PrunableMini, Told, Way

DOORS = (1 / 4, 1 / 2, 3 / 4)


@dataclass
class PyramidDrop(Inside):
    counts: dict[int, int]

    def before(self, index: int, flow: Flow) -> None:
        if index in self.counts:
            query, key, _ = flow.project(flow.language.layers[index])
            flow.keep(best(flow.attention(query, key, *flow.scene.last_row()), self.counts[index]))


def pyramid_drop(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    doors = [int(mini.depth * share) for share in DOORS]
    return Told(mini.full(scene), PyramidDrop(dict(zip(doors, stages(scene.full, tokens), strict=True))))


WAYS = (Way("PyramidDrop", "peer", "inside", True, pyramid_drop, "arXiv 2410.17247"),)
