"""What every benchmark returns: tables that are printed by rich, pasted as Markdown and written as JSON, from one row.

A cell of a table is text, a number, a `Quantity`, a bool (kept or missed) or None (does not apply).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import read_text, write_text
from arr_coc.core.values import JsonObject

from ..statistics import Estimate, paired, proportion

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

    @classmethod
    def percent(cls, found: Estimate, unit: str = "") -> Quantity:
        """An estimate in per cent, or in points where it is a difference; the column says which."""
        return cls(100 * found.value, unit, 100 * found.low, 100 * found.high)

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

    def to_json(self) -> dict[str, object]:
        return {name: value for name, value in vars(self).items() if value not in (None, "")}


TableCell: TypeAlias = str | int | float | bool | Quantity | None


@dataclass(frozen=True)
class Table:
    """columns: heading by key. rows: cells by key; keys without a column are written to the JSON only.

    facts: what a reader must know to repeat it: machine, seed, repeats.
    """

    title: str
    columns: Mapping[str, str]
    rows: tuple[Mapping[str, TableCell], ...]
    facts: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> JsonObject:
        rows = [{key: _plain(cell) for key, cell in row.items()} for row in self.rows]
        return {"schema": SCHEMA, "title": self.title, "facts": dict(self.facts), "rows": rows}

    @classmethod
    def from_json(cls, data: JsonObject, columns: Mapping[str, str]) -> Table:
        """The inverse of `to_json`; headings are not stored."""
        rows = tuple(
            {key: Quantity(**cell) if isinstance(cell, dict) else cell for key, cell in row.items()}
            for row in data["rows"]
        )
        return cls(data["title"], columns, rows, data["facts"])

    @classmethod
    def load(cls, path: Path, columns: Mapping[str, str], wrong: str) -> Table:
        """A table that was saved. wrong: what is said of any other file."""
        try:
            return cls.from_json(json.loads(read_text(path)), columns)
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"{path} {wrong} ({error})") from error

    def to_rich(self) -> rich.table.Table:
        from rich.box import SIMPLE_HEAD
        from rich.markup import escape
        from rich.table import Table as RichTable

        # No vertical lines and no padding: a terminal of 80 columns has no room for them.
        result = RichTable(box=SIMPLE_HEAD, padding=0, title_justify="left", title_style="bold")
        result.title = escape(self.title)
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


def accuracy_rows(
    right: Mapping[str, Sequence[bool]], first: str, more: Mapping[str, Mapping[str, TableCell]]
) -> tuple[dict[str, TableCell], ...]:
    """A row for each way of answering the same questions, beside the way called `first`. more: other cells of a row."""
    found = {name: np.array(values, dtype=float) for name, values in right.items()}
    return tuple(
        {
            "row": name,
            **more[name],
            "accuracy": Quantity.percent(proportion(values)),
            "points": None if name == first else Quantity.percent(paired(values, found[first])),
            "n": len(values),
        }
        for name, values in found.items()
    )


def written(cell: TableCell) -> str:
    """A cell as a reader sees it."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "kept" if cell else "missed"
    return _digits(cell) if isinstance(cell, float) else str(cell)


def _plain(cell: TableCell) -> object:
    return cell.to_json() if isinstance(cell, Quantity) else cell


def _coloured(cell: TableCell, text: str) -> str:
    return f"[{'green' if cell else 'bold red'}]{text}[/]" if isinstance(cell, bool) else text


def _digits(value: float) -> str:
    """Three digits that count, no more: a fourth would be noise."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:.{decimals}f}"


# ---- what a benchmark hands over -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """A benchmark's result.

    document: what its JSON holds. tables: what a terminal shows. facts: said below them, those of the tables by
    default. lines: said behind the facts. page: what stands between the marks of a page, the tables by default. name,
    mark: of the JSON and of the page, where they are not the suite's. files: written beside the JSON. page_text: the
    whole page, where it has no marks. keep: whether the JSON is written.
    """

    document: Mapping[str, object]
    tables: Sequence[Table] = ()
    facts: Mapping[str, str] | None = None
    lines: Sequence[str] = ()
    page: Sequence[Table | str] | None = None
    name: str = ""
    mark: str = ""
    files: Sequence[Path] = ()
    page_text: str | None = None
    keep: bool = True

    @classmethod
    def of(cls, table: Table, **more: Any) -> Report:
        """Of one table, whose JSON is the document."""
        return cls(table.to_json(), (table,), **more)

    def page_parts(self) -> Sequence[Table | str]:
        return self.tables if self.page is None else self.page

    def said(self) -> list[str]:
        """The lines below the tables: facts, lines, bars, files."""
        facts = [self.facts] if self.facts is not None else [table.facts for table in self.tables]
        lines = [f"{key}: {value}" for one in facts for key, value in one.items()]
        return [*dict.fromkeys(lines), *self.rest()]

    def rest(self) -> list[str]:
        """What is said behind the facts."""
        kept = [row["kept"] for table in self.tables for row in table.rows if isinstance(row.get("kept"), bool)]
        bars = [f"{sum(map(bool, kept))} of {len(kept)} bars kept"] if kept else []
        return [*self.lines, *bars, *([f"files: {', '.join(map(str, self.files))}"] if self.files else [])]

    def to_markdown(self) -> str:
        """For a terminal without rich, and to be pasted into a page."""
        shown = [table.section().rstrip() for table in self.tables]
        facts = "\n".join(f"- {key}: {value}" for key, value in (self.facts or {}).items())
        return "\n\n".join(part for part in (*shown, facts, "\n".join(self.rest())) if part)


def read_document(path: Path, name: str, kind: str | None = None) -> JsonObject:
    """A JSON that a benchmark wrote.

    Args:
        path: The file.
        name: The benchmark, as messages call it.
        kind: What the document must say of itself, where it does.
    """
    remedy = f"give the {name}.json of --out"
    try:
        document = json.loads(read_text(path))
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); {remedy}") from error
    except ValueError as error:
        raise InputError(f"{path} is not JSON ({error}); {remedy}") from error
    if not isinstance(document, dict) or document.get("kind") != kind:
        raise InputError(f"{path} was not written by arr-coc bench {name}; {remedy}")
    return document


def begun_document(path: Path | None, settings: JsonObject, name: str) -> JsonObject | None:
    """What a run that was stopped has left, to go on from; refused where it was made otherwise.

    Args:
        path: The file.
        settings: What it must have been made with.
        name: Under which the file keeps that.

    Returns:
        The document; None where there is none yet.
    """
    if path is None or not path.is_file():
        return None
    try:
        document = json.loads(read_text(path))
        other = [one for one, value in settings.items() if document[name].get(one) != value]
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"cannot go on with {path} ({error}); remove it or give another --out") from error
    if other:
        raise InputError(f"{path} was made with another {', '.join(other)}; remove it or give another --out")
    return document


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
