"""The glance: ask the model itself where to look, on a coarse view that costs a few tokens.

The picture is shown at one coarse level, the language model reads it with the question, and where the last token of the
prompt looks, just before it would begin to answer, becomes the participatory map. (The question's own tokens point
worse; lab/LOG.md has the numbers.) Which layers and heads point at what is asked is a property of each model: by
default the later layers are read, and `arr-coc calibrate` measures the heads on pictures whose boxes are known and
writes them down (`find_glance`).

A family that foveates before its encoder encodes the coarse leaves only; one that merges afterwards encodes in full,
once, and reads its tokens merged coarsely.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from importlib import import_module
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from ..attending.tree import build_tree
from ..core.errors import InputError
from ..core.folders import measured_path, verify
from ..core.values import Allocation, Relevance
from ..knowing.ways import detail_relevance
from .base import Backbone, Inputs, VisualGrid

if TYPE_CHECKING:
    from transformers import PreTrainedModel

FLAT = 0.05  # what flat ground keeps, beside the picture's most detailed cell at 1; the square root of both is taken
# The coarse view has at least this share of the picture's tokens. Without known heads all are read of the layers
# between these shares of the depth.
LEAST_SHARE, FIRST_LAYER = 1 / 16, 0.25
# What a prompt with ready-made visual tokens consists of.
PROMPT_KEYS = ("input_ids", "attention_mask", "position_ids", "token_type_ids", "mm_encoder_outputs")


@dataclass(frozen=True)
class Glance:
    """How to glance.

    least: the coarse view has at least this many tokens; never more than a quarter of the picture's own. heads: (layer,
    head) pairs whose attention is read, as `arr-coc calibrate` finds them; None reads all heads of the later layers.
    """

    least: int = 64
    heads: tuple[tuple[int, int], ...] | None = None

    @classmethod
    def load(cls, path: str | Path) -> Glance:
        """Return the heads that `arr-coc calibrate` wrote down."""
        verify(Path(path).parent, [Path(path).name])
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(heads=tuple((int(layer), int(head)) for layer, head in found["heads"]))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} holds no heads to glance with ({error}); run arr-coc calibrate") from error


def find_glance(model: PreTrainedModel) -> Glance:
    """Return how this model glances best, where that was measured; else as any model is likely to."""
    name = getattr(model.config, "_name_or_path", "") or ""
    path = measured_path(name, "glance")
    return Glance.load(path) if name and os.path.isfile(path) else Glance()


# ---- the coarse view -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class GlanceView:
    """Pictures at one coarse level each, as the model saw them.

    weights: (B, layers, heads, 2, K) attention of the last token of each prompt, and of the first one behind its
    pictures, over its K visual tokens. layers: their numbers. shown: (B, K) bool, no padding. cells: (C,) int64: the
    visual token, counted through all prompts, that shows each level-0 cell of all grids. known: what an
    encoder that ran in full gave, or None.
    """

    weights: Tensor
    layers: tuple[int, ...]
    shown: Tensor
    cells: Tensor
    known: object


def whole_pictures(grids: Sequence[VisualGrid], tiled: bool) -> list[list[int]]:
    """Return the numbers of the grids of each picture: tiles of one row of the batch are one picture in parts."""
    groups: dict[int, list[int]] = {}
    for number, grid in enumerate(grids):
        groups.setdefault(grid.row if tiled else number, []).append(number)
    return list(groups.values())


def view_levels(grids: Sequence[VisualGrid], glance: Glance, tiled: bool = False) -> list[int]:
    """Return the coarsest level, at least 1, at which each picture has enough tokens to glance; tiles count as one."""
    coarsest = [max(1, build_tree(grid.rows, grid.cols, 16).levels) for grid in grids]
    levels = [1] * len(grids)
    for members in whole_pictures(grids, tiled):
        parts = [grids[number] for number in members]
        wanted = max(glance.least, LEAST_SHARE * sum(grid.tokens for grid in parts))
        for level in range(1, 1 + max(coarsest[number] for number in members)):
            if sum((-(-grid.rows >> level)) * (-(-grid.cols >> level)) for grid in parts) >= wanted:
                for number in members:
                    levels[number] = min(level, coarsest[number])
    return levels


def coarse_allocation(grid: VisualGrid, level: int) -> Allocation:
    """Return the whole picture at one level."""
    corners = np.indices((-(-grid.rows >> level), -(-grid.cols >> level))).reshape(2, -1) << level
    leaves = np.stack([*corners, np.full_like(corners[0], level)], axis=1)
    return grid.frame.allocation(leaves, np.zeros(len(leaves)), len(leaves), "uniform")


@torch.no_grad()
def read_view(
    backbone: Backbone,
    model: PreTrainedModel,
    inputs: Inputs,
    levels: Sequence[int],
    layers: Sequence[int] | None = None,
) -> GlanceView:
    """Show every picture at its coarse level and write down where each prompt looks. layers: None reads all."""
    grids = backbone.grids(model, inputs)
    coarse = [coarse_allocation(grid, level) for grid, level in zip(grids, levels, strict=True)]
    realized = backbone.realize(model, {**inputs, "labels": None}, coarse)
    ids, mask = realized.inputs["input_ids"], realized.inputs["attention_mask"].bool()
    visual = (ids == backbone.image_token_id(model)) & mask
    place = torch.arange(ids.shape[1], device=ids.device)
    last = torch.where(mask, place, -1).amax(1)
    behind = torch.minimum(torch.where(visual, place, -1).amax(1) + 1, last)
    # The columns of the visual tokens of each row in order, and which of them are not padding.
    keys = (~visual).to(torch.uint8).argsort(dim=1, stable=True)[:, : int(visual.sum(1).max())]
    cells = realized.notes.get("cells")
    if cells is None:  # leaves stand in the prompt as they were allocated
        cells = cells_of_levels([(grid.rows, grid.cols) for grid in grids], levels)
    with reading_attention(model, torch.stack([last, behind], 1), keys, layers) as record:
        # Not by calling the model: what is attached to it would foveate again.
        given = {name: realized.inputs[name] for name in PROMPT_KEYS if name in realized.inputs}
        model.forward(**given, use_cache=False, logits_to_keep=1)
    numbers = tuple(sorted(record))
    weights = torch.stack([record[number] for number in numbers], 1)
    return GlanceView(weights, numbers, visual.gather(1, keys), cells, realized.notes.get("known"))


@torch.no_grad()
def glance_relevance(
    backbone: Backbone, model: PreTrainedModel, inputs: Inputs, queries: Sequence[str], glance: Glance | None = None
) -> tuple[list[Relevance], object]:
    """Return where the model looks before it answers, per picture, and `GlanceView.known`. queries: of each row."""
    glance = glance or find_glance(model)
    grids = backbone.grids(model, inputs)
    levels = view_levels(grids, glance, backbone.tiled)
    view = read_view(backbone, model, inputs, levels, glance_layers(model, glance))
    seen = view.weights[..., 0, :]
    if glance.heads is not None:
        chosen = [seen[:, view.layers.index(layer), head] for layer, head in sorted(glance.heads)]
        seen = torch.stack(chosen, 1)[:, None]
    scores = seen.mean((1, 2))[view.shown].float().cpu()
    sizes = [(grid.rows, grid.cols) for grid in grids]
    maps = [part.numpy() for part in spread_over_cells(scores, view.cells.cpu(), sizes, levels)]
    # Tiles of one picture keep their heights beside each other: what is asked for may lie in one of them only.
    for members in whole_pictures(grids, backbone.tiled):
        peak = max(1e-9, *(float(maps[number].max()) for number in members))
        for number in members:
            maps[number] = (maps[number] / peak).astype(np.float32)
    note = f"glance: the model's own attention over {int(view.shown.sum())} coarse tokens"
    found = [
        Relevance(one, query=queries[grid.row], participatory=one, notes=(note,))
        for one, grid in zip(maps, grids, strict=True)
    ]
    return found, view.known


def weigh_by_detail(relevance: Relevance, picture: Tensor) -> Relevance:
    """Keep a glance's map where the picture (3, H, W) has detail to lose; the participatory map is attention alone."""
    rows, cols = relevance.map.shape
    energy = torch.from_numpy(np.array(detail_relevance(picture).map))[None, None]
    cells = torch.nn.functional.adaptive_avg_pool2d(energy, (rows, cols))[0, 0].numpy()
    weight = np.sqrt(FLAT + cells / max(float(cells.max()), 1e-9))
    weighed = relevance.map * weight
    return replace(relevance, map=(weighed / max(float(weighed.max()), 1e-9)).astype(np.float32))


