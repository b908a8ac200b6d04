"""From an ordinary prompt to one `Allocation` per picture: whose relevance, which question, how many tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor
from transformers import BatchFeature

from ..attending.frame import Frame, as_maps, to_cells
from ..attending.overlay import page_gains, share_tokens
from ..balancing.choosing import relevances_for
from ..core.errors import InputError, of_kind
from ..core.modules import using_gpu
from ..core.values import Allocation
from ..decide import View, plain_map
from ..knowing.registry import Maps
from ..knowing.scene import Scene
from ..options import Options
from .base import Backbone, Inputs, PromptPlan, Settings, VisualGrid, require_pictures
from .glance import glance_relevance, weigh_by_detail
from .query import find_questions, with_questions

if TYPE_CHECKING:
    from transformers import PreTrainedModel, ProcessorMixin


@dataclass(frozen=True, eq=False)
class PicturePrompt:
    """A model's prompt, for sources of relevance that ask the model: see `Scene.prompt`. budgets: of each picture."""

    backbone: Backbone
    model: PreTrainedModel
    processor: ProcessorMixin
    inputs: Inputs
    budgets: Sequence[int]

    @property
    def can_glance(self) -> bool:
        return self.backbone.can_glance

    def glance_maps(self, scenes: Sequence[Scene], queries: Sequence[str]) -> Maps:
        """Return the source "glance": the model's own attention, for all pictures of a prompt at once."""
        backbone = self.backbone
        if not backbone.can_glance:
            raise InputError(f"{'/'.join(backbone.model_types)} cannot glance; give relevance= another source or maps")
        rows = {grid.row: query for grid, query in zip(backbone.grids(self.model, self.inputs), queries, strict=True)}
        by_row = [rows.get(row, "") for row in range(len(self.inputs["input_ids"]))]
        inputs = with_questions(backbone, self.processor, self.inputs, by_row, backbone.image_token_id(self.model))
        maps, known = glance_relevance(backbone, self.model, {**BatchFeature({**inputs}).to(self.model.device)}, by_row)
        weighed = [weigh_by_detail(one, scene.tensor) for one, scene in zip(maps, scenes, strict=True)]
        return Maps(list(weighed), {} if known is None else {"known": known})


def plan_prompt(
    backbone: Backbone,
    model: PreTrainedModel,
    processor: ProcessorMixin,
    inputs: Inputs,
    settings: Settings,
    views: Sequence[View] = (),
) -> PromptPlan:
    """Decide, for every picture of a prompt, where its tokens go. Nothing is encoded, unless by a glance.

    views: of the pictures, where they may be read from another distance; else each is laid on its own grid.
    """
    require_pictures(backbone, inputs)
    if inputs.get("input_ids") is None:
        raise InputError("pictures can only be placed in a prompt of input_ids; inputs_embeds hide the placeholders")
    options = settings.options
    if options.allocation is not None:
        given = options.allocation if isinstance(options.allocation, list | tuple) else [options.allocation]
        return PromptPlan([of_kind(one, Allocation, "allocation") for one in given], None, {})
    grids = backbone.grids(model, inputs)
    groups = settings.groups or ([grid.row for grid in grids] if options.total else None)
    if groups is None:
        budgets = token_budgets(grids, options, backbone.tiled)
    else:  # what each may cost before anything is known about it: its part of the budget, by its size
        budgets = shared_budgets(groups, [np.ones(grid.tokens) for grid in grids], options)
    rows, queries = len(inputs["input_ids"]), settings.query
    queries = find_questions(backbone, processor, inputs) if queries is None else queries
    queries = [queries] * rows if isinstance(queries, str) else list(queries)
    if len(queries) != rows:
        raise InputError(f"got {len(queries)} queries for a batch of {rows} prompts; give one, or one for each")
    prompt = PicturePrompt(backbone, model, processor, inputs, budgets)
    views = views or [View(grid.frame.image_size, grid.frame) for grid in grids]
    scenes = scenes_of(prompt, grids, settings, views)
    with using_gpu(model.device), torch.no_grad():
        found = relevances_for(options.relevance, scenes, [queries[grid.row] for grid in grids])
    if groups is not None:
        budgets = shared_budgets(groups, gains_of(found.relevance, grids), options)
    return PromptPlan.of(views, found, budgets, options)


