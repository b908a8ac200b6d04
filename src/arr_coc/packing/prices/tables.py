"""`TokenTable`: how one family of models counts a picture, and which table belongs to a model's name.

table_for("gpt-4o").tokens((1024, 1024))          765
table_for("qwen3-vl").fit((3508, 2480), 400)      the largest (height, width) of that shape for 400 tokens
load_tables("my.toml")                            one's own, found before ours
"""

from __future__ import annotations

import math
import os
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...attending.strategies import check_strategy
from ...attending.tree import check_budget, grid_of, tree_for
from ...core.errors import InputError, shown, whole, whole_size
from ...core.folders import read_text
from ...core.values import DEFAULT_CELL, JsonObject
from .rules import NEEDED, RULES, Numbers, TokenCount, grids, scales

OURS = Path(__file__).parent / "data" / "token_tables.toml"
TEXTS = ("name", "rule", "source", "date")
# Beside those and `models`, `numbers`; anything else in a file is a mistake.
OPTIONAL = ("provider", "resized_by", "exact", "pictures", "notes")
LARGEST_FILE = 1 << 20
# Pixels of the side of a square: nothing larger is drawn. Tiles that are tried where the shape decides the count.
LARGEST_DRAWN, MOST_TILES = 4096, 16


class Fitted(NamedTuple):
    """size: (height, width) at which something is drawn. canvas: of the picture around it, white where it is larger."""

    size: tuple[int, int]
    canvas: tuple[int, int]


@dataclass(frozen=True)
class TokenTable:
    """How one family of models counts.

    models: patterns of names. rule, numbers: see `rules`. source, date: where it is written, and when that was read.
    exact: the open processor counts the same (there is a test); else as documented. resized_by: who makes large
    pictures smaller. pictures: the most of one request.
    """

    name: str
    models: tuple[str, ...]
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
        """Tokens of a picture of (height, width), and the size at which it is seen."""
        return self.counted(*whole_size(size, "size of a picture"))

    def counted(self, height: int, width: int) -> TokenCount:
        """`count` of sides that are known to be whole pixels."""
        return RULES[self.rule](height, width, self.numbers)

    def tokens(self, size: tuple[int, int]) -> int:
        """What a picture of (height, width) costs."""
        return self.count(size).tokens

    @property
    def cell(self) -> int:
        """The side in pixels of what one token sees, as nearly as a whole number can say it."""
        if "cell" in self.numbers:
            return int(self.numbers["cell"])
        return max(8, round(math.sqrt(self.numbers.get("pixels_per_token", 1024))))

    @property
    def even(self) -> bool:
        """Whether tokens rise with the pixels, not by whole tiles."""
        return self.rule in ("blocks", "patches", "area", "rows_of_patches")

    @property
    def least(self) -> int:
        """What the cheapest picture costs."""
        sides = (self.cell, 2 * self.cell, 256, 384)
        return min(self.tokens((side, side * times)) for side in sides for times in (1, 4))

    @property
    def as_told(self) -> str:
        """How sure the number is, in words."""
        return "as its processor counts" if self.exact else f"as documented on {self.date}"

    def fit(self, shape: tuple[float, float], budget: int, most: float = 1.0) -> Fitted | None:
        """The largest picture of a shape that costs no more than a budget; None where none does.

        Args:
            shape: (height, width) in pixels, where the scale is 1.
            budget: Tokens of one picture.
            most: The largest scale.

        Returns:
            Its size, in whole cells where the model would else stretch them, and the size it is to be padded to:
            models that cut tiles by the shape of a picture take less for another shape.
        """
        snap = self.cell if self.rule in ("blocks", "patches", "rows_of_patches") else 1
        most = min(most, LARGEST_DRAWN / math.sqrt(shape[0] * shape[1]))
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
        """Pixels of the side of a square that are seen of what is drawn, behind the model's own resizing."""
        seen = self.count(fitted.canvas)
        shrink = min(1.0, seen.height / fitted.canvas[0], seen.width / fitted.canvas[1])
        return shrink * math.sqrt(math.prod(fitted.size))

    def _as_seen(self, fitted: Fitted, budget: int) -> Fitted:
        """Without pixels that the model would take away itself, where the smaller picture costs no more."""
        seen = self.count(fitted.canvas)
        shrink = max(seen.height / fitted.canvas[0], seen.width / fitted.canvas[1])
        if shrink >= 1:
            return fitted
        size = snapped(fitted.size, shrink, 1, round)
        return Fitted(size, size) if self.tokens(size) <= budget else fitted

    def _direct(self, shape: tuple[float, float], budget: int, most: float, snap: int) -> Fitted | None:
        if self.even:  # tokens rise with the pixels: nothing much larger than this can fit
            area = self.cell**2 * budget / self.numbers.get("multiplier", 1.0)
            most = min(most, 1.3 * math.sqrt(area / (shape[0] * shape[1])) + self.cell / min(shape))
        for scale in scales(most):
            for size in sorted({snapped(shape, scale, snap, way) for way in (math.ceil, round, math.floor)})[::-1]:
                if max(size) <= 199 * min(size) and self.counted(*size).tokens <= budget:
                    return Fitted(size, size)
        return None


