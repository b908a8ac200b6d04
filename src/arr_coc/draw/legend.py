"""The numbers beside the pictures: what each level costs and covers, and how much of the full count is spent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..core.values import Allocation
from ..pictures.lettering import BOLD, INK, line_height, write
from .layout import MUTED, RULE, level_colour, levels_at, relevance_scale

BAR_HEIGHT = 10


@dataclass(frozen=True)
class LevelRow:
    """One level of an allocation, as it is counted inside and as it is told (−1: seen twice as large). side: pixels of
    the picture that one region covers each way."""

    level: int
    side: int
    regions: int
    tokens: int
    area: float
    told: int


def level_rows(allocation: Allocation) -> list[LevelRow]:
    """One row per level in use, finest first. Areas are shares of the picture; a finer region hides a coarser one."""
    size = (min(allocation.height, 512), min(allocation.width, 512))
    total = allocation.height * allocation.width
    tiles = not allocation.sparse and allocation.boxes[:, 2:].astype(np.int64).prod(1).sum() == total
    shown = None if tiles else levels_at(allocation, size)
    rows = []
    for told, tokens in sorted(allocation.tokens_by_level().items()):
        level = told - allocation.finest
        boxes = allocation.boxes[allocation.levels == level].astype(np.int64)
        area = (boxes[:, 2] * boxes[:, 3]).sum() / total if shown is None else (shown == level).mean()
        rows.append(LevelRow(level, int(boxes[:, 2:].max()), len(boxes), tokens, float(area), told))
    return rows


def budget_bar(canvas: np.ndarray, allocation: Allocation, x: int, y: int, width: int) -> None:
    """A bar as long as the full token count, filled by level as far as tokens are spent."""
    canvas[y : y + BAR_HEIGHT, x : x + width] = RULE
    rows = level_rows(allocation)
    spent = np.cumsum([0, *(row.tokens for row in rows)])
    scale = width / max(allocation.full, allocation.tokens, 1)
    ends = np.rint(spent * scale).astype(int)
    for row, left, right in zip(rows, ends[:-1], ends[1:], strict=True):
        canvas[y : y + BAR_HEIGHT, x + left : x + max(right, left + 1)] = level_colour(row.level)


def level_legend(canvas: np.ndarray, allocation: Allocation, x: int, y: int, width: int) -> int:
    """One column per level: swatch, pixels, tokens, area. Returns the height used."""
    rows = level_rows(allocation)
    column = width // max(len(rows), 4)
    for number, row in enumerate(rows):
        left = x + number * column
        canvas[y + 3 : y + 17, left : left + 14] = level_colour(row.level)
        detail = "full detail" if row.told == 0 else "twice as large" if row.told < 0 else f"1/{1 << row.told} of it"
        if row.tokens > row.regions:
            counts = allocation.counts[(allocation.levels == row.level) & (allocation.counts > 1)]
            detail = " or ".join(str(count) for count in sorted(set(counts.tolist()))) + " tokens a patch"
        name = f"level {row.told}, {detail}"
        write(canvas, name, left + 24, y, size=14, colour=INK, weight=BOLD)
        details = f"{_plural(row.tokens, 'token')} on {row.area:.1%} of the area"
        write(canvas, details.replace("%", " %"), left + 24, y + line_height(14), size=13, colour=MUTED)
        size = f"one token sees {row.side}×{row.side} px" if row.tokens == row.regions else f"{row.side} px regions"
        write(canvas, size, left + 24, y + line_height(14) + line_height(13), size=13, colour=MUTED)
    return line_height(14) + 2 * line_height(13)


def relevance_bar(canvas: np.ndarray, right: int, y: int, width: int = 120) -> None:
    """A small colour bar from 0 to 1 whose right end, numbers included, is at `right`."""
    right -= write(canvas, "1", right, y, size=13, colour=MUTED, align="right") + 6
    ramp = relevance_scale()[np.linspace(0, 255, width).round().astype(int)]
    canvas[y + 5 : y + 15, right - width : right] = ramp
    write(canvas, "0", right - width - 6, y, size=13, colour=MUTED, align="right")


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}".replace(",", " ")


def spent_words(allocation: Allocation) -> str:
    """For example "256 of 1 024 tokens"."""
    seen = "" if allocation.scale == 1 else f", read ×{allocation.scale:.3g}"
    return f"{allocation.tokens:,} of {allocation.full:,} tokens".replace(",", " ") + seen


def share_words(allocation: Allocation) -> str:
    """For example "25.0 %"."""
    return f"{100 * allocation.keep:.1f} %"
