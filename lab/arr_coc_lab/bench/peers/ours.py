"""Ours, before the encoder: a map of where to look, an allocator, and a tower that reads only what was allocated.

The learned scorer's map, and the glance's: the model itself is asked on a coarse view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from arr_coc.attending.gains import Criterion
from arr_coc.attending.overlay import overlay
from arr_coc.attending.quadtree import quadtree
from arr_coc.attending.tree import build_tree
from arr_coc.realizing.glance import find_glance

from .model import LEVELS, Flow, Make, PeerScene, PrunableMini, Told, Way

# As `backbones.glance` does it where no heads were measured: at least so many tokens, layers from this share on.
GLANCE_TOKENS, GLANCE_FROM = 64, 1 / 4
Heads = Sequence[tuple[int, int]]
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


def glance_map(mini: PrunableMini, scene: PeerScene, heads: Heads | None = None) -> Tensor:
    """(B, rows, cols): `backbones.glance` for a batch. Where the prompt's last token looks on a coarse view: in the
    later layers, where every head counts alike whatever share of its attention the picture gets, or in those heads
    alone."""

    def make() -> Tensor:
        level = max(level for level in range(LEVELS + 1) if scene.full >> 2 * level >= min(GLANCE_TOKENS, scene.full))
        visual = mini.tower(scene, scene.level(level))
        found: list[Tensor] = []

        def watch(index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
            own = [] if heads is None else [head for layer, head in heads if layer == index]
            if own or (heads is None and index >= int(mini.depth * GLANCE_FROM)):
                seen = flow.attention_by_head(query, key, scene.last[:, None])[:, :, 0]
                if own:
                    found.extend(seen[:, own].unbind(1))
                else:
                    found.append((seen / seen.sum(-1, keepdim=True).clamp_min(1e-9)).mean(1))

        mini.language(scene, Told(visual), watch)
        looked = torch.stack(found).mean(0)
        looked = (looked / looked.amax(1, keepdim=True)).view(-1, *(side >> level for side in scene.grid))
        return looked.repeat_interleave(1 << level, 1).repeat_interleave(1 << level, 2)

    return scene.once("glance" if heads is None else "calibrated glance", make)


def calibrated_map(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """By the heads that `arr-coc calibrate` found to point, on pictures of the training split."""
    return glance_map(mini, scene, find_glance(mini.model).heads)


WAYS = (
    Way("scorer + overlay", "ours", "before", True, by_map(overlaid, PrunableMini.relevance), more=True),
    Way("scorer + quadtree", "ours", "before", True, by_map(tiled, PrunableMini.relevance), more=True),
    Way("glance + overlay", "ours", "before", True, by_map(overlaid, glance_map), more=True),
    Way("calibrated glance + overlay", "ours", "before", True, by_map(overlaid, calibrated_map)),
)
