"""Every way of the comparison: ours, seven published ones with paper, rule and differences, controls, oracles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from arr_coc.attending.overlay import overlay
from arr_coc.attending.tree import build_tree, quadtree
from arr_coc.core.errors import InputError

from ...classic.controls import permute_along_tree
from ...train.allocations import target_cells
from .maths import best, cosines, density_clusters, gather, max_min, others, pool, stages
from .model import LEVELS, Flow, Inside, Make, PeerScene, PrunableMini, PrunedInput, Visual, Way, rows_of

# ---- ours: a map of where to look, an allocator, and a tower that reads only what was allocated ----------------------

LayOut = Callable[[PrunableMini, PeerScene, Tensor, int], PrunedInput]


def overlaid(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int) -> PrunedInput:
    """Allocate overlapping leaves by relevance (B, rows, cols), and run the tower on them."""
    return PrunedInput(mini.tower(scene, overlay(relevance, [tokens] * len(scene), levels=LEVELS).cells))


def tiled(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int) -> PrunedInput:
    tree = build_tree(*scene.grid, LEVELS)
    return PrunedInput(mini.tower(scene, quadtree(relevance, tree, max(tree.floor, tokens)).cells))


def by_map(lay_out: LayOut, relevance: Callable[[PrunableMini, PeerScene], Tensor]) -> Make:
    """Return a way that allocates tokens by a map."""
    return lambda mini, scene, tokens: lay_out(mini, scene, relevance(mini, scene), tokens)


# ---- FastV -----------------------------------------------------------------------------------------------------------


@dataclass
class FastV(Inside):
    tokens: int
    layer: int

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        if index == self.layer - 1:
            flow.keep(best(flow.attention(query, key, *flow.scene.last_row()), self.tokens))


def fastv(mini: PrunableMini, scene: PeerScene, tokens: int, layer: int) -> PrunedInput:
    """FastV: after K layers, only the tokens to which the prompt's last token attended most.

    Chen et al., "An Image is Worth 1/2 Tokens After Layer 2", ECCV 2024, arXiv 2403.06764.
    Rule: the attention of the last token in layer K, mean over heads, ranks the visual tokens; the best stay.
    Differs: K = 2 as published, but of 5 layers and not of 32, so a larger share of the language model still reads
    everything; K = 3 is added because in `mini` the third layer is the first that looks at what was asked about. The
    row of attention is computed beside the layer; the original takes it from an eager layer.
    """
    return PrunedInput(mini.full(scene), FastV(tokens, layer))


# ---- PyramidDrop -----------------------------------------------------------------------------------------------------

DROPS = (1 / 4, 1 / 2, 3 / 4)


@dataclass
class PyramidDrop(Inside):
    counts: dict[int, int]

    def before(self, index: int, flow: Flow) -> None:
        if index in self.counts:
            query, key, _ = flow.project(flow.language.layers[index])
            flow.keep(best(flow.attention(query, key, *flow.scene.last_row()), self.counts[index]))


def pyramid_drop(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """PyramidDrop: the picture shrinks before three layers.

    Xing et al., "PyramidDrop: Accelerating Your Large Vision-Language Models via Pyramid Visual Redundancy
    Reduction", CVPR 2025, arXiv 2410.17247.
    Rule: at a quarter, half and three quarters of the depth the last token's attention in the *coming* layer ranks
    the visual tokens, and an equal share of them goes.
    Differs: the share is set so that exactly the asked number is left after the third drop (the original always
    halves); with 5 layers tokens are dropped before layers 1, 2 and 3, counted from 0.
    """
    drops = [int(mini.depth * share) for share in DROPS]
    return PrunedInput(mini.full(scene), PyramidDrop(dict(zip(drops, stages(scene.full, tokens), strict=True))))


# ---- SparseVLM -------------------------------------------------------------------------------------------------------

RECYCLED, A_CLUSTER = 0.3, 10


@dataclass
class SparseVLM(Inside):
    """SparseVLM's drops. counts: tokens left after each layer. raters: (B, T) bool over the tail."""

    counts: dict[int, int]
    raters: Tensor

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        if self.counts.get(index, flow.count) < flow.count:
            flow.exchange(
                sparsified(flow.visual(), flow.attention(query, key, *rows_of(self.raters)), self.counts[index])
            )


def sparsified(visual: Visual, ratings: Tensor, tokens: int) -> Visual:
    """Keep the best tokens by their ratings (B, N), and clusters of the best of the others: `tokens` in all."""
    clusters = min(cluster_count(len(visual), tokens), tokens - 1)
    kept = best(ratings, tokens - clusters).sort(1).values
    rest = others(kept, len(visual))
    again = rest.gather(1, best(ratings.gather(1, rest), recycled_count(rest.shape[1])))
    slot = density_clusters(gather(visual.embeds, again), clusters)
    merged = visual.map(partial(gather, index=again)).map(partial(pool, slot=slot, count=clusters))
    left = visual.take(kept)
    planes = [torch.cat(two, 1) for two in zip(left.planes, merged.planes, strict=True)]
    return Visual(torch.cat([left.embeds, merged.embeds], 1), planes, torch.cat([left.places, merged.places], 1))


