"""The source "realizer": one network and no imposed categories, patches and words → relevance."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from arr_coc.core.pretrained import Pretrained

from .patch_trunk import PatchTrunk, TrunkConfig, trunk_shape
from .selectors import Grid, Selector, logits_loss, logits_map


class RelevanceRealizer(Pretrained):
    """How much each patch matters to the question, learned as a whole instead of from three given scores."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.head = nn.Linear(config.width, 1)
        # Most patches do not matter: start there, so that the first steps do not unlearn a map of halves.
        nn.init.constant_(self.head.bias, -3.0)

    def forward(
        self, patches: Tensor, words: Tensor, padding: Tensor | None = None, patch_padding: Tensor | None = None
    ) -> Tensor:
        """(B, P, F) patches, (B, L, Q) words → (B, P) logits of relevance; see `PatchTrunk.forward` for the padding.

        A padded patch gets the lowest finite number, so that a sigmoid or a softmax makes it zero.
        """
        logits = self.head(self.trunk(patches, words, padding, patch_padding))[..., 0]
        return logits if patch_padding is None else logits.masked_fill(patch_padding, torch.finfo(logits.dtype).min)

    @torch.no_grad()
    def relevance(self, patches: Tensor, words: Tensor, grid: Grid, padding: Tensor | None = None) -> Tensor:
        """The patches of a grid in reading order → relevance (B, rows, columns) in [0, 1]."""
        return self(patches, words, padding).float().sigmoid().unflatten(1, grid)


SYSTEM = Selector(
    "realizer",
    summary="patches and the question's words through one network",
    note="one network, patches and words",
    part="realizer",
    kind=RelevanceRealizer,
    make=lambda width: RelevanceRealizer(trunk_shape(width)),
    reading=logits_map,
    loss=logits_loss,
)
SOURCE = SYSTEM.source
