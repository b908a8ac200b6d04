"""The sources "patch_trunk" (what every patch has learned, against the whole question) and "realizer" (one network and
no imposed categories: patches and words → relevance).

The stock transformer decoder layer does all that is needed: patches attend to patches, then to the words of the
question, each with a residual. Two things matter and are easily lost. There is one key for each word: attention over a
single key is 1 whatever the patch is. And the residual keeps the patch itself: without it, a patch that reads the same
words as another one is that other one.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from arr_coc.core.modules import Pretrained

from .selectors import PATCH_WIDTH, Selector, logits_loss, logits_map, mean_word


@dataclass(frozen=True)
class TrunkConfig:
    """patch_width, query_width: numbers in a patch's features and in a word's. width: numbers kept for each patch."""

    patch_width: int
    query_width: int
    width: int = 128
    layers: int = 2
    heads: int = 4


def trunk_shape(query_width: int, width: int = 48) -> TrunkConfig:
    """Return the trunk of a selector, by the width of a word."""
    return TrunkConfig(PATCH_WIDTH, query_width, width)


def word_positions(padding: Tensor, width: int) -> Tensor:
    """Convert (B, L) bool padding → (B, L, width) sines and cosines of each word's place in the question.

    Words are counted, padding is not, so that a question padded on the left reads like one padded on the right.
    """
    place = ((~padding).cumsum(1) - 1).clamp_min(0)
    frequency = 10_000 ** (-torch.arange(0, width, 2, device=padding.device) / width)
    angle = place[..., None] * frequency
    return torch.stack([angle.sin(), angle.cos()], dim=-1).flatten(2)[..., :width]


class PatchTrunk(nn.Module):
    """Patch features and the words of a question → one vector for each patch.

    Patches have no order here: permute them and the result is permuted. Where a patch lies is part of its features
    (the texture's x and y). Words do have one: "the dog on the car" is not "the car on the dog".
    """

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__()
        self.config = config
        self.enter = nn.Linear(config.patch_width, config.width)
        self.read = nn.Sequential(nn.LayerNorm(config.query_width), nn.Linear(config.query_width, config.width))
        # A key that is always there: what a patch reads when no word concerns it, or when there is no question.
        self.no_word = nn.Parameter(torch.zeros(1, 1, config.width))
        self.layers = nn.ModuleList(
            nn.TransformerDecoderLayer(
                config.width,
                config.heads,
                dim_feedforward=2 * config.width,
                dropout=0.0,
                activation="gelu",
                batch_first=True,
                norm_first=True,
            )
            for _ in range(config.layers)
        )
        self.leave = nn.LayerNorm(config.width)

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor | None = None) -> Tensor:
        """Convert patches (B, P, F) and words (B, L, Q) → (B, P, width). padding: (B, L) bool, True for no word;
        whatever stands there changes nothing elsewhere."""
        if padding is None:
            padding = torch.zeros(words.shape[:2], dtype=torch.bool, device=words.device)
        kind = self.enter.weight.dtype
        # What stands under padding may be anything, NaN included, and zero times NaN is NaN: put zeros there.
        words = words.to(kind).masked_fill(padding[..., None], 0)
        keys = self.read(words) + word_positions(padding, self.config.width).to(kind)
        keys = torch.cat([self.no_word.expand(len(keys), 1, -1), keys], dim=1)
        hidden = torch.cat([torch.zeros_like(padding[:, :1]), padding], dim=1)
        features = self.enter(patches.to(kind))
        for layer in self.layers:
            features = layer(features, keys, memory_key_padding_mask=hidden)
        return self.leave(features)


class TrunkMatch(Pretrained):
    """The trunk of patches by itself: what it made of each patch, against one vector of the whole question."""

    config_class = TrunkConfig
    config: TrunkConfig

    def __init__(self, config: TrunkConfig) -> None:
        super().__init__(config)
        self.trunk = PatchTrunk(config)
        self.ask = nn.Linear(config.query_width, config.width)

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor) -> Tensor:
        """Convert (B, P, F) patches, (B, L, Q) words and their padding → (B, P) logits of relevance."""
        question = self.ask(mean_word(words, padding))[:, None]
        return (self.trunk(patches, words, padding) * question).sum(-1) / self.config.width**0.5


SYSTEM = Selector(
    "patch_trunk",
    summary="what each patch has learned from the words, against the whole question",
    note="what each patch has learned from the words, against the question",
    part="patch_trunk",
    kind=TrunkMatch,
    make=lambda width: TrunkMatch(trunk_shape(width, 36)),
    reading=logits_map,
    loss=logits_loss,
)
SOURCE = SYSTEM.source


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

    def forward(self, patches: Tensor, words: Tensor, padding: Tensor | None = None) -> Tensor:
        """Convert (B, P, F) patches, (B, L, Q) words → (B, P) logits of relevance."""
        return self.head(self.trunk(patches, words, padding))[..., 0]


REALIZER = Selector(
    "realizer",
    summary="patches and the question's words through one network",
    note="one network, patches and words",
    part="realizer",
    kind=RelevanceRealizer,
    make=lambda width: RelevanceRealizer(trunk_shape(width)),
    reading=logits_map,
    loss=logits_loss,
)
REALIZER_SOURCE = REALIZER.source
