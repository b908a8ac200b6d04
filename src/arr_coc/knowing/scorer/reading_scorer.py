"""`ReadingScorer`: a network that finds the answer to a question on a page. Input: pixels at full resolution and the
characters of the question; output: one relevance map.

It reads: at a stride of 8 pixels the features of every place encode its letters (a head for them is used in training
only), which attend to the characters of the question; at strides of 16 and 32 places attend to each other, because an
answer is beside, below or across from the words that the question names. The only tokenizer is the alphabet, and no
pretrained weights are used.

It uses only operations that ONNX has, too: `onnx_scorer` runs the exported graphs without torch. `recorded` runs
`for_gpu` on a CUDA device, in half precision.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from ...core.alphabet import QUESTION, lower_case
from ...core.modules import Pretrained, Recordings, using_gpu

CELL = 32


@dataclass(frozen=True)
class ReadingScorerConfig:
    """Sizes of the network. narrow, middle, wide: features at strides 4, 8, and 16 to 32. fine, before, after, coarse:
    blocks at stride 4, at stride 8 before and after the first match, and at stride 32. waves: of the positions."""

    narrow: int = 64
    middle: int = 192
    wide: int = 256
    query_width: int = 192
    alphabet: int = 97
    fine: int = 2
    before: int = 4
    after: int = 2
    coarse: int = 3
    heads: int = 8
    waves: int = 8


class ChannelNorm(nn.Module):
    """RMS normalisation over the features of each place, so that size and padding do not matter."""

    last = False  # whether features lie in memory with their channels last: see `for_gpu`

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))

    def forward(self, features: Tensor) -> Tensor:
        """Normalise (B, C, H, W)."""
        if self.last:
            placed = features.permute(0, 2, 3, 1)
            return F.rms_norm(placed, placed.shape[-1:], self.weight.to(placed.dtype), 1e-6).permute(0, 3, 1, 2)
        scale = torch.rsqrt(features.float().square().mean(1, keepdim=True) + 1e-6)
        return features * scale.to(features.dtype) * self.weight[:, None, None]


class Pointwise(nn.Module):
    """A 1×1 convolution whose weight is a plain matrix, as optimizers for matrices need it."""

    last = False

    def __init__(self, width: int, wanted: int, *, bias: bool = True) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(wanted, width))
        nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        self.bias = nn.Parameter(torch.zeros(wanted)) if bias else None

    def forward(self, features: Tensor) -> Tensor:
        if self.last:
            return F.linear(features.permute(0, 2, 3, 1), self.weight, self.bias).permute(0, 3, 1, 2)
        return F.conv2d(features, self.weight[:, :, None, None], self.bias)


class ConvBlock(nn.Module):
    """Depth-wise convolution, wider than high like writing, then two 1×1; a question may scale features in between."""

    def __init__(self, width: int, kernel: tuple[int, int], query_width: int = 0, expand: int = 2) -> None:
        super().__init__()
        padding = (kernel[0] // 2, kernel[1] // 2)
        self.spatial: Any = nn.Conv2d(width, width, kernel, padding=padding, groups=width)
        self.norm = ChannelNorm(width)
        self.expand = Pointwise(width, expand * width)
        self.contract = Pointwise(expand * width, width)
        self.modulate = nn.Linear(query_width, expand * width) if query_width else None
        if self.modulate is not None:
            nn.init.zeros_(self.modulate.weight)
            nn.init.zeros_(self.modulate.bias)

    def forward(self, features: Tensor, query: Tensor | None = None) -> Tensor:
        hidden = F.gelu(self.expand(self.norm(self.spatial(features))))
        if self.modulate is not None:
            hidden = hidden * (1 + self.modulate(query)[:, :, None, None])
        return features + self.contract(hidden)


class Match(nn.Module):
    """Attention from every place of a map to the characters of the question, with a residual."""

    def __init__(self, width: int, query_width: int, inner: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm = ChannelNorm(width)
        self.ask = Pointwise(width, inner)
        self.key_value = nn.Linear(query_width, 2 * inner)
        self.answer = Pointwise(inner, width)

    def forward(self, features: Tensor, words: Tensor, hidden: Tensor) -> Tensor:
        """Attend to the question: features (B, C, H, W), words (B or 1, L, Q), hidden (B or 1, 1, 1, L), added to the
        scores, very low for padding."""
        rows, cols = features.shape[2:]
        key, value = self.key_value(words).expand(features.shape[0], -1, -1).chunk(2, dim=-1)
        asked = self.ask(self.norm(features)).flatten(2).transpose(1, 2)
        mixed = mixed_heads(self.heads, asked, key, value, hidden)
        return features + self.answer(mixed.transpose(1, 2).unflatten(2, (rows, cols)))


class Relate(nn.Module):
    """A transformer block: attention between all cells, then a feed-forward network."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList([ChannelNorm(width) for _ in range(2)])
        self.look = Pointwise(width, 3 * width)
        self.relate = Pointwise(width, width)
        self.think = nn.Sequential(Pointwise(width, 2 * width), nn.GELU(), Pointwise(2 * width, width))

    def forward(self, features: Tensor) -> Tensor:
        rows, cols = features.shape[2:]
        parts = self.look(self.norms[0](features)).flatten(2).transpose(1, 2).chunk(3, dim=-1)
        mixed = mixed_heads(self.heads, *parts)
        features = features + self.relate(mixed.transpose(1, 2).unflatten(2, (rows, cols)))
        return features + self.think(self.norms[1](features))


