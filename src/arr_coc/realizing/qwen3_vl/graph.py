"""One picture at a time on a GPU: the vision tower and the prompt as CUDA graphs.

At batch 1 launching kernels takes longer than running them. An exact budget makes graphs possible: whatever the
question, the picture becomes the same number of patches and of visual tokens, so that a few recordings serve all. A
prompt is padded on the right to the next multiple of `BUCKET`, where causal attention never looks. Keys and values are
handed to a cache of transformers, from which the stock model goes on.
"""

from __future__ import annotations

from functools import cached_property
from threading import local
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.cuda_graph import Recordings
from ..base import LeafPrompt
from ..tokens.patches import LeafBatch
from .encode import VisualTokens, encode_leaves

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUCKET = 32  # prompts are padded to a multiple of this
CACHE_BUCKET = 256  # and caches of fixed length to a multiple of that
MOST_GRAPHS = 8  # of each kind


class Graphs:
    """The graphs of one model. compiled: answers are decoded over a static cache by the compiled language model, as
    `generate(cache_implementation="static")` does it: faster from the second answer on, the first compiles."""

    def __init__(self, model: PreTrainedModel, *, compiled: bool = False) -> None:
        self.model, self.compiled = model, compiled
        self.towers = Recordings(MOST_GRAPHS, "the vision tower")
        self.prompts = Recordings(MOST_GRAPHS, "a prompt")
        self.caches = local()  # of each thread

    @cached_property
    def language(self) -> Any:
        """The language model that decodes."""
        language = self.model.model.language_model
        return torch.compile(language, mode="reduce-overhead") if self.compiled else language

    @staticmethod
    def safe(model: PreTrainedModel) -> bool:
        """Can this model be recorded: a dense Qwen3-VL on one CUDA device, as it came, with the usual attention?"""
        language, config = model.model.language_model, model.config
        return (
            config.model_type == "qwen3_vl"
            and model.device.type == "cuda"
            and not model.training
            and language.config._attn_implementation == "sdpa"
            and len({parameter.device for parameter in model.parameters()}) == 1
            and not any(module._forward_hooks or module._forward_pre_hooks for module in language.modules())
        )

    def tower(self, patches: Tensor, batch: LeafBatch) -> VisualTokens:
        """`encode_leaves` of one picture, recorded for its number of leaves."""
        model, counts, levels = self.model, batch.counts, batch.levels

        def encode(patches: Tensor, leaves: Tensor, owner: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
            tokens = encode_leaves(model, patches, LeafBatch(leaves, owner, grid, counts, levels))
            return (tokens.embeds, *tokens.planes)

        given = (patches, batch.leaves, batch.owner, batch.grid)
        embeds, *planes = self.towers.run((counts, levels), encode, *given)
        return VisualTokens(embeds, tuple(planes))

    def read(self, prompt: LeafPrompt, most: int | None = None) -> tuple[Any, Tensor]:
        """Read one prompt without padding: a cache of transformers that holds it, and the last layer at its last token,
        (1, 1, D). most: tokens of the answer, which may then be decoded by the compiled model, before another prompt is
        read in this thread."""
        ids, tokens, positions, _, _ = prompt
        length = ids.shape[1]
        pad = (0, padded_length(length) - length)
        last = torch.full((1,), length - 1, device=ids.device)
        given = (F.pad(ids, pad), F.pad(positions, pad), last, tokens.embeds, *tokens.planes)
        hidden, kept = self.prompts.run("prompt", self._read, *given)
        cache = self._cache(None if most is None else length + most)
        for number, (keys, values) in enumerate(kept[..., :length, :].unbind(0)):
            cache.update(keys, values, number)
        return cache, hidden

    def _read(self, ids: Tensor, positions: Tensor, last: Tensor, first: Tensor, *planes: Tensor) -> tuple[Tensor, ...]:
        """Hidden states at the last token, and keys and values (layers, 2, 1, heads, L, size of a head)."""
        model, cache = self.model, PromptCache()
        embeds = model.get_input_embeddings()(ids)
        visual = (ids == model.config.image_token_id)[..., None].expand_as(embeds)
        embeds = embeds.masked_scatter(visual, first.to(embeds.dtype))
        # Planes at the places of all tokens: the stock forward picks the visual places, which a graph cannot.
        laid = [torch.zeros_like(embeds).masked_scatter(visual, plane.to(embeds.dtype)) for plane in planes]
        language = model.model.language_model
        turn, hidden = language.rotary_emb(embeds, positions[1:]), embeds
        for number, layer in enumerate(language.layers):
            hidden = layer(hidden, position_ids=positions[0], past_key_values=cache, position_embeddings=turn)
            hidden = hidden + laid[number] if number < len(laid) else hidden
        hidden = language.norm(hidden)
        return hidden.index_select(1, last), torch.stack([torch.stack(both) for both in cache.layers])

    def _cache(self, length: int | None) -> Any:
        from transformers import DynamicCache, StaticCache

        config = self.model.config.get_text_config()
        if not self.compiled or length is None:
            return DynamicCache(config=config)
        length = padded_length(length, CACHE_BUCKET)
        caches = self.caches.__dict__.setdefault("by_length", {})
        if length not in caches:  # compiled code is bound to the memory of its cache
            caches[length] = StaticCache(config=config, max_cache_len=length)
        caches[length].reset()
        return caches[length]


class PromptCache:
    """Keys and values of a prompt that sees nothing but itself, layer by layer; stands where a model's layers expect a
    cache of transformers, of which they call `update`."""

    def __init__(self) -> None:
        self.layers: list[tuple[Tensor, Tensor]] = []

    def update(self, keys: Tensor, values: Tensor, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        self.layers.append((keys, values))
        return keys, values


def padded_length(length: int, to: int = BUCKET) -> int:
    return -(-length // to) * to
