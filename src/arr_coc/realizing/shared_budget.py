"""One budget over several pictures of a prompt: relevance decides between them as it does inside one."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..attending.document import page_gains, share_tokens
from ..attending.frame import Frame, check_maps, to_cells
from ..core.errors import InputError
from ..decide import plain_map
from ..options import Options
from .base import VisualGrid


def groups_of(grids: Sequence[VisualGrid], request: Options, given: Sequence[int] | None) -> list[int] | None:
    """Which pictures share a budget, by number; None where each has its own. given: as the caller knows it."""
    if given is not None:
        if len(given) != len(grids):
            raise InputError(f"{len(given)} pictures were told to share budgets, and the prompt shows {len(grids)}")
        return list(given)
    return [grid.row for grid in grids] if request.total else None


def evenly(grids: Sequence[VisualGrid], request: Options, groups: Sequence[int]) -> list[int]:
    """What each picture may cost before anything is known about it: its part of the budget, by its size."""
    return _shared(groups, [np.ones(grid.tokens) for grid in grids], request)


def by_relevance(
    maps: Sequence[object], grids: Sequence[VisualGrid], request: Options, groups: Sequence[int]
) -> list[int]:
    """What each picture may cost, exactly on the budget of its group.

    Args:
        maps: Relevance of each picture, comparable between pictures.
        grids: Their level-0 tokens.
        request: How much may be spent by each group; several budgets are one for each.
        groups: Which pictures share a budget.

    Returns:
        One number for each picture, at least 1: a prompt that shows a picture holds a token of it.
    """
    cells = [
        to_cells(check_maps(np.asarray(plain_map(one), dtype=np.float32)), Frame((grid.rows, grid.cols), 1))[0]
        for one, grid in zip(maps, grids, strict=True)
    ]
    gains = [page_gains(one, grid.tokens) for one, grid in zip(cells, grids, strict=True)]
    return _shared(groups, gains, request)


def _shared(groups: Sequence[int], gains: Sequence[np.ndarray], request: Options) -> list[int]:
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
        # Whatever the budget, a token for each: the prompt shows them.
        first = [np.concatenate([[np.inf], gains[number][1:]]) for number in members]
        for number, tokens in zip(members, share_tokens(first, wanted, overview=False), strict=True):
            budgets[number] = tokens
    return budgets
