"""Make cells with intervals from rows, and tables in Markdown and JSON from cells."""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import TypeAlias

import numpy as np

from arr_coc.core.values import JsonObject

from ..statistics import Estimate, mean, paired, proportion
from .rows import ANY, BenchRow

SCHEMA = 2
ALL = "all"
# unit of a quantity -> (largest value still written in the smaller unit, factor to it, its name)
_SMALLER = {"s": (1.0, 1000.0, "ms"), "GB": (1.0, 1000.0, "MB")}


@dataclass(frozen=True)
class Quantity:
    """A measured value with its unit, and its 95 % interval if it has one."""

    value: float
    unit: str = ""
    low: float | None = None
    high: float | None = None

    @classmethod
    def percent(cls, found: Estimate, unit: str = "") -> Quantity:
        """Format an estimate in per cent, or in points if it is a difference."""
        if not math.isfinite(found.low) or not math.isfinite(found.high):
            return cls(100 * found.value, unit)
        return cls(100 * found.value, unit, 100 * found.low, 100 * found.high)

    def _scale(self) -> tuple[float, str]:
        limit, factor, name = _SMALLER.get(self.unit, (0.0, 1.0, self.unit))
        return (factor, name) if abs(self.value) < limit else (1.0, self.unit)

    def rounded(self) -> str:
        """Format a value that was set and not measured, without needless digits: 25 ms, not 25.0 ms."""
        factor, unit = self._scale()
        return f"{self.value * factor:g} {unit}".rstrip()

    def __str__(self) -> str:
        factor, unit = self._scale()
        text = _digits(self.value * factor)
        if self.low is not None and self.high is not None:
            text += f" [{_digits(self.low * factor)}, {_digits(self.high * factor)}]"
        return f"{text}{unit}" if unit == "×" else f"{text} {unit}".rstrip()


TableCell: TypeAlias = str | int | float | bool | Quantity | None


def _digits(value: float) -> str:
    """Format with three significant digits: a fourth would be noise."""
    size = abs(value)
    decimals = 0 if size >= 100 else 1 if size >= 10 else 2
    return f"{value:.{decimals}f}"


def written(cell: TableCell) -> str:
    """Format a cell for people."""
    if cell is None:
        return "–"
    if isinstance(cell, bool):
        return "kept" if cell else "missed"
    return _digits(cell) if isinstance(cell, float) else str(cell)


@dataclass(frozen=True)
class Table:
    """columns: heading by key. rows: cells by key."""

    title: str
    columns: Mapping[str, str]
    rows: Sequence[Mapping[str, TableCell]]

    def to_markdown(self) -> str:
        lines = [list(self.columns.values()), ["---"] * len(self.columns)]
        lines += [[written(row.get(key)).replace("|", "\\|") for key in self.columns] for row in self.rows]
        wide = [max(map(len, column)) for column in zip(*lines, strict=True)]
        padded = ([cell.ljust(width) for cell, width in zip(line, wide, strict=True)] for line in lines)
        return "\n".join(f"| {' | '.join(line)} |" for line in padded)

    def to_json(self) -> JsonObject:
        rows = [
            {key: vars(cell) if isinstance(cell, Quantity) else cell for key, cell in row.items()} for row in self.rows
        ]
        return {"title": self.title, "columns": dict(self.columns), "rows": rows}


# ---- from rows to cells ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Score:
    """A score to report. title: of its table. baseline: the system that others are paired with. share: whether it and
    its interval lie between 0 and 1."""

    name: str
    title: str
    baseline: str = ""
    share: bool = True


@dataclass(frozen=True)
class ScoreCell:
    """One score of one system at one share of the tokens, over the questions of a group.

    n: questions. units: independent samples among them. minus: baseline at equal tokens minus this, paired.
    """

    score: str
    group: str
    system: str
    keep: float
    tokens: float | None
    n: int
    units: int
    estimate: Estimate
    minus: Estimate | None = None

    def to_json(self) -> JsonObject:
        found = {name: value for name, value in vars(self).items() if name not in ("estimate", "minus")}
        minus = None if self.minus is None else _plain(self.minus)
        return {**found, **_plain(self.estimate), "baseline minus this": minus}


