"""From relevance to a decision: from how far to read a picture, and where its tokens go.

    attend(views, relevance, tokens, options)[0].allocation

Every entry point that looks at pictures builds a `View` of each and calls this: `look`, `ask` and `attach`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .attending.allocate import allocate_batch
from .attending.distance import Distance, at_distance, choose_distance, reading_option
from .attending.frame import Frame
from .attending.grip import Grip
from .core.arrays import is_tensor
from .core.values import Allocation, Relevance
from .options import Options
from .texture.type_height import TypeHeight


@dataclass(frozen=True, eq=False)
class View:
    """What there is to look at, before any question.

    Args:
        size: (height, width) of the picture as given.
        frame: How the picture lies on the grid of cells that the model sees.
        letters: Gives the heights of the picture's letters; asked only where they decide.
        grip: Which heights of letters the model reads, where that was measured.
        resized: Gives the frame of the picture shown this many times as large.
        scalable: False where the picture stays as it is, whatever the options say.
    """

    size: tuple[int, int]
    frame: Frame
    letters: Callable[[], TypeHeight]
    resized: Callable[[float], Frame]
    grip: Grip | None = None
    scalable: bool = True


@dataclass(frozen=True, eq=False)
class Decision:
    """Where the tokens of one picture go. distance: from how far it is read."""

    allocation: Allocation
    distance: Distance


def attend(
    views: Sequence[View],
    relevance: Sequence[Any],
    tokens: Sequence[int],
    options: Options,
    *,
    levels: Sequence[int | None] = (),
    inputs: Sequence[Mapping[str, object]] = (),
) -> list[Decision]:
    """Decide for pictures from how far to read them and where their tokens go.

    Args:
        views: The pictures.
        relevance: For each, (h, w) where the question needs detail: a `Relevance`, an array, or a tensor on a device.
        tokens: What each may cost.
        options: How the tokens are laid out.
        levels: For each, the coarsest level of detail, where the source of relevance says so.
        inputs: For each, what the strategy takes by name beside `options.strategy_options`.

    Returns:
        A `Decision` for each.
    """
    distances = [
        distance_for(view, one, options, most) for view, one, most in zip(views, relevance, tokens, strict=True)
    ]
    frames = [
        view.frame if one.times == 1 else view.resized(one.times) for view, one in zip(views, distances, strict=True)
    ]
    groups: dict[Any, list[int]] = {}
    chosen: list[tuple[int | None, dict[str, Any]]] = []
    for number, (frame, distance) in enumerate(zip(frames, distances, strict=True)):
        own = {
            **(inputs[number] if inputs else {}),
            **reading_option(distance, options.layout, frame.grid),
        }
        coarsest = levels[number] if levels else None
        chosen.append((options.levels if coarsest is None else coarsest, {**own, **options.strategy_options}))
        # Pictures alike are laid out together, unless the strategy needs more of one than its map.
        alike = frame, _map(relevance[number]).shape, chosen[-1][0], number if own else -1
        groups.setdefault(alike, []).append(number)
    decisions: dict[int, Decision] = {}
    for (frame, *_), members in groups.items():
        coarsest, own = chosen[members[0]]
        maps = [_map(relevance[number]) for number in members]
        allocations = allocate_batch(
            maps[0] if len(members) == 1 else np.stack([plain_map(one) for one in maps]),
            [min(tokens[number], frame.full) for number in members],
            image_size=frame.image_size,
            strategy=options.layout,
            cell=frame.cell,
            canvas=frame.canvas,
            levels=coarsest,
            seed=options.seed,
            strategy_options=own,
        )
        for number, allocation in zip(members, allocations, strict=True):
            full = views[number].frame.full
            decisions[number] = Decision(at_distance(allocation, distances[number], full), distances[number])
    return [decisions[number] for number in range(len(views))]


def distance_for(view: View, relevance: Any, options: Options, tokens: int) -> Distance:
    """Choose from how far to read one picture."""
    if not view.scalable:
        return Distance()
    known = plain_map(relevance)
    sizes = {"size": view.size, "canvas": view.frame.seen, "full": view.frame.full}
    return choose_distance(options.scale, view.grip, view.letters, known, **sizes, tokens=tokens)


def _map(value: Any) -> Any:
    return value.map if isinstance(value, Relevance) else value


def plain_map(value: Any) -> np.ndarray:
    """Give the map of one picture as numpy."""
    one = _map(value)
    return one.detach().float().cpu().numpy() if is_tensor(one) else np.asarray(one)
