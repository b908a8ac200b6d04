"""Where the tokens of a language model look, read through transformers' own attention interface.

One attention function is registered by name. It does what "sdpa" does and, where a record is open in the caller's
context, first writes down the weights of the queries that were asked about. `reading_attention` gives the language
model of one instance that name while it is open: no hook, no wrapper and no module is left on the model, whatever
happens inside. A thread that runs the same model meanwhile has no record in its context and gets the attention that
the model had before.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

READING = "arr_coc_reading"


@dataclass
class AttentionRecord:
    """Attention weights of the calls made while it is open.

    numbers: which attention modules are read, and the number of the layer of each. keys: (K,) or (B, K) int64, the
    columns that are looked at. queries: (B, Q) int64, the columns of the next call that look; None for all of them.
    by_head: keep every head, or only their mean. heads: by layer, (n,) int64: of these alone; None for all. last: the
    layer behind whose attention nothing more is wanted; None runs the model to its end. calls: by layer, one (B, heads
    or 1, Q, K) float32 for each call.
    """

    numbers: dict[nn.Module, int]
    keys: Tensor
    queries: Tensor | None = None
    by_head: bool = False
    heads: dict[int, Tensor] | None = None
    last: int | None = None
    calls: dict[int, list[Tensor]] = field(default_factory=dict)

    def weights(self) -> Tensor:
        """(B, layers, heads or 1, Q, K): layers in order, the queries of all calls one after the other; of chosen heads
        (B, 1, heads, Q, K), in the order of their layers."""
        if self.heads is not None:
            return torch.cat([torch.cat(self.calls[number], dim=2) for number in sorted(self.calls)], dim=1)[:, None]
        return torch.stack([torch.cat(self.calls[number], dim=2) for number in sorted(self.calls)], dim=1)


class AllRead(Exception):
    """Everything that was wanted of a forward is written down; what follows need not run."""


_open: ContextVar[AttentionRecord | None] = ContextVar("arr_coc_attention_record", default=None)
# id of a configuration → (how many records are open on it, its own attention): the last one to close restores.
_switched: dict[int, tuple[int, str]] = {}
_lock = Lock()


def language_model(model: PreTrainedModel) -> Any:
    """The language model inside a vision-language model of any family, without its head."""
    core = model.base_model
    return core.language_model if hasattr(core, "language_model") else core.text_model


def attention_modules(model: PreTrainedModel, layers: Iterable[int] | None = None) -> dict[nn.Module, int]:
    """The attention modules of the language model that go through the interface, with the number of their layer."""
    wanted = None if layers is None else set(layers)
    return {
        module: module.layer_idx
        for module in language_model(model).modules()
        if isinstance(number := getattr(module, "layer_idx", None), int)
        and hasattr(module, "scaling")  # which all that attend have, and layers and recurrent mixers have not
        and hasattr(module, "config")
        and (wanted is None or number in wanted)
    }


@contextmanager
def reading_attention(
    model: PreTrainedModel,
    keys: Tensor,
    layers: Iterable[int] | None = None,
    *,
    by_head: bool = False,
    heads: dict[int, Tensor] | None = None,
    stop: bool = False,
) -> Generator[AttentionRecord]:
    """Inside this block the language model's attention over the columns `keys` is written down, layer by layer.

    heads: as in `AttentionRecord`. stop: the first forward ends behind the last layer that is read, and the block with
    it, where nothing of the model is left half done by that.
    """
    _register()
    record = AttentionRecord(attention_modules(model, layers), keys, by_head=by_head, heads=heads)
    if stop and can_stop(model):
        record.last = max(record.numbers.values())
    found = (getattr(module, "config", None) for module in language_model(model).modules())
    configs = {id(config): config for config in found if hasattr(config, "_attn_implementation_internal")}
    for config in configs.values():
        _switch(config)
    token = _open.set(record)
    try:
        yield record
    except AllRead:
        pass
    finally:
        _open.reset(token)
        for config in configs.values():
            _restore(config)


def can_stop(model: PreTrainedModel) -> bool:
    """May a forward be left in its middle? Not where something is put back behind it: weights that were brought from
    elsewhere, layers that give out more than their states."""
    text = model.config.get_text_config()
    return not (
        text.output_attentions
        or text.output_hidden_states
        or any(hasattr(module, "_hf_hook") for module in language_model(model).modules())
    )


def _switch(config: PreTrainedConfig) -> None:
    with _lock:
        count, before = _switched.get(id(config), (0, config._attn_implementation))
        _switched[id(config)] = count + 1, before
        config._attn_implementation_internal = READING  # of this one, not of configurations inside it


def _restore(config: PreTrainedConfig) -> None:
    with _lock:
        count, before = _switched.pop(id(config))
        if count > 1:
            _switched[id(config)] = count - 1, before
        else:
            config._attn_implementation_internal = before


def _own_attention(config: object) -> str:
    return _switched.get(id(config), (0, "sdpa"))[1] or "sdpa"


def _register() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(READING, _attend)  # adds a name; what is there stays as it is
    AttentionMaskInterface.register(READING, _mask)


def _mask(*args: object, config: object = None, **how: object) -> object:
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    name = "sdpa" if _open.get() is not None else _own_attention(config)
    return ALL_MASK_ATTENTION_FUNCTIONS[name](*args, config=config, **how)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **how: Any
) -> object:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    record = _open.get()
    if record is None:
        return _function(_own_attention(module.config), module)(module, query, key, value, attention_mask, **how)
    if module in record.numbers:
        causal = how.get("is_causal")
        causal = getattr(module, "is_causal", True) if causal is None else causal
        number = record.numbers[module]
        asked = (query, key) if record.heads is None else chosen_heads(query, key, record.heads[number])
        weights = attention_weights(*asked, attention_mask, how.get("scaling"), causal, record.queries, record.keys)
        weights = weights if record.by_head else weights.mean(1, keepdim=True)
        record.calls.setdefault(number, []).append(weights)
        if number == record.last:
            raise AllRead
    return ALL_ATTENTION_FUNCTIONS["sdpa"](module, query, key, value, attention_mask, **how)


def _function(name: str, module: nn.Module) -> Callable[..., object]:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    if name in ALL_ATTENTION_FUNCTIONS:
        return ALL_ATTENTION_FUNCTIONS[name]
    return import_module(type(module).__module__).eager_attention_forward  # every family brings its own


def heads_by_layer(pairs: Iterable[tuple[int, int]], device: torch.device) -> dict[int, Tensor]:
    """(layer, head) pairs as `AttentionRecord` takes them."""
    found: dict[int, list[int]] = {}
    for layer, head in pairs:
        found.setdefault(layer, []).append(head)
    return {layer: torch.tensor(heads, device=device) for layer, heads in found.items()}


def chosen_heads(query: Tensor, key: Tensor, heads: Tensor) -> tuple[Tensor, Tensor]:
    """Queries (B, heads, L, d) and keys (B, key heads, N, d) of some heads (n,): (B, n, L, d) and (B, n, N, d)."""
    shared = query.shape[1] // key.shape[1]
    return query.index_select(1, heads), key.index_select(1, heads // shared)


def attention_weights(
    query: Tensor,
    key: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    causal: bool,
    rows: Tensor | None,
    columns: Tensor,
) -> Tensor:
    """(B, heads, Q, K) float32: softmax over all keys, of the rows (B, Q) asked for, at the columns (K,) or (B, K).

    query: (B, heads, L, d). key: (B, key heads, N, d). mask: (B or 1, 1, L, N) bool, or numbers to add; None is causal.
    """
    batch, heads, length, size = query.shape
    groups, keys = key.shape[1], key.shape[2]
    if mask is None and causal and length > 1:
        seen = torch.arange(length, device=query.device)[None] if rows is None else rows
        column = torch.arange(keys, device=query.device)
        mask = (column <= seen[..., None] + (keys - length))[:, None]  # (B or 1, 1, Q, N)
        if rows is not None:
            query, rows = query.gather(2, rows[:, None, :, None].expand(-1, heads, -1, size)), None
    if rows is not None:
        query = query.gather(2, rows[:, None, :, None].expand(-1, heads, -1, size))
        if mask is not None:
            mask = mask[:, 0].expand(batch, -1, -1).gather(1, rows[..., None].expand(-1, -1, mask.shape[-1]))[:, None]
    asked = query.reshape(batch, groups, -1, size)
    scores = (asked @ key.transpose(2, 3)).float().view(batch, heads, -1, keys)
    scores = scores * (size**-0.5 if scaling is None else scaling)
    if mask is not None:
        mask = mask[..., :keys]
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1).nan_to_num(0.0)  # a row that may see nothing at all is padding
    if columns.ndim == 1:
        return weights[..., columns]
    return weights.gather(3, columns[:, None, None].expand(-1, heads, weights.shape[2], -1))
