"""Token tables: how each family of models counts visual tokens, and the table for a model's name.

table_for("gpt-4o").tokens((1024, 1024))          765
table_for("qwen3-vl").fit((3508, 2480), 400)      the largest (height, width) of that shape for 400 tokens

The tables are in `data/token_tables.toml`, the limits of providers in `data/limits.toml`. A rule is a pure function of
(height, width) and the numbers of a table; it returns the tokens and the size at which the model sees the picture.
Counting imports nothing heavy, not even numpy.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from ...core.errors import InputError, shown, whole, whole_size

if TYPE_CHECKING:
    from ...core.values import JsonObject as Numbers


class TokenCount(NamedTuple):
    """A count. tokens: of one picture. height, width: the size at which the model sees it."""

    tokens: int
    height: int
    width: int


def blocks(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count like Qwen-VL: both sides rounded to whole blocks of `cell` pixels, one token each, between `least_pixels`
    and `most_pixels` in all."""
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
    """Count patches of `cell` pixels that cover the picture, times `multiplier`; larger pictures are reduced to `most`
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
    """Divide pixels by `pixels_per_token`, after `longest_side` and `most` tokens."""
    each = numbers["pixels_per_token"]
    shrink = min(1.0, numbers.get("longest_side", math.inf) / max(height, width))
    shrink = min(shrink, math.sqrt(numbers.get("most", math.inf) * each / (height * width)))
    tall, wide = (max(1, math.floor(side * shrink + 1e-9)) for side in (height, width))
    return TokenCount(math.ceil(tall * wide / each), tall, wide)


def tiles(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count OpenAI's tiles: fit into a square of `fit`, reduce the shorter side to `shorter_side`, then `base` tokens
    and `each` for every `tile` pixels square."""
    shrink = min(1.0, numbers["fit"] / max(height, width))
    tall, wide = height * shrink, width * shrink
    shrink = min(1.0, numbers["shorter_side"] / min(tall, wide))
    tall, wide = (max(1, round(side * shrink)) for side in (tall, wide))
    count = math.ceil(tall / numbers["tile"]) * math.ceil(wide / numbers["tile"])
    return TokenCount(numbers["base"] + numbers["each"] * count, tall, wide)