def scenes_of(
    prompt: PicturePrompt, grids: Sequence[VisualGrid], settings: Settings, views: Sequence[View]
) -> list[Scene]:
    """Return what can be offered about each picture; pixels are rebuilt from the inputs if somebody wants them."""

    @cache
    def pictures() -> list[Tensor]:
        return prompt.backbone.pixels(prompt.model, prompt.processor, prompt.inputs)

    # Where everything is kept there is nothing to choose, and asking would only cost.
    choosing = any(budget < grid.tokens for budget, grid in zip(prompt.budgets, grids, strict=True))
    words, options, device = settings.options.words, settings.options, str(prompt.model.device)
    words = words if isinstance(words, list | tuple) and len(grids) > 1 else [words] * len(grids)
    if len(words) != len(grids):
        raise InputError(f"words= has {len(words)} items for {len(grids)} pictures; give one for each")
    return [
        Scene(
            lambda number=number: pictures()[number],
            words=words[number],
            prompt=prompt,
            scorer=settings.scorer,
            ocr=not prompt.backbone.tiled and options.reads(grids[number].tokens, options.relevance),
            device=device,
            choosing=choosing,
            share=prompt.budgets[number] / grids[number].tokens,
            law=options.balancing,
            made=views[number].made,
        )
        for number in range(len(grids))
    ]


def token_budgets(grids: Sequence[VisualGrid], request: Options, tiled: bool = False) -> list[int]:
    """Tokens each picture may cost, never more than its full count. Tiles of one row share a budget by their size."""
    full = [grid.tokens for grid in grids]
    if isinstance(request.budget, list):
        if len(request.budget) != len(grids):
            raise InputError(f"got {len(request.budget)} budgets for {len(grids)} pictures; give one, or one for each")
        return [request.capped(min(one, budget)) for one, budget in zip(full, request.budget, strict=True)]
    if not tiled or not isinstance(request.budget, int):
        return [min(request.tokens(one), one) for one in full]
    rows, sizes = np.array([grid.row for grid in grids]), np.array(full)
    shared = np.floor(request.capped(request.budget) * sizes / np.bincount(rows, weights=sizes)[rows])
    return np.clip(shared, 1, sizes).astype(int).tolist()


# ---- one budget over several pictures: relevance decides between them as it does inside one --------------------------


def gains_of(maps: Sequence[object], grids: Sequence[VisualGrid]) -> list[np.ndarray]:
    """Return what each further token of each picture is worth. maps: relevance, comparable between pictures."""
    cells = [
        to_cells(as_maps(plain_map(one)), Frame((grid.rows, grid.cols), 1))[0]
        for one, grid in zip(maps, grids, strict=True)
    ]
    return [page_gains(one, grid.tokens) for one, grid in zip(cells, grids, strict=True)]


def shared_budgets(groups: Sequence[int], gains: Sequence[np.ndarray], request: Options) -> list[int]:
    """Return what each picture may cost, exactly on the budget of its group; at least 1, for the prompt shows it.

    groups: which pictures share a budget. gains: of each picture, what each further token is worth. request: how much
    may be spent by each group; several budgets are one for each.
    """
    found = list(dict.fromkeys(groups))
    several = request.budget if isinstance(request.budget, list) else None
    if several is not None and (request.total or len(several) != len(found)):
        raise InputError("several budgets and one for all pictures were given; give one number with total=True")
    budgets = [0] * len(gains)
    for place, group in enumerate(found):
        members = [number for number, one in enumerate(groups) if one == group]
        full = sum(len(gains[number]) for number in members)
        wanted = request.capped(min(request.wanted(full) if several is None else several[place], full))
        if wanted < len(members):
            raise InputError(f"a budget of {wanted} tokens for {len(members)} pictures leaves some without any; give "
                             f"at least {len(members)}, or show fewer")  # fmt: skip
        first = [np.concatenate([[np.inf], gains[number][1:]]) for number in members]
        for number, tokens in zip(members, share_tokens(first, wanted, overview=False), strict=True):
            budgets[number] = tokens
    return budgets
