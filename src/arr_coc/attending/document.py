"""One budget over many pages: which page gets how many tokens.

What a token gains on a page is known from its map (`overlay.token_gains`): the first tokens of a page gain most. All
tokens of all pages stand in one order by what they gain, and the budget is the beginning of that order. So relevance
decides between pages as it does inside one, the budget is met exactly, and a page that is believed more never gets
fewer. Every page keeps a token, its overview, where all of these fit into a quarter of the budget.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..core.errors import InputError, whole
from .overlay import OVERVIEW_SHARE, token_gains


def page_gains(cells: np.ndarray | None, full: int, belief: float = 1.0) -> np.ndarray:
    """What each token of a page gains, never rising.

    Args:
        cells: (rows, cols) relevance of its level-0 cells; None where nothing on it is known to be relevant.
        full: How many tokens the whole page has.
        belief: How much the page is believed, 0 and more.

    Returns:
        (full,) float64.
    """
    if cells is None or not cells.any():
        return np.zeros(full)
    # In one order whatever the rounding of a product: what never rises stays so.
    return np.minimum.accumulate(token_gains(cells[None].astype(np.float32))[0].astype(np.float64)) * belief


def share_tokens(gains: Sequence[np.ndarray], budget: int, *, overview: bool = True) -> list[int]:
    """Tokens of each page: exactly `budget` in all, or every token of every page where that is less.

    Args:
        gains: For each page (full,) what its tokens gain, never rising (`page_gains`).
        budget: Tokens in all, at least 1.
        overview: Whether every page keeps one token where all of these fit into a quarter of the budget.

    Returns:
        One number for each page, 0 where it is left out. Among equal gains, such as those of blank ground, the page
        with the best first token goes first; pages that are alike take turns.

    Example:
        >>> share_tokens([np.array([4.0, 1.0, 0.0]), np.array([3.0, 2.0])], 3, overview=False)
        [1, 2]
    """
    if not gains or any(not len(one) for one in gains):
        raise InputError("every page needs at least one token; got a page without")
    budget = min(whole(budget, "budget", 1), sum(map(len, gains)))
    rank = np.concatenate([np.arange(len(one)) for one in gains])
    worth = np.concatenate([np.asarray(one, dtype=np.float64) for one in gains])
    page = np.repeat(np.arange(len(gains)), [len(one) for one in gains])
    if overview and len(gains) * OVERVIEW_SHARE <= budget:
        worth = np.where(rank == 0, np.inf, worth)
    best = np.array([float(one[0]) for one in gains])[page]
    order = np.lexsort((page, rank, -best, -worth))[:budget]
    return np.bincount(page[order], minlength=len(gains)).tolist()
