"""SparseVLM: text tokens that resemble the picture rate it; the best of what goes comes back as clusters.

Zhang et al., "SparseVLM: Visual Token Sparsification for Efficient Vision-Language Model Inference", ICML 2025,
arXiv 2410.04417.
Rule: raters are the prompt's tokens whose mean similarity to the visual tokens, softmax over the text, is above
average. After three early layers their attention ranks the visual tokens; of what goes, the best 30 % are clustered
(DPC-kNN) and come back as one token for every ten.
Differs: exactly the asked number is left, clusters included, in three equal cuts after layers 0, 1 and 2 (the original
cuts after 2, 6 and 15 of 32 and takes the numbers from a rank or a table); a cluster stands at its members' mean place.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional as F

from .maths import best, density_clusters, gather, others, pool, stages
from .model import Flow, Inside, PeerScene, PrunableMini, Told, Visual, Way, rows_of

RECYCLED, A_CLUSTER = 0.3, 10


@dataclass
class SparseVLM(Inside):
    """counts: tokens left behind each layer. raters: (B, T) bool over the tail."""

    counts: dict[int, int]
    raters: Tensor

    def after(self, index: int, flow: Flow, query: Tensor, key: Tensor) -> None:
        if self.counts.get(index, flow.count) < flow.count:
            flow.exchange(
                sparsified(flow.visual(), flow.attention(query, key, *rows_of(self.raters)), self.counts[index])
            )


def sparsified(visual: Visual, ratings: Tensor, tokens: int) -> Visual:
    """The best tokens by their ratings (B, N), and clusters of the best of the others: `tokens` in all."""
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
    """How many of `tokens` are clusters. What is dropped depends on it, and it on what is dropped: a few rounds."""
    clusters = 1
    for _ in range(4):
        clusters = recycled_count(count - tokens + clusters) // A_CLUSTER + 1
    return clusters


def raters_of(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """(B, T) bool: the prompt's tokens that resemble the picture more than the average one."""
    text = F.embedding(scene.tails, mini.core.language_model.embed_tokens.weight).float()
    alike = (mini.full(scene).embeds.float() @ text.transpose(1, 2)).masked_fill(~scene.prompt[:, None], float("-inf"))
    raters = scene.prompt & (alike.softmax(2).mean(1) > 1 / scene.prompt.sum(1, keepdim=True))
    return torch.where(raters.any(1, keepdim=True), raters, scene.prompt)


def sparse_vlm(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return Told(mini.full(scene), SparseVLM(dict(enumerate(stages(scene.full, tokens))), raters_of(mini, scene)))


WAYS = (Way("SparseVLM", "peer", "inside", True, sparse_vlm, "arXiv 2410.04417"),)