def mixed_heads(heads: int, query: Tensor, key: Tensor, value: Tensor, hidden: Tensor | None = None) -> Tensor:
    """Multi-head attention: (B, P, D), (B, L, D), (B, L, D) → (B, P, D). hidden: added to the scores."""
    parts = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in (query, key, value))
    mask = None if hidden is None else hidden.to(query.dtype)
    return F.scaled_dot_product_attention(*parts, attn_mask=mask).transpose(1, 2).flatten(2)


class QuestionReader(nn.Module):
    """Encode characters into a vector for each, in the context of the whole question, and one for the question."""

    def __init__(self, alphabet: int, width: int, heads: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(alphabet, width, padding_idx=0)
        self.place = nn.Parameter(torch.randn(1, QUESTION, width) * 0.02)
        self.convolve = nn.ModuleList([nn.Conv1d(width, width, 5, padding=2) for _ in range(3)])
        self.norms = nn.ModuleList([nn.LayerNorm(width) for _ in range(4)])
        self.look = nn.Linear(width, 3 * width)
        self.relate = nn.Linear(width, width)
        self.heads = heads

    def forward(self, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        """Encode (B, L) int64 characters, 0 = padding, with scores to add, into words (B, L, Q) and summary (B, Q)."""
        there = (ids > 0)[..., None].to(self.place.dtype)
        words = self.embed(ids) + self.place[:, : ids.shape[1]] * there
        for convolve, norm in zip(self.convolve, self.norms[:3], strict=True):
            words = words + F.gelu(convolve((norm(words) * there).transpose(1, 2))).transpose(1, 2)
        parts = self.look(self.norms[3](words)).chunk(3, dim=-1)
        words = words + self.relate(mixed_heads(self.heads, *parts, hidden))
        return words, (words * there).sum(1) / there.sum(1).clamp_min(1)


class ReadingScorer(Pretrained):
    """Map picture and question to the relevance of every 32×32 cell."""

    config_class = ReadingScorerConfig
    config: ReadingScorerConfig

    def __init__(self, config: ReadingScorerConfig | None = None) -> None:
        super().__init__(config or ReadingScorerConfig())
        set_up = self.config
        narrow, middle, wide, query = set_up.narrow, set_up.middle, set_up.wide, set_up.query_width
        self.question = QuestionReader(set_up.alphabet, query, set_up.heads // 2)
        self.stem = nn.Sequential(
            nn.Conv2d(3, narrow // 2, 3, stride=2, padding=1),
            nn.GELU(),
            nn.Conv2d(narrow // 2, narrow, 3, stride=2, padding=1),
        )
        self.fine = nn.ModuleList([ConvBlock(narrow, (5, 5)) for _ in range(set_up.fine)])
        self.down8 = nn.Conv2d(narrow, middle, 2, stride=2)
        self.read = nn.ModuleList([ConvBlock(middle, (5, 9)) for _ in range(set_up.before)])
        self.glyphs = Pointwise(middle, set_up.alphabet)
        assert self.glyphs.bias is not None
        nn.init.constant_(self.glyphs.bias, -4.6)  # of 97 letters, one or two are in a block
        # Letters first, then words: after matching letters, places see their neighbours and match again.
        inner = middle // 2 // (set_up.heads // 2) * (set_up.heads // 2)
        self.matches = nn.ModuleList([Match(middle, query, inner, set_up.heads // 2) for _ in range(2)])
        self.spell = nn.ModuleList([ConvBlock(middle, (3, 11), query) for _ in range(set_up.after)])
        self.down16 = nn.Conv2d(middle, wide, 2, stride=2)
        self.words = nn.ModuleList([ConvBlock(wide, (5, 9), query) for _ in range(2)])
        self.down32 = nn.Conv2d(wide, wide, 2, stride=2)
        self.place = Pointwise(4 * set_up.waves, wide, bias=False)
        nn.init.zeros_(self.place.weight)
        self.asks = nn.ModuleList([Match(wide, query, wide, set_up.heads) for _ in range(set_up.coarse)])
        self.relates = nn.ModuleList([Relate(wide, set_up.heads) for _ in range(set_up.coarse)])
        self.spreads = nn.ModuleList([ConvBlock(wide, (7, 7), query) for _ in range(set_up.coarse)])
        self.last = ChannelNorm(wide)
        self.head = Pointwise(wide, 1)
        # Start with low relevance everywhere, because most cells do not matter.
        assert self.head.bias is not None
        nn.init.constant_(self.head.bias, -4.0)

    def forward(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        """Map (B, 3, H, W) uint8 or in [0, 1], sides multiples of 32, and (B, L) characters to logits of the cells."""
        return self.find(self.see(pictures), question_ids)

    def see(self, pictures: Tensor) -> Tensor:
        """Compute the features of pictures, without a question: (B, C, H / 8, W / 8)."""
        pixels = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures
        features = self.stem((pixels - 0.5) * 2)
        for block in self.fine:
            features = block(features)
        features = self.down8(features)
        for block in self.read:
            features = block(features)
        return features

    def find(self, features: Tensor, question_ids: Tensor) -> Tensor:
        """Compute logits (B, H / 32, W / 32) for questions (B, L), or one for all (1, L), from the result of `see`."""
        ids = lower_case(question_ids[:, :QUESTION])
        hidden = torch.where(ids > 0, 0.0, -1e4)[:, None, None, :]
        words, summary = self.question(ids, hidden)
        features = self.matches[0](features, words, hidden)
        for number, block in enumerate(self.spell):
            features = block(features, summary)
            if number == 0:
                features = self.matches[1](features, words, hidden)
        features = self.down16(features)
        for block in self.words:
            features = block(features, summary)
        features = self.down32(features)
        features = features + self.place(position_waves(features, self.config.waves))
        for ask, relate, spread in zip(self.asks, self.relates, self.spreads, strict=True):
            features = spread(relate(ask(features, words, hidden)), summary)
        return self.head(self.last(features))[:, 0]

    @torch.no_grad()
    def score(self, pictures: Tensor, question_ids: Tensor) -> Tensor:
        """Compute relevance (B, rows, cols) in [0, 1] of pictures of any size, padded by repeating the edge."""
        return self.forward(self.padded(pictures), question_ids).float().sigmoid()

    def padded(self, pictures: Tensor) -> Tensor:
        """Convert and pad pictures (B, 3, H, W) of any size for `see`."""
        bottom, right = -pictures.shape[2] % CELL, -pictures.shape[3] % CELL
        pixels = pictures.float() / 255 if pictures.dtype == torch.uint8 else pictures.float()
        if bottom or right:
            pixels = F.pad(pixels, (0, right, 0, bottom), mode="replicate")
        return pixels.to(self.head.weight.dtype)


def position_waves(features: Tensor, waves: int) -> Tensor:
    """Return (1, 4 waves, rows, cols) for (B, C, rows, cols): sine and cosine of every row and column, wavelengths from
    3 cells upwards. Products of such features depend on the distance of two cells."""
    rows, cols = features.shape[2:]
    rates = 2 * math.pi / (3 * 1.7 ** torch.arange(waves, device=features.device, dtype=torch.float32))
    down = torch.arange(rows, device=features.device)[None] * rates[:, None]
    across = torch.arange(cols, device=features.device)[None] * rates[:, None]
    down, across = (torch.cat([angle.sin(), angle.cos()]) for angle in (down, across))
    grid = torch.cat([down[:, :, None].expand(-1, -1, cols), across[:, None, :].expand(-1, rows, -1)])
    return grid[None].to(features.dtype)


# ---- on a GPU --------------------------------------------------------------------------------------------------------

MOST_GRAPHS = 4
# Maximum pixels of a batch to record: for smaller ones launching kernels takes longer than the work; each holds memory.
MOST_RECORDED = 12 * 1024 * 1024


class SplitDepthwise(nn.Module):
    """A depth-wise convolution that is wider than high, split into square ones side by side.

    In channels-last format GPUs have fast kernels only for small squares: 3×11 takes 1 066 µs whole and 330 split.
    """

    def __init__(self, whole: nn.Conv2d) -> None:
        super().__init__()
        assert whole.bias is not None
        (down, across), self.width = whole.kernel_size, whole.out_channels
        starts = range(0, across, down)
        padded = F.pad(whole.weight.detach(), (0, starts[-1] + down - across))
        self.weights = nn.ParameterList([padded[..., start : start + down].clone() for start in starts])
        self.bias = nn.Parameter(whole.bias.detach().clone())
        beside = max(across // 2, starts[-1] - across // 2 + down - 1)
        self.padding = down // 2, beside
        self.offsets = [start - across // 2 + beside for start in starts]

    def forward(self, features: Tensor) -> Tensor:
        wide, total = features.shape[3], self.bias[:, None, None]
        for weight, offset in zip(self.weights, self.offsets, strict=True):
            seen = F.conv2d(features, weight, padding=self.padding, groups=self.width)
            total = total + seen[..., offset : offset + wide]
        return total


def for_gpu(scorer: ReadingScorer) -> ReadingScorer:
    """Copy a scorer for a GPU, in half precision, which suffices for relevance, and in channels-last format."""
    made = copy.deepcopy(scorer)
    for module in made.modules():
        if isinstance(module, ChannelNorm | Pointwise):
            module.last = True
        elif isinstance(module, ConvBlock) and module.spatial.kernel_size[0] < module.spatial.kernel_size[1]:
            module.spatial = SplitDepthwise(module.spatial)
    layout: Any = {"dtype": torch.bfloat16, "memory_format": torch.channels_last}
    return made.to(**layout)


def recorded(scorer: ReadingScorer) -> Callable[[Tensor, Tensor], Tensor]:
    """Return `score` of a scorer for a CUDA device. A size that comes again is replayed as a CUDA graph, because
    launching its kernels would take longer than running them."""
    graphs = Recordings(MOST_GRAPHS, "the scorer")

    def score(pictures: Tensor, question_ids: Tensor) -> Tensor:
        if len(pictures) == 1 or pictures[:, 0].numel() <= MOST_RECORDED:
            return graphs.run("score", scorer.score, pictures, question_ids)
        with using_gpu(pictures.device):
            return scorer.score(pictures, question_ids)

    return score