def _plain(estimate: Estimate) -> JsonObject:
    return {name: value if math.isfinite(value) else None for name, value in vars(estimate).items()}


def estimate_of(values: np.ndarray, share: bool = True) -> Estimate:
    """Return the mean of samples (n,) and its 95 % interval: Wilson's for zeros and ones, else the normal one. share:
    clip the interval to [0, 1]."""
    if not share:
        return mean(values)
    if np.isin(values, (0, 1)).all():
        return proportion(values)
    found = mean(values)
    return Estimate(found.value, max(0.0, found.low), min(1.0, found.high))


def cells_of(rows: Sequence[BenchRow], scores: Sequence[Score]) -> list[ScoreCell]:
    """Compute each score of each group and of all groups together, for each system and share."""
    groups = list(dict.fromkeys(row.group for row in rows))
    groups += [ALL] if len(groups) > 1 else []
    result = []
    for score in scores:
        for group in groups:
            samples: dict[tuple[str, float], dict[str, list[float]]] = {}
            tokens: dict[tuple[str, float], list[float]] = {}
            for row in rows:
                if score.name in row.scores and group in (row.group, ALL):
                    cell = row.system, row.keep
                    samples.setdefault(cell, {}).setdefault(row.unit, []).append(row.scores[score.name])
                    tokens.setdefault(cell, []).extend([] if row.tokens is None else [row.tokens])
            means = {
                cell: {unit: float(np.mean(values)) for unit, values in units.items()}
                for cell, units in samples.items()
            }
            for cell, units in means.items():
                result.append(
                    ScoreCell(
                        score.name,
                        group,
                        *cell,
                        tokens=float(np.mean(tokens[cell])) if tokens[cell] else None,
                        n=sum(map(len, samples[cell].values())),
                        units=len(units),
                        estimate=estimate_of(np.array([*units.values()]), share=score.share),
                        minus=_minus(means, score.baseline, cell),
                    )
                )
    return result


def _minus(
    means: Mapping[tuple[str, float], Mapping[str, float]], baseline: str, cell: tuple[str, float]
) -> Estimate | None:
    """Return the baseline at the same share minus this cell, over the samples that both have."""
    first, second = means.get((baseline, cell[1])), means[cell]
    both = [] if first is None or cell[0] == baseline else [unit for unit in first if unit in second]
    if first is None or not both:
        return None
    return paired(np.array([first[unit] for unit in both]), np.array([second[unit] for unit in both]))


# ---- from cells to tables --------------------------------------------------------------------------------------------


def share_name(keep: float) -> str:
    """Format a share as a heading: 1/8; numbers of tokens stay."""
    if keep in (ANY, 1):
        return "any budget" if keep == ANY else "all tokens"
    return f"{keep:g} tokens" if keep > 1 else str(Fraction(keep).limit_denominator(9999))


def tables_of(
    cells: Sequence[ScoreCell], scores: Sequence[Score], keys: tuple[str, str] = ("", ""), compact: bool = False
) -> list[Table]:
    """Make tables for each score: systems down, shares across, and the lead of the baseline. keys: headings of groups
    and systems. compact: one table of all groups together, and one of groups for each share."""
    tables = []
    for score in scores:
        own = [cell for cell in cells if cell.score == score.name]
        if not own:
            continue
        last = own[-1].group
        shown = [cell for cell in own if not compact or cell.group == last]
        tables.append(_across(f"{score.title}, %", shown, keys, False))
        if any(cell.minus for cell in shown):
            tables.append(_across(f"{score.title}: {score.baseline} − each, points", shown, keys, True))
        if compact and len({cell.group for cell in own}) > 1:
            keeps = sorted({cell.keep for cell in own} - {1.0}, reverse=True)
            tables += [_by_group(f"{score.title}, %, at {share_name(keep)}", own, keep, keys) for keep in keeps]
    return tables


