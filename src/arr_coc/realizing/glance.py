"""The glance: ask the model itself where to look, on a coarse view that costs a few tokens.

The picture is shown at one coarse level, the language model reads it with the question, and where the last token of the
prompt looks, just before it would begin to answer, becomes the participatory map. Which layers and heads point at what
is asked is a property of each model: by default the later layers are read, and `arr-coc calibrate` measures the heads
on pictures whose boxes are known and writes them down (`find_glance`).

A family that foveates before its encoder encodes the coarse leaves only, and those that stay leaves afterwards need not
be encoded again; one that merges afterwards encodes in full, once, and reads its tokens merged coarsely.

Reuse is an approximation: leaves attend to each other inside the vision tower, and those of the glance and the new ones
were encoded apart, so neither saw the other. How much that matters was measured on small random models (512², 160 of
256 tokens): the last logits move by 1 to 6 % of their norm, while another allocation of as many tokens moves them by 20
to 37 %. `Glance(reuse=False)` encodes all leaves together, at the cost of the coarse ones that stay.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attending.tree import build_tree
from ..core.errors import InputError
from ..core.folders import measured_path
from ..core.manifest import verify
from ..core.values import Allocation, Relevance
from ..knowing.ways import detail_relevance
from .attention_reader import attention_modules, heads_by_layer, reading_attention
from .base import Backbone, Inputs, VisualGrid

if TYPE_CHECKING:
    from transformers import PreTrainedModel

GLANCE_NAME = "glance.json"
FLAT = 0.05  # what flat ground keeps, beside the picture's most detailed cell at 1; the square root of both is taken


@dataclass(frozen=True)
class Glance:
    """How to glance.

    least: the coarse view has at least so many tokens, and at least `share` of the picture's own; never more than a
    quarter of them. heads: (layer, head) pairs whose attention is read, as `arr-coc calibrate` finds them; None reads
    all heads of the layers between two shares of the depth. detail: flat ground needs no tokens, whoever looks at
    it. reuse: keep the encodings of coarse leaves that stay.

    The last token of the prompt is asked, whose attention is that of a model about to answer. The question's own tokens
    point worse, and dividing by where a token looks that has not read the question does not help (`mini`, 280
    validation pictures, a view of 64 tokens: the eight most attended hold 79, 70 and 79 % of the relevant cells).
    """

    least: int = 64
    share: float = 1 / 16
    layers: tuple[float, float] = (0.25, 1.0)
    heads: tuple[tuple[int, int], ...] | None = None
    detail: bool = True
    reuse: bool = True

    def __post_init__(self) -> None:
        low, high = self.layers
        if not (self.least >= 1 and 0 < self.share <= 1 and 0 <= low < high <= 1):
            raise InputError(
                f"a glance needs least >= 1, 0 < share <= 1 and 0 <= layers[0] < layers[1] <= 1, got {self}"
            )
        if self.heads is not None and not self.heads:
            raise InputError("heads= names no head; give (layer, head) pairs, or None for all heads of the layers")

    @classmethod
    def load(cls, path: str | Path) -> Glance:
        """The heads that `arr-coc calibrate` wrote down."""
        verify(Path(path).parent, [Path(path).name])
        try:
            found = json.loads(Path(path).read_text(encoding="utf-8"))
            heads = tuple((int(layer), int(head)) for layer, head in found["heads"])
            return cls(heads=heads)
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{path} holds no heads to glance with ({error}); run arr-coc calibrate") from error


def glance_path(name: str) -> Path:
    """Where the heads of a model lie that is known by this name: in its own folder, or else in the user's."""
    return measured_path(name, "glance")


def find_glance(model: PreTrainedModel) -> Glance:
    """How this model glances best, where that was measured; else as any model is likely to."""
    name = getattr(model.config, "_name_or_path", "") or ""
    if not name:
        return Glance()
    # A checkpoint in a folder that cannot be written may have been calibrated all the same.
    places = (glance_path(name), glance_path(re.sub(r"^/+", "", name)))
    found = next((place for place in places if os.path.isfile(place)), None)
    return Glance() if found is None else Glance.load(found)


@dataclass(frozen=True)
class Glimpse:
    """What a glance brought: one map per picture, the level of the coarse view, and what was encoded on
    the way, in the form that the adapter's `realize(known=…)` takes."""

    relevance: list[Any]
    levels: list[int]
    known: object


