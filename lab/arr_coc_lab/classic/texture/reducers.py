"""Three more ways down a pyramid: learned, weighted by attention, and through time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import nn

from ..core.errors import InputError
from ..core.pretrained import Pretrained
from .backend_torch import unit
from .pyramid import LEVELS, Pyramid, block_majority, majority, make_units, pad_to, voters_of
from .texture import Layout, Texture, get_layout

# So many frames are kept for their temporal mips, whose coarsest level is one frame of a quarter of the side.
PAST, PAST_LEVELS = 4, 3
PAST_LAYOUT = Layout.of("past", ("previous_relevance",))


@dataclass(frozen=True)
class DownsamplerConfig:
    """The layout: its name and its channels in order."""

    layout: str
    channels: list[str]


class LearnedDownsampler(Pretrained):
    """Halves a texture with one 3×3 convolution of stride 2 per channel group; cluster_id keeps its majority.

    It starts as the plain 2×2 mean, so training begins from the pyramid it replaces, and never leaves what it is made
    of: no value lies above or below all those of its window. (B, C, H, W) → (B, C, H/2, W/2).
    """

    config_class = DownsamplerConfig

    def __init__(self, layout: str | Layout = "full40") -> None:
        layout = get_layout(layout)
        super().__init__(DownsamplerConfig(layout.name, list(layout.names)))
        self.layout = layout
        voters = set(self.layout.having("majority"))
        groups = self.layout.groups().items()
        kept = {name: [place for place in places if place not in voters] for name, places in groups}
        self.groups = {name: places for name, places in kept.items() if places}
        self.convolutions = nn.ModuleDict(
            {name: nn.Conv2d(len(places), len(places), 3, stride=2) for name, places in self.groups.items()}
        )
        self.reset_parameters()

    @classmethod
    def from_config(cls, config: DownsamplerConfig) -> LearnedDownsampler:
        return cls(Layout.of(config.layout, config.channels))

    @torch.no_grad()
    def reset_parameters(self) -> None:
        for convolution in self.convolutions.values():
            assert isinstance(convolution, nn.Conv2d)
            weight = torch.zeros_like(convolution.weight)
            each = torch.arange(len(weight))
            # The window starts one pixel before its cell: only its last two rows and columns lie inside.
            weight[each, each, 1:, 1:] = 0.25
            convolution.weight.copy_(weight)
            if convolution.bias is not None:
                convolution.bias.zero_()

    def forward(self, data: torch.Tensor) -> torch.Tensor:
        """(B, C, H, W) with even sides → (B, C, H/2, W/2)."""
        if data.shape[1] != len(self.layout) or data.shape[2] % 2 or data.shape[3] % 2:
            raise InputError(f"need (B, {len(self.layout)}, H, W) with even sides, got {tuple(data.shape)}")
        padded = F.pad(data, (1, 0, 1, 0), mode="replicate")
        planes: dict[int, torch.Tensor] = {}
        for name, places in self.groups.items():
            window = padded[:, places]
            # Between what is there: a channel keeps its range and its meaning at every level.
            least, most = -F.max_pool2d(-window, 3, 2), F.max_pool2d(window, 3, 2)
            reduced = self.convolutions[name](window).clamp(least, most)
            if name == "semantic":
                reduced = unit(reduced, 1)
            planes.update(zip(places, reduced.unbind(1), strict=True))
        for place in self.layout.having("majority"):
            planes[place] = block_majority(data[:, place], 2)
        return torch.stack([planes[place] for place in range(len(self.layout))], dim=1)

    def pyramid(self, texture: Texture, levels: int = LEVELS) -> Pyramid:
        """A whole pyramid, every step by this module."""
        current = pad_to(texture, 1 << (levels - 1))
        mips = [current]
        for _ in range(levels - 1):
            data = self(current.batch())
            height, width = -(-current.height // 2), -(-current.width // 2)
            data = data if current.batched else data[0]
            current = replace(current, data=data, height=height, width=width)
            mips.append(current)
        return Pyramid(tuple(mips))


def attention_weighted(texture: Texture, attention: torch.Tensor, levels: int = LEVELS, floor: float = 0.05) -> Pyramid:
    """A pyramid whose averages are weighted by how much the question cares about each pixel.

    attention: (H, W) or (B, H, W) relevance in [0, 1] at the texture's size. floor: the weight of an irrelevant pixel,
    so that ground nobody asks about is still averaged rather than undefined. x and y come to hold the centre of
    attention of each cell. Votes and maxima are not weighted.
    """
    texture = texture.cropped()
    weights = attention.to(texture.data)
    weights = weights[None] if weights.ndim == 2 else weights
    if tuple(weights.shape[-2:]) != (texture.height, texture.width) or len(weights) not in (1, len(texture.batch())):
        raise InputError(
            f"attention must be ({texture.height}, {texture.width}) like the texture, got {tuple(attention.shape)}"
        )
    finest = pad_to(texture, 1 << (levels - 1))
    below, beside = finest.padding
    # Padding weighs nothing; a cell made of nothing else is given its nearest neighbour's value below.
    weights = F.pad(weights.clamp_min(0) + floor, (0, beside, 0, below))[:, None]
    source = finest.batch()
    layout = finest.layout
    voters = voters_of(finest)
    weighted = source * weights
    mips = [finest]
    for level in range(1, levels):
        side = 1 << level
        weighted, weights = F.avg_pool2d(weighted, 2), F.avg_pool2d(weights, 2)
        height, width = -(-finest.height // side), -(-finest.width // side)
        planes = list((weighted / weights.clamp_min(1e-12)).unbind(1))
        for place in layout.having("maximum"):
            planes[place] = F.max_pool2d(source[:, place], side)
        for place, votes in zip(layout.having("majority"), block_majority(voters, side).unbind(1), strict=True):
            planes[place] = votes
        make_units(planes, layout, 1)
        data = torch.stack(planes, dim=1)[..., :height, :width]
        data = F.pad(data, (0, weighted.shape[-1] - width, 0, weighted.shape[-2] - height), mode="replicate")
        mips.append(replace(finest, data=data if finest.batched else data[0], height=height, width=width))
    return Pyramid(tuple(mips))


def temporal_mips(frames: torch.Tensor, layout: str | Layout, levels: int = 3) -> tuple[torch.Tensor, ...]:
    """Mips of a clip through time, height and width: (T, C, H, W) → levels of (T/2^k, C, H/2^k, W/2^k); of a batch of
    clips (N, T, C, H, W) likewise.

    Odd sizes repeat their last frame, row or column first. Each channel by its own reducer, over 2×2×2 blocks.
    """
    chosen = get_layout(layout)
    if frames.ndim not in (4, 5) or frames.shape[-3] != len(chosen):
        raise InputError(f"a {chosen.name} clip must be (T, {len(chosen)}, H, W), got {tuple(frames.shape)}")
    voters, largest = (chosen.having(kind) for kind in ("majority", "maximum"))
    clips = frames if frames.ndim == 5 else frames[None]
    mips = [clips]
    for _ in range(levels - 1):
        clip = clips.transpose(1, 2)  # (N, C, T, H, W)
        odd = [side % 2 for side in clip.shape[2:]]
        clip = F.pad(clip, (0, odd[2], 0, odd[1], 0, odd[0]), mode="replicate")
        planes = list(F.avg_pool3d(clip, 2).unbind(1))
        for place in largest:
            planes[place] = F.max_pool3d(clip[:, place], 2)
        for place in voters:
            number, time, height, width = clip[:, place].shape
            tiles = clip[:, place].reshape(number, time // 2, 2, height // 2, 2, width // 2, 2)
            planes[place] = majority(tiles.permute(0, 1, 3, 5, 2, 4, 6).flatten(4))
        make_units(planes, chosen, 0)
        clips = torch.stack(planes, dim=2)
        mips.append(clips)
    return tuple(mips) if frames.ndim == 5 else tuple(one[0] for one in mips)


def slow_relevance(past: torch.Tensor) -> torch.Tensor:
    """(N, 4, h, w) relevance of the last frames, at its ground's present places → (N, h, w): what the coarsest of their
    temporal mips says, where something has mattered for a while and not in one frame alone."""
    coarse = temporal_mips(past[:, :, None], PAST_LAYOUT, PAST_LEVELS)[-1][:, :, 0]
    return F.interpolate(coarse, size=past.shape[2:], mode="bilinear", align_corners=False)[:, 0]
