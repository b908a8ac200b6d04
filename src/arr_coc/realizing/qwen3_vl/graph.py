"""One picture at a time on a GPU: tower, prompt and decoding step as CUDA graphs.

At batch 1 launching kernels takes longer than running them. An exact budget makes graphs possible: whatever the
question, the picture becomes the same number of patches and of visual tokens, so that a few captures serve all. A
prompt is padded on the right to the next multiple of `BUCKET`, where causal attention never looks; keys and values lie
in buffers of fixed length, and the answer is written over the padding. The same functions run uncaptured where there is
no CUDA device, and give what the stock forward gives.
"""

from __future__ import annotations

from collections import OrderedDict
from math import prod
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from ...core.cuda_graph import CudaGraph, GraphCache
from ...core.errors import InputError
from ..base import DecodingStep, LeafPrompt
from ..tokens.patches import LeafBatch
from .encode import LanguageWalk, VisualTokens, encode_leaves

if TYPE_CHECKING:
    from transformers import PreTrainedModel

BUCKET = 32  # prompts are padded to a multiple of this
CACHE_BUCKET = 256  # and caches to a multiple of that
# Numbers of rows and lengths whose answers are recorded, and bytes of the keys and values of each.
MOST_ROWS, MOST_BYTES = 3, 3 * 2**30
MOST_GRAPHS = 8  # of each kind; the one that was used longest ago goes first


class TowerGraph:
    """Captured once from an example, called like `encode_leaves` without the model, for that number of leaves.

    The result of a call is overwritten by the next one; clone what must last. Weights may be changed in place, but not
    replaced. One thread at a time.
    """

    def __init__(self, model: PreTrainedModel, patches: Tensor, batch: LeafBatch) -> None:
        if patches.device.type != "cuda":
            raise InputError(f"a CUDA graph needs a CUDA device, the patches are on {patches.device}")
        self.patches, self.leaves, self.owner, self.grid = (
            item.clone() for item in (patches, batch.leaves, batch.owner, batch.grid)
        )
        self.counts = batch.counts
        fixed = LeafBatch(self.leaves, self.owner, self.grid, batch.counts, batch.levels)
        self.run = CudaGraph(lambda: encode_leaves(model, self.patches, fixed), patches.device)

    def __call__(self, patches: Tensor, batch: LeafBatch) -> VisualTokens:
        if batch.counts != self.counts:
            raise InputError(f"this graph is for {self.counts} leaves, got {batch.counts}")
        self.patches.copy_(patches)
        self.leaves.copy_(batch.leaves)
        self.owner.copy_(batch.owner)
        self.grid.copy_(batch.grid)
        return self.run()


class FixedCache:
    """Keys and values of prompts in buffers of one length. place: (n,) int64, the columns that the next ones take;
    None while a prompt is read: it takes the first columns and sees nothing but itself.

    Stands where a model's layers expect transformers' cache: all they call is `update`.
    """

    def __init__(self, model: PreTrainedModel, length: int, rows: int = 1) -> None:
        shape = self.shape(model, length, rows)
        self.buffers = torch.zeros(shape, dtype=model.dtype, device=model.device)
        self.place: Tensor | None = None

    @staticmethod
    def shape(model: PreTrainedModel, length: int, rows: int) -> tuple[int, ...]:
        """Layers, keys and values, rows, heads, columns, size of a head."""
        config = model.config.get_text_config()
        size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
        return (config.num_hidden_layers, 2, rows, config.num_key_value_heads, length, size)

    def update(self, keys: Tensor, values: Tensor, layer: int, *_: object, **__: object) -> tuple[Tensor, Tensor]:
        both = self.buffers[layer]
        if self.place is None:
            both[0, :, :, : keys.shape[2]] = keys
            both[1, :, :, : keys.shape[2]] = values
            return keys, values
        both[0].index_copy_(2, self.place, keys.to(both.dtype))
        both[1].index_copy_(2, self.place, values.to(both.dtype))
        return both[0], both[1]