def crops(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count like Gemini 2: `each` tokens if both sides are at most `small`; larger pictures are cut into tiles whose
    side is the shorter side divided by 1.5, from 256 to `tile` pixels, each shown at `tile` pixels."""
    if max(height, width) <= numbers["small"]:
        return TokenCount(numbers["each"], height, width)
    unit = min(numbers["tile"], max(256, math.floor(min(height, width) / 1.5)))
    count = math.ceil(height / unit) * math.ceil(width / unit)
    return TokenCount(numbers["each"] * count, height, width)


def fixed(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count the same for every picture: it is resized to a square of `side` pixels, or fitted if `side` is missing."""
    side = numbers.get("side")
    return TokenCount(numbers["each"], *((side, side) if side else (height, width)))


def closest_grid(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count like InternVL: the grid of `least` to `most` tiles whose shape is closest, and a small picture of the whole
    if there are several; `each` tokens a tile, `around` in all."""
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
    """List (across, down) of all grids of `least` to `most` tiles, small ones first."""
    sides = range(1, most + 1)
    every = [(across, down) for across in sides for down in sides if least <= across * down <= most]
    return tuple(sorted(every, key=lambda grid: grid[0] * grid[1]))


def rows_of_patches(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count like Pixtral and Mistral: fit into `longest_side`, patches of `cell` pixels and a token after every row."""
    cell = numbers["cell"]
    shrink = max(1.0, height / numbers["longest_side"], width / numbers["longest_side"])
    tall, wide = (math.floor(side / shrink) if shrink > 1 else side for side in (height, width))
    rows, cols = (tall - 1) // cell + 1, (wide - 1) // cell + 1
    return TokenCount((cols + 1) * rows, rows * cell, cols * cell)


def filled(height: int, width: int, numbers: Numbers) -> TokenCount:
    """Count like Gemma 4 and Gemini 3: enlarge or reduce to the most whole blocks of `cell` pixels, at most `most`."""
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


# ---- tables ----------------------------------------------------------------------------------------------------------

# Maximum side of a drawn square in pixels; maximum number of tiles to try if the shape decides the count.
LARGEST_DRAWN, MOST_TILES = 4096, 16
LEAST_SCALE = 1 / 64


class Fitted(NamedTuple):
    """size: (height, width) at which something is drawn. canvas: size of the picture around it, white if larger."""

    size: tuple[int, int]
    canvas: tuple[int, int]


@dataclass(frozen=True)
class PictureLimits:
    """The limits of a provider. side: pixels of the longer side; with more than `crowd` pictures `crowd_side` each.
    bytes: of a picture in base64. request: bytes of all. source, date: the document, and when it was read."""

    side: float = math.inf
    crowd: float = math.inf
    crowd_side: float = math.inf
    bytes: float = math.inf
    request: float = math.inf
    source: str = ""
    date: str = ""

    def longest(self, pictures: float) -> float:
        """Return the maximum longer side in pixels of each of a number of pictures."""
        return min(self.side, self.crowd_side if pictures > self.crowd else math.inf)

    def takes(self, size: tuple[int, int], length: int, pictures: int = 1) -> bool:
        """Tell whether one of a number of pictures is accepted. length: of its file, in bytes."""
        return max(size) <= self.longest(pictures) and 4 * -(-length // 3) <= self.bytes


@dataclass(frozen=True)
class TokenTable:
    """The token count of a family of models.

    models: patterns of names. rule, numbers: a function above, and its arguments. source, date: the document, and when
    it was read. exact: the open processor counts the same (there is a test); else as documented. resized_by: who
    reduces large pictures. pictures: maximum number in a request.
    """

    name: str
    models: Sequence[str]
    rule: str
    numbers: Numbers
    source: str
    date: str
    provider: str = ""
    resized_by: str = ""
    exact: bool = False
    pictures: int | None = None
    notes: str = field(default="", repr=False)

    def count(self, size: tuple[int, int]) -> TokenCount:
        """Count tokens of a picture of (height, width), and return the size at which it is seen."""
        return self.counted(*whole_size(size, "size of a picture"))

    def counted(self, height: int, width: int) -> TokenCount:
        """Call `count` for sides that are whole pixels already."""
        return RULES[self.rule](height, width, self.numbers)

    def tokens(self, size: tuple[int, int]) -> int:
        """Return the tokens of a picture of (height, width)."""
        return self.count(size).tokens

    @property
    def cell(self) -> int:
        """Return the side in pixels of the area of one token, rounded to a whole number."""
        if "cell" in self.numbers:
            return int(self.numbers["cell"])
        return max(8, round(math.sqrt(self.numbers.get("pixels_per_token", 1024))))

    @property
    def limits(self) -> PictureLimits:
        """Return the limits of its provider; no limits if they are unknown."""
        return PictureLimits(**read_data("limits.toml").get(self.provider, {}))

    @property
    def even(self) -> bool:
        """Tell whether tokens rise with the pixels, not by whole tiles."""
        return self.rule in ("blocks", "patches", "area", "rows_of_patches")

    @property
    def least(self) -> int:
        """Return the tokens of the cheapest picture."""
        sides = (self.cell, 2 * self.cell, 256, 384)
        return min(self.tokens((side, side * times)) for side in sides for times in (1, 4))

    @property
    def as_told(self) -> str:
        """Describe how reliable the number is."""
        return "as its processor counts" if self.exact else f"as documented on {self.date}"

    def fit(self, shape: tuple[float, float], budget: int, most: float = 1.0) -> Fitted | None:
        """Find the largest picture of a shape within a budget; None if none fits.

        Args:
            shape: (height, width) in pixels at scale 1.
            budget: Tokens of one picture.
            most: The largest scale.

        Returns:
            Its size, in whole cells if the model would stretch them otherwise, and the size to pad it to: models that
            cut tiles by the shape of a picture count less for another shape.
        """
        snap = self.cell if self.rule in ("blocks", "patches", "rows_of_patches") else 1
        most = min(most, LARGEST_DRAWN / math.sqrt(shape[0] * shape[1]))
        most = min(most, (self.limits.longest(math.inf) - self.cell) / max(shape))
        direct = self._direct(shape, budget, most, snap)
        if self.even:
            return direct
        unit = int(self.numbers.get("tile") or self.numbers.get("side") or self.numbers.get("small") or 512)
        found = [] if direct is None else [self._as_seen(direct, budget)]
        for across, down in grids(1, MOST_TILES):
            canvas = down * unit, across * unit
            if self.tokens(canvas) <= budget:
                scale = min(most, canvas[0] / shape[0], canvas[1] / shape[1])
                found.append(Fitted(snapped(shape, scale, 1, math.floor), canvas))
        return max(found, key=lambda one: (round(self.detail(one), 2), -math.prod(one.canvas)), default=None)

    def detail(self, fitted: Fitted) -> float:
        """Return the visible pixels along the side of a drawn square after the model's own resizing."""
        seen = self.count(fitted.canvas)
        shrink = min(1.0, seen.height / fitted.canvas[0], seen.width / fitted.canvas[1])
        return shrink * math.sqrt(math.prod(fitted.size))

    def _as_seen(self, fitted: Fitted, budget: int) -> Fitted:
        """Remove pixels that the model would drop itself, if the smaller picture costs no more."""
        seen = self.count(fitted.canvas)
        shrink = max(seen.height / fitted.canvas[0], seen.width / fitted.canvas[1])
        if shrink >= 1:
            return fitted
        size = snapped(fitted.size, shrink, 1, round)
        return Fitted(size, size) if self.tokens(size) <= budget else fitted

    def _direct(self, shape: tuple[float, float], budget: int, most: float, snap: int) -> Fitted | None:
        if self.even:  # tokens rise with the pixels: nothing much larger can fit
            area = self.cell**2 * budget / self.numbers.get("multiplier", 1.0)
            most = min(most, 1.3 * math.sqrt(area / (shape[0] * shape[1])) + self.cell / min(shape))
        scale = max(most, LEAST_SCALE)
        while True:  # if a count does not rise evenly, the first size that fits is taken
            for size in sorted({snapped(shape, scale, snap, way) for way in (math.ceil, round, math.floor)})[::-1]:
                if max(size) <= 199 * min(size) and self.counted(*size).tokens <= budget:
                    return Fitted(size, size)
            if scale == LEAST_SCALE:
                return None
            scale = max(0.985 * scale, LEAST_SCALE)


def snapped(shape: tuple[float, float], scale: float, snap: int, way: Callable[[float], int]) -> tuple[int, int]:
    """Return a shape at a scale in multiples of `snap`, at least one."""
    height, width = (max(snap, int(way(side * scale / snap - 1e-9)) * snap) for side in shape)
    return height, width


# ---- names -----------------------------------------------------------------------------------------------------------


@cache
def own_tables() -> tuple[TokenTable, ...]:
    """Load the tables, in the order in which names are looked up."""
    return tuple(TokenTable(**entry) for entry in read_data("token_tables.toml")["table"])


@cache
def read_data(name: str) -> Numbers:
    return tomllib.loads((Path(__file__).parent / "data" / name).read_text(encoding="utf-8"))


def find_table(model: str) -> TokenTable | None:
    """Find the table for a model's name, whoever serves it; None if no pattern matches.

    "openai/gpt-4o", "Qwen/Qwen3-VL-8B-Instruct" and "qwen2.5vl:7b" are all found by the part after the owner.
    """
    name = model.strip().lower()
    for table in own_tables():
        for one in dict.fromkeys((name, name.rpartition("/")[2])):
            if one == table.name or any(fnmatchcase(one, pattern) for pattern in table.models):
                return table
    return None


def table_for(model: object) -> TokenTable:
    """Return `find_table`, or raise `InputError`. model: also a table itself."""
    if isinstance(model, TokenTable):
        return model
    if not isinstance(model, str) or not model.strip():
        raise InputError(f"a model is named by a text such as gpt-4o or qwen3-vl, got {shown(model)}")
    found = find_table(model)
    if found is None:
        known = ", ".join(table.name for table in own_tables())
        raise InputError(f"no table says how {shown(model)} counts; known: {known}; or give a TokenTable of your own")
    return found


def tokens_for(
    image_size: tuple[int, int],
    budget: int | str | None = None,
    *,
    strategy: str = "overlay",
    cell: int = 32,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    model: str | None = None,
) -> int:
    """Count the visual tokens of a picture at a budget; needs no pixels.

    Args:
        image_size: (height, width).
        budget: Maximum tokens, or a share such as "25%"; None is the full count.
        strategy: "quadtree" reaches only some counts: the largest one possible at this budget.
        cell: Pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level of detail.
        model: Name of a model behind an API: returns the count of its provider, at most the budget.

    Returns:
        The number of tokens: the budget, or the full count if that is less.

    Example:
        >>> tokens_for((1024, 1024)), tokens_for((1024, 1024), 251), tokens_for((1024, 1024), "25%")
        (1024, 251, 256)
        >>> tokens_for((1024, 1024), 251, strategy="quadtree"), tokens_for((1024, 1024), model="gpt-4o")
        (250, 765)
    """
    from ...attending.frame import Frame
    from ...attending.strategies import find_strategy
    from ...attending.tree import check_budget, tree_for

    find_strategy(strategy)
    if model is not None:
        full = table_for(model).tokens(image_size)
        return full if budget is None else check_budget(budget, full)
    rows, cols = Frame(image_size, cell, canvas).grid
    if levels is not None:
        whole(levels, "levels")
    if budget is None:
        return rows * cols
    count = check_budget(budget, rows * cols)
    if strategy != "quadtree":
        return count
    return tree_for(rows, cols, count, levels).reach(count)
