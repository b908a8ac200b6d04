"""Ours, before the encoder: a map of where to look, an allocator, and a tower that reads only what was allocated.

The map is the learned scorer's.
"""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from arr_coc.attending.overlay import overlay
from arr_coc.attending.quadtree import Criterion, quadtree
from arr_coc.attending.tree import build_tree

from .model import LEVELS, Make, PeerScene, PrunableMini, Told, Way

LayOut = Callable[[PrunableMini, PeerScene, Tensor, int], Told]


def overlaid(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int) -> Told:
    """(B, rows, cols) relevance → leaves on one another, and what the tower makes of them."""
    return Told(mini.tower(scene, overlay(relevance, [tokens] * len(scene), levels=LEVELS).cells))


def tiled(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int, criterion: Criterion = "mass") -> Told:
    tree = build_tree(*scene.grid, LEVELS)
    return Told(mini.tower(scene, quadtree(relevance, tree, max(tree.floor, tokens), criterion).cells))


def by_map(lay_out: LayOut, relevance: Callable[[PrunableMini, PeerScene], Tensor]) -> Make:
    """A way that lays tokens out by a map."""
    return lambda mini, scene, tokens: lay_out(mini, scene, relevance(mini, scene), tokens)


WAYS = (
    Way("scorer + overlay", "ours", "before", True, by_map(overlaid, PrunableMini.relevance), more=True),
    Way("scorer + quadtree", "ours", "before", True, by_map(tiled, PrunableMini.relevance), more=True),
)