def likeliest(model: PreTrainedModel, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """(B, D) → the likeliest tokens (B,) and float32 logits (B, vocabulary)."""
    logits = model.lm_head(hidden.to(model.lm_head.weight.dtype)).float()
    return logits.argmax(-1), logits


class ReadRows(Protocol):
    """Prompts in rows, padded on the left, that a stock model has read: `eye.decoding.Prefilled`."""

    @property
    def cache(self) -> Any: ...
    @property
    def hidden(self) -> Tensor: ...
    @property
    def mask(self) -> Tensor | None: ...
    @property
    def positions(self) -> Tensor: ...


class RowsGraph:
    """Greedy answers to prompts of at most `length` tokens, question, picture and answer together; several in rows, all
    of which write into one column. One graph for the step. A speaker for `eye.decoding.greedy_steps`. One thread at a
    time."""

    def __init__(self, model: PreTrainedModel, length: int, rows: int = 1) -> None:
        self.model, self.length, device = model, length, model.device
        self.cache = FixedCache(model, length, rows)
        self.token = torch.zeros(rows, dtype=torch.int64, device=device)
        self.positions = torch.zeros(4, rows, 1, device=device)
        self.mask = torch.zeros(rows, 1, 1, length, dtype=torch.bool, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)
        self.steps: GraphCache[CudaGraph] = GraphCache(1, "a step")
        self.step: CudaGraph | None = None
        self.first = torch.empty(0), torch.empty(0)

    def take(self, read: ReadRows) -> None:
        """Go on from prompts that the stock model has read; rows that are left over say nothing that counts."""
        rows = len(read.hidden)
        for into, layer in zip(self.cache.buffers, read.cache.layers, strict=True):
            length = layer.keys.shape[2]
            into[0, :rows, :, :length] = layer.keys
            into[1, :rows, :, :length] = layer.values
        self.mask.zero_()
        self.mask[:rows, 0, 0, :length] = True if read.mask is None else read.mask.bool()
        self.place.fill_(length)
        self.positions[:, :rows] = read.positions.to(self.positions.dtype)
        self.ready()
        ids, logits = likeliest(self.model, read.hidden[:, -1])
        self.first = ids, logits
        self.token[:rows] = ids

    def ready(self) -> None:
        """The step, recorded when first needed: it moves what it reads, so that comes before what it shall read."""
        self.cache.place = self.place
        if "step" in self.steps:
            return
        state, device = (self.token, self.positions, self.mask, self.place), self.model.device
        kept = [one.clone() for one in state]
        # Where others were at work it is plain this time, and recorded another.
        self.step = self.steps.get("step", lambda: CudaGraph(self._step, device), at_once=True)
        self.step = self.step or CudaGraph(self._step, device, recorded=False)
        for into, one in zip(state, kept, strict=True):
            into.copy_(one)

    def begin(self) -> DecodingStep:
        """The first token of each row and its logits (B, vocabulary)."""
        return DecodingStep(*self.first)

    def go_on(self, ids: Tensor) -> DecodingStep:
        """The next ones; the tokens before are still in the graph's own memory."""
        assert self.step is not None
        rows = len(ids)
        ids, logits = self.step()
        return DecodingStep(ids[:rows].clone(), logits[:rows].clone())

    def walk(self, embeds: Tensor, positions: Tensor, planes: tuple[Tensor, ...] = ()) -> LanguageWalk:
        """Through the language model with the cache of this graph, without a step that waits. embeds: (B, L, D).
        positions: (4, B, L). planes: each (B, L, D), zero where there is text: the stock forward picks the visual
        places, which a graph cannot."""
        language = self.model.model.language_model
        return LanguageWalk(language, embeds, positions[1:], planes, self.cache, position_ids=positions[0])

    def _step(self) -> tuple[Tensor, Tensor]:
        self.mask.index_fill_(3, self.place, True)
        embeds = self.model.get_input_embeddings()(self.token[:, None])
        hidden = self.walk(embeds, self.positions).run(self.mask)
        ids, logits = likeliest(self.model, hidden[:, -1])
        self.token.copy_(ids)
        self.positions.add_(1)
        self.place.add_(1)
        return ids, logits


class DecodeGraph(RowsGraph):
    """One prompt at a time, which is read by graphs too: one for each shape of prompt."""

    def __init__(self, model: PreTrainedModel, length: int) -> None:
        super().__init__(model, length)
        self.prompts: GraphCache[PromptGraph] = GraphCache(MOST_GRAPHS, "a prompt")

    def read(self, prompt: LeafPrompt) -> None:
        """Read one prompt without padding; it is then a speaker."""
        input_ids, tokens, position_ids, next_position, _ = prompt
        shape = padded_length(input_ids.shape[1]), len(tokens.embeds), len(tokens.planes)
        graph = self.prompts.get(shape, lambda: PromptGraph(self, *shape)) or PromptGraph(self, *shape, recorded=False)
        self.ready()
        # What the graphs return is overwritten by the next step, so everything that lasts is copied.
        ids, logits = graph(input_ids, tokens, position_ids)
        self.first = ids.clone(), logits.clone()
        self.token.copy_(ids)
        self.place.fill_(input_ids.shape[1])
        self.positions.copy_(
            torch.stack([torch.full_like(next_position, input_ids.shape[1]), *[next_position] * 3])[..., None]
        )
        self.mask.zero_()
        self.mask[..., : input_ids.shape[1]] = True
        self.cache.place = self.place


class PromptInputs:
    """Prompts of one padded length with one number of visual tokens, in memory that stays where it is."""

    def __init__(self, model: PreTrainedModel, length: int, visual: int, planes: int) -> None:
        width, device = model.config.get_text_config().hidden_size, model.device
        self.model, self.length = model, length
        self.ids = torch.zeros(1, length, dtype=torch.int64, device=device)
        self.positions = torch.zeros(4, 1, length, device=device)
        self.last = torch.full((1,), length - 1, device=device)
        self.visual = torch.zeros(1, length, dtype=torch.bool, device=device)
        self.visual[:, :visual] = True  # while capturing: as many places as tokens
        self.tokens = torch.zeros(1 + planes, visual, width, dtype=model.dtype, device=device)

    def fill(self, input_ids: Tensor, tokens: VisualTokens, position_ids: Tensor) -> None:
        """Another prompt in the place of the one before."""
        missing = self.length - input_ids.shape[1]
        self.ids.copy_(F.pad(input_ids, (0, missing)))
        self.positions.copy_(F.pad(position_ids, (0, missing)))
        self.last.fill_(input_ids.shape[1] - 1)
        self.visual.copy_(self.ids == self.model.config.image_token_id)
        for into, plane in zip(self.tokens, (tokens.embeds, *tokens.planes), strict=True):
            into.copy_(plane)

    def embedded(self) -> tuple[Tensor, tuple[Tensor, ...]]:
        """What the first layer reads, and the DeepStack planes at the places of all tokens: (1, L, D) each."""
        embeds = self.model.get_input_embeddings()(self.ids)
        at = self.visual[..., None].expand_as(embeds)
        first, *planes = self.tokens
        embeds = embeds.masked_scatter(at, first)
        return embeds, tuple(torch.zeros_like(embeds).masked_scatter(at, plane) for plane in planes)


class PromptGraph:
    """Prompts of one shape, read into the cache of a `DecodeGraph`."""

    def __init__(self, owner: DecodeGraph, length: int, visual: int, planes: int, *, recorded: bool = True) -> None:
        self.owner, self.inputs = owner, PromptInputs(owner.model, length, visual, planes)
        owner.cache.place = None
        self.run = CudaGraph(self._read, owner.model.device, recorded=recorded)

    def __call__(self, input_ids: Tensor, tokens: VisualTokens, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        self.inputs.fill(input_ids, tokens, position_ids)
        self.owner.cache.place = None
        return self.run()

    def _read(self) -> tuple[Tensor, Tensor]:
        embeds, planes = self.inputs.embedded()
        hidden = self.owner.walk(embeds, self.inputs.positions, planes).run()
        return likeliest(self.owner.model, hidden.index_select(1, self.inputs.last)[:, 0])


def padded_length(length: int, to: int = BUCKET) -> int:
    return -(-length // to) * to


class Graphs:
    """The graphs of one model, made when a size comes for the second time; a size that cannot be recorded is answered
    without. A second thread finds them busy and does without.

    CHECK_EVERY: steps between two looks at whether the answer has ended, because looking means waiting for the device.
    """

    CHECK_EVERY = 8

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.busy = Lock()
        self.towers: GraphCache[TowerGraph] = GraphCache(MOST_GRAPHS, "the vision tower")
        self.decoders: OrderedDict[int, DecodeGraph] = OrderedDict()
        self.rows: OrderedDict[tuple[int, int], RowsGraph] = OrderedDict()

    @staticmethod
    def safe(model: PreTrainedModel) -> bool:
        """Can this model be captured: a dense Qwen3-VL on one CUDA device, as it came, with the usual attention?"""
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
        """`encode_leaves` of one picture, captured for its number of leaves."""
        if patches.device.type != "cuda":
            return encode_leaves(self.model, patches, batch)
        key = batch.counts, batch.levels, batch.fractional
        graph = self.towers.get(key, lambda: TowerGraph(self.model, patches, batch))
        return encode_leaves(self.model, patches, batch) if graph is None else graph(patches, batch)

    def speaker(self, prompt: LeafPrompt, most: int) -> DecodeGraph:
        """What answers one prompt with at most `most` tokens."""
        decoder = self.decoder(padded_length(prompt.input_ids.shape[1]) + most)
        decoder.read(prompt)
        return decoder

    def decoder(self, length: int) -> DecodeGraph:
        """For prompts and answers of at most `length` tokens together."""
        length = padded_length(length, CACHE_BUCKET)
        if length not in self.decoders:
            while len(self.decoders) >= MOST_GRAPHS:
                self.decoders.popitem(last=False)
            self.decoders[length] = DecodeGraph(self.model, length)
        self.decoders.move_to_end(length)
        return self.decoders[length]

    def answering(self, read: ReadRows, most: int) -> RowsGraph | None:
        """What goes on with prompts that were read, for at most `most` tokens; None where it takes too much memory."""
        # A recording makes two steps beforehand, however short the answer.
        length = padded_length(read.cache.layers[0].keys.shape[2] + max(most, 2), CACHE_BUCKET)
        rows = 1 << (len(read.hidden) - 1).bit_length()
        values = prod(FixedCache.shape(self.model, length, rows))
        if values * self.model.dtype.itemsize > MOST_BYTES:
            return None
        if (rows, length) not in self.rows:
            while len(self.rows) >= MOST_ROWS:
                self.rows.popitem(last=False)
            self.rows[rows, length] = RowsGraph(self.model, length, rows)
        self.rows.move_to_end((rows, length))
        self.rows[rows, length].take(read)
        return self.rows[rows, length]