def glance_layers(model: PreTrainedModel, glance: Glance) -> list[int]:
    """Return the numbers of the language layers that are read: those of the heads, or a share of all that attend."""
    numbers = sorted(set(attention_modules(model).values()))
    if glance.heads is None:
        return numbers[int(len(numbers) * FIRST_LAYER) :]
    heads = model.config.get_text_config().num_attention_heads
    if not all(layer in numbers and head < heads for layer, head in glance.heads):
        raise InputError("the heads to glance with do not fit this model: run arr-coc calibrate on it again")
    return sorted({layer for layer, _ in glance.heads})


def spread_over_cells(
    scores: Tensor, cells: Tensor, sizes: Sequence[tuple[int, int]], levels: Sequence[int]
) -> list[Tensor]:
    """Scores (…, tokens) of coarse views → one map (…, rows, cols) for each grid.

    Between the middles of two tokens lies what lies between their scores: what is looked for ends in no line with them.
    """
    maps, first = [], 0
    for (rows, cols), level in zip(sizes, levels, strict=True):
        step = 1 << level
        blocks = scores[..., cells[first : first + rows * cols]].unflatten(-1, (rows, cols))[..., ::step, ::step]
        flat = blocks.reshape(-1, 1, *blocks.shape[-2:])
        smooth = torch.nn.functional.interpolate(flat, scale_factor=step, mode="bilinear")[..., :rows, :cols]
        maps.append(smooth.reshape(*scores.shape[:-1], rows, cols))
        first += rows * cols
    return maps


