"""What the same number of tokens buys without a question, in the wrong places, or with the answer's place known."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.controls import permute_along_tree
from arr_coc.attending.tree import build_tree

from ...train.allocations import target_cells
from .maths import best
from .model import LEVELS, PeerScene, PrunableMini, Told, Way
from .ours import by_map, overlaid, tiled

# So that each control draws its own chance from a scene.
OVERLAY, DROP, SHUFFLE = range(3)


def even(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """A constant map: plain down-sampling."""
    return torch.ones(len(scene), *scene.grid, device=scene.device)


def noise(mini: PrunableMini, scene: PeerScene, purpose: int = DROP) -> Tensor:
    """(B, rows, cols) in [0, 1)."""
    return torch.rand(len(scene), *scene.grid, generator=scene.generator(purpose)).to(scene.device)


def peaks(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Noise with peaks, so that fine cells lie anywhere; plain noise is all but flat, which is down-sampling again."""
    return noise(mini, scene, OVERLAY).pow(8)


def shuffled(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """The scorer's map with its places permuted along the tree: the same masses elsewhere."""
    return permute_along_tree(mini.relevance(scene), build_tree(*scene.grid, LEVELS), scene.generator(SHUFFLE))


def needed(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """(B, rows, cols) in {0, 1}: cells that the question needs."""
    return target_cells(scene.batch, *scene.grid)


def truth(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """The same; around them a little less."""
    cells = needed(mini, scene)
    return cells + 0.1 * F.avg_pool2d(cells[:, None], 5, stride=1, padding=2)[:, 0]


def dropped(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int) -> Told:
    """Everything is encoded, the best tokens by a map stay: what peers do, by another map."""
    return Told(mini.full(scene).take(best(relevance.flatten(1), tokens)))


WAYS = (
    Way("uniform down-sampling", "control", "before", False, by_map(tiled, even)),
    Way("random + overlay", "control", "before", False, by_map(overlaid, peaks)),
    Way("shuffled scorer + overlay", "control", "before", False, by_map(overlaid, shuffled)),
    Way("random, dropped after the tower", "control", "after", False, by_map(dropped, noise)),
    Way("scorer, dropped after the tower", "control", "after", True, by_map(dropped, PrunableMini.relevance)),
    Way("oracle + overlay", "oracle", "before", True, by_map(overlaid, truth)),
    Way("oracle + quadtree", "oracle", "before", True, by_map(partial(tiled, criterion="peak"), needed)),
    Way("oracle, dropped after the tower", "oracle", "after", True, by_map(dropped, truth)),
)
