"""Operations for one picture and question: multiply-adds × 2 of the matrix products and convolutions.

Tower and language model by formulas, which a test holds equal to torch's own counter. The chooser is whatever else the
counter finds while a way runs: the scorer, the glance's pass, similarities, rows of attention. Attention is counted
as the whole square, as the counter does it; a causal kernel does half of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from typing import Any

import torch

from ...worlds.needle.batch import NeedleBatch
from .model import BEFORE, PeerScene, PrunableMini, Way


@dataclass(frozen=True)
class Cost:
    """GFLOP a picture."""

    tower: float
    language: float
    chooser: float

    @property
    def total(self) -> float:
        return self.tower + self.language + self.chooser

    def to_json(self) -> dict[str, float]:
        return {name: round(value, 4) for name, value in {**asdict(self), "total": self.total}.items()}


def tower_operations(config: Any, patches: Sequence[int]) -> int:
    """config: `vision_config`. patches: what each block's attention reads, and what is left behind the last; a block
    that merges does so before its MLP."""
    width, inner = config.hidden_size, config.intermediate_size
    pixels = config.in_channels * config.temporal_patch_size * config.patch_size**2
    total = 2 * patches[0] * pixels * width
    for read, left in pairwise(patches):
        total += 8 * read * width**2 + 4 * read**2 * width + 4 * left * width * inner
    group = config.spatial_merge_size**2
    merger = 2 * (group * width) ** 2 + 2 * group * width * config.out_hidden_size  # for one token
    ends = [*(patches[index + 1] for index in config.deepstack_visual_indexes), patches[-1]]
    return total + sum(count // group * merger for count in ends)


def language_operations(config: Any, lengths: Sequence[float], before: float = 0) -> float:
    """config: `text_config`. lengths: tokens that each layer reads. before: those that are in the cache."""
    width, inner, size = config.hidden_size, config.intermediate_size, config.head_dim
    heads, shared = config.num_attention_heads, config.num_key_value_heads
    each = 2 * width * size * (2 * heads + 2 * shared) + 6 * width * inner
    return sum(length * each + 4 * length * (length + before) * heads * size for length in lengths)


def model_cost(mini: PrunableMini, patches: Sequence[int], counts: Sequence[int], text: float) -> Cost:
    """patches: as for the tower. counts: visual tokens in every layer. text: the prompt's other tokens."""
    config = mini.model.config
    language = language_operations(config.text_config, [count + text for count in counts])
    return Cost(tower_operations(config.vision_config, patches) / 1e9, language / 1e9, 0.0)


def prompt_length(scene: PeerScene) -> float:
    """Tokens of the prompt that are not the picture's, mean over the batch."""
    return BEFORE + 1 + float(scene.prompt.sum(1).float().mean())


@torch.no_grad()
def counted_cost(mini: PrunableMini, way: Way, tokens: int, batch: NeedleBatch) -> Cost:
    """What one way costs on a batch of one picture, the chooser's share by torch's counter."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    scene = PeerScene(batch, mini.dtype, answers=False)
    scene.pyramid()
    if not way.spares_tower:
        mini.full(scene)  # whatever else the way does is the chooser's
    # The plain kernel, because the counter does not know every fused one.
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        told = way.make(mini, scene, tokens)
        _, counts = mini.language(scene, told)
    known = model_cost(mini, told.visual.patches, counts, prompt_length(scene))
    counted = counter.get_total_flops() / 1e9 - known.language - (known.tower if way.spares_tower else 0.0)
    return Cost(known.tower, known.language, max(0.0, counted))
