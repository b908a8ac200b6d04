"""`MultiResolutionCompressor`: the classic scale after an encoder. A patch's features become 64 to 400 tokens.

    (patches, C, h, w) ─ 1×1 neck, shared ─ one of five paths by level ─→ tokens (sum of lengths, D), lengths (patches,)

A path is an area resampling to its grid (8×8, 10×10, 10×16, 16×16, 20×20) and a small residual convolution that learns
what averaging loses; before any training the residual is nothing, so that an untrained compressor averages. Patches of
one level run together, five calls at most, however many patches there are.

    compress(attach(model, processor, strategy="classic"))                      untrained: area means
    compress(attach(model, processor, strategy="classic"), compressor)          one that you have trained

None is trained here. It belongs to the features of one encoder, so that it would have to be taught with the model whose
tokens it makes: the tower and the language model frozen, the loss that of the answer's tokens, patches of 640 pixels at
all five levels in turn.
"""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.modules import Pretrained
from arr_coc.realizing.attachment import Attachment
from arr_coc.realizing.merging import MergePlan, MergingBackbone

from .scale import CLASSIC_GRIDS, CLASSIC_TOKENS


class RaggedTokens(NamedTuple):
    """tokens: (sum of lengths, D), patch after patch. lengths: (patches,) int64."""

    tokens: Tensor
    lengths: Tensor

    def split(self) -> list[Tensor]:
        """Return one (length, D) tensor per patch."""
        return list(self.tokens.split(self.lengths.tolist()))


class ResolutionPath(nn.Module):
    """(n, D, h, w) -> (n, rows * cols, D): resampled by area, sharpened by a residual convolution that starts at 0."""

    def __init__(self, width: int) -> None:
        super().__init__()
        last = nn.Conv2d(width, width, 1)
        self.refine = nn.Sequential(nn.Conv2d(width, width, kernel_size=3, padding=1, groups=width), nn.GELU(), last)
        for parameter in last.parameters():
            nn.init.zeros_(parameter)

    def forward(self, features: Tensor, grid: tuple[int, int]) -> Tensor:
        coarse = F.adaptive_avg_pool2d(features, grid)
        return (coarse + self.refine(coarse)).flatten(2).transpose(1, 2)


@dataclass(frozen=True)
class CompressorConfig:
    """channels: C of the patch features. width: D of the tokens (the language model's hidden size)."""

    channels: int
    width: int


class MultiResolutionCompressor(Pretrained):
    """Shared neck, five paths. Trained like any module; `save_pretrained` and `from_pretrained` use safetensors."""

    config_class = CompressorConfig

    def __init__(self, config: CompressorConfig) -> None:
        super().__init__(config)
        channels, width = config.channels, config.width
        if channels < 1 or width < 1:
            raise InputError(f"channels and width must be positive, got {channels} and {width}")
        self.channels, self.width = channels, width
        self.neck = nn.Conv2d(channels, width, kernel_size=1)
        if channels == width:  # what an encoder made is in the language model's space already
            for parameter in self.neck.parameters():
                nn.init.zeros_(parameter) if parameter.ndim == 1 else nn.init.dirac_(parameter)
        self.paths = nn.ModuleList([ResolutionPath(width) for _ in CLASSIC_GRIDS])

    def forward(self, features: Tensor, levels: Tensor) -> RaggedTokens:
        """Compress features (patches, C, h, w) by levels (patches,) int64 in 0 … 4 to `RaggedTokens`, in order."""
        self._check(features, levels)
        levels = levels.to(features.device)
        lengths = torch.tensor(CLASSIC_TOKENS, device=levels.device)[levels]
        starts = lengths.cumsum(0) - lengths
        tokens = features.new_zeros((int(lengths.sum()), self.width))
        for level in torch.unique(levels).tolist():
            chosen = torch.nonzero(levels == level).flatten()
            # autocast may run the convolutions in another dtype than the features have
            made = self.compress(features[chosen], level, CLASSIC_GRIDS[level]).flatten(0, 1)
            places = (starts[chosen, None] + torch.arange(CLASSIC_TOKENS[level], device=levels.device)).flatten()
            tokens = tokens.to(made.dtype).index_copy(0, places, made)
        return RaggedTokens(tokens, lengths)

    def compress(self, features: Tensor, level: int, grid: tuple[int, int]) -> Tensor:
        """Compress patches of one level and size (n, C, h, w) to (n, rows * cols, D). grid: rows and cols of
        tokens; not the level's usual ones if patches are not square."""
        return self.paths[level](self.neck(features), grid)

    def _check(self, features: Tensor, levels: Tensor) -> None:
        if features.ndim != 4 or features.shape[1] != self.channels or len(features) != len(levels):
            raise InputError(
                f"the compressor wants features of shape ({len(levels)}, {self.channels}, h, w), one per level given; "
                f"got {tuple(features.shape)}"
            )
        if levels.ndim != 1 or levels.is_floating_point() or bool(((levels < 0) | (levels >= len(self.paths))).any()):
            raise InputError(f"levels must be whole numbers from 0 to {len(self.paths) - 1}, one per patch")


