"""VisionZip: the tokens that the tower attends to, and a few that stand for the rest.

Yang et al., "VisionZip: Longer is Better but Not Necessary in Vision Language Models", CVPR 2025, arXiv 2412.04467.
Rule: 54 of 64 tokens are the most attended ones; of the others every so-many-th is a target, and each of the rest joins
the target whose key is nearest.
Differs: the tower has no class token, so a token's attention is what it receives from all (as in the authors' own
Qwen2.5-VL branch); a target becomes half itself and half the mean of what joined it, where the original adds the two,
and all of this happens behind Qwen's 2×2 merger, to the DeepStack planes as well.
"""

from __future__ import annotations

import torch

from .maths import best, cosines, gather, others
from .model import PeerScene, PrunableMini, Told, Way

DOMINANT = 54 / 64


def visionzip(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    full, metric = mini.full(scene), mini.recorded(scene).metric
    dominant = round(tokens * DOMINANT)
    contextual = tokens - dominant
    chosen = best(mini.received(scene), dominant)
    if not contextual:
        return Told(full.take(chosen))
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
    return Told(full.take(chosen).beside(left.pool(slot, contextual, weight).at(left.places[:, target])))


WAYS = (Way("VisionZip", "peer", "after", False, visionzip, "arXiv 2412.04467"),)
