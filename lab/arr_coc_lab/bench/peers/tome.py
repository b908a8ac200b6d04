"""ToMe: tokens that are alike become one, block by block, inside the tower.

Bolya et al., "Token Merging: Your ViT But Faster", ICLR 2023, arXiv 2210.09461.
Rule: in every block, between attention and MLP, a constant number of tokens is merged by bipartite matching of their
keys, means weighted by size; attention is proportional to size.
Differs: what is merged is a token of 2×2 patches, because Qwen's merger needs the four together; positions in the
rotary grid and in the language model become the members' mean. The constant is the smallest that leaves the asked
number after the last block; no block merges more than half.
"""

from __future__ import annotations

from .model import PeerScene, PrunableMini, Told, Way


def merge_plan(full: int, tokens: int, blocks: int) -> list[int]:
    """So many merges in each block, `tokens` left at the end; the last blocks may have fewer to do."""
    for constant in range(1, full + 1):
        left, plan = full, []
        for _ in range(blocks):
            plan.append(min(constant, left // 2, left - tokens))
            left -= plan[-1]
        if left == tokens:
            return plan
    raise ValueError(f"{blocks} blocks cannot merge {full} tokens into {tokens}")


def tome(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    plan = merge_plan(scene.full, tokens, len(mini.core.visual.blocks))
    return Told(mini.tower(scene, scene.level(0), plan))


WAYS = (Way("ToMe", "peer", "tower", False, tome, "arXiv 2210.09461"),)
