"""Cover what a question needs by a few rectangles, within a budget of tokens.

The allocation's leaves give the level that each cell needs. A rectangle shows its area at one level: a cell that needs
level 0 and is shown at level 1 gains half. Rectangles are found by sums over all places, for the largest shapes within
the tokens; several share the budget in a few fixed ways, and each further one must add a minimum gain.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

# Gain of a cell that is shown one level coarser than its leaf.
COARSER = 0.5
# Share of the whole gain that every further rectangle must add: each is one more picture.
WORTH = 0.3
# Maximum factor by which a part may grow to avoid cutting words.
GROWTHS = (1.0, 1.04, 1.08, 1.12, 1.15)
# Ways in which several rectangles may share a budget.
SHARES: tuple[tuple[float, ...], ...] = ((1.0,), (0.5, 0.5), (0.7, 0.3), (0.4, 0.3, 0.3), (0.5, 0.25, 0.25))
# Maximum ratio of a rectangle's sides; number of shapes to try at each level.
LONGEST_SHAPE, MOST_SHAPES = 5.0, 12
# Gain of cells that the allocation sees no finer than the overview: it only breaks ties.
GROUND = 0.02
# Gain of cells beside relevant ones, so that a crop has the relevant ones in its middle, with their context.
AROUND = 0.25


class Rectangle(NamedTuple):
    """A rectangle. row, col, height, width: cells of the picture. rows, cols: drawn cells. gain: of its contents."""

    row: int
    col: int
    height: int
    width: int
    rows: int
    cols: int
    gain: float


Fits = Callable[[int, int, int], bool]


def level_gains(relevance: np.ndarray, levels: np.ndarray, coarsest: int) -> list[np.ndarray]:
    """Return the gain of each cell at each level from 0, by relevance (rows, cols) and the level of its leaf. coarsest:
    the overview's level, without gain. Only relevance above the picture's median counts: a large area of little
    relevance is not worth enlarging."""
    fine = (levels >= 0) & (levels < coarsest)
    above = np.maximum(relevance - np.median(relevance), 0)
    wanted = np.where(fine, above, GROUND * above).astype(np.float64)
    wanted += AROUND * around(around(wanted))
    return [
        wanted * COARSER ** np.maximum(0, level - np.where(fine, levels, 0))
        for level in range(max(1, min(coarsest, 3)))
    ]


def around(values: np.ndarray) -> np.ndarray:
    """Return the mean of every cell and its eight neighbours, (rows, cols)."""
    edged = np.pad(values, 1)
    rows, cols = values.shape
    return np.mean([edged[y : y + rows, x : x + cols] for y in range(3) for x in range(3)], axis=0)


def shapes(fits: Fits, tokens: int, most_rows: int, most_cols: int) -> list[tuple[int, int]]:
    """Yield (rows, cols) of drawn cells: for a number of rows the largest number of columns within the tokens."""
    found: dict[tuple[int, int], None] = {}
    for rows in spread(most_rows):
        cols = widest(lambda cols, rows=rows: fits(rows, cols, tokens), min(most_cols, int(rows * LONGEST_SHAPE)))
        if cols and rows <= cols * LONGEST_SHAPE:
            found[rows, cols] = None
    return list(found)


@lru_cache(maxsize=512)
def spread(most: int) -> list[int]:
    """Return some whole numbers from 1 to `most`, denser if they are small."""
    if most <= MOST_SHAPES:
        return list(range(1, most + 1))
    return sorted({round(number) for number in np.geomspace(1, most, MOST_SHAPES)} | {2, 3})


def widest(fits: Callable[[int], bool], most: int) -> int:
    """Return the largest number up to `most` that fits; 0 if none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def best_rectangle(gains: Sequence[np.ndarray], fits: Fits, tokens: int) -> Rectangle | None:
    """Return the rectangle of the highest gain within a number of tokens; None if none fits."""
    rows, cols = gains[0].shape
    best: Rectangle | None = None
    for level, gain in enumerate(gains):
        step = 2**level
        sums = np.pad(gain, ((1, 0), (1, 0))).cumsum(0).cumsum(1)
        limits = max(1, int(np.ceil(rows / step))), max(1, int(np.ceil(cols / step)))
        for drawn_rows, drawn_cols in shapes(fits, tokens, *limits):
            height, width = min(rows, max(1, round(drawn_rows * step))), min(cols, max(1, round(drawn_cols * step)))
            inside = sums[height:, width:] - sums[:-height, width:] - sums[height:, :-width] + sums[:-height, :-width]
            place = int(inside.argmax())
            found = float(inside.flat[place])
            if best is None or found > best.gain + 1e-9:
                row, col = divmod(place, inside.shape[1])
                best = Rectangle(row, col, height, width, drawn_rows, drawn_cols, found)
    return best


