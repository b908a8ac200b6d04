"""The ways in which visual tokens are counted, each a pure function of (height, width) and the numbers of a table.

A rule tells the tokens and the size at which the model sees the picture. What the numbers are for whom stands in
`data/token_tables.toml`; a rule with other numbers needs no code.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from ...core.errors import InputError

Numbers = Mapping[str, Any]


class TokenCount(NamedTuple):
    """tokens: of one picture. height, width: of what the model sees of it."""

    tokens: int
    height: int
    width: int


def blocks(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Qwen-VL: both sides rounded to whole blocks of `cell` pixels, one token each, between `least_pixels` and
    `most_pixels` in all."""
    cell, least, most = numbers["cell"], numbers["least_pixels"], numbers["most_pixels"]
    if max(height, width) > 200 * min(height, width):
        raise InputError(f"a picture of {width}×{height} is more than 200 times as long as wide; crop it")
    rows, cols = round(height / cell), round(width / cell)
    if rows * cols * cell * cell > most:
        shrink = math.sqrt(height * width / most)
        rows, cols = (max(1, math.floor(side / shrink / cell)) for side in (height, width))
    elif rows * cols * cell * cell < least:
        grow = math.sqrt(least / (height * width))
        rows, cols = (math.ceil(side * grow / cell) for side in (height, width))
    return TokenCount(rows * cols, rows * cell, cols * cell)