def snapped(shape: tuple[float, float], scale: float, snap: int, way: Callable[[float], int]) -> tuple[int, int]:
    """A shape at a scale in multiples of `snap`, at least one of them."""
    height, width = (max(snap, int(way(side * scale / snap - 1e-9)) * snap) for side in shape)
    return height, width


# ---- files -----------------------------------------------------------------------------------------------------------


@cache
def own_tables() -> tuple[TokenTable, ...]:
    """The tables of the library, in the order in which names are looked up."""
    return read_tables(OURS.read_text(encoding="utf-8"), OURS.name)


def load_tables(path: str | os.PathLike[str] | None) -> tuple[TokenTable, ...]:
    """The tables of a user's TOML file ([[table]] as in `data/token_tables.toml`), then ours; None: only ours."""
    if path is None:
        return own_tables()
    try:
        text = read_text(path, LARGEST_FILE)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"the table {path} cannot be read ({reason}); give a TOML file") from error
    return (*read_tables(text, str(path)), *own_tables())


def read_tables(text: str, name: str) -> tuple[TokenTable, ...]:
    """[[table]] entries of a TOML text, checked. name: of the file, for messages."""
    try:
        entries = tomllib.loads(text).get("table")
    except tomllib.TOMLDecodeError as error:
        raise InputError(f"{name} is not TOML ({error}); see docs/pack.md for a table") from error
    if not isinstance(entries, list) or not entries or not all(isinstance(one, dict) for one in entries):
        raise InputError(f"{name} holds no [[table]]; see docs/pack.md for one")
    return tuple(table_of(one, name) for one in entries)


def table_of(entry: JsonObject, file: str) -> TokenTable:
    where = f"table {shown(entry.get('name'))} in {file}"
    missing = [key for key in (*TEXTS, "models", "numbers") if key not in entry]
    unknown = sorted(entry.keys() - {*TEXTS, *OPTIONAL, "models", "numbers"})
    if missing or unknown:
        raise InputError(f"{where}: {f'{missing[0]} is missing' if missing else f'{unknown[0]} is unknown'}")
    models, numbers = entry["models"], entry["numbers"]
    if not all(isinstance(entry[key], str) and entry[key] for key in TEXTS):
        raise InputError(f"{where}: {', '.join(TEXTS)} must be texts")
    if not isinstance(models, list) or not models or not all(isinstance(one, str) and one for one in models):
        raise InputError(f'{where}: models must be a list of patterns, such as ["my-model*"]')
    if entry["rule"] not in RULES:
        raise InputError(f"{where}: rule {shown(entry['rule'])} is unknown; choose from {', '.join(RULES)}")
    check_numbers(numbers, entry["rule"], where)
    given = {key: entry[key] for key in (*TEXTS, *OPTIONAL) if key in entry}
    if "pictures" in given:
        given["pictures"] = whole(given["pictures"], f"{where}: pictures", 1)
    return TokenTable(**given, models=tuple(one.lower() for one in models), numbers=dict(numbers))


