"""A stock Qwen3-VL that answers step by step: prompts in rows (`StockSpeaker`), or one picture at a time on a GPU, its
vision tower, its prompt and the step of its answer as CUDA graphs.

At batch 1 launching kernels takes longer than running them. An exact budget makes graphs possible: whatever the
question, the picture becomes the same number of patches and of visual tokens, so that a few recordings serve all. A
prompt is padded on the right to the next multiple of `BUCKET`, where causal attention never looks. Answers are decoded
over memory of fixed size, by one recorded step; a second thread meanwhile goes on with the stock model and its cache.
"""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.modules import Recordings, using_gpu
from ..base import DecodingStep, LeafPrompt
from ..patches import LeafBatch
from .encode import VisualTokens, encode_leaves, run_language_model

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUCKET = 32  # prompts are padded to a multiple of this
CACHE_BUCKET = 256  # and caches of fixed length to a multiple of that
MOST_GRAPHS = 8  # of each kind


@torch.no_grad()
def next_token(model: PreTrainedModel, hidden: Tensor) -> DecodingStep:
    """Return the likeliest token after each row of last hidden states (B, 1, D).

    Logits are float32, also where a caller lets everything else run in half precision: confidence hangs on them.
    """
    head = model.lm_head
    with torch.autocast(hidden.device.type, enabled=False):
        logits = head(hidden.to(head.weight.dtype)).float()[:, 0]
    return DecodingStep(logits.argmax(-1), logits)


class StockSpeaker:
    """A stock model that has read prompts with one placeholder per visual token, padded on the left."""

    def __init__(self, model: PreTrainedModel, prompt: LeafPrompt) -> None:
        from transformers import DynamicCache

        ids, tokens, position_ids, after, mask = prompt
        mask = torch.ones_like(ids) if mask is None else mask
        self.model, self.cache = model, DynamicCache(config=model.config.get_text_config())
        how: dict[str, Any] = {"past_key_values": self.cache, "use_cache": True}
        with using_gpu(ids.device), torch.no_grad():
            output = run_language_model(model, ids, tokens, position_ids, mask, **how)
        self.hidden = output.last_hidden_state[:, -1:]
        # Row 0 counts tokens, the other three say where they are.
        self.positions = torch.stack([mask.sum(1).to(after), *[after] * 3])[..., None]
        # Where no row is padded, a single new token sees all there is: nothing needs to be masked while decoding.
        self.mask = None if bool(mask.all()) else mask

    def begin(self) -> DecodingStep:
        return next_token(self.model, self.hidden)

    def go_on(self, ids: Tensor) -> DecodingStep:
        with using_gpu(ids.device), torch.no_grad():
            if self.mask is not None:
                self.mask = torch.cat([self.mask, self.mask.new_ones(len(self.mask), 1)], dim=1)
            output = self.model.model.language_model(
                inputs_embeds=self.model.get_input_embeddings()(ids[:, None]),
                attention_mask=self.mask,
                position_ids=self.positions,
                past_key_values=self.cache,
                use_cache=True,
            )
        self.hidden, self.positions = output.last_hidden_state, self.positions + 1
        return self.begin()


