"""A glance at one picture on a GPU: its coarse leaves and the layers that are read as CUDA graphs.

A glance is hundreds of small launches for a few dozen tokens. The graphs of a model are found by the model itself, and
go with it: they hold no reference that would keep it.
"""

from __future__ import annotations

import weakref
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from ...core.cuda_graph import CudaGraph, GraphCache, ordinary_tensors
from ..attention_reader import heads_by_layer, reading_attention
from ..base import Realized
from ..tokens.patches import LeafBatch
from .encode import LanguageWalk, VisualTokens
from .graph import MOST_GRAPHS, Graphs, PromptInputs, padded_length

if TYPE_CHECKING:
    from transformers import PreTrainedModel

HeadPairs = Sequence[tuple[int, int]]


class GlancePrompt:
    """The attention of the last token of prompts of one shape, over their visual tokens."""

    def __init__(
        self,
        model: PreTrainedModel,
        shape: tuple[int, int, int],
        layers: Sequence[int],
        heads: HeadPairs | None,
        *,
        recorded: bool = True,
    ) -> None:
        """shape: padded length, visual tokens and DeepStack planes."""
        self.model, self.layers, self.inputs = model, layers, PromptInputs(model, *shape)
        device = model.device
        self.keys = torch.zeros(1, shape[1], dtype=torch.int64, device=device)
        self.queries = torch.zeros(1, 1, dtype=torch.int64, device=device)
        self.heads = None if heads is None else heads_by_layer(heads, device)
        self.run = CudaGraph(self._read, device, recorded=recorded)

    def __call__(self, realized: Realized, queries: Tensor, keys: Tensor) -> Tensor:
        given = realized.inputs
        self.inputs.fill(given["input_ids"], realized.notes["tokens"], given["position_ids"])
        self.keys.copy_(keys)
        self.queries.copy_(queries)
        return self.run().clone()

    def _read(self) -> Tensor:
        embeds, planes = self.inputs.embedded()
        positions = self.inputs.positions
        walk = LanguageWalk(self.model.model.language_model, embeds, positions[1:], planes, position_ids=positions[0])
        how: dict[str, object] = {"by_head": True, "heads": self.heads, "stop": True}
        with reading_attention(self.model, self.keys, self.layers, **how) as record:
            record.queries = self.queries
            walk.run()
        return record.weights()


class GlanceGraphs:
    """The graphs of one model's glances. One thread at a time: a second one finds them busy and does without."""

    def __init__(self, model: PreTrainedModel) -> None:
        self.model = model
        self.busy = Lock()
        self.towers = Graphs(model)
        self.prompts: GraphCache[GlancePrompt] = GraphCache(MOST_GRAPHS, "a glance")

    def tower(self, patches: Tensor, batch: LeafBatch) -> VisualTokens:
        """`encode_leaves`; what it gives may be kept."""
        with ordinary_tensors():
            made = self.towers.tower(patches, batch)
            return VisualTokens(made.embeds.clone(), tuple(plane.clone() for plane in made.planes))

    def read(
        self, realized: Realized, queries: Tensor, keys: Tensor, layers: Sequence[int], heads: HeadPairs | None
    ) -> Tensor:
        """The attention of one prompt, as `AttentionRecord.weights` gives it.

        Args:
            realized: The prompt with its coarse leaves.
            queries: (1, 1) the column that looks.
            keys: (1, K) those that are looked at.
            layers: That are read.
            heads: (layer, head) pairs that alone are read; None for all.

        Returns:
            (1, layers, heads, 1, K), or (1, 1, heads, 1, K) of chosen heads.
        """
        tokens = realized.notes["tokens"]
        shape = padded_length(realized.inputs["input_ids"].shape[1]), len(tokens.embeds), len(tokens.planes)
        given = self.model, shape, layers, heads
        key = shape, tuple(layers), None if heads is None else tuple(heads)
        with ordinary_tensors():
            graph = self.prompts.get(key, lambda: GlancePrompt(*given)) or GlancePrompt(*given, recorded=False)
            return graph(realized, queries, keys)


_graphs: weakref.WeakKeyDictionary[object, GlanceGraphs] = weakref.WeakKeyDictionary()
_lock = Lock()


@contextmanager
def glance_graphs(model: PreTrainedModel, rows: int) -> Generator[GlanceGraphs | None]:
    """The graphs of a model, held while the block is open; None for several prompts, for a model that cannot be
    captured, and where another thread has them."""
    if rows != 1 or not Graphs.safe(model):
        yield None
        return
    with _lock:
        found = _graphs.get(model)
        if found is None:
            proxy: Any = weakref.proxy(model)
            found = _graphs[model] = GlanceGraphs(proxy)
    if not found.busy.acquire(blocking=False):
        yield None
        return
    try:
        yield found
    finally:
        found.busy.release()