# ---- inside a model that merges after its encoder --------------------------------------------------------------------


def compress_patches(compressor: MultiResolutionCompressor, tokens: Tensor, plan: MergePlan) -> tuple[Tensor, Tensor]:
    """Return the tokens of every patch of the classic scale, made of the encoder's tokens (N, D) under it.

    Returns (K,) places in the plan's output and (K, D) what belongs there. Patches of one shape and count run together.
    A patch that lies on ground without tokens (padding) is left to the average.
    """
    width = tokens.shape[-1]
    if (compressor.channels, compressor.width) != (width, width):
        raise InputError(
            f"this compressor turns {compressor.channels} into {compressor.width} channels; the model has {width}"
        )
    compressor, regions = compressor.to(tokens.device, tokens.dtype), plan.regions
    scale = np.isin(regions.tokens, CLASSIC_TOKENS) & (regions.blocks.prod(1) == regions.tokens)
    kinds, kind = np.unique(
        np.column_stack([regions.tokens, regions.extent, regions.blocks]), axis=0, return_inverse=True
    )
    places, made = [torch.zeros(0, dtype=torch.int64)], [tokens[:0]]
    for number, (count, height, width, rows, cols) in enumerate(kinds.tolist()):
        chosen = np.flatnonzero((kind.reshape(-1) == number) & scale)
        if not len(chosen):
            continue
        row = regions.corner[chosen, 0, None, None] + np.arange(height)[:, None]
        col = regions.corner[chosen, 1, None, None] + np.arange(width)
        cells = regions.start[chosen, None, None] + row * regions.across[chosen, None, None] + col
        index = plan.tokens[torch.from_numpy(cells)]
        whole = (index >= 0).all(2).all(1)
        features = tokens[index[whole].to(tokens.device)].permute(0, 3, 1, 2)
        made.append(compressor.compress(features, CLASSIC_TOKENS.index(count), (rows, cols)).flatten(0, 1))
        first = torch.from_numpy(regions.first[chosen])[whole]
        places.append(plan.numbers[(first[:, None] + torch.arange(count)).flatten()])
    return torch.cat(places), torch.cat(made)


def compress(attachment: Attachment, compressor: MultiResolutionCompressor | None = None) -> Attachment:
    """Let an attached model compress the patches of the classic scale instead of averaging them.

    compressor: that you have trained; without one an untrained one, which averages.
    """
    backbone = copy(attachment.backbone)
    if not isinstance(backbone, MergingBackbone):
        raise InputError(f"{'/'.join(backbone.model_types)} reads fewer patches and merges no tokens to compress")

    def merge(tokens: Tensor, plan: MergePlan) -> Tensor:
        width, merged = tokens.shape[-1], plan.apply(tokens)
        own = MultiResolutionCompressor(CompressorConfig(width, width)) if compressor is None else compressor
        places, made = compress_patches(own, tokens, plan)
        return merged.index_copy(0, places.to(merged.device), made.to(merged.dtype))

    object.__setattr__(backbone, "merge", merge)
    attachment.backbone = backbone
    return attachment