def check_numbers(numbers: object, rule: str, where: str) -> None:
    if not isinstance(numbers, dict):
        raise InputError(f"{where}: numbers must be a table of numbers")
    lacking = [key for key in NEEDED[rule] if key not in numbers]
    if lacking:
        raise InputError(f"{where}: the rule {rule} needs {', '.join(lacking)}")
    for key, value in numbers.items():
        if not isinstance(value, bool) and (not isinstance(value, int | float) or not 0 <= value < math.inf):
            raise InputError(f"{where}: {key} must be a number, got {shown(value)}")
        if key not in ("base", "around", "least_pixels") and not isinstance(value, bool) and value == 0:
            raise InputError(f"{where}: {key} must be above 0")


# ---- names -----------------------------------------------------------------------------------------------------------


def find_table(model: str, tables: Sequence[TokenTable] | None = None) -> TokenTable | None:
    """The table of a model's name, whoever serves it; None where no pattern matches.

    "openai/gpt-4o", "Qwen/Qwen3-VL-8B-Instruct" and "qwen2.5vl:7b" are all known by what stands behind the owner.
    """
    name = model.strip().lower()
    for table in own_tables() if tables is None else tables:
        for one in dict.fromkeys((name, name.rpartition("/")[2])):
            if one == table.name or any(fnmatchcase(one, pattern) for pattern in table.models):
                return table
    return None


def table_for(model: object, tables: Sequence[TokenTable] | None = None) -> TokenTable:
    """`find_table`, or one clear line. model: also a table itself."""
    if isinstance(model, TokenTable):
        return model
    if not isinstance(model, str) or not model.strip():
        raise InputError(f"a model is named by a text such as gpt-4o or qwen3-vl, got {shown(model)}")
    found = find_table(model, tables)
    if found is None:
        known = ", ".join(table.name for table in (own_tables() if tables is None else tables))
        raise InputError(f"no table says how {shown(model)} counts; known: {known}; or give your own with --table")
    return found


def tokens_for(
    image_size: Any,
    budget: int | str | None = None,
    *,
    strategy: str = "overlay",
    cell: int = DEFAULT_CELL,
    canvas: tuple[int, int] | None = None,
    levels: int | None = None,
    model: str | None = None,
    total: bool = False,
) -> int:
    """Tell how many visual tokens a picture will cost at a budget; no pixels needed.

    Args:
        image_size: (height, width), or a list of them: what all of these pictures cost together.
        budget: Tokens that may be spent, or a share such as "25%"; None is the full count. Of a list, that of each, or
            with `total` that of all.
        strategy: "quadtree" reaches only some counts: the largest one at or below the budget.
        cell: Pixels of one token at level 0.
        canvas: (height, width) to which the model resizes the picture.
        levels: The coarsest level of detail.
        model: One that is not touched, by its name: what its provider counts (`packing.prices`), at most the budget.
        total: One budget for all pictures of a list.

    Returns:
        The number of tokens: the budget, or the full count where that is less.

    Example:
        >>> tokens_for((1024, 1024))
        1024
        >>> tokens_for((1024, 1024), 251)
        251
        >>> tokens_for((1024, 1024), "25%")
        256
        >>> tokens_for((1024, 1024), 251, strategy="quadtree")
        250
        >>> tokens_for((1024, 1024), model="gpt-4o")
        765
        >>> tokens_for([(1024, 1024), (320, 320)], 251), tokens_for([(1024, 1024), (320, 320)], 251, total=True)
        (351, 251)
    """
    check_strategy(strategy)
    several = isinstance(image_size, Sequence) and not isinstance(image_size, str | bytes) and len(image_size) > 0
    if several and not isinstance(image_size[0], int | float | np.number | str | bytes):
        cost = partial(tokens_for, strategy=strategy, cell=cell, canvas=canvas, levels=levels, model=model)
        each = [cost(size, None if total else budget) for size in image_size]
        return sum(each) if budget is None or not total else check_budget(budget, sum(each))
    if model is not None:
        full = table_for(model).tokens(image_size)
        return full if budget is None else check_budget(budget, full)
    rows, cols = grid_of(image_size if canvas is None else canvas, cell)
    if levels is not None:
        whole(levels, "levels")
    if budget is None:
        return rows * cols
    count = check_budget(budget, rows * cols)
    if strategy != "quadtree":
        return count
    return tree_for(image_size, count, cell=cell, canvas=canvas, levels=levels).reach(count)