def cover(
    gains: Sequence[np.ndarray], fits: Fits, tokens: Callable[[int, int], int], budget: int, most: int = 3
) -> list[Rectangle]:
    """Return up to `most` rectangles of the highest gain, within a budget of tokens for all; the best first.

    gains: of each cell at each level (`level_gains`). fits: tells whether a picture of these drawn rows and columns
    costs no more than a number of tokens. tokens: the cost of such a picture.
    """
    total, best, most_worth = max(float(gains[0].sum()), 1e-9), [], 0.0
    for shares in SHARES:
        dearer = WORTH * total * (len(shares) - 1)
        if len(shares) > most or total - dearer <= most_worth:  # even the largest possible gain would not be worth it
            continue
        chosen = shared_cover(gains, fits, tokens, budget, shares)
        worth = sum(one.gain for one in chosen) - WORTH * total * (len(chosen) - 1)
        if chosen and worth > most_worth:
            best, most_worth = chosen, worth
    return sorted(best, key=lambda one: -one.gain)


def shared_cover(
    gains: Sequence[np.ndarray], fits: Fits, tokens: Callable[[int, int], int], budget: int, shares: Sequence[float]
) -> list[Rectangle]:
    """Return one rectangle for each share of the budget; left-over tokens go to the next."""
    left, spent, chosen = [gain.copy() for gain in gains], 0, []
    for number, share in enumerate(shares):
        own = budget - spent if number == len(shares) - 1 else int(budget * share)
        found = best_rectangle(left, fits, own)
        if found is None or found.gain <= 0:
            break
        spent += tokens(found.rows, found.cols)
        chosen.append(found)
        for gain in left:
            gain[found.row : found.row + found.height, found.col : found.col + found.width] = 0
    return chosen


def uncut(
    box: tuple[float, float, float, float], words: np.ndarray, size: tuple[int, int]
) -> tuple[int, int, int, int]:
    """Move or grow a box (y, x, height, width in pixels) a little so that it cuts no word, if possible: in whole pixels
    of a picture of this size, with nearly the same shape. words: (N, 4) x0, y0, x1, y1 in pixels."""
    y, x, height, width = box
    # A word that is larger than the box itself, such as a heading, is cut in any case.
    tall, wide = words[:, 3] - words[:, 1], words[:, 2] - words[:, 0]
    reach = float(np.median(tall)), 0.75 * float(np.median(wide))
    close = (words[:, 0] < x + width + 2 * reach[1]) & (words[:, 2] > x - 2 * reach[1])
    close &= (words[:, 1] < y + height + 2 * reach[0]) & (words[:, 3] > y - 2 * reach[0])
    near = words[close & (tall < height) & (wide < width)]
    return in_pixels(min(moved(box, times, near, size, reach) for times in GROWTHS)[1], size)


