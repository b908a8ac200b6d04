"""Colours and places on a page, the mask that all drawing of regions uses (`covered`), and the legend: what each level
costs and covers."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import cv2
import numpy as np

from ..attending.leaves import token_boxes
from ..core.values import Allocation
from ..pictures.lettering import BOLD, INK, Colour, line_height, shorten, write

# Fine levels are warm and bright, coarse ones cool and dark; the last colour serves all coarser levels. Colour-blind
# readers can distinguish every two of them.
LEVEL_COLOURS = np.array(
    [(255, 206, 70), (242, 130, 72), (229, 64, 118), (137, 86, 247), (38, 114, 192), (18, 67, 107)], dtype=np.uint8
)
UNSEEN: Colour = (38, 39, 44)  # area without a token
MARGIN = 32
GAP = 20
# Maximum height of a pane as a share of the page's width, so that a receipt fits on a screen.
TALLEST = 0.6
PAPER: Colour = (250, 249, 246)
MUTED: Colour = (108, 112, 120)
RULE: Colour = (222, 220, 214)
# The two sides of a comparison: different hue, equal lightness, also for colour-blind readers.
FIRST: Colour = (196, 90, 20)
SECOND: Colour = (24, 104, 168)


def level_colour(level: int) -> np.ndarray:
    """Return the colour of a level of detail, (3,) uint8; `UNSEEN` for a level below 0."""
    return np.array(UNSEEN, dtype=np.uint8) if level < 0 else LEVEL_COLOURS[min(level, len(LEVEL_COLOURS) - 1)]


@cache
def relevance_scale() -> np.ndarray:
    """Return a perceptually uniform colour table (inferno), (256, 3) uint8 RGB, from relevance 0 to 1."""
    ramp = np.arange(256, dtype=np.uint8)[:, None]
    return np.ascontiguousarray(cv2.applyColorMap(ramp, cv2.COLORMAP_INFERNO)[:, 0, ::-1])


@cache
def difference_scale() -> np.ndarray:
    """Return a table (256, 3) uint8 RGB from the first allocation's colour through paper to the second's."""
    stops = np.array([FIRST, (236, 234, 228), SECOND], dtype=np.float64)
    at = np.linspace(0, 2, 256)
    return np.stack([np.interp(at, [0, 1, 2], stops[:, channel]) for channel in range(3)], -1).round().astype(np.uint8)


def page(height: int, width: int) -> np.ndarray:
    """Return empty paper, (height, width, 3) uint8."""
    return np.full((height, width, 3), PAPER, dtype=np.uint8)


def fit(height: int, width: int, room_height: int, room_width: int) -> tuple[int, int]:
    """Return the largest (height, width) of that shape inside the space, at least 1 pixel each way."""
    scale = min(room_height / height, room_width / width)
    return max(1, round(height * scale)), max(1, round(width * scale))


def resize(pixels: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Resize (H, W, 3) uint8: by area means when shrinking, cubic when enlarging."""
    if pixels.shape[:2] == tuple(size):
        return pixels
    shrinking = pixels.shape[0] >= size[0] and pixels.shape[1] >= size[1]
    return cv2.resize(pixels, (size[1], size[0]), interpolation=cv2.INTER_AREA if shrinking else cv2.INTER_CUBIC)


def place(canvas: np.ndarray, picture: np.ndarray, x: int, y: int, space: tuple[int, int]) -> None:
    """Paste `picture` into the middle of a space (height, width) at (x, y), with a hairline around it."""
    height, width = picture.shape[:2]
    top, left = y + (space[0] - height) // 2, x + (space[1] - width) // 2
    canvas[max(top - 1, 0) : top + height + 1, max(left - 1, 0) : left + width + 1] = RULE
    canvas[top : top + height, left : left + width] = picture


def boxes_at(allocation: Allocation, size: tuple[int, int]) -> np.ndarray:
    """Return top, left, bottom, right of regions on a display of `size`, (N, 4) int64; neighbours still touch."""
    return _displayed(allocation.boxes.astype(np.float64), size, (allocation.height, allocation.width))


