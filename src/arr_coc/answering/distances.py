"""Pictures of a prompt seen from another distance than they are given: a scale for each, by the grip of the model.

The question is looked for at scale 1, as always; where another scale is read better, the picture is resized by us, its
patches are cut anew by the model's own processor, and the same tokens are laid on the new grid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..attending.distance import Distance, at_distance, choose_distance, distance_of, reading_option, scaled_size
from ..attending.grip import Grip
from ..pictures.load import processed, resized
from ..realizing.attachment_plan import allocate_pictures, token_budgets
from ..realizing.base import PromptPlan, Settings
from ..realizing.shared_budget import plain_map
from .chat import Turn, View

if TYPE_CHECKING:
    from ..realizing.base import VisualGrid


class ScalingEngine(Protocol):
    """What resizing a picture needs of an engine (`stock.StockEngine`)."""

    # Any: what a model and its processor can do depends on their classes.
    backbone: Any
    model: Any
    processor: Any
    grip: Grip | None

    def prompt_of(self, turns: Sequence[Turn], scorer: object) -> dict[str, object]: ...


def seen_from(
    engine: ScalingEngine, turns: Sequence[Turn], inputs: Mapping[str, object], plan: PromptPlan, settings: Settings
) -> tuple[list[Turn], dict[str, object], PromptPlan] | None:
    """The turns, inputs and plan of a prompt whose pictures are seen from the distance that suits them; None where all
    of them are seen as they are given."""
    views = [view for turn in turns for view in turn.views]
    grids = engine.backbone.grids(engine.model, inputs)
    request = settings.request
    if settings.groups is not None or request.total:  # pictures that share a budget have their parts of it by now
        budgets = [one.tokens for one in plan.allocations]
    else:
        budgets = token_budgets(grids, request, engine.backbone.tiled)
    if settings.allocation is not None:
        distances = [distance_of(one) for one in plan.allocations]
    elif plan.relevance is None:
        return None
    else:
        known = settings.words if isinstance(settings.words, list | tuple) else [settings.words] * len(views)
        distances = [
            distance_for(engine, view, words, grid, one, request.scale, budget)
            for view, words, grid, one, budget in zip(views, known, grids, plan.relevance, budgets, strict=True)
        ]
    if all(one.same for one in distances):
        return None
    seen = iter(
        view if one.times == 1 else view_at(engine, view, grid, one)
        for view, grid, one in zip(views, grids, distances, strict=True)
    )
    nearer = [
        replace(turn, parts=tuple(next(seen) if isinstance(part, View) else part for part in turn.parts))
        for turn in turns
    ]
    inputs = engine.prompt_of(nearer, settings.scorer)
    if settings.allocation is not None:
        return nearer, inputs, plan
    return nearer, inputs, laid_again(engine, inputs, plan, settings, distances, grids, budgets)


def distance_for(
    engine: ScalingEngine,
    view: View,
    words: object,
    grid: VisualGrid,
    relevance: Any,
    scale: float | str | None,
    budget: int,
) -> Distance:
    """The distance of one picture; a page that is shown small, for its overview, stays as it is."""
    if view.picture.pixels.shape[:2] != view.picture.size:
        return Distance()
    shown = view if words is None or words is view.words else replace(view, words=words)
    return choose_distance(
        scale,
        engine.grip,
        lambda: shown.letters,
        plain_map(relevance),
        size=view.picture.size,
        canvas=(grid.height, grid.width),
        full=grid.tokens,
        tokens=budget,
    )


def view_at(engine: ScalingEngine, view: View, grid: VisualGrid, distance: Distance) -> View:
    """A picture as the model's processor shows it once it was resized."""
    picture = resized(view.picture, scaled_size((grid.height, grid.width), distance.times, grid.cell))
    tensors = processed(engine.processor.image_processor, picture)
    return replace(view, picture=picture, tensors={name: tensors[name] for name in view.tensors})


def laid_again(
    engine: ScalingEngine,
    inputs: Mapping[str, object],
    plan: PromptPlan,
    settings: Settings,
    distances: Sequence[Distance],
    before: Sequence[VisualGrid],
    budgets: Sequence[int],
) -> PromptPlan:
    """The same maps and as many tokens on the new grids."""
    request, grids = settings.request, engine.backbone.grids(engine.model, inputs)
    assert plan.relevance is not None
    more = [
        reading_option(one, request.strategy, (grid.rows, grid.cols))
        for one, grid in zip(distances, grids, strict=True)
    ]
    allocations = allocate_pictures(
        plan.relevance,
        grids,
        [min(tokens, grid.tokens) for tokens, grid in zip(budgets, grids, strict=True)],
        [request.levels] * len(grids),
        request,
        more=more,
    )
    allocations = [
        at_distance(one, distance, grid.tokens)
        for one, distance, grid in zip(allocations, distances, before, strict=True)
    ]
    notes = tuple(dict.fromkeys((*plan.notes, *(note for one in distances for note in one.notes))))
    # What a glance encoded was seen from where the picture was given.
    options = {name: value for name, value in plan.options.items() if name != "known"}
    return replace(plan, allocations=allocations, options=options, notes=notes)
