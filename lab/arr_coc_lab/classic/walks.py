"""The walks through the layers of a Qwen3-VL, with places to hook into: to drop, record and merge on the way.

A walk calls the model's own modules, layer by layer, and changes nothing in them. `TowerWalk` and `LanguageWalk` hold
what is on its way; a caller overrides the methods of the places where it wants to do something. Depth routing drops
leaves on the way up the tower; the peers of the bench record queries and keys, merge and drop. `own_attention`
gives a part of a model another attention; `dense_vision_attention` runs pictures of equal length as one batch.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch.nn.functional as F
from torch import Tensor, nn

from arr_coc.realizing.qwen3_vl.encode import PatchPlaces, VisualTokens, row_boundaries

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class TowerWalk:
    """Patches on their way through the vision tower.

    hidden: (P, D), packed. turn: cosine and sine of every patch, (P, head size) each. lengths: patches of each row;
    rows do not see each other. attention: more arguments for the tower's attention. halves: whether the blocks are run
    in two halves, so that `between` is called.
    """

    halves = False

    def __init__(
        self, tower: Any, patches: Tensor, places: PatchPlaces, lengths: Sequence[int], **attention: Any
    ) -> None:
        self.tower, self.lengths, self.attention = tower, list(lengths), attention
        embedded = tower.patch_embed(patches.to(tower.dtype))
        learned = (tower.pos_embed(places.indices) * places.weights[:, :, None]).sum(1)
        self.hidden: Tensor = embedded + learned.to(embedded.dtype)
        self.turn: tuple[Tensor, Tensor] = tower.rotary_pos_emb(self.hidden, places.positions)

    def between(self, number: int, block: object) -> None:
        """Run after the attention of block `number`, before its MLP; only if `halves` is set."""

    def after(self, number: int) -> bool:
        """Run after block `number`; return true to end the walk."""
        return False

    def plane(self, made: Tensor) -> Tensor:
        """Return a DeepStack plane in the form to keep."""
        return made

    def last(self) -> Tensor:
        """Return the features (P, D) from which tokens are made."""
        return self.hidden

    def run(self) -> VisualTokens:
        """Run all blocks."""
        tower, planes = self.tower, []
        for number, block in enumerate(tower.blocks):
            rows = row_boundaries(tower, self.lengths, self.hidden.device)
            how = {"position_embeddings": self.turn, **rows, **self.attention}
            if self.halves:
                self.hidden = self.hidden + block.attn(block.norm1(self.hidden), **how)
                self.between(number, block)
                self.hidden = self.hidden + block.mlp(block.norm2(self.hidden))
            else:
                self.hidden = block(self.hidden, **how)
            if number in tower.deepstack_visual_indexes:
                merger = tower.deepstack_merger_list[tower.deepstack_visual_indexes.index(number)]
                planes.append(self.plane(merger(self.hidden)))
            if self.after(number):
                break
        return VisualTokens(tower.merger(self.last()), tuple(planes))


class LanguageWalk:
    """A prompt on its way through the language model.

    hidden: (B, L, D). positions: (3, B, L), time, row and col. planes: DeepStack's, each (B, L, D), zero where there is
    text. cache: keys and values, as the layers take it. arguments: more of them for every layer.
    """

    def __init__(
        self,
        language: Any,
        hidden: Tensor,
        positions: Tensor,
        planes: Sequence[Tensor] = (),
        cache: object = None,
        **arguments: object,
    ) -> None:
        self.language, self.planes, self.cache, self.arguments = language, list(planes), cache, arguments
        self.place(hidden, positions)

    def place(self, hidden: Tensor, positions: Tensor) -> None:
        """Replace the states and their positions."""
        self.hidden, self.positions = hidden, positions
        self.turn = self.language.rotary_emb(hidden, positions)

    def before(self, number: int) -> None:
        """Run before layer `number`."""

    def after(self, number: int) -> None:
        """Run after layer `number`, with its plane added."""

    def inject(self, number: int) -> None:
        """Add the DeepStack plane of layer `number`."""
        self.hidden = self.hidden + self.planes[number]

    def run(self, mask: Tensor | None = None) -> Tensor:
        """Run all layers and the last norm. mask: (1, 1, L, N) bool over the columns of the cache; None is causal
        over the prompt."""
        for number, layer in enumerate(self.language.layers):
            self.before(number)
            self.hidden = layer(
                self.hidden,
                attention_mask=mask,
                past_key_values=self.cache,
                position_embeddings=self.turn,
                **self.arguments,
            )
            if number < len(self.planes):
                self.inject(number)
            self.after(number)
        return self.language.norm(self.hidden)


@contextmanager
def own_attention(part: Any, name: str, attend: Callable[..., Any]) -> Generator[None]:
    """Let a part of one model, its tower or its language model, use the caller's attention function inside a block;
    transformers registers it as `name`."""
    from transformers import AttentionInterface

    AttentionInterface.register(name, attend)  # adds a name; what is there stays as it is
    before = part.config._attn_implementation
    part.set_attn_implementation(name)
    try:
        yield
    finally:
        part.set_attn_implementation(before)


def dense_attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None = None,
    *,
    segments: int = 1,
    scaling: float | None = None,
    **_: object,
) -> tuple[Tensor, None]:
    """Attend inside each of `segments` equal parts of a packed row. query: (1, heads, S·N, head size)."""
    heads, length, size = query.shape[1:]
    # (1, heads, S·N, d) -> (S, heads, N, d)
    query, key, value = (
        item.view(heads, segments, length // segments, size).transpose(0, 1) for item in (query, key, value)
    )
    mixed = F.scaled_dot_product_attention(query, key, value, scale=scaling)
    return mixed.transpose(1, 2).reshape(1, length, heads, size), None


@contextmanager
def dense_vision_attention(model: PreTrainedModel) -> Generator[None]:
    """Let `encode_leaves` run equal-length batches of this model as one dense attention inside a block.

    transformers runs packed vision attention picture by picture unless flash-attn is installed. Where all pictures of a
    batch have the same number of patches, as in training and in benchmarks, the packed row is really a (B, N) batch.
    """

    def as_one_row(tower: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        bounds = kwargs["cu_seqlens"]
        if len(bounds.diff().unique()) == 1:
            kwargs = {**kwargs, "cu_seqlens": bounds[[0, -1]], "segments": len(bounds) - 1}
        return args, kwargs

    tower = model.model.visual
    hook = tower.register_forward_pre_hook(as_one_row, with_kwargs=True)
    try:
        with own_attention(tower, "arr_coc_dense", dense_attention):
            yield
    finally:
        hook.remove()
