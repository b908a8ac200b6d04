"""The source "participatory": what this question couples to, by the cosine of semantic channels with the query.

The query comes as one vector per token. Each token gets its own map, and tokens whose map has a shape (they point
somewhere) count for more than tokens whose map is flat ("where", "the"), so they do not average into mush.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.modules import Pretrained

from .selectors import PATCH_WIDTH, Grid, PatchViews, Selector
from .texture import ops
from .texture.channels40 import SEMANTIC_DIMENSIONS, SEMANTIC_NAMES, BatchTexture, Layout
from .texture.ops import unit

# Semantic channels are enlarged from a few dozen cells; nothing is lost by comparing at this size.
VIEW = 128
FLAT = 1e-4
# A coupling is smooth by nature: it is allocated by this power of it, as `look` does with its own map.
SHARPNESS = 4


def participatory(
    texture: BatchTexture,
    query: Tensor,
    mask: Tensor | None = None,
    sharpness: float = 4.0,
) -> Tensor:
    """Return (B, H, W) in [0, 1]; zero where the texture has no semantic channels.

    query: (16,), (T, 16) or (B, T, 16): the query's tokens, through the projection the texture's channels came by.
    mask: (T,) or (B, T), true for tokens that count. Each token's map is standardised over the picture. sharpness: 0
    averages the tokens, large takes only the one that points most clearly.
    """
    semantic = texture.semantic
    tokens = query.to(semantic)
    while tokens.ndim < 3:
        tokens = tokens[None]
    if tokens.ndim != 3 or tokens.shape[-1] != semantic.shape[1] or len(tokens) not in (1, len(semantic)):
        raise InputError(
            f"query must be (T, {semantic.shape[1]}) or (B, T, {semantic.shape[1]}), got {tuple(query.shape)}"
        )
    size = (semantic.shape[-2], semantic.shape[-1])
    view = (min(size[0], VIEW), min(size[1], VIEW))
    small = unit(ops.shrink(semantic, view), 1)
    cosine = torch.einsum("btc,bchw->bthw", unit(tokens, -1).expand(len(small), -1, -1), small)
    spread = cosine.std((-2, -1), correction=0, keepdim=True)
    scores = torch.sigmoid(2 * (cosine - cosine.mean((-2, -1), keepdim=True)) / (spread + FLAT) - 1)
    strongest = spread.amax(1, keepdim=True).clamp_min(FLAT)
    votes = sharpness * spread / strongest
    if mask is not None:
        counted = mask.to(votes.device).bool().reshape(-1, tokens.shape[1], 1, 1)
        votes = votes.masked_fill(~counted, float("-inf"))
        if not bool(counted.any(1).all()):
            raise InputError("every query needs at least one token that counts, got a mask that is all false")
    combined = (scores * votes.softmax(1)).sum(1)
    # No semantic channels means no coupling, not a coupling of one half.
    sensed = (small.square().sum(1) > 0).to(combined)
    return ops.enlarge(combined * sensed, size).clamp(0, 1)


@dataclass(frozen=True)
class CouplingConfig:
    """patch_width, query_width: numbers in a patch's features and in a word's. hidden: between them and the sixteen."""

    patch_width: int = PATCH_WIDTH
    query_width: int = 32
    hidden: int = 64


class SemanticCoupling(Pretrained):
    """Patches and words in one space of sixteen dimensions: the semantic channels that `participatory` compares."""

    config_class = CouplingConfig
    config: CouplingConfig

    def __init__(self, config: CouplingConfig | None = None) -> None:
        super().__init__(config or CouplingConfig())
        width, hidden = self.config.patch_width, self.config.hidden
        self.see = nn.Sequential(
            *(nn.Conv2d(width, hidden, 1), nn.GELU(), nn.Conv2d(hidden, hidden, 3, padding=1), nn.GELU()),
            nn.Conv2d(hidden, SEMANTIC_DIMENSIONS, 1),
        )
        self.read = nn.Linear(self.config.query_width, SEMANTIC_DIMENSIONS)

    def semantic(self, patches: Tensor, grid: Grid) -> BatchTexture:
        """Project patches (B, P, F) to a texture of the sixteen semantic channels, one value for each patch."""
        planes = patches.transpose(1, 2).unflatten(2, grid)
        return BatchTexture(unit(self.see(planes), 1), Layout("coupling", SEMANTIC_NAMES))

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor, grid: Grid) -> Tensor:
        """Return a map (B, rows, columns) in [0, 1]."""
        tokens = unit(self.read(words), -1)
        return participatory(self.semantic(patches, grid), tokens, ~padding)


def coupled(module: SemanticCoupling, views: PatchViews) -> Tensor:
    """Return the map of the question's words, (B, rows, columns) in [0, 1]."""
    return module(views.patches, views.words, views.padding, views.grid)


def coupled_loss(module: SemanticCoupling, views: PatchViews, truth: Tensor) -> Tensor:
    """Return how much of the sharpened map lies where something is needed."""
    from ..train.outcomes import share_loss, shares_of

    return share_loss(SHARPNESS * coupled(module, views).clamp_min(1e-3).log(), shares_of(truth))


SYSTEM = Selector(
    "participatory",
    summary="what the question couples to, by learned semantic channels",
    note="what the question couples to, by learned semantic channels",
    part="coupling",
    kind=SemanticCoupling,
    make=lambda width: SemanticCoupling(),
    reading=lambda module, views: coupled(module, views) ** SHARPNESS,
    loss=coupled_loss,
    participatory=lambda found: found ** (1 / SHARPNESS),
)
SOURCE = SYSTEM.source
