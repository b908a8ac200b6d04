"""From an ordinary prompt to one `Allocation` per picture: whose relevance, which question, how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from ..attending import allocate_batch
from ..errors import InputError
from ..values import Allocation, Relevance
from .base import Backbone, VisualGrid, require_pictures
from .glance import Glance, find_glance, glance_relevance
from .query import find_questions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin

# (picture (3, height, width) float32 in [0, 1], question) -> where the question needs detail
RelevanceSource = Callable[[Tensor, str], "Relevance | np.ndarray | Tensor"]
OVERRIDES = ("budget", "keep", "query", "allocation", "relevance", "strategy")


@dataclass(frozen=True)
class Settings:
    """What `attach` was told, and what a single call may override.

    budget: tokens a picture may cost (one number, or one per picture). keep: the same as a share of its full count.
    relevance: "glance" or a `Glance`, "detail" for what would be lost by looking coarsely, "look" for the three ways of
    knowing behind `arr_coc.look`, a function of (picture, question), or the maps themselves; "auto" glances where the
    family can, and takes "detail" elsewhere. query: the question; found in the chat where it is None. allocation:
    decided by the caller.
    """

    budget: int | Sequence[int] | None = 256
    keep: float | None = None
    query: str | Sequence[str] | None = None
    allocation: Allocation | Sequence[Allocation] | None = None
    relevance: Any = "auto"
    strategy: str = "quadtree"
    levels: int | None = None
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)  # for the allocator
    realize: Mapping[str, Any] = field(default_factory=dict)  # for the adapter

    def __post_init__(self) -> None:
        if self.budget is None and self.keep is None:
            raise InputError("give budget= (tokens a picture may cost) or keep= (share of its full count)")
        if self.keep is not None and not 0 < self.keep <= 1:
            raise InputError(f"keep must be in (0, 1], got {self.keep}")
        budgets = self.budget if isinstance(self.budget, Sequence) else [self.budget]
        if any(item is not None and (isinstance(item, bool) or int(item) != item or item < 1) for item in budgets):
            raise InputError(f"budget must be a whole number of tokens from 1 on, got {self.budget!r}")

    def override(self, **changes: Any) -> Settings:
        given = {name: value for name, value in changes.items() if value is not None}
        # One call may answer "how many" in either unit; the newer answer counts.
        if "budget" in given and "keep" not in given:
            given["keep"] = None
        if "keep" in given and "budget" not in given:
            given["budget"] = None
        return replace(self, **given) if given else self


@dataclass(frozen=True)
class Plan:
    """allocations and relevance, one per picture; options: what the adapter needs beside them."""

    allocations: list[Allocation]
    relevance: list[Any] | None
    options: dict[str, Any]


def plan_prompt(
    backbone: Backbone,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    inputs: Mapping[str, Any],
    settings: Settings,
) -> Plan:
    """Decide, for every picture of a prompt, where its tokens go. Nothing is encoded, unless by a glance."""
    require_pictures(backbone, inputs)
    if inputs.get("input_ids") is None:
        raise InputError("pictures can only be placed in a prompt of input_ids; inputs_embeds hide the placeholders")
    options = dict(settings.realize)
    if settings.allocation is not None:
        given = settings.allocation
        return Plan([given] if isinstance(given, Allocation) else list(given), None, options)
    grids = backbone.grids(model, inputs)
    budgets = token_budgets(grids, settings, backbone.tiled)
    queries = questions_for(backbone, processor, inputs, settings)
    source, levels = settings.relevance, [settings.levels] * len(grids)
    if isinstance(source, str) and source == "auto":
        # Where everything is kept there is nothing to choose, and a glance would only cost.
        choosing = any(budget < grid.tokens for budget, grid in zip(budgets, grids, strict=True))
        source = "glance" if backbone.can_glance and choosing else "detail"
    if isinstance(source, str) and source in SOURCES:
        source = SOURCES[source]
    if isinstance(source, str) and source != "glance":
        names = ", ".join(map(repr, ("auto", "glance", *SOURCES)))
        raise InputError(f"relevance={source!r} is unknown; use {names}, a function of (picture, question), or maps")
    if isinstance(source, str | Glance):
        if not backbone.can_glance:
            raise InputError(f"{'/'.join(backbone.model_types)} cannot glance; give relevance= a function or maps")
        how = source if isinstance(source, Glance) else find_glance(model)
        glimpse = glance_relevance(backbone, model, inputs, queries, how)
        maps: list[Any] = list(glimpse.relevance)
        if how.reuse:
            options["known"] = glimpse.known
    else:
        maps = relevance_maps(backbone, model, processor, inputs, source, [queries[grid.row] for grid in grids])
    return Plan(allocate_pictures(maps, grids, budgets, levels, settings), [plain_map(item) for item in maps], options)


def token_budgets(grids: Sequence[VisualGrid], settings: Settings, tiled: bool = False) -> list[int]:
    """Tokens each picture may cost, never more than its full count. Tiles of one row share a budget by their size."""
    full = np.array([grid.tokens for grid in grids])
    if settings.keep is not None:
        wanted = np.rint(full * settings.keep)
    elif isinstance(settings.budget, Sequence):
        if len(settings.budget) != len(grids):
            raise InputError(f"got {len(settings.budget)} budgets for {len(grids)} pictures; give one, or one for each")
        wanted = np.array(settings.budget)
    else:
        wanted = np.full(len(grids), settings.budget)
        if tiled:
            rows = np.array([grid.row for grid in grids])
            wanted = np.floor(wanted * full / np.bincount(rows, weights=full)[rows])
    return np.clip(wanted, 1, full).astype(int).tolist()


def questions_for(
    backbone: Backbone, processor: ProcessorMixin, inputs: Mapping[str, Any], settings: Settings
) -> list[str]:
    """One question per row of the batch."""
    rows = len(inputs["input_ids"])
    if settings.query is None:
        return find_questions(backbone, processor, inputs)
    queries = [settings.query] * rows if isinstance(settings.query, str) else list(settings.query)
    if len(queries) != rows:
        raise InputError(f"got {len(queries)} queries for a batch of {rows} prompts; give one, or one for each")
    return queries


def relevance_maps(
    backbone: Backbone,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    inputs: Mapping[str, Any],
    source: Any,
    queries: Sequence[str],
) -> list[Any]:
    """One map per picture, from a function or as given."""
    if not callable(source):
        given = [source] if is_map(source) else list(source)
        if len(given) != len(queries) or not all(map(is_map, given)):
            raise InputError(
                f"relevance= gives {len(given)} maps for {len(queries)} pictures; give one (rows, cols) map each"
            )
        return given
    with torch.no_grad():
        pictures = backbone.pixels(model, processor, inputs)
        return [source(picture, query) for picture, query in zip(pictures, queries, strict=True)]


def detail_relevance(picture: Tensor, query: str = "") -> Relevance:
    """What stands out without a question: how much a place would lose if seen at an eighth of its resolution.

    picture: (3, H, W) in [0, 1]. The energy between each 8×8 block and its mean, square-rooted so that one hard edge
    does not outweigh a page of print.
    """
    height, width = picture.shape[1:]
    side = min(8, height, width)
    grey = picture.float().mean(0, keepdim=True)[None]
    mean, square = (torch.nn.functional.avg_pool2d(item, side) for item in (grey, grey**2))
    energy = (square - mean**2).clamp_min(0)[0, 0].sqrt()
    energy = energy / energy.amax().clamp_min(1e-6)
    values = energy.cpu().numpy()
    return Relevance(values, query=query, propositional=values, notes=("local detail; the question was not read",))


def look_relevance(picture: Tensor, query: str) -> Relevance:
    """The three ways of knowing, balanced: the relevance behind `arr_coc.look`. Slower than `detail_relevance`."""
    # That function stands in a room above this one, so it is asked for by name, and only if a user wants it.
    looking = import_module("arr_coc.looking")
    return looking.prepare(picture).look(query or "what is there", keep=1.0).relevance


SOURCES: Mapping[str, RelevanceSource] = {"detail": detail_relevance, "look": look_relevance}


def is_map(value: Any) -> bool:
    from ..realizing.depth import HierarchicalRelevance

    return isinstance(value, Relevance | HierarchicalRelevance) or (
        isinstance(value, np.ndarray | Tensor) and value.ndim == 2
    )


def plain_map(value: Any) -> Any:
    """A map as numpy, or the three maps of a `HierarchicalRelevance`, for the adapter."""
    if isinstance(value, Relevance):
        return value.map
    return value.detach().float().cpu().numpy() if isinstance(value, Tensor) else value


def allocate_pictures(
    maps: Sequence[Any],
    grids: Sequence[VisualGrid],
    budgets: Sequence[int],
    levels: Sequence[int | None],
    settings: Settings,
) -> list[Allocation]:
    """Pictures of one size and one size of map are allocated together."""
    from ..realizing.depth import HierarchicalRelevance

    arrays = [item.high if isinstance(item, HierarchicalRelevance) else plain_map(item) for item in maps]
    groups: dict[Any, list[int]] = {}
    for number, (grid, array) in enumerate(zip(grids, arrays, strict=True)):
        groups.setdefault((replace(grid, row=0), array.shape, levels[number]), []).append(number)
    result: dict[int, Allocation] = {}
    for (grid, _, coarsest), members in groups.items():
        allocations = allocate_batch(
            torch.from_numpy(np.stack([arrays[number] for number in members])),
            [budgets[number] for number in members],
            image_size=(grid.height, grid.width),
            canvas=(grid.rows * grid.cell, grid.cols * grid.cell),
            cell=grid.cell,
            strategy=settings.strategy,
            levels=coarsest,
            seed=settings.seed,
            **settings.options,
        )
        result.update(zip(members, allocations, strict=True))
    return [result[number] for number in range(len(grids))]
