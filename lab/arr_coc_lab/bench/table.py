"""The table every bench returns: printed by rich, pasted as Markdown, written as JSON, all from the same rows.

A cell is text, a number, a `Quantity`, a bool (kept or missed) or None (does not apply).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from arr_coc.core.errors import InputError
from arr_coc.core.files import read_text, write_text

if TYPE_CHECKING:
    import rich.table


SCHEMA = 1
# unit of a quantity -> (largest value still written in the smaller unit, factor to it, its name)
_SMALLER = {"s": (1.0, 1000.0, "ms"), "GB": (1.0, 1000.0, "MB")}


@dataclass(frozen=True)
class Quantity:
    """A measured value with its unit, and the interval it lies in where one is known."""

    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None

    def _scale(self) -> tuple[float, str]:
        limit, factor, name = _SMALLER.get(self.unit, (0.0, 1.0, self.unit))
        return (factor, name) if abs(self.value) < limit else (1.0, self.unit)

    def rounded(self) -> str:
        """Without digits that mean nothing, for values that were set and not measured: 25 ms, not 25.0 ms."""
        factor, unit = self._scale()
        return f"{self.value * factor:g} {unit}".rstrip()

    def __str__(self) -> str:
        factor, unit = self._scale()
        text = _digits(self.value * factor)
        if self.low is not None and self.high is not None:
            text += f" [{_digits(self.low * factor)}, {_digits(self.high * factor)}]"
        return f"{text}{unit}" if unit == "×" else f"{text} {unit}".rstrip()

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


Cell: TypeAlias = str | int | float | bool | Quantity | None


@dataclass(frozen=True)
class Table:
    """columns: heading by key. rows: cells by key; keys without a column are written to the JSON only.

    facts: what a reader must know to repeat it: machine, seed, repeats.
    """

    title: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, Cell], ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        rows = [{key: _plain(cell) for key, cell in row.items()} for row in self.rows]
        return {"schema": SCHEMA, "title": self.title, "facts": dict(self.facts), "rows": rows}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], columns: Mapping[str, str]) -> Table:
        """The inverse of `to_json`; headings are not stored."""
        rows = tuple(
            {key: Quantity(**cell) if isinstance(cell, dict) else cell for key, cell in row.items()}
            for row in data["rows"]
        )
        return cls(data["title"], columns, rows, data["facts"])

    def to_rich(self) -> rich.table.Table:
        from rich.box import SIMPLE_HEAD
        from rich.markup import escape
        from rich.table import Table as RichTable

        # No vertical lines and no padding: a terminal of 80 columns has no room for them.
        style: dict[str, Any] = {"box": SIMPLE_HEAD, "padding": 0, "title_justify": "left", "title_style": "bold"}
        result = RichTable(title=escape(self.title), **style)
        for number, (key, heading) in enumerate(self.columns.items()):
            words = all(isinstance(row.get(key), str | bool | None) for row in self.rows)
            result.add_column(heading, justify="left" if words else "right", no_wrap=not number or not words)
        for row in self.rows:
            result.add_row(*(_coloured(row.get(key), escape(written(row.get(key)))) for key in self.columns))
        return result

    def to_markdown(self) -> str:
        lines = [list(self.columns.values()), ["---"] * len(self.columns)]
        lines += [[written(row.get(key)).replace("|", "\\|") for key in self.columns] for row in self.rows]
        return "\n".join(f"| {' | '.join(line)} |" for line in lines)

    def section(self, titled: bool = True) -> str:
        """The table and its facts as a page has them."""
        facts = "\n".join(f"- {key}: {value}" for key, value in self.facts.items())
        return (f"### {self.title}\n\n" if titled else "") + f"{self.to_markdown()}\n\n{facts}"


def written(cell: Cell) -> str:
    """A cell as a reader sees it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "kept" if cell else "missed"
    return _digits(cell) if isinstance(cell, float) else str(cell)


def _plain(cell: Cell) -> Any:
    return cell.to_json() if isinstance(cell, Quantity) else cell


def _coloured(cell: Cell, text: str) -> str:
    return f"[{'green' if cell else 'bold red'}]{text}[/]" if isinstance(cell, bool) else text


def _digits(value: float) -> str:
    """Three digits that count, no more: a fourth would be noise."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:.{decimals}f}"


def fill_page(path: Path, name: str, *parts: Table | str) -> None:
    """Put tables with their facts, or Markdown, between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a page; the
    prose around them is left alone. Several tables get their titles as headings."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    try:
        text = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path} ({reason}); give a page that has {begin}") from error
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise InputError(f"{path} needs one {begin} and after it one {end}, to know where the part goes")
    content = "\n\n".join(part if isinstance(part, str) else part.section(len(parts) > 1) for part in parts)
    head, rest = text.split(begin)
    write_text(path, f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}")