class Graphs:
    """The graphs of one model. decoding: held by the thread that decodes an answer by its recorded step."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.towers = Recordings(MOST_GRAPHS, "the vision tower")
        self.prompts = Recordings(MOST_GRAPHS, "a prompt")
        self.steps = Recordings(MOST_GRAPHS, "a step")
        self.caches: OrderedDict[int, StepCache] = OrderedDict()
        self.decoding = Lock()

    def __reduce__(self) -> tuple[object, ...]:
        """Drop recordings from a copy: they belong to this process and its device."""
        return Graphs, (self.model,)

    @staticmethod
    def safe(model: PreTrainedModel) -> bool:
        """Tell whether this model can be recorded: an unchanged dense Qwen3-VL on one CUDA device, usual attention."""
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
        """Run `encode_leaves` on one picture, recorded for its number of leaves."""
        model, counts, levels = self.model, batch.counts, batch.levels

        def encode(patches: Tensor, leaves: Tensor, owner: Tensor, grid: Tensor) -> tuple[Tensor, ...]:
            tokens = encode_leaves(model, patches, LeafBatch(leaves, owner, grid, counts, levels))
            return (tokens.embeds, *tokens.planes)

        given = (patches, batch.leaves, batch.owner, batch.grid)
        embeds, *planes = self.towers.run((counts, levels), encode, *given)
        return VisualTokens(embeds, tuple(planes))

    def speaker(self, prompt: LeafPrompt, most: int) -> RecordedSpeaker:
        """Read one prompt without padding and answer it with at most `most` tokens, by a recorded step. One thread at a
        time, which holds `decoding`."""
        ids, tokens, positions, following, _ = prompt
        length = ids.shape[1]
        pad = (0, padded_length(length) - length)
        last = torch.full((1,), length - 1, device=ids.device)
        given = (F.pad(ids, pad), F.pad(positions, pad), last, tokens.embeds, *tokens.planes)
        hidden, kept = self.prompts.run("prompt", self._read, *given)
        kept, columns = kept[..., :length, :], padded_length(length + most, CACHE_BUCKET)
        if columns not in self.caches:
            while len(self.caches) >= MOST_GRAPHS:
                self.steps.forget(next(iter(self.caches)))
                self.caches.popitem(last=False)
            self.caches[columns] = StepCache(kept, columns)
        self.caches.move_to_end(columns)
        self.caches[columns].fill(kept)
        return RecordedSpeaker(self, self.caches[columns], hidden, length, following)

    def _read(self, ids: Tensor, positions: Tensor, last: Tensor, first: Tensor, *planes: Tensor) -> tuple[Tensor, ...]:
        """Return hidden states at the last token, and keys and values (layers, 2, 1, heads, L, size of a head)."""
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


class StepCache:
    """Keys and values of one prompt and its answer, in memory that stays where it is. place: (1,), the column of the
    next token. Stands where a model's layers expect a cache of transformers, of which they call `update`."""

    def __init__(self, kept: Tensor, columns: int) -> None:
        with torch.inference_mode(False):
            self.buffers = kept.new_zeros(*kept.shape[:4], columns, kept.shape[5])
            self.columns = torch.arange(columns, device=kept.device)
        self.place = self.columns[:1]

    def fill(self, kept: Tensor) -> None:
        """Begin with the keys and values of a prompt."""
        self.buffers[..., : kept.shape[4], :] = kept

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        for into, one in zip(self.buffers[layer], (keys, values), strict=True):
            into.index_copy_(2, self.place, one)
        return self.buffers[layer, 0], self.buffers[layer, 1]


class RecordedSpeaker:
    """A prompt that was read, answered by the recorded step: a speaker for `greedy_steps`."""

    def __init__(self, graphs: Graphs, cache: StepCache, hidden: Tensor, length: int, next_position: Tensor) -> None:
        self.graphs, self.cache, self.hidden = graphs, cache, hidden
        self.place = torch.full((1,), length, device=hidden.device)
        counted = self.place.to(next_position)
        # Row 0 counts tokens, the other three say where they are.
        self.positions = torch.stack([counted, *[next_position] * 3])[..., None]

    def begin(self) -> DecodingStep:
        return next_token(self.graphs.model, self.hidden)

    def go_on(self, ids: Tensor) -> DecodingStep:
        found = self.graphs.steps.run(len(self.cache.columns), self._step, ids, self.positions, self.place)
        self.place, self.positions = self.place + 1, self.positions + 1
        return found

    def _step(self, ids: Tensor, positions: Tensor, place: Tensor) -> DecodingStep:
        """Return the token after `ids` and its logits. Writes the cache at `place`, so it may run twice."""
        self.cache.place, language = place, self.graphs.model.model.language_model
        hidden = self.graphs.model.get_input_embeddings()(ids[:, None])
        turn, seen = language.rotary_emb(hidden, positions[1:]), (self.cache.columns <= place)[None, None, None]
        for layer in language.layers:
            hidden = layer(
                hidden,
                attention_mask=seen,
                position_ids=positions[0],
                past_key_values=self.cache,
                position_embeddings=turn,
            )
        return next_token(self.graphs.model, language.norm(hidden))


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
