"""What the same number of tokens buys without a question, in the wrong places, or with the answer's place known."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.allocation.controls import permute_along_tree
from arr_coc.allocation.tree import build_tree

from ...train.allocations import target_cells
from .maths import best
from .model import LEVELS, PeerScene, PrunableMini, Told, Way
from .ours import overlaid, tiled

# So that each control draws its own chance from a scene.
OVERLAY, DROP, SHUFFLE = range(3)


def uniform(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    """A constant map: plain down-sampling."""
    return tiled(mini, scene, torch.ones(len(scene), *scene.grid, device=scene.device), tokens)


def noise(scene: PeerScene, purpose: int) -> Tensor:
    """(B, rows, cols) in [0, 1)."""
    return torch.rand(len(scene), *scene.grid, generator=scene.generator(purpose)).to(scene.device)


def random_overlay(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    """Noise with peaks, so that fine cells lie anywhere; plain noise is all but flat, which is down-sampling again."""
    return overlaid(mini, scene, noise(scene, OVERLAY).pow(8), tokens)


def shuffled_overlay(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    """The scorer's map with its places permuted along the tree: the same masses elsewhere."""
    tree = build_tree(*scene.grid, LEVELS)
    return overlaid(mini, scene, permute_along_tree(mini.relevance(scene), tree, scene.generator(SHUFFLE)), tokens)


def dropped(mini: PrunableMini, scene: PeerScene, tokens: int, relevance: Tensor) -> Told:
    """Everything is encoded, the best tokens by a map stay: what peers do, by another map."""
    return Told(mini.full(scene).take(best(relevance.flatten(1), tokens)))


def random_dropped(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return dropped(mini, scene, tokens, noise(scene, DROP))


def scorer_dropped(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return dropped(mini, scene, tokens, mini.relevance(scene))


def truth(scene: PeerScene, near: float = 0.1) -> Tensor:
    """(B, rows, cols): cells that the question needs; around them a little less."""
    cells = target_cells(scene.batch, *scene.grid)
    return cells + near * F.avg_pool2d(cells[:, None], 5, stride=1, padding=2)[:, 0]


def oracle_overlay(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return overlaid(mini, scene, truth(scene), tokens)


def oracle_quadtree(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return tiled(mini, scene, truth(scene, near=0), tokens, "peak")


def oracle_dropped(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return dropped(mini, scene, tokens, truth(scene))


WAYS = (
    Way("uniform down-sampling", "control", "before", False, uniform),
    Way("random + overlay", "control", "before", False, random_overlay),
    Way("shuffled scorer + overlay", "control", "before", False, shuffled_overlay),
    Way("random, dropped after the tower", "control", "after", False, random_dropped),
    Way("scorer, dropped after the tower", "control", "after", True, scorer_dropped),
    Way("oracle + overlay", "oracle", "before", True, oracle_overlay),
    Way("oracle + quadtree", "oracle", "before", True, oracle_quadtree),
    Way("oracle, dropped after the tower", "oracle", "after", True, oracle_dropped),
)
