"""From relevance to a decision: from how far to read a picture, and where its tokens go.

    attend(views, relevance, tokens, options)[0].allocation

Every entry point that looks at pictures builds a `View` of each and calls this: `look`, `ask` and `attach`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from .attending.allocate import allocate_batch
from .attending.distance import Distance, at_distance, choose_distance, reading_option
from .attending.frame import Frame
from .attending.grip import Grip
from .core.arrays import Array, is_tensor
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
    relevance: Sequence[Relevance | Array],
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
    levels, inputs = levels or [None] * len(views), inputs or [{}] * len(views)
    decisions = []
    for view, known, most, coarsest, own in zip(views, relevance, tokens, levels, inputs, strict=True):
        distance = distance_for(view, known, options, most)
        frame = view.frame if distance.scale == 1 else view.resized(distance.scale)
        (allocation,) = allocate_batch(
            known,
            min(most, frame.full),
            image_size=frame.image_size,
            strategy=options.layout,
            cell=frame.cell,
            canvas=frame.canvas,
            levels=options.levels if coarsest is None else coarsest,
            seed=options.seed,
            strategy_options={
                **own,
                **reading_option(distance, options.layout, frame.grid),
                **options.strategy_options,
            },
        )
        decisions.append(Decision(at_distance(allocation, distance, view.frame.full), distance))
    return decisions


def distance_for(view: View, relevance: Relevance | Array, options: Options, tokens: int) -> Distance:
    """Choose from how far to read one picture."""
    if not view.scalable:
        return Distance()
    known = plain_map(relevance)
    sizes = {"size": view.size, "canvas": view.frame.seen, "full": view.frame.full}
    return choose_distance(options.scale, view.grip, view.letters, known, **sizes, tokens=tokens)


def plain_map(value: Relevance | Array) -> np.ndarray:
    """Give the map of one picture as numpy."""
    one = value.map if isinstance(value, Relevance) else value
    return one.detach().float().cpu().numpy() if is_tensor(one) else np.asarray(one)