def _by_group(title: str, cells: Sequence[ScoreCell], keep: float, keys: tuple[str, str]) -> Table:
    """Make a table of values only: systems down, groups across, all tokens first."""
    rows: dict[str, dict[str, TableCell]] = {}
    for cell in sorted((one for one in cells if one.keep in (keep, 1.0)), key=lambda one: -one.keep):
        value = f"{100 * cell.estimate.value:.1f}"
        rows.setdefault(cell.system, {"system": cell.system})[cell.group] = value
    groups = dict.fromkeys(cell.group for cell in cells)
    return Table(title, {"system": keys[1] or "system", **{group: group for group in groups}}, list(rows.values()))


def _across(title: str, cells: Sequence[ScoreCell], keys: tuple[str, str], minus: bool) -> Table:
    shown = [cell for cell in cells if cell.minus is not None] if minus else cells
    keeps = sorted({cell.keep for cell in shown}, reverse=max(cell.keep for cell in shown) <= 1)
    rows: dict[tuple[str, str], dict[str, TableCell]] = {}
    for cell in shown:
        found = cell.minus if minus else cell.estimate
        assert found is not None
        row = rows.setdefault((cell.group, cell.system), {"group": cell.group, "system": cell.system})
        row[str(cell.keep)] = Quantity.percent(found)
        row["n"] = cell.n
    grouped = len({cell.group for cell in shown}) > 1
    columns = {"group": keys[0] or "group"} if grouped else {}
    columns |= {"system": keys[1] or "system", **{str(keep): share_name(keep) for keep in keeps}, "n": "n"}
    return Table(title, columns, list(rows.values()))


# ---- a report --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Report:
    """The results of a suite. rows: its data. facts: what is needed to repeat it."""

    rows: Sequence[BenchRow]
    cells: Sequence[ScoreCell]
    tables: Sequence[Table]
    facts: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        rows: Sequence[BenchRow],
        scores: Sequence[Score],
        facts: Mapping[str, str],
        keys: tuple[str, str] = ("", ""),
        more: Iterable[Table] = (),
        compact: bool = False,
    ) -> Report:
        """Make a report of cells and tables of some scores; more: tables of the suite's own."""
        cells = cells_of(rows, scores)
        return cls(rows, cells, [*tables_of(cells, scores, keys, compact), *more], facts)

    def document(self) -> JsonObject:
        """Return the contents of the JSON."""
        tables = [table.to_json() for table in self.tables]
        cells = [cell.to_json() for cell in self.cells]
        return {"schema": SCHEMA, "facts": dict(self.facts), "cells": cells, "tables": tables}

    def notes(self) -> list[str]:
        """Return the lines below the tables: facts, and the number of bars kept."""
        kept = [row["kept"] for table in self.tables for row in table.rows if isinstance(row.get("kept"), bool)]
        bars = [f"{sum(map(bool, kept))} of {len(kept)} bars kept"] if kept else []
        return [*(f"{key}: {value}" for key, value in self.facts.items()), *bars]

    def to_markdown(self) -> str:
        """Return every table under its title, and the facts."""
        parts = [f"### {table.title}\n\n{table.to_markdown()}" for table in self.tables]
        return "\n\n".join([*parts, "\n".join(f"- {line}" for line in self.notes())])

    def cell(self, system: str, keep: float = 1.0, group: str = ALL, score: str = "") -> ScoreCell:
        """Find one cell; of the only group if there is no other."""
        found = [one for one in self.cells if (one.system, one.keep) == (system, keep) and score in ("", one.score)]
        return next((one for one in found if one.group == group), found[0])


def machine_facts(packages: tuple[str, ...] = ("torch", "numpy")) -> dict[str, str]:
    """Return processor, system, versions and load of the machine; nothing that would name a person or a host."""
    listing = Path("/proc/cpuinfo")
    lines = listing.read_text(encoding="utf-8", errors="replace").splitlines() if listing.exists() else []
    names = [" ".join(line.partition(":")[2].split()) for line in lines if line.startswith("model name")]
    processor = next(iter(names), platform.processor() or platform.machine())
    facts = {"processor": f"{processor}, {os.cpu_count()} cores"}
    facts["system"] = f"{platform.system()} {platform.machine()}, Python {platform.python_version()}"
    facts |= {name: version(name) if find_spec(name) else "not installed" for name in packages}
    if hasattr(os, "getloadavg"):
        facts["load average at the start"] = f"{os.getloadavg()[0]:.1f}"
    return facts