def patches(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Patches of `cell` pixels that cover the picture, times `multiplier`; larger pictures are reduced to `most`
    patches and to `longest_side`, as OpenAI and Anthropic do."""
    cell, most = numbers["cell"], numbers.get("most", math.inf)
    shrink = min(1.0, numbers.get("longest_side", math.inf) / max(height, width))
    tall, wide = height * shrink, width * shrink
    if math.ceil(tall / cell) * math.ceil(wide / cell) > most:
        scale = math.sqrt(most * cell * cell / (tall * wide))
        if numbers.get("whole_patches", False):  # one side to whole patches, the way OpenAI's guide works it out
            across, down = (max(1.0, side * scale / cell) for side in (wide, tall))
            scale *= min(math.floor(across) / across, math.floor(down) / down)
        tall, wide = tall * scale, wide * scale
        while math.ceil(tall / cell - 1e-9) * math.ceil(wide / cell - 1e-9) > most:
            tall, wide = tall * 0.999, wide * 0.999
    count = math.ceil(tall / cell - 1e-9) * math.ceil(wide / cell - 1e-9)
    tokens = math.ceil(count * numbers.get("multiplier", 1.0) - 1e-9)
    return TokenCount(tokens, max(1, round(tall)), max(1, round(wide)))


def area(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Pixels divided by `pixels_per_token`, after `longest_side` and `most` tokens."""
    each = numbers["pixels_per_token"]
    shrink = min(1.0, numbers.get("longest_side", math.inf) / max(height, width))
    shrink = min(shrink, math.sqrt(numbers.get("most", math.inf) * each / (height * width)))
    tall, wide = (max(1, math.floor(side * shrink + 1e-9)) for side in (height, width))
    return TokenCount(math.ceil(tall * wide / each), tall, wide)


def tiles(height: int, width: int, numbers: Numbers) -> TokenCount:
    """OpenAI's tiles: fitted into a square of `fit`, the shorter side reduced to `shorter_side`, then `base` tokens and
    `each` for every `tile` pixels square."""
    shrink = min(1.0, numbers["fit"] / max(height, width))
    tall, wide = height * shrink, width * shrink
    shrink = min(1.0, numbers["shorter_side"] / min(tall, wide))
    tall, wide = (max(1, round(side * shrink)) for side in (tall, wide))
    count = math.ceil(tall / numbers["tile"]) * math.ceil(wide / numbers["tile"])
    return TokenCount(numbers["base"] + numbers["each"] * count, tall, wide)


def crops(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Gemini 2: `each` tokens where both sides are at most `small`; larger pictures are cut into tiles whose side is
    the shorter side divided by 1.5, from 256 to `tile` pixels, each shown at `tile` pixels."""
    if max(height, width) <= numbers["small"]:
        return TokenCount(numbers["each"], height, width)
    unit = min(numbers["tile"], max(256, math.floor(min(height, width) / 1.5)))
    count = math.ceil(height / unit) * math.ceil(width / unit)
    return TokenCount(numbers["each"] * count, height, width)


def fixed(height: int, width: int, numbers: Numbers) -> TokenCount:
    """The same for every picture: it is resized to a square of `side` pixels, or where `side` is missing fitted."""
    side = numbers.get("side")
    return TokenCount(numbers["each"], *((side, side) if side else (height, width)))


def closest_grid(height: int, width: int, numbers: Numbers) -> TokenCount:
    """InternVL: the grid of `least` to `most` tiles whose shape is closest, and a small picture of the whole where
    there are several; `each` tokens a tile, `around` in all."""
    tile, shape, found, off = numbers["tile"], width / height, (1, 1), math.inf
    for across, down in grids(numbers.get("least", 1), numbers["most"]):
        away = abs(shape - across / down)
        if away < off:
            found, off = (across, down), away
        elif away == off and height * width > 0.5 * tile * tile * across * down:
            found = across, down
    count = found[0] * found[1]
    tokens = numbers["each"] * (count + (count > 1)) + numbers.get("around", 0)
    return TokenCount(tokens, found[1] * tile, found[0] * tile)


@lru_cache(maxsize=32)
def grids(least: int, most: int) -> tuple[tuple[int, int], ...]:
    """(across, down) of all grids of `least` to `most` tiles, small ones first."""
    sides = range(1, most + 1)
    every = [(across, down) for across in sides for down in sides if least <= across * down <= most]
    return tuple(sorted(every, key=lambda grid: grid[0] * grid[1]))


def rows_of_patches(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Pixtral and Mistral: fitted into `longest_side`, patches of `cell` pixels and a token behind every row."""
    cell = numbers["cell"]
    shrink = max(1.0, height / numbers["longest_side"], width / numbers["longest_side"])
    tall, wide = (math.floor(side / shrink) if shrink > 1 else side for side in (height, width))
    rows, cols = (tall - 1) // cell + 1, (wide - 1) // cell + 1
    return TokenCount((cols + 1) * rows, rows * cell, cols * cell)


def filled(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Gemma 4 and Gemini 3: enlarged or reduced to the most whole blocks of `cell` pixels, at most `most` of them."""
    cell, most = numbers["cell"], numbers["most"]
    scale = math.sqrt(most * cell * cell / (height * width))
    rows, cols = (math.floor(side * scale / cell) for side in (height, width))
    if rows == 0:
        rows, cols = 1, min(max(1, width // height), most)
    elif cols == 0:
        rows, cols = min(max(1, height // width), most), 1
    return TokenCount(rows * cols, rows * cell, cols * cell)


RULES: dict[str, Callable[[int, int, Numbers], TokenCount]] = {
    rule.__name__: rule for rule in (blocks, patches, area, tiles, crops, fixed, closest_grid, rows_of_patches, filled)
}
# What each rule cannot do without.
NEEDED: dict[str, tuple[str, ...]] = {
    "blocks": ("cell", "least_pixels", "most_pixels"),
    "patches": ("cell",),
    "area": ("pixels_per_token",),
    "tiles": ("fit", "shorter_side", "tile", "base", "each"),
    "crops": ("small", "tile", "each"),
    "fixed": ("each",),
    "closest_grid": ("tile", "most", "each"),
    "rows_of_patches": ("cell", "longest_side"),
    "filled": ("cell", "most"),
}


def scales(most: float = 1.0, least: float = 1 / 64, step: float = 0.985) -> Iterator[float]:
    """From `most` down to `least`, in small steps: where a count does not rise evenly, the first that fits is taken."""
    scale = most
    while scale > least:
        yield scale
        scale *= step
    yield least