def in_pixels(box: tuple[float, float, float, float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """Round a box to whole pixels inside a picture of this size."""
    y, x, height, width = box
    top, left = max(0, round(y)), max(0, round(x))
    return top, left, min(size[0] - top, max(1, round(height))), min(size[1] - left, max(1, round(width)))


def moved(
    box: tuple[float, float, float, float],
    times: float,
    words: np.ndarray,
    size: tuple[int, int],
    reach: tuple[float, float],
) -> tuple[float, tuple[float, float, float, float]]:
    """Place the box, enlarged by a factor, where it cuts least within `reach` (down, across); return cost and box."""
    y, x, height, width = box
    tall, wide = min(size[0], height * times), min(size[1], width * times)
    down, across = (np.linspace(-far, far, steps) for far, steps in zip(reach, (17, 33), strict=True))
    tops = np.clip(y - (tall - height) / 2 + down, 0, size[0] - tall)[:, None]
    lefts = np.clip(x - (wide - width) / 2 + across, 0, size[1] - wide)[:, None]
    high = np.clip(np.minimum(words[:, 3], tops + tall) - np.maximum(words[:, 1], tops), 0, None)
    long = np.clip(np.minimum(words[:, 2], lefts + wide) - np.maximum(words[:, 0], lefts), 0, None)
    area = np.maximum((words[:, 2] - words[:, 0]) * (words[:, 3] - words[:, 1]), 1e-6)
    inside = high[:, None] * long / area
    far = np.abs(down)[:, None] / reach[0] + np.abs(across) / reach[1] + 10 * (times - 1)
    cost = np.minimum(inside, 1 - inside).sum(-1) + 0.02 * far
    row, col = np.unravel_index(int(cost.argmin()), cost.shape)
    return float(cost[row, col]), (float(tops[row, 0]), float(lefts[col, 0]), tall, wide)


def quiet(
    box: tuple[float, float, float, float], pixels: np.ndarray, size: tuple[int, int], reach: int
) -> tuple[int, int, int, int]:
    """Do the same for pictures without words: move the box's edges to places with little print, at most a tenth larger.
    pixels: (H, W, 3) uint8 of the picture, perhaps reduced. reach: maximum move of an edge in pixels."""
    scale = pixels.shape[0] / size[0], pixels.shape[1] / size[1]
    y, x, height, width = box
    top, left = (max(0, int((start - reach) * by)) for start, by in zip((y, x), scale, strict=True))
    bottom, right = (int((stop + 2 * reach) * by) + 2 for stop, by in zip((y + height, x + width), scale, strict=True))
    near = pixels[top:bottom, left:right, 1].astype(np.int16)
    # Cost of a cut along a row: the changes of brightness along that row; the same for columns.
    rows = np.minimum(np.abs(np.diff(near, axis=1)), 64).sum(1, dtype=np.float64)
    cols = np.minimum(np.abs(np.diff(near, axis=0)), 64).sum(0, dtype=np.float64)
    best: tuple[float, tuple[float, float, float, float]] | None = None
    for larger in (1.0, 1.05, 1.1):
        tall, wide = min(height * larger, size[0]), min(width * larger, size[1])
        y_cost, y_at = quietest(rows, (y, height, tall), (top, scale[0], size[0]), reach)
        x_cost, x_at = quietest(cols, (x, width, wide), (left, scale[1], size[1]), reach)
        cost = (y_cost + x_cost) * larger
        if best is None or cost < best[0] - 1e-6:
            best = cost, (y_at, x_at, tall, wide)
    assert best is not None
    return in_pixels(best[1], size)


def quietest(
    costs: np.ndarray, span: tuple[float, float, float], frame: tuple[int, float, int], reach: int
) -> tuple[float, float]:
    """Return the least cost of two edges and the place of the first.

    span: start, length and the new length. frame: the first line of costs, lines a pixel, the side's length.
    """
    start, length, wanted = span
    first, by, side = frame
    moves = np.arange(-reach, reach + 1, max(1, reach // 8))
    at = np.clip(start + moves - (wanted - length) / 2, 0, side - wanted)
    lines = np.rint(np.stack([at, at + wanted]) * by).astype(int) - np.array([[first], [first + 1]])
    # An edge at the picture's own border cuts nothing.
    free = np.stack([at <= 0.5, at + wanted >= side - 0.5])
    cut = np.where(free, 0.0, costs[np.clip(lines, 0, len(costs) - 1)]).sum(0) + 0.5 * np.abs(moves)
    best = int(cut.argmin())
    return float(cut[best]), float(at[best])
