"""A few rectangles over what a question needs, within a budget of tokens.

The allocation's leaves say how finely each cell wants to be seen. A rectangle shows its ground at one level: a cell
that wants level 0 and is shown at level 1 gains half. Rectangles are found by sums over all places, the largest shapes
first that their tokens pay for; several share the budget in a few fixed ways, and one more must earn its place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np

# What is gained of a cell that is shown one level coarser than its leaf.
COARSER = 0.5
# What every further rectangle must add, of all that is gained: each is one more picture to keep apart.
WORTH = 0.3
# Times as large as it is that a part may become so that it cuts no word.
GROWTHS = (1.0, 1.04, 1.08, 1.12, 1.15)
# How several rectangles may share a budget.
SHARES: tuple[tuple[float, ...], ...] = ((1.0,), (0.5, 0.5), (0.7, 0.3), (0.4, 0.3, 0.3), (0.5, 0.25, 0.25))
# No rectangle is this many times as long as wide; shapes that are tried of each level.
LONGEST_SHAPE, MOST_SHAPES = 5.0, 12
# Ground that the allocation sees no finer than the overview gains so little that it only breaks ties.
GROUND = 0.02
# What stands beside the relevant gains a little: a crop has it in its middle, with what belongs to it.
AROUND = 0.25


class Rectangle(NamedTuple):
    """row, col, height, width: cells of the picture. rows, cols: cells that it is drawn in. gain: what it shows."""

    row: int
    col: int
    height: int
    width: int
    rows: int
    cols: int
    gain: float


Fits = Callable[[int, int, int], bool]


def level_gains(relevance: np.ndarray, levels: np.ndarray, coarsest: int) -> list[np.ndarray]:
    """(rows, cols) relevance and level of the leaf seen at each cell → for each level from 0: what a cell gains that is
    shown at it. coarsest: the overview's level, at which nothing more is gained. Only what stands out of the picture's
    median counts: much ground of little relevance is no place to be enlarged."""
    fine = (levels >= 0) & (levels < coarsest)
    above = np.maximum(relevance - np.median(relevance), 0)
    wanted = np.where(fine, above, GROUND * above).astype(np.float64)
    wanted += AROUND * around(around(wanted))
    return [
        wanted * COARSER ** np.maximum(0, level - np.where(fine, levels, 0))
        for level in range(max(1, min(coarsest, 3)))
    ]


def around(values: np.ndarray) -> np.ndarray:
    """(rows, cols) → the mean of every cell and its eight neighbours."""
    edged = np.pad(values, 1)
    rows, cols = values.shape
    return np.mean([edged[y : y + rows, x : x + cols] for y in range(3) for x in range(3)], axis=0)


def shapes(fits: Fits, tokens: int, most_rows: int, most_cols: int) -> list[tuple[int, int]]:
    """(rows, cols) of drawn cells: for a number of rows the most columns that the tokens pay for."""
    found: dict[tuple[int, int], None] = {}
    for rows in spread(most_rows):
        cols = widest(lambda cols, rows=rows: fits(rows, cols, tokens), min(most_cols, int(rows * LONGEST_SHAPE)))
        if cols and rows <= cols * LONGEST_SHAPE:
            found[rows, cols] = None
    return list(found)


@lru_cache(maxsize=512)
def spread(most: int) -> list[int]:
    """Some whole numbers from 1 to `most`, close together where they are small."""
    if most <= MOST_SHAPES:
        return list(range(1, most + 1))
    return sorted({round(number) for number in np.geomspace(1, most, MOST_SHAPES)} | {2, 3})


def widest(fits: Callable[[int], bool], most: int) -> int:
    """The largest number up to `most` that fits; 0 where none does."""
    low, high = 0, most
    while low < high:
        middle = (low + high + 1) // 2
        if fits(middle):
            low = middle
        else:
            high = middle - 1
    return low


def best_rectangle(gains: Sequence[np.ndarray], fits: Fits, tokens: int) -> Rectangle | None:
    """The rectangle of the most gain that a number of tokens pays for; None where they pay for none."""
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
    """Up to `most` rectangles of the most gain, within a budget of tokens of all together; the best first.

    gains: of each cell at each level (`level_gains`). fits: whether a picture of these drawn rows and columns costs
    no more than a number of tokens. tokens: what such a picture costs.
    """
    total, best, most_worth = max(float(gains[0].sum()), 1e-9), [], 0.0
    for shares in SHARES:
        dearer = WORTH * total * (len(shares) - 1)
        if len(shares) > most or total - dearer <= most_worth:  # even all that there is would not be worth it
            continue
        chosen = shared_cover(gains, fits, tokens, budget, shares)
        worth = sum(one.gain for one in chosen) - WORTH * total * (len(chosen) - 1)
        if chosen and worth > most_worth:
            best, most_worth = chosen, worth
    return sorted(best, key=lambda one: -one.gain)


def shared_cover(
    gains: Sequence[np.ndarray], fits: Fits, tokens: Callable[[int, int], int], budget: int, shares: Sequence[float]
) -> list[Rectangle]:
    """One rectangle for each share of the budget; what one leaves over goes to the next."""
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
    """A box (y, x, height, width in pixels) that cuts through no word, where a small move or some growth can help it:
    in whole pixels of a picture of this size, of nearly the same shape. words: (N, 4) x0, y0, x1, y1 in pixels."""
    y, x, height, width = box
    # A word that is larger than the box itself, such as a heading, is cut whatever one does.
    tall, wide = words[:, 3] - words[:, 1], words[:, 2] - words[:, 0]
    reach = float(np.median(tall)), 0.75 * float(np.median(wide))
    close = (words[:, 0] < x + width + 2 * reach[1]) & (words[:, 2] > x - 2 * reach[1])
    close &= (words[:, 1] < y + height + 2 * reach[0]) & (words[:, 3] > y - 2 * reach[0])
    near = words[close & (tall < height) & (wide < width)]
    return in_pixels(min(moved(box, times, near, size, reach) for times in GROWTHS)[1], size)


def in_pixels(box: tuple[float, float, float, float], size: tuple[int, int]) -> tuple[int, int, int, int]:
    """A box in whole pixels, inside a picture of this size."""
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
    """The box, made larger by a factor, where it cuts least within `reach` (down, across): what that costs, and it."""
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
    """The same for pictures whose words are not known: a box whose edges run where little stands, at most a tenth
    larger. pixels: (H, W, 3) uint8 of the picture, perhaps reduced. reach: how far an edge may move, in pixels."""
    scale = pixels.shape[0] / size[0], pixels.shape[1] / size[1]
    y, x, height, width = box
    top, left = (max(0, int((start - reach) * by)) for start, by in zip((y, x), scale, strict=True))
    bottom, right = (int((stop + 2 * reach) * by) + 2 for stop, by in zip((y + height, x + width), scale, strict=True))
    near = pixels[top:bottom, left:right, 1].astype(np.int16)
    # What a cut along a row goes through: changes of brightness along that row; and so for columns.
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
    """The least cost of two edges and where the first then lies.

    span: start, length and the length it is to have. frame: the first line of costs, lines a pixel, the side's length.
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
