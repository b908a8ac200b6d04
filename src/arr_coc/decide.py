"""From relevance to a decision: from how far to read a picture, and where its tokens go.

    attend(view, relevance, request).allocation

Every entry point that looks at a picture builds a `View` of it and calls this: `look`, `ask` and clips.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .attending.allocate import allocate
from .attending.distance import Distance, at_distance, choose_distance, reading_option
from .attending.frame import Frame
from .attending.grip import Grip
from .attending.request import Request
from .core.values import Allocation, Relevance
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
    """

    size: tuple[int, int]
    frame: Frame
    letters: Callable[[], TypeHeight]
    resized: Callable[[float], Frame]
    grip: Grip | None = None


@dataclass(frozen=True, eq=False)
class Decision:
    """Where the tokens of one picture go. distance: from how far it is read."""

    allocation: Allocation
    distance: Distance = field(default_factory=Distance)


def attend(
    view: View,
    relevance: Any,
    request: Request,
    *,
    levels: int | None = None,
    options: Mapping[str, object] | None = None,
) -> Decision:
    """Decide from how far to read a picture and where its tokens go.

    Args:
        view: The picture.
        relevance: (h, w) where the question needs detail: a `Relevance`, an array, or a tensor on a device.
        request: How much may be spent, and how.
        levels: The coarsest level of detail, where the source of relevance says so.
        options: What the strategy takes by name beside the request's own options.

    Returns:
        A `Decision`.
    """
    full = view.frame.full
    tokens = request.tokens(full)
    plain = relevance.map if isinstance(relevance, Relevance) else relevance
    distance = choose_distance(
        request.scale,
        view.grip,
        view.letters,
        plain if isinstance(plain, np.ndarray) else plain.detach().float().cpu().numpy(),
        size=view.size,
        canvas=view.frame.seen,
        full=full,
        tokens=tokens,
    )
    frame = view.frame if distance.times == 1 else view.resized(distance.times)
    allocation = allocate(
        relevance,
        min(tokens, frame.full),
        image_size=frame.image_size,
        strategy=request.strategy,
        cell=frame.cell,
        canvas=frame.canvas,
        levels=request.levels if levels is None else levels,
        seed=request.seed,
        **{**(options or {}), **reading_option(distance, request.strategy, frame.grid), **request.options},
    )
    return Decision(at_distance(allocation, distance, full), distance)
