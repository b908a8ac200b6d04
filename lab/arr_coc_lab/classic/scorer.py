"""`Scorer`: the learned couple of picture and question; texture and query text in, one relevance map out.

It reads a coarse view only (half the resolution in each direction) and is small enough (under 2 M parameters) to cost
far less than the tokens it saves. The question is read character by character, so that it needs no tokenizer but the
alphabet; every place of the picture attends to every character of the question (per-token keys and a residual: with a
single key the attention would be 1 everywhere and every place would get the same score).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from arr_coc.core.errors import InputError
from arr_coc.core.modules import Pretrained
from arr_coc.knowing.scorer.reading_scorer import join_heads, split_heads
from arr_coc.texture.ops import exact_sobel

CELL = 32
VIEW = 2  # the view has 1 / VIEW of the resolution
RGB = ("red", "green", "blue")
# Detail energy is measured at full resolution and then averaged: it tells where there is fine structure to be read,
# without showing what it says.
TEXTURE = (*RGB, "sobel_x", "sobel_y", "y", "x")


@dataclass(frozen=True)
class ScorerConfig:
    """channels: which channels of the texture are seen, by name. width: features at the coarsest scale.
    waves: how many wavelengths tell the cells where they are; 0 leaves that to the channels."""

    channels: tuple[str, ...] = TEXTURE
    width: int = 128
    query_width: int = 96
    alphabet: int = 97
    blocks: int = 3
    heads: int = 4
    waves: int = 8

    def __post_init__(self) -> None:
        object.__setattr__(self, "channels", tuple(self.channels))  # JSON has lists only


def coarse_texture(pictures: Tensor, channels: tuple[str, ...] = TEXTURE) -> Tensor:
    """(B, 3, H, W) pictures, uint8 or float in [0, 1] → (B, C, H / 2, W / 2), in the order of `channels`.

    H and W are padded to multiples of the cell by repeating the edge.
    """
    pixels = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures.float()
    bottom, right = -pixels.shape[2] % CELL, -pixels.shape[3] % CELL
    if bottom or right:
        pixels = F.pad(pixels, (0, right, 0, bottom), mode="replicate")
    view = F.avg_pool2d(pixels, VIEW)
    batch, _, height, width = view.shape
    planes = dict(zip(RGB, view.unbind(1), strict=True))
    if "sobel_x" in channels or "sobel_y" in channels:
        # A hard edge from black to white is 4 in Sobel's weights.
        along = (part.abs() / 4 for part in exact_sobel(pixels.mean(1)))
        planes["sobel_x"], planes["sobel_y"] = (F.avg_pool2d(part[:, None], VIEW)[:, 0] for part in along)
    y = (torch.arange(height, device=view.device) + 0.5) / height
    x = (torch.arange(width, device=view.device) + 0.5) / width
    planes["y"] = y[:, None].expand(batch, height, width)
    planes["x"] = x[None, :].expand(batch, height, width)
    missing = set(channels) - set(planes)
    if missing:
        raise InputError(
            f"the scorer has no channel named {', '.join(sorted(missing))}; choose from {', '.join(TEXTURE)}"
        )
    return torch.stack([planes[name] for name in channels], dim=1)


def position_waves(rows: int, cols: int, waves: int, device: torch.device | str = "cpu") -> Tensor:
    """(4 waves, rows, cols): sine and cosine of each cell's row and column, wavelengths from 3 cells upwards.

    Products of such features depend on how far apart two cells are: what "above" and "in the same row" are made of.
    """
    rates = 2 * math.pi / (3 * 1.8 ** torch.arange(waves, device=device, dtype=torch.float32))
    down = torch.arange(rows, device=device)[None] * rates[:, None]
    across = torch.arange(cols, device=device)[None] * rates[:, None]
    down, across = (torch.cat([angle.sin(), angle.cos()]) for angle in (down, across))
    return torch.cat([down[:, :, None].expand(-1, -1, cols), across[:, None, :].expand(-1, rows, -1)])


class TextureConvBlock(nn.Module):
    """A residual block: depth-wise 5×5, then two 1×1, with the question scaling the features in between."""

    def __init__(self, width: int, query_width: int, dilation: int = 1) -> None:
        super().__init__()
        self.spatial = nn.Conv2d(width, width, 5, padding=2 * dilation, dilation=dilation, groups=width)
        self.norm = nn.GroupNorm(1, width)
        self.expand = nn.Conv2d(width, 2 * width, 1)
        self.contract = nn.Conv2d(2 * width, width, 1)
        self.modulate = nn.Linear(query_width, 2 * width)

    def forward(self, features: Tensor, query: Tensor) -> Tensor:
        hidden = self.norm(self.spatial(features))
        scale = self.modulate(query)[:, :, None, None]
        hidden = F.gelu(self.expand(hidden)) * (1 + scale)
        return features + self.contract(hidden)


class Matching(nn.Module):
    """Every place asks every character of the question; with a residual."""

    def __init__(self, width: int, query_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.ask = nn.Linear(width, width)
        self.key_value = nn.Linear(query_width, 2 * width)
        self.answer = nn.Linear(width, width)

    def forward(self, places: Tensor, words: Tensor, padding: Tensor) -> Tensor:
        """places (B, P, D), words (B, L, Q), padding (B, L) bool → (B, P, D)."""
        key, value = self.key_value(words).chunk(2, dim=-1)
        query = self.ask(self.norm(places))
        mask = ~padding[:, None, None, :]
        mixed = F.scaled_dot_product_attention(
            *(split_heads(item, self.heads) for item in (query, key, value)), attn_mask=mask
        )
        return places + self.answer(join_heads(mixed))


class TextureCoupling(nn.Module):
    """Every place asks the question, then looks at every other place; both with residuals."""

    def __init__(self, width: int, query_width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.match = Matching(width, query_width, heads)
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(2)])
        self.look = nn.Linear(width, 3 * width)
        self.relate = nn.Linear(width, width)
        self.think = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))

    def forward(self, places: Tensor, words: Tensor, padding: Tensor) -> Tensor:
        """places (B, P, D), words (B, L, Q), padding (B, L) bool → (B, P, D)."""
        places = self.match(places, words, padding)
        parts = self.look(self.norms[0](places)).chunk(3, dim=-1)
        query, key, value = (split_heads(part, self.heads) for part in parts)
        mixed = F.scaled_dot_product_attention(query, key, value)
        places = places + self.relate(join_heads(mixed))
        return places + self.think(self.norms[1](places))


def on_places(module: nn.Module, features: Tensor, words: Tensor, padding: Tensor) -> Tensor:
    """Apply a module of places (B, P, D) to a map (B, D, rows, cols)."""
    places = module(features.flatten(2).transpose(1, 2), words, padding)
    return places.transpose(1, 2).unflatten(2, features.shape[2:])


class TextureQuestionReader(nn.Module):
    """Characters → a vector for each of them (words) and one for the whole question."""

    def __init__(self, alphabet: int, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(alphabet, width, padding_idx=0)
        self.convolve = nn.ModuleList([nn.Conv1d(width, width, 5, padding=2) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(3)])

    def forward(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """(B, L) int64 characters, 0 = padding → words (B, L, Q), summary (B, Q)."""
        there = (ids > 0)[..., None]
        words = self.embed(ids)
        for convolve, norm in zip(self.convolve, self.norms, strict=True):
            words = words + F.gelu(convolve((norm(words) * there).transpose(1, 2))).transpose(1, 2)
        summary = (words * there).sum(1) / there.sum(1).clamp_min(1)
        return words, summary


class Scorer(Pretrained):
    """Texture and question → relevance of every cell. Under 2 M parameters."""

    config_class = ScorerConfig
    config: ScorerConfig

    def __init__(self, config: ScorerConfig | None = None) -> None:
        super().__init__(config or ScorerConfig())
        width, query_width = self.config.width, self.config.query_width
        self.question = TextureQuestionReader(self.config.alphabet, query_width)
        self.stem = nn.Sequential(
            nn.Conv2d(len(self.config.channels), width // 4, 4, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(width // 4, width // 2, 4, stride=2, padding=1),
        )
        self.fine = nn.ModuleList([TextureConvBlock(width // 2, query_width) for _ in range(self.config.blocks)])
        self.down = nn.Conv2d(width // 2, width, 2, stride=2)
        self.middle = nn.ModuleList([TextureConvBlock(width, query_width) for _ in range(self.config.blocks)])
        # Words are found where they are still several places wide; what they mean for their neighbours comes after.
        self.match = Matching(width, query_width, self.config.heads)
        self.reduce = nn.Conv2d(width, width, 2, stride=2)
        if self.config.waves:
            # Nothing at first: where a cell is must not drown what is in it.
            self.place = nn.Conv2d(4 * self.config.waves, width, 1, bias=False)
            nn.init.zeros_(self.place.weight)
        self.couple = nn.ModuleList([TextureCoupling(width, query_width, self.config.heads) for _ in range(2)])
        self.spread = nn.ModuleList([TextureConvBlock(width, query_width) for _ in range(self.config.blocks)])
        self.head = nn.Conv2d(width, 1, 1)
        # Most cells do not matter: start there, so that the first steps do not unlearn a map of halves.
        assert self.head.bias is not None
        nn.init.constant_(self.head.bias, -3.0)

    def forward(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        """(B, 3, H, W) pictures, (B, L) characters → logits (B, rows, cols) of the cells' relevance."""
        words, summary = self.question(question_ids)
        padding = question_ids == 0
        fine = self.stem(coarse_texture(pictures, self.config.channels).to(self.head.weight.dtype))
        for block in self.fine:
            fine = block(fine, summary)
        features = self.down(fine)
        for index, block in enumerate(self.middle):
            features = block(features, summary)
            if index == 0:
                features = on_places(self.match, features, words, padding)
        features = self.reduce(features)
        if self.config.waves:
            rows, cols = features.shape[2:]
            waves = position_waves(rows, cols, self.config.waves, features.device)
            features = features + self.place(waves[None].to(features.dtype))
        for couple in self.couple:
            features = on_places(couple, features, words, padding)
        for block in self.spread:
            features = block(features, summary)
        return self.head(features)[:, 0]

    @torch.no_grad()
    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        """Relevance (B, rows, cols) in [0, 1]."""
        return self(pictures, question_ids).float().sigmoid()