def recycled_count(dropped: int) -> int:
    return int(RECYCLED * dropped) + 1


def cluster_count(count: int, tokens: int) -> int:
    """Return how many of `tokens` are clusters; iterates, because drops and clusters depend on each other."""
    clusters = 1
    for _ in range(4):
        clusters = recycled_count(count - tokens + clusters) // A_CLUSTER + 1
    return clusters


def raters_of(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Return a mask (B, T) of the prompt's tokens that resemble the picture more than the average one."""
    text = F.embedding(scene.tails, mini.core.language_model.embed_tokens.weight).float()
    alike = (mini.full(scene).embeds.float() @ text.transpose(1, 2)).masked_fill(~scene.prompt[:, None], float("-inf"))
    raters = scene.prompt & (alike.softmax(2).mean(1) > 1 / scene.prompt.sum(1, keepdim=True))
    return torch.where(raters.any(1, keepdim=True), raters, scene.prompt)


def sparse_vlm(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """SparseVLM: text tokens that resemble the picture rate it; the best of what goes comes back as clusters.

    Zhang et al., "SparseVLM: Visual Token Sparsification for Efficient Vision-Language Model Inference", ICML 2025,
    arXiv 2410.04417.
    Rule: raters are the prompt's tokens whose mean similarity to the visual tokens, softmax over the text, is above
    average. After three early layers their attention ranks the visual tokens; of what goes, the best 30 % are
    clustered (DPC-kNN) and come back as one token for every ten.
    Differs: exactly the asked number is left, clusters included, in three equal cuts after layers 0, 1 and 2 (the
    original cuts after 2, 6 and 15 of 32 and takes the numbers from a rank or a table); a cluster stands at its
    members' mean place.
    """
    return PrunedInput(mini.full(scene), SparseVLM(dict(enumerate(stages(scene.full, tokens))), raters_of(mini, scene)))


# ---- VisionZip -------------------------------------------------------------------------------------------------------

DOMINANT = 54 / 64


def visionzip(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """VisionZip: the tokens that the tower attends to, and a few that stand for the rest.

    Yang et al., "VisionZip: Longer is Better but Not Necessary in Vision Language Models", CVPR 2025, arXiv
    2412.04467.
    Rule: 54 of 64 tokens are the most attended ones; of the others, targets at equal distances; each of the rest joins
    the target whose key is nearest.
    Differs: the tower has no class token, so a token's attention is what it receives from all (as in the authors' own
    Qwen2.5-VL branch); a target becomes half itself and half the mean of the tokens that joined it, the original adds
    the two; all of this happens after Qwen's 2×2 merger, to the DeepStack planes as well.
    """
    full, metric = mini.full(scene), mini.recorded(scene).metric
    dominant = round(tokens * DOMINANT)
    contextual = tokens - dominant
    chosen = best(mini.received(scene), dominant)
    if not contextual:
        return PrunedInput(full.take(chosen))
    rest = others(chosen, scene.full)
    target = torch.arange(0, rest.shape[1], max(1, rest.shape[1] // contextual), device=scene.device)[:contextual]
    keys = gather(metric, rest)
    slot = cosines(keys, keys[:, target]).argmax(2)
    slot[:, target] = torch.arange(contextual, device=scene.device)
    member = torch.ones_like(slot, dtype=torch.float32)
    member[:, target] = 0
    joined = torch.zeros(len(scene), contextual, device=scene.device).scatter_add(1, slot, member)
    weight = member / joined.gather(1, slot).clamp_min(1)
    weight[:, target] = 1
    left = full.take(rest)
    return PrunedInput(full.take(chosen).beside(left.pool(slot, contextual, weight).at(left.places[:, target])))


# ---- DivPrune --------------------------------------------------------------------------------------------------------


def divprune(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """DivPrune: the subset whose closest two tokens are as far apart as can be.

    Alvar et al., "DivPrune: Diversity-based Visual Token Pruning for Large Multimodal Models", CVPR 2025, arXiv
    2503.02175.
    Rule: greedy max–min diversity of the visual tokens by cosine distance; the first is the one whose nearest is
    farthest.
    Differs: nothing but the model.
    """
    full = mini.full(scene)
    return PrunedInput(full.take(max_min(1 - cosines(full.embeds), tokens)))


# ---- average pooling -------------------------------------------------------------------------------------------------


def average_pooling(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """Average pooling after the tower: equal blocks of neighbours become one token each.

    Many models are trained with it (Gemma 3 pools 4×4 with its projector); this one is not. Blocks have a power of two
    cells, as square as the number allows, else wider than high.
    """
    rows, cols = scene.grid
    area = scene.full // tokens
    high = 1 << (area.bit_length() - 1) // 2
    wide = area // high
    cell = torch.arange(rows * cols, device=scene.device)
    slot = (cell // cols // high) * (cols // wide) + cell % cols // wide
    return PrunedInput(mini.full(scene).pool(slot.expand(len(scene), -1), tokens))


# ---- ToMe ------------------------------------------------------------------------------------------------------------


def merge_plan(full: int, tokens: int, blocks: int) -> list[int]:
    """Return the numbers of merges in each block that leave `tokens` at the end; the last blocks may have fewer."""
    for constant in range(1, full + 1):
        left, plan = full, []
        for _ in range(blocks):
            plan.append(min(constant, left // 2, left - tokens))
            left -= plan[-1]
        if left == tokens:
            return plan
    raise ValueError(f"{blocks} blocks cannot merge {full} tokens into {tokens}")


def tome(mini: PrunableMini, scene: PeerScene, tokens: int) -> PrunedInput:
    """ToMe: tokens that are alike become one, block by block, inside the tower.

    Bolya et al., "Token Merging: Your ViT But Faster", ICLR 2023, arXiv 2210.09461.
    Rule: in every block, between attention and MLP, a constant number of tokens is merged by bipartite matching of
    their keys, means weighted by size; attention is proportional to size.
    Differs: merges tokens of 2×2 patches, because Qwen's merger needs the four together; positions in the rotary grid
    and in the language model become the members' mean. The constant is the smallest that leaves the asked number after
    the last block; no block merges more than half.
    """
    plan = merge_plan(scene.full, tokens, len(mini.core.visual.blocks))
    return PrunedInput(mini.tower(scene, scene.level(0), plan))


# ---- controls and oracles: without a question, in wrong places, or with the answer's place ---------------------------

# A number for each control, so that each draws its own random numbers from a scene.
OVERLAY, DROP, SHUFFLE = range(3)


def even(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Return a constant map: plain down-sampling."""
    return torch.ones(len(scene), *scene.grid, device=scene.device)


def noise(mini: PrunableMini, scene: PeerScene, purpose: int = DROP) -> Tensor:
    """Return noise, (B, rows, cols) in [0, 1)."""
    return torch.rand(len(scene), *scene.grid, generator=scene.generator(purpose)).to(scene.device)


def peaks(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Return noise with peaks, so that fine cells lie anywhere; plain noise is nearly flat, which is down-sampling."""
    return noise(mini, scene, OVERLAY).pow(8)


def shuffled(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Permute the places of the scorer's map along the tree: the same masses elsewhere."""
    return permute_along_tree(mini.relevance(scene), build_tree(*scene.grid, LEVELS), scene.generator(SHUFFLE))


def needed(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Return the cells that the question needs, (B, rows, cols) in {0, 1}."""
    return target_cells(scene.batch, *scene.grid)


def truth(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """Return the cells that the question needs, and a little less around them."""
    cells = needed(mini, scene)
    return cells + 0.1 * F.avg_pool2d(cells[:, None], 5, stride=1, padding=2)[:, 0]


def dropped(mini: PrunableMini, scene: PeerScene, relevance: Tensor, tokens: int) -> PrunedInput:
    """Return a way that encodes everything and keeps the best tokens by a map: as peers do, with another map."""
    return PrunedInput(mini.full(scene).take(best(relevance.flatten(1), tokens)))


# ---- all of them, in the order of the tables -------------------------------------------------------------------------

FULL = Way("full", "after", lambda mini, scene, tokens: PrunedInput(mini.full(scene)))
WAYS = (
    Way("scorer + overlay", "before", by_map(overlaid, PrunableMini.relevance), more=True),
    Way("scorer + quadtree", "before", by_map(tiled, PrunableMini.relevance), more=True),
    Way("FastV, K = 2", "inside", partial(fastv, layer=2)),
    Way("FastV, K = 3", "inside", partial(fastv, layer=3)),
    Way("PyramidDrop", "inside", pyramid_drop),
    Way("SparseVLM", "inside", sparse_vlm),
    Way("VisionZip", "after", visionzip),
    Way("DivPrune", "after", divprune),
    Way("average pooling", "after", average_pooling),
    Way("ToMe", "tower", tome),
    Way("uniform down-sampling", "before", by_map(tiled, even)),
    Way("random + overlay", "before", by_map(overlaid, peaks)),
    Way("shuffled scorer + overlay", "before", by_map(overlaid, shuffled)),
    Way("random, dropped after the tower", "after", by_map(dropped, noise)),
    Way("scorer, dropped after the tower", "after", by_map(dropped, PrunableMini.relevance)),
    Way("oracle + overlay", "before", by_map(overlaid, truth)),
    Way("oracle + quadtree", "before", by_map(tiled, needed)),
    Way("oracle, dropped after the tower", "after", by_map(dropped, truth)),
)


def chosen_ways(names: Sequence[str] | None) -> tuple[Way, ...]:
    """Find ways by exact name, or else by a part of the name; all of them without names."""
    chosen: set[str] = set()
    for name in names or ():
        found = {way.name for way in WAYS if way.name.lower() == name.lower()}
        found = found or {way.name for way in WAYS if name.lower() in way.name.lower()}
        if not found:
            raise InputError(f"unknown system {name!r}; choose from {', '.join(way.name for way in WAYS)}")
        chosen |= found
    return tuple(way for way in WAYS if not names or way.name in chosen)