def cells_of_levels(grids: Sequence[tuple[int, int]], levels: Sequence[int]) -> Tensor:
    """Return (C,) int64: which of the leaves, picture after picture in raster order, shows each level-0 cell."""
    parts, first = [], 0
    for (rows, cols), level in zip(grids, levels, strict=True):
        wide = -(-cols >> level)
        parts.append(first + (torch.arange(rows)[:, None] >> level) * wide + (torch.arange(cols) >> level))
        first += (-(-rows >> level)) * wide
    return torch.cat([part.flatten() for part in parts])


# ---- the model's attention -------------------------------------------------------------------------------------------
#
# One attention function is registered with transformers. It does what "sdpa" does and, where a record is open in the
# caller's context, first writes down the weights of the tokens that were asked about. The language model of one
# instance has that name while it is read; a thread that runs it meanwhile has no record and gets its own attention.

READING = "arr_coc_reading"


# What writes down the weights of one module, where the caller's context reads them.
_open: ContextVar[Callable[..., None] | None] = ContextVar("arr_coc_attention_record", default=None)
# id of a configuration that is being read → its own attention. One thread reads at a time.
_own: dict[int, str] = {}
_reading = Lock()


def language_model(model: PreTrainedModel) -> Any:
    """Return the language model inside a vision-language model, without its head."""
    return model.base_model.language_model


