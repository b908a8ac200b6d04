"""From relevance to a decision: at which scale to read a picture, and where its tokens go.

    attend(views, relevance, tokens, options)[0].allocation

Every entry point that looks at pictures builds a `View` of each and calls this: `look`, `ask` and `attach`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache

import numpy as np

from .attending.allocate import allocate_each
from .attending.distance import Distance, View, choose_distance, scaled_size
from .attending.frame import Frame
from .attending.need import lost_letters, need_of
from .core.arrays import Array, is_tensor
from .core.values import Allocation, Relevance
from .options import Options


@dataclass(frozen=True, eq=False)
class Decision:
    """Where the tokens of one picture go. distance: the scale at which it is read."""

    allocation: Allocation
    distance: Distance


def attend(
    views: Sequence[View],
    relevance: Sequence[Relevance | Array],
    tokens: Sequence[int],
    options: Options,
    query: str = "",
) -> list[Decision]:
    """Decide at which scale each picture is read and where its tokens go.

    relevance: for each picture a map (h, w) of where detail is needed. tokens: the maximum number for each; with the
    budget "auto" fewer may be spent. query: about all of them, for that budget; by default that of the relevance.
    """
    if not options.by_need:
        return _laid(views, relevance, tokens, options)
    decisions = []
    for view, known, most in zip(views, relevance, tokens, strict=True):
        asked = known.query if isinstance(known, Relevance) and not query else query
        decisions.append(_as_needed(view, known, asked, most, options))
    return decisions


def _laid(
    views: Sequence[View], relevance: Sequence[Relevance | Array], tokens: Sequence[int], options: Options
) -> list[Decision]:
    """Allocate tokens at the scale that suits their number."""
    frames, distances, more = [], [], []
    for view, known, most in zip(views, relevance, tokens, strict=True):
        distances.append(distance := choose_distance(view, options.scale, plain_map(known), most))
        frames.append(view.frame if distance.scale == 1 or view.resized is None else view.resized(distance.scale))
        decided = {"ways": known.ways, "tensions": known.tensions} if isinstance(known, Relevance) else {}
        more.append({"scale": distance.scale, "full": view.frame.full, "notes": distance.notes, **decided})
    spent = [min(most, frame.full) for most, frame in zip(tokens, frames, strict=True)]
    how = options.layout, options.levels, options.seed, options.strategy_options, more
    return list(map(Decision, allocate_each(relevance, spent, frames, *how), distances))


def _as_needed(view: View, known: Relevance | Array, query: str, most: int, options: Options) -> Decision:
    """Spend what the question needs, at most `most` tokens; if letters become illegible, note a sufficient budget."""
    plain, frame = plain_map(known), view.frame
    view = replace(view, letters=cache(view.letters))
    scale = choose_distance(view, options.scale, plain, most).scale
    need = need_of(plain, query, frame, scale=scale, most=most)
    (found,) = _laid([view], [known], [need.tokens], options)
    notes = [*found.allocation.notes, f"budget 'auto': {need.tokens} of at most {most} tokens, because {need.why}"]
    high = lost_letters(plain, found.allocation, found.distance)
    enough, unit = need.tokens, 1 if frame.canvas is None else frame.cell
    # Trying a budget needs the size of the resized picture only, not its pixels.
    tried = replace(
        view, resized=lambda times: Frame(frame.image_size, frame.cell, scaled_size(frame.seen, times, unit))
    )
    while high and enough < frame.full:
        enough = min(frame.full, enough + 1 + enough // 4)
        (one,) = _laid([tried], [known], [enough], options)
        if not lost_letters(plain, one.allocation, one.distance):
            break
    notes += [f"detail is lost: letters are {high:.0f} pixels high; {enough} tokens show them"] if high else []
    return replace(found, allocation=replace(found.allocation, notes=tuple(notes)))


def plain_map(value: Relevance | Array) -> np.ndarray:
    """Return the map of one picture as a numpy array."""
    one = value.map if isinstance(value, Relevance) else value
    return one.detach().float().cpu().numpy() if is_tensor(one) else np.asarray(one)