@dataclass(frozen=True)
class GlanceView:
    """Pictures at one coarse level each, as the model saw them.

    weights: (B, layers, heads, 2, K) attention of the last token of each prompt, and of the first one behind its
    pictures, over its K visual tokens; of chosen heads (B, 1, heads, 1, K), of the last token alone. layers: their
    numbers. shown: (B, K) bool, no padding. cells: (C,) int64: the
    visual token, counted through all prompts, that shows each level-0 cell of all grids. known: what was encoded.
    """

    weights: Tensor
    layers: tuple[int, ...]
    shown: Tensor
    cells: Tensor
    known: object


def view_levels(grids: Sequence[VisualGrid], glance: Glance, tiled: bool = False) -> list[int]:
    """The coarsest level, from 1 on, at which each picture has the tokens that a glance needs.

    Tiles of one row of the batch are one picture in parts, so they count together.
    """
    groups: dict[int, list[int]] = {}
    for number, grid in enumerate(grids):
        groups.setdefault(grid.row if tiled else number, []).append(number)
    result = [1] * len(grids)
    for members in groups.values():
        parts = [grids[number] for number in members]
        wanted = max(glance.least, glance.share * sum(grid.tokens for grid in parts))
        coarsest = max(build_tree(grid.rows, grid.cols, 16).levels for grid in parts)
        counts = {
            level: sum((-(-g.rows >> level)) * (-(-g.cols >> level)) for g in parts) for level in range(1, coarsest + 1)
        }
        chosen = max((level for level, count in counts.items() if count >= wanted), default=1)
        for number in members:
            result[number] = min(chosen, max(1, build_tree(grids[number].rows, grids[number].cols, 16).levels))
    return result


def coarse_allocation(grid: VisualGrid, level: int) -> Allocation:
    """The whole picture at one level."""
    side = grid.cell << level
    rows, cols = -(-grid.rows >> level), -(-grid.cols >> level)
    corner = np.stack(np.meshgrid(np.arange(rows), np.arange(cols), indexing="ij"), -1).reshape(-1, 2) * side
    extent = np.minimum(corner + side, [grid.height, grid.width]) - corner
    count = len(corner)
    return Allocation(
        boxes=np.concatenate([corner, extent], axis=1),
        levels=np.full(count, level),
        counts=np.ones(count),
        scores=np.zeros(count),
        height=grid.height,
        width=grid.width,
        budget=count,
        full=grid.tokens,
        strategy="uniform",
        cell=grid.cell,
        canvas=(grid.height, grid.width),
    )


@torch.no_grad()
def read_view(
    backbone: Backbone,
    model: PreTrainedModel,
    inputs: Inputs,
    levels: Sequence[int],
    layers: Sequence[int] | None = None,
    heads: Sequence[tuple[int, int]] | None = None,
) -> GlanceView:
    """Show every picture at its coarse level and write down where each prompt looks.

    layers: None reads all, and of both tokens; else the last token is asked, and nothing runs behind the last of them.
    heads: (layer, head) pairs of these layers, whose attention alone is read.
    """
    grids = backbone.grids(model, inputs)
    coarse = [coarse_allocation(grid, level) for grid, level in zip(grids, levels, strict=True)]
    with backbone.glance_graphs(model, inputs) as graphs:
        by_graph = {} if graphs is None else {"tower": graphs.tower}
        realized = backbone.realize(model, {**inputs, "labels": None}, coarse, **by_graph)
        ids, mask = realized.inputs["input_ids"], realized.inputs["attention_mask"].bool()
        visual = (ids == backbone.image_token_id(model)) & mask
        place = torch.arange(ids.shape[1], device=ids.device)
        last = torch.where(mask, place, -1).amax(1)
        behind = torch.minimum(torch.where(visual, place, -1).amax(1) + 1, last)
        keys, shown = columns_of(visual)
        cells = realized.notes.get("cells")
        if cells is None:  # leaves stand in the prompt as they were allocated
            cells = cells_of_levels([(grid.rows, grid.cols) for grid in grids], levels)
        queries = torch.stack([last, behind], 1) if layers is None else last[:, None]
        if graphs is not None and layers is not None:
            weights = graphs.read(realized, queries, keys, tuple(layers), heads)
        else:
            chosen = None if heads is None else heads_by_layer(heads, ids.device)
            how: dict[str, object] = {"by_head": True, "heads": chosen, "stop": layers is not None}
            with reading_attention(model, keys, layers, **how) as record:
                record.queries = queries
                backbone.read_prompt(model, realized)
            weights = record.weights()
    numbers = attention_modules(model, layers).values()
    return GlanceView(weights, tuple(sorted(set(numbers))), shown, cells, realized.notes["known"])


