"""`MultiResolutionCompressor`: the classic scale, learned. A patch's features become 64, 128, 256, 384 or 400 tokens.

    (patches, C, h, w) ─ 1×1 neck, shared ─ one of five paths by level ─→ tokens (sum of lengths, D), lengths (patches,)

A path is an area resampling to its grid (8×8, 8×16, 16×16, 16×24, 20×20) and a small residual convolution that learns
what averaging loses. Patches of one level run together, five calls at most, however many patches there are; the output
is ragged and stands in the order of the input.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor, nn

from ..attending.classic import CLASSIC_GRIDS, CLASSIC_TOKENS, mip_level
from ..errors import InputError
from ..pretrained import Pretrained


class RaggedTokens(NamedTuple):
    """tokens: (sum of lengths, D), patch after patch. lengths: (patches,) int64."""

    tokens: Tensor
    lengths: Tensor

    def split(self) -> list[Tensor]:
        """One (length, D) tensor per patch."""
        return list(self.tokens.split(self.lengths.tolist()))


def level_for_tokens(tokens: Tensor) -> Tensor:
    """Token counts (patches,) -> the largest of the five levels that costs no more: (patches,) int64 in 0 … 4."""
    if bool((tokens < CLASSIC_TOKENS[0]).any()):
        raise InputError(f"the classic scale starts at {CLASSIC_TOKENS[0]} tokens; got {int(tokens.min())} for a patch")
    steps = torch.tensor(CLASSIC_TOKENS, device=tokens.device)
    return torch.searchsorted(steps, tokens.to(steps.dtype).contiguous(), right=True) - 1


class ResolutionPath(nn.Module):
    """(n, D, h, w) -> (n, rows * cols, D): resampled by area, sharpened by a residual convolution, normalised."""

    def __init__(self, width: int, grid: tuple[int, int]) -> None:
        super().__init__()
        self.resample = nn.AdaptiveAvgPool2d(grid)
        self.refine = nn.Sequential(
            nn.Conv2d(width, width, kernel_size=3, padding=1, groups=width), nn.GELU(), nn.Conv2d(width, width, 1)
        )
        self.norm = nn.LayerNorm(width)

    def forward(self, features: Tensor) -> Tensor:
        coarse = self.resample(features)
        return self.norm((coarse + self.refine(coarse)).flatten(2).transpose(1, 2))


@dataclass(frozen=True)
class CompressorConfig:
    """channels: C of the patch features. width: D of the tokens."""

    channels: int
    width: int


class MultiResolutionCompressor(Pretrained):
    """Shared neck, five paths. Trained like any module; `save_pretrained` and `from_pretrained` use safetensors."""

    config_class = CompressorConfig

    def __init__(self, channels: int, width: int) -> None:
        """channels: C of the patch features. width: D of the tokens (the language model's hidden size)."""
        super().__init__(CompressorConfig(channels, width))
        if channels < 1 or width < 1:
            raise InputError(f"channels and width must be positive, got {channels} and {width}")
        self.channels, self.width = channels, width
        self.neck = nn.Conv2d(channels, width, kernel_size=1)
        self.paths = nn.ModuleList([ResolutionPath(width, grid) for grid in CLASSIC_GRIDS])

    @classmethod
    def from_config(cls, config: CompressorConfig) -> MultiResolutionCompressor:
        return cls(config.channels, config.width)

    def forward(self, features: Tensor | Sequence[Tensor], levels: Tensor) -> RaggedTokens:
        """features (patches, C, h, w), levels (patches,) int64 in 0 … 4 -> `RaggedTokens`.

        features may also be a mip pyramid of them, fine to coarse: [(patches, C, h, w), (patches, C, h/2, w/2), …].
        Each patch is then read at the mip level of its token count (400 and 384 → 0, 256 → 1, 128 → 2, 64 → 3, or the
        coarsest there is).
        """
        pyramid = [features] if isinstance(features, Tensor) else list(features)
        self._check(pyramid, levels)
        levels = levels.to(pyramid[0].device)
        counts = torch.tensor(CLASSIC_TOKENS, device=levels.device)
        lengths = counts[levels]
        starts = lengths.cumsum(0) - lengths
        mips = mip_level(counts).clamp_max(len(pyramid) - 1).tolist()
        tokens = pyramid[0].new_zeros((int(lengths.sum()), self.width))
        for level in torch.unique(levels).tolist():
            chosen = torch.nonzero(levels == level).flatten()
            # autocast may run the convolutions in another dtype than the features have
            made = self.paths[level](self.neck(pyramid[mips[level]][chosen])).flatten(0, 1)
            places = (starts[chosen, None] + torch.arange(CLASSIC_TOKENS[level], device=levels.device)).flatten()
            tokens = tokens.to(made.dtype).index_copy(0, places, made)
        return RaggedTokens(tokens, lengths)

    def _check(self, pyramid: Sequence[Tensor], levels: Tensor) -> None:
        if not pyramid:
            raise InputError("the compressor got an empty pyramid; give features (patches, C, h, w)")
        for features in pyramid:
            if features.ndim != 4 or features.shape[1] != self.channels or len(features) != len(levels):
                raise InputError(
                    f"the compressor wants features of shape ({len(levels)}, {self.channels}, h, w), one per level "
                    f"given; got {tuple(features.shape)}"
                )
        if levels.ndim != 1 or levels.is_floating_point() or bool(((levels < 0) | (levels >= len(self.paths))).any()):
            raise InputError(f"levels must be whole numbers from 0 to {len(self.paths) - 1}, one per patch")