def tokens_at(allocation: Allocation, size: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Return `boxes_at` of every token, (T, 4), and its level (T,): a region of several tokens becomes a grid."""
    if (allocation.counts == 1).all():
        return boxes_at(allocation, size), allocation.levels
    given = (allocation.height, allocation.width)
    canvas = allocation.canvas or given
    pixels = np.array([*given, *given]) / (*canvas, *canvas) * allocation.cell
    levels = np.repeat(allocation.levels, allocation.counts)
    return _displayed(token_boxes(allocation) * pixels, size, given), levels


def _displayed(boxes: np.ndarray, size: tuple[int, int], given: tuple[int, int]) -> np.ndarray:
    """Convert (N, 4) top, left, height, width in the picture's pixels to top, left, bottom, right on the display."""
    scale = np.array([size[0] / given[0], size[1] / given[1]] * 2)
    corners = np.concatenate([boxes[:, :2], boxes[:, :2] + boxes[:, 2:]], axis=1)
    return np.rint(corners * scale).astype(np.int64)


def covered(boxes: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """Return a mask (H, W) of the pixels inside `boxes` (N, 4) top, left, bottom, right; the last two exclusive.

    Marks the corners of all boxes at once and sums twice, so the cost hardly depends on the number of boxes.
    """
    height, width = size
    top, left, bottom, right = np.clip(boxes, 0, np.array([height, width, height, width])).T
    steps = np.zeros((height + 1, width + 1), dtype=np.int32)
    for rows, cols, sign in ((top, left, 1), (top, right, -1), (bottom, left, -1), (bottom, right, 1)):
        np.add.at(steps, (rows, cols), sign)
    np.cumsum(steps, axis=0, out=steps)
    np.cumsum(steps, axis=1, out=steps)
    return steps[:-1, :-1] > 0


def levels_at(allocation: Allocation, size: tuple[int, int]) -> np.ndarray:
    """Return the level of detail of each display pixel, (H, W) int16, -1 without a token; the finer region wins."""
    boxes = boxes_at(allocation, size)
    result = np.full(size, -1, dtype=np.int16)
    for level in sorted(set(allocation.levels.tolist()), reverse=True):
        result[covered(boxes[allocation.levels == level], size)] = level
    return result


# ---- the legend ------------------------------------------------------------------------------------------------------

BAR_HEIGHT = 10


class LevelRow(NamedTuple):
    """One level of an allocation, as counted in the code and as shown (−1: read at twice the size). side: pixels of the
    picture that one region covers each way."""

    level: int
    side: int
    regions: int
    tokens: int
    area: float


def level_rows(allocation: Allocation) -> list[LevelRow]:
    """Return a row per level in use, finest first. Areas are shares of the picture; finer regions hide coarser ones."""
    size = (min(allocation.height, 512), min(allocation.width, 512))
    total = allocation.height * allocation.width
    tiles = not allocation.sparse and allocation.boxes[:, 2:].astype(np.int64).prod(1).sum() == total
    shown = None if tiles else levels_at(allocation, size)
    rows = []
    for level, tokens in sorted(allocation.tokens_by_level().items()):
        boxes = allocation.boxes[allocation.levels == level].astype(np.int64)
        area = (boxes[:, 2] * boxes[:, 3]).sum() / total if shown is None else (shown == level).mean()
        rows.append(LevelRow(level, int(boxes[:, 2:].max()), len(boxes), tokens, float(area)))
    return rows


def budget_bar(canvas: np.ndarray, allocation: Allocation, x: int, y: int, width: int) -> None:
    """Draw a bar for the full token count, filled level by level with the tokens spent."""
    canvas[y : y + BAR_HEIGHT, x : x + width] = RULE
    rows = level_rows(allocation)
    spent = np.cumsum([0, *(row.tokens for row in rows)])
    scale = width / max(allocation.full, allocation.tokens, 1)
    ends = np.rint(spent * scale).astype(int)
    for row, left, right in zip(rows, ends[:-1], ends[1:], strict=True):
        canvas[y : y + BAR_HEIGHT, x + left : x + max(right, left + 1)] = level_colour(row.level)


def level_legend(canvas: np.ndarray, allocation: Allocation, x: int, y: int, width: int) -> int:
    """Draw one column per level: swatch, pixels, tokens, area; return the height used."""
    rows = level_rows(allocation)
    column = width // max(len(rows), 4)
    for number, row in enumerate(rows):
        left = x + number * column
        canvas[y + 3 : y + 17, left : left + 14] = level_colour(row.level)
        detail = "full detail" if row.level == 0 else f"1/{1 << row.level} of it"
        if row.tokens > row.regions:
            counts = allocation.counts[(allocation.levels == row.level) & (allocation.counts > 1)]
            detail = " or ".join(str(count) for count in sorted(set(counts.tolist()))) + " tokens a patch"
        name = f"level {row.level}, {detail}"
        write(canvas, name, left + 24, y, size=14, colour=INK, weight=BOLD)
        details = f"{row.tokens:,} token{'' if row.tokens == 1 else 's'} on {100 * row.area:.1f} % of the area"
        write(canvas, details.replace(",", " "), left + 24, y + line_height(14), size=13, colour=MUTED)
        size = f"one token sees {row.side}×{row.side} px" if row.tokens == row.regions else f"{row.side} px regions"
        write(canvas, size, left + 24, y + line_height(14) + line_height(13), size=13, colour=MUTED)
    return line_height(14) + 2 * line_height(13)


def spent_words(allocation: Allocation) -> str:
    """Return, for example, "256 of 1 024 tokens"."""
    seen = "" if allocation.scale == 1 else f", read ×{allocation.scale:.3g}"
    return f"{allocation.tokens:,} of {allocation.full:,} tokens".replace(",", " ") + seen


def share_words(allocation: Allocation) -> str:
    """Return, for example, "25.0 %"."""
    return f"{100 * allocation.keep:.1f} %"


# ---- who decided -----------------------------------------------------------------------------------------------------

WAY_COLOURS: dict[str, Colour] = {
    "propositional": (52, 120, 168),
    "perspectival": (222, 150, 40),
    "participatory": (178, 60, 120),
    "given": MUTED,
}
# The two ends of each tension, in the order shown.
POLES = {
    "compress_particularize": ("compress", "particularize"),
    "exploit_explore": ("exploit", "explore"),
    "focus_diversify": ("focus", "diversify"),
}


def deciders(allocation: Allocation) -> list[tuple[str, str, float]]:
    """Return (source, way of knowing, weight) of each source that decided, the heaviest first."""
    found = [(source, way, weight) for way, one in allocation.ways.items() for source, weight in one.items()]
    return sorted(found, key=lambda one: -one[2])


def decided_words(allocation: Allocation) -> list[str]:
    """Return sentences about the sources that decided and the tensions; none if the caller decided."""
    who = [f"{source} {100 * weight:.0f} % ({way})" for source, way, weight in deciders(allocation) if weight >= 0.005]
    stood = [
        f"{low} {100 * (1 - value):.0f} : {100 * value:.0f} {high}"
        for name, (low, high) in POLES.items()
        if (value := allocation.tensions.get(name)) is not None
    ]
    return [*([f"decided by {', '.join(who)}"] if who else []), *([f"tensions: {', '.join(stood)}"] if stood else [])]


def decided_strip(canvas: np.ndarray, allocation: Allocation, x: int, y: int, width: int) -> None:
    """Draw the weights of the sources as a bar on the left, and each tension as a slider on the right."""
    half = (width - GAP) // 2
    write(canvas, "Who decided", x, y, size=13, colour=MUTED, weight=BOLD)
    top, left = y + line_height(13) + 2, x
    who = deciders(allocation)
    for _, way, weight in who:
        right = min(x + half, left + max(2, round(half * weight)))
        canvas[top : top + BAR_HEIGHT, left:right] = WAY_COLOURS.get(way, MUTED)
        canvas[top : top + BAR_HEIGHT, right - 1 : right] = PAPER
        left = right
    words = ", ".join(f"{source} {100 * weight:.0f} %" for source, _, weight in who if weight >= 0.005)
    write(canvas, shorten(words, half, 13), x, top + BAR_HEIGHT + 4, size=13)
    column = half // 3
    for number, (name, (low, high)) in enumerate(POLES.items()):
        if (value := allocation.tensions.get(name)) is None:
            continue
        left, long = x + half + GAP + number * column, column - GAP
        write(canvas, f"{low} – {high}", left, y, size=13, colour=MUTED)
        canvas[top + 4 : top + 6, left : left + long] = RULE
        knob = left + round(value * (long - BAR_HEIGHT))
        canvas[top : top + BAR_HEIGHT, knob : knob + BAR_HEIGHT] = INK
        write(canvas, f"{value:.2f}", left, top + BAR_HEIGHT + 4, size=13)