@torch.no_grad()
def glance_relevance(
    backbone: Backbone, model: PreTrainedModel, inputs: Inputs, queries: Sequence[str], glance: Glance | None = None
) -> Glimpse:
    """Where the model looks when it is about to answer, for every picture. queries: of each row of the batch."""
    glance = glance or find_glance(model)
    grids = backbone.grids(model, inputs)
    levels = view_levels(grids, glance, backbone.tiled)
    view = read_view(backbone, model, inputs, levels, glance_layers(model, glance), glance.heads)
    note = f"glance: the model's own attention over {int(view.shown.sum())} coarse tokens"
    maps = [
        Relevance(painted, query=queries[grid.row], participatory=painted, notes=(note,))
        for painted, grid in zip(
            painted_maps(pointed_at(view), view, grids, levels, backbone.tiled), grids, strict=True
        )
    ]
    return Glimpse(maps, levels, view.known)


def painted_maps(
    scores: Tensor, view: GlanceView, grids: Sequence[VisualGrid], levels: Sequence[int], tiled: bool
) -> list[np.ndarray]:
    """Scores (B, K) of the coarse tokens → one map (rows, cols) for each grid, 1 at each picture's highest place."""
    sizes = [(grid.rows, grid.cols) for grid in grids]
    flat = scores[view.shown].float().cpu()
    parts = [part.numpy() for part in spread_over_cells(flat, view.cells.cpu(), sizes, levels)]
    # Tiles of one picture keep their heights beside each other: what is asked for may lie in one of them only.
    whole = [grid.row if tiled else number for number, grid in enumerate(grids)]
    peaks: dict[int, float] = {}
    for part, one in zip(parts, whole, strict=True):
        peaks[one] = max(peaks.get(one, 1e-9), float(part.max()))
    return [(part / peaks[one]).astype(np.float32) for part, one in zip(parts, whole, strict=True)]


def weigh_by_detail(relevance: Relevance, picture: Tensor) -> Relevance:
    """Keep a glance's map where the picture (3, H, W) has detail to lose; attention alone stays as the participatory
    map."""
    rows, cols = relevance.map.shape
    energy = torch.from_numpy(np.array(detail_relevance(picture).map))[None, None]
    cells = torch.nn.functional.adaptive_avg_pool2d(energy, (rows, cols))[0, 0].numpy()
    weight = np.sqrt(FLAT + cells / max(float(cells.max()), 1e-9))
    weighed = relevance.map * weight
    return replace(relevance, map=(weighed / max(float(weighed.max()), 1e-9)).astype(np.float32))


def glance_layers(model: PreTrainedModel, glance: Glance) -> list[int]:
    """The numbers of the language layers that are read: those of the heads, or a share of all that attend."""
    numbers = sorted(set(attention_modules(model).values()))
    if glance.heads is None:
        first = min(int(len(numbers) * glance.layers[0]), len(numbers) - 1)
        return numbers[first : max(int(len(numbers) * glance.layers[1]), first + 1)]
    wanted = sorted({layer for layer, _ in glance.heads})
    heads = model.config.get_text_config().num_attention_heads
    if not set(wanted) <= set(numbers) or max(head for _, head in glance.heads) >= heads:
        raise InputError(
            f"the heads to glance with do not fit this model ({len(numbers)} layers that attend, {heads} heads): run "
            "arr-coc calibrate on it again"
        )
    return wanted


def pointed_at(view: GlanceView) -> Tensor:
    """(B, K): how much each visual token is looked at by the last token of its prompt, from 0 on."""
    return view.weights[..., 0, :].mean((1, 2))


def columns_of(chosen: Tensor) -> tuple[Tensor, Tensor]:
    """(B, L) bool → the chosen columns of each row in order, (B, most) int64, and which of them are not padding."""
    most = int(chosen.sum(1).max())
    order = (~chosen).to(torch.uint8).argsort(dim=1, stable=True)[:, :most]
    return order, chosen.gather(1, order)


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
    """(C,) int64: which of the leaves, picture after picture in raster order, shows each level-0 cell."""
    parts, first = [], 0
    for (rows, cols), level in zip(grids, levels, strict=True):
        wide = -(-cols >> level)
        parts.append(first + (torch.arange(rows)[:, None] >> level) * wide + (torch.arange(cols) >> level))
        first += (-(-rows >> level)) * wide
    return torch.cat([part.flatten() for part in parts])
