"""CDPruner: diversity on condition of the question, by a determinantal point process.

Zhang et al., "Beyond Attention or Similarity: Maximizing Conditional Diversity for Token Pruning in MLLMs", NeurIPS
2025, arXiv 2506.10967.
Rule: kernel = relevance × cosine × relevance; the greedy maximum of its determinant. Relevance is the mean cosine of a
visual token with the question's tokens, brought to 0–1.
Differs: `mini` has no CLIP whose two encoders share a space, so both sides are taken from the language model's input;
relevance is scaled for each picture. The authors' code for LLaVA *negates* the relevance before scaling (there, low
similarity of CLIP's patches with the text means relevant); both signs are rows here, the negated one as released.
A third row puts our scorer's map in the place of their relevance: what their choice makes of a map that knows.
"""

from __future__ import annotations

from functools import partial

from torch import Tensor
from torch.nn import functional as F

from .maths import cosines, greedy_determinant
from .model import PeerScene, PrunableMini, Told, Way

PAPER = "arXiv 2506.10967"


def text_similarity(mini: PrunableMini, scene: PeerScene) -> Tensor:
    """(B, N): the cosine of each visual token with each character of the question, mean over the question."""
    words = F.embedding(scene.tails, mini.core.language_model.embed_tokens.weight)
    alike = cosines(mini.full(scene).embeds, words)
    return (alike * scene.asked[:, None]).sum(2) / scene.asked.sum(1, keepdim=True).clamp_min(1)


def scaled(relevance: Tensor) -> Tensor:
    """(B, N) → above 0 and up to 1 in every picture."""
    low, high = relevance.amin(1, keepdim=True), relevance.amax(1, keepdim=True)
    return (relevance - low + 1e-6) / (high - low).clamp_min(1e-6)


def conditional(mini: PrunableMini, scene: PeerScene, tokens: int, relevance: Tensor) -> Told:
    full = mini.full(scene)
    kernel = relevance[:, :, None] * cosines(full.embeds) * relevance[:, None]
    return Told(full.take(greedy_determinant(kernel, tokens)))


def cdpruner(mini: PrunableMini, scene: PeerScene, tokens: int, sign: int = 1) -> Told:
    return conditional(mini, scene, tokens, scaled(sign * text_similarity(mini, scene)))


def with_scorer(mini: PrunableMini, scene: PeerScene, tokens: int) -> Told:
    return conditional(mini, scene, tokens, mini.relevance(scene).flatten(1).clamp_min(1e-3))


WAYS = (
    Way("CDPruner", "peer", "after", True, cdpruner, PAPER),
    Way("CDPruner, negated as released", "peer", "after", True, partial(cdpruner, sign=-1), PAPER),
    Way("CDPruner with our scorer", "control", "after", True, with_scorer, PAPER),
)
