"""`QueryAwareLOD`, the Phase 2 selector: for each patch, one of the five classic levels of detail, by the question."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.modules import Pretrained

from .patch_trunk import PatchTrunk, TrunkConfig, trunk_shape
from .scale import CLASSIC_TOKENS, LEAST, MOST
from .selectors import PatchViews, Selector

# The five classic levels of detail, coarse to fine; `classic.scale` lays them out.
LEVELS = len(CLASSIC_TOKENS)
# Patches beside what is needed are worth a middle level: a box seldom ends where a patch does.
BESIDE = 2


def expected_tokens(logits: Tensor) -> Tensor:
    """Return the expected tokens of each patch, (B, P), from (B, P, 5)."""
    return logits.softmax(-1) @ logits.new_tensor(CLASSIC_TOKENS)


class QueryAwareLOD(Pretrained):
    """Patch features and the question's words → a level of detail for each patch."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.head = nn.Linear(config.width, LEVELS)
        # An untrained selector prefers nothing: each level is as likely as any other.
        nn.init.zeros_(self.head.weight)
        nn.init.zeros_(self.head.bias)

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor | None = None) -> Tensor:
        """Convert (B, P, F) patches, (B, L, Q) words → (B, P, 5) logits of the levels."""
        return self.head(self.trunk(patches, words, padding))


def tokens_map(module: QueryAwareLOD, views: PatchViews) -> Tensor:
    """Return the tokens expected of each patch, from 64 (0) to 400 (1)."""
    tokens = expected_tokens(views.read(module))
    return ((tokens - LEAST) / (MOST - LEAST)).clamp(0, 1).unflatten(1, views.grid)


def levels_loss(module: QueryAwareLOD, views: PatchViews, truth: Tensor) -> Tensor:
    """Return the finest level where something is needed, a middle one beside it, the coarsest elsewhere."""
    levels = views.read(module)
    near = F.max_pool2d(truth[:, None], 3, stride=1, padding=1)[:, 0]
    wanted = torch.where(truth > 0, LEVELS - 1, torch.where(near > 0, BESIDE, 0)).flatten(1)
    weights = torch.where(wanted > 0, 3.0, 1.0)
    each = F.cross_entropy(levels.flatten(0, 1), wanted.flatten(), reduction="none").view_as(weights)
    return (each * weights).mean()


SYSTEM = Selector(
    "query_aware_lod",
    summary="a level of detail for each patch, by the question: the selector of phase 2",
    note="phase 2: a level of detail for each patch, by the question",
    part="query_aware_lod",
    kind=QueryAwareLOD,
    make=lambda width: QueryAwareLOD(trunk_shape(width)),
    reading=tokens_map,
    loss=levels_loss,
)
SOURCE = SYSTEM.source