def attention_modules(model: PreTrainedModel, layers: Iterable[int] | None = None) -> dict[nn.Module, int]:
    """Return the language model's attention modules that use the interface, with their layer's number."""
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
    model: PreTrainedModel, queries: Tensor, keys: Tensor, layers: Iterable[int] | None = None
) -> Generator[dict[int, Tensor]]:
    """Inside this block the next forward of the language model writes down its attention, layer by layer.

    queries: (B, Q) int64, the columns that look. keys: (B, K) int64, those that are looked at. Yields the weights by
    layer, (B, heads, Q, K) float32.
    """
    from transformers import AttentionInterface, AttentionMaskInterface

    AttentionInterface.register(READING, _attend)  # adds a name; what is there stays as it is
    AttentionMaskInterface.register(READING, _mask)
    modules, weights = attention_modules(model, layers), dict[int, Tensor]()

    def record(module: nn.Module, *states: Any, scaling: float | None = None, is_causal: bool | None = None) -> None:
        if module in modules:
            causal = getattr(module, "is_causal", True) if is_causal is None else is_causal
            weights[modules[module]] = attention_weights(*states, scaling, causal, queries, keys)

    found = (getattr(module, "config", None) for module in language_model(model).modules())
    configs = {id(config): config for config in found if hasattr(config, "_attn_implementation_internal")}
    with _reading:
        _own.update({number: config._attn_implementation or "sdpa" for number, config in configs.items()})
        token = _open.set(record)
        try:
            for config in configs.values():  # of this one alone, not of configurations inside it
                config._attn_implementation_internal = READING
            yield weights
        finally:
            _open.reset(token)
            for number, config in configs.items():
                config._attn_implementation_internal = _own[number]


def _mask(*args: object, config: object = None, **how: object) -> object:
    from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS

    name = "sdpa" if _open.get() is not None else _own.get(id(config), "sdpa")
    return ALL_MASK_ATTENTION_FUNCTIONS[name](*args, config=config, **how)


def _attend(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Tensor | None, **how: Any
) -> object:
    from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

    record, name = _open.get(), "sdpa"
    if record is None:
        name = _own.get(id(module.config), "sdpa")
        if name not in ALL_ATTENTION_FUNCTIONS:  # every family brings its own eager one
            eager = import_module(type(module).__module__).eager_attention_forward
            return eager(module, query, key, value, attention_mask, **how)
    else:
        record(module, query, key, attention_mask, scaling=how.get("scaling"), is_causal=how.get("is_causal"))
    return ALL_ATTENTION_FUNCTIONS[name](module, query, key, value, attention_mask, **how)


def attention_weights(
    query: Tensor, key: Tensor, mask: Tensor | None, scaling: float | None, causal: bool, rows: Tensor, columns: Tensor
) -> Tensor:
    """Return (B, heads, Q, K) float32: softmax over all keys, of the rows (B, Q) asked for, at the columns (B, K).

    query: (B, heads, L, d). key: (B, key heads, N, d). mask: (B or 1, 1, L, N) bool, or numbers to add; None is causal.
    """
    batch, heads, length, size = query.shape
    groups, keys = key.shape[1], key.shape[2]
    if mask is not None:
        mask = mask[:, 0].expand(batch, -1, -1).gather(1, rows[..., None].expand(-1, -1, mask.shape[-1]))[:, None]
    elif causal and length > 1:
        mask = (torch.arange(keys, device=query.device) <= rows[..., None] + (keys - length))[:, None]
    asked = query.gather(2, rows[:, None, :, None].expand(-1, heads, -1, size)).reshape(batch, groups, -1, size)
    scores = (asked @ key.transpose(2, 3)).float().view(batch, heads, -1, keys)
    scores = scores * (size**-0.5 if scaling is None else scaling)
    if mask is not None:
        mask = mask[..., :keys]
        scores = scores.masked_fill(~mask, float("-inf")) if mask.dtype == torch.bool else scores + mask
    weights = scores.softmax(-1).nan_to_num(0.0)  # a row that may see nothing at all is padding
    return weights.gather(3, columns[:, None, None].expand(-1, heads, weights.shape[2], -1))
