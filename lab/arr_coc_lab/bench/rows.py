"""Rows, each the result of one system for one question, and the file that stores them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from arr_coc.core.folders import replacing
from arr_coc.core.runs import same_settings

ANY = 0.0  # the share of scores that do not depend on a budget


class Key(NamedTuple):
    """One cell of a suite: a question, and a system with its share of the tokens (or a number of them, above 1)."""

    question: str
    system: str
    keep: float = 1.0


@dataclass(frozen=True)
class BenchRow:
    """The result of one system for one question.

    Attributes:
        suite: The suite that asked.
        question: The name of the question in its suite.
        system: The system that answered.
        keep: Its share of the full tokens; above 1, a number of tokens.
        scores: Each from 0 to 1 unless the suite defines it otherwise. Empty if the question could not be asked.
        group: Family, source or kind of the question.
        tokens: Visual tokens spent.
        seconds: Time spent.
        extras: Further values. Questions with the same `scene` are no independent samples; their mean counts
            once.
    """

    suite: str
    question: str
    system: str
    keep: float = 1.0
    scores: Mapping[str, float] = field(default_factory=dict)
    group: str = ""
    tokens: float | None = None
    seconds: float | None = None
    extras: Mapping[str, object] = field(default_factory=dict)

    @property
    def key(self) -> Key:
        return Key(self.question, self.system, self.keep)

    @property
    def unit(self) -> str:
        """Return the sample to which this row belongs."""
        return str(self.extras.get("scene") or self.question)


class RowStore:
    """Rows by key, in an append-only file or in memory.

    A killed run leaves at most an incomplete last line, which is dropped when the file is opened again. A file with
    other settings is refused.
    """

    def __init__(self, path: Path | None = None, settings: Mapping[str, object] | None = None) -> None:
        self.path = path
        self.rows: dict[Key, BenchRow] = {}
        if path is None:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if settings is not None:
            same_settings(path.with_name(f"{path.stem}_settings.json"), settings)
        if os.path.exists(path):
            self._load(path)

    def _load(self, path: Path) -> None:
        whole, found = b"", path.read_bytes()
        for line in found.splitlines(keepends=True):
            try:
                row = BenchRow(**json.loads(line))
            except (ValueError, TypeError):
                break
            self.rows[row.key] = row
            whole += line if line.endswith(b"\n") else line + b"\n"
        if whole != found:
            with replacing(path) as mended:
                mended.write_bytes(whole)

    def add(self, row: BenchRow) -> None:
        self.rows[row.key] = row
        if self.path is not None:
            there = {name: value for name, value in vars(row).items() if value not in (None, "", {})}
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(there, ensure_ascii=False) + "\n")

    def missing(self, keys: Iterable[Key]) -> tuple[Key, ...]:
        """Return the keys without a row."""
        return tuple(key for key in keys if key not in self.rows)

    def found(self, keys: Iterable[Key]) -> list[BenchRow]:
        """Return the existing rows of these keys."""
        return [self.rows[key] for key in keys if key in self.rows]


def complete(rows: Sequence[BenchRow]) -> list[BenchRow]:
    """Return rows of the questions that every cell of their group has answered, so that an interrupted run compares
    the same questions."""
    cells: dict[str, set[tuple[str, float]]] = {}
    done: dict[tuple[str, str], set[tuple[str, float]]] = {}
    for row in rows:
        cell = row.system, row.keep
        cells.setdefault(row.group, set()).add(cell)
        if row.scores:
            done.setdefault((row.group, row.question), set()).add(cell)
    return [row for row in rows if done.get((row.group, row.question)) == cells[row.group]]
