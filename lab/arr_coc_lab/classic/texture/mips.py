"""Mips of a texture: by averages, weighted by attention, or by a learned downsampler.

    mips(texture, "learned", levels=4)[-1]      an eighth of the side

Each channel shrinks by its own reducer: mean, majority (cluster_id), maximum, or mean of unit vectors (semantic). Any
size: a level has a cell for every 2^k × 2^k pixels, the last ones cut off; means are taken over picture only.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from arr_coc.core.errors import InputError
from arr_coc.core.folders import CLASSIC_WEIGHTS
from arr_coc.core.modules import Pretrained

from .channels40 import BatchTexture, Layout
from .ops import unit

NO_LABEL = 1e6
FLOOR = 0.05  # weight of a pixel without attention, so that every cell has an average


def mips(
    texture: BatchTexture, kind: str = "average", levels: int = 5, attention: Tensor | None = None
) -> list[BatchTexture]:
    """Shrink a texture `levels` − 1 times by two.

    Args:
        texture: The finest level.
        kind: "average", "attention" or "learned".
        levels: How many textures to return, the finest first.
        attention: (B, H, W) in [0, 1] for "attention"; the texture's saliency by default.

    Returns:
        The levels.
    """
    if kind == "learned":
        return shipped_downsampler(texture.layout.name).mips(texture, levels)
    weights = torch.ones_like(texture.data[:, :1])
    if kind == "attention":
        weights = (texture["saliency"] if attention is None else attention).to(weights)[:, None].clamp_min(0) + FLOOR
    elif kind != "average":
        raise InputError(f"mips {kind!r} are unknown; choose average, attention or learned")
    coarser = [_shrunk(texture.data, weights, texture.layout, 1 << level) for level in range(1, levels)]
    return [texture, *(replace(texture, data=one) for one in coarser)]


def _shrunk(data: Tensor, weights: Tensor, layout: Layout, side: int) -> Tensor:
    """Reduce (B, C, H, W) over blocks of side², by weights (B, 1, H, W); only averages are weighted."""
    pad = [0, -data.shape[3] % side, 0, -data.shape[2] % side]
    blocks, weights = (_blocks(F.pad(one, pad), side) for one in (data, weights))
    found = (blocks * weights).sum(-1) / weights.sum(-1)
    top, votes, vectors = (layout.having(kind) for kind in ("maximum", "majority", "unit_mean"))
    found[:, top] = blocks[:, top].amax(-1)
    # Every padded value is a label of its own, larger than all others, and so never wins.
    padding = NO_LABEL + torch.arange(blocks.shape[-1], device=blocks.device)
    found[:, votes] = torch.where(weights > 0, blocks[:, votes], padding).mode(-1).values
    found[:, vectors] = unit(found[:, vectors], 1)
    return found


def _blocks(data: Tensor, side: int) -> Tensor:
    """Cut (B, C, H, W) into blocks of side², which divide it: (B, C, h, w, values of a block)."""
    return data.unflatten(3, (-1, side)).unflatten(2, (-1, side)).transpose(3, 4).flatten(4)


# ---- learned ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class DownsamplerConfig:
    """The layout: its name and its channels in order."""

    layout: str
    channels: list[str]


class LearnedDownsampler(Pretrained):
    """Halve a texture by one 3×3 convolution of stride 2 for each group of channels; cluster_id keeps its majority.

    It starts as the plain 2×2 mean. No value lies above or below all those of its window.
    """

    config_class = DownsamplerConfig

    def __init__(self, config: DownsamplerConfig) -> None:
        super().__init__(config)
        layout = Layout(config.layout, tuple(config.channels))
        self.layout, voters = layout, layout.having("majority")
        kept = {name: [one for one in places if one not in voters] for name, places in layout.groups().items()}
        self.groups = {name: places for name, places in kept.items() if places}
        self.convolutions = nn.ModuleDict()
        for name, places in self.groups.items():
            convolution, each = nn.Conv2d(len(places), len(places), 3, stride=2), torch.arange(len(places))
            for parameter in convolution.parameters():
                nn.init.zeros_(parameter)
            # The window starts one pixel before its cell: only its last two rows and columns lie inside.
            convolution.weight.data[each, each, 1:, 1:] = 0.25
            self.convolutions[name] = convolution

    def forward(self, data: Tensor) -> Tensor:
        """Convert (B, C, H, W) with even sides → (B, C, H/2, W/2)."""
        if data.shape[1] != len(self.layout) or data.shape[2] % 2 or data.shape[3] % 2:
            raise InputError(f"data must be (B, {len(self.layout)}, H, W) with even sides, got {tuple(data.shape)}")
        padded, votes = F.pad(data, (1, 0, 1, 0), mode="replicate"), self.layout.having("majority")
        labels = _blocks(data[:, votes], 2).mode(-1).values
        planes = dict(zip(votes, labels.unbind(1), strict=True))
        for name, places in self.groups.items():
            window = padded[:, places]
            # Between what is there: a channel keeps its range and its meaning at every level.
            least, most = -F.max_pool2d(-window, 3, 2), F.max_pool2d(window, 3, 2)
            reduced = self.convolutions[name](window).clamp(least, most)
            planes |= dict(zip(places, (unit(reduced, 1) if name == "semantic" else reduced).unbind(1), strict=True))
        return torch.stack([planes[place] for place in range(len(self.layout))], dim=1)

    def mips(self, texture: BatchTexture, levels: int = 5) -> list[BatchTexture]:
        """Shrink a texture as `mips` does, every step by this module."""
        (height, width), side = texture.size, 1 << (levels - 1)
        data, found = F.pad(texture.data, (0, -width % side, 0, -height % side), mode="replicate"), [texture]
        for level in range(1, levels):
            data, side = self(data), 1 << level
            found.append(replace(texture, data=data[..., : -(-height // side), : -(-width // side)]))
        return found


@lru_cache(maxsize=2)
def shipped_downsampler(layout: str) -> LearnedDownsampler:
    """Load the downsampler that was trained for a layout: mvp13 or full40."""
    return LearnedDownsampler.from_pretrained(CLASSIC_WEIGHTS / f"mips_{layout}").float().requires_grad_(False)
