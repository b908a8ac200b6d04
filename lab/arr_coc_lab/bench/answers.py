"""What was answered, by question and cell: appended to a file as it comes, so that a run that was stopped goes on."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Protocol, TypeVar

import numpy as np

from arr_coc.core.files import replacing
from arr_coc.core.values import JsonObject


class HasName(Protocol):
    """A question, or a way to answer it."""

    @property
    def name(self) -> str: ...


Question = TypeVar("Question", bound=HasName)
Way = TypeVar("Way", bound=HasName)
NOT_ASKED: JsonObject = {"error": "not asked"}


class AnswerStore:
    """Rows by question and cell; in a file, whose last line is dropped where it was torn off, or in memory alone."""

    def __init__(self, path: Path | None = None, rows: dict[tuple[str, str], JsonObject] | None = None) -> None:
        self.path, self.rows = path, rows or {}
        if path is None:
            return
        if os.path.exists(path):
            whole, found = b"", path.read_bytes()
            for line in found.splitlines(keepends=True):
                try:
                    row = json.loads(line)
                    self.rows[row["question"], row["cell"]] = row
                except (ValueError, KeyError, TypeError):
                    break
                whole += line if line.endswith(b"\n") else line + b"\n"
            if whole != found:
                with replacing(path) as mended:
                    mended.write_bytes(whole)
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, row: JsonObject) -> None:
        self.rows[row["question"], row["cell"]] = row
        if self.path is not None:
            with self.path.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row, ensure_ascii=False) + "\n")

    def fill(self, made: Iterable[tuple[object, Iterable[JsonObject]]]) -> None:
        """All rows that jobs made (`BenchRun.each`), each as soon as its job is done."""
        for _, rows in made:
            for row in rows:
                self.add(row)

    def waiting(self, questions: Iterable[Question], ways: Sequence[Way]) -> list[tuple[Question, list[Way]]]:
        """The questions that are not answered in every way, each with the ways that it lacks."""
        lacking = [(one, [way for way in ways if (one.name, way.name) not in self.rows]) for one in questions]
        return [job for job in lacking if job[1]]

    def whole(self, names: Iterable[str], ways: Sequence[HasName | str]) -> list[str]:
        """The questions that were answered in every way."""
        cells = [way if isinstance(way, str) else way.name for way in ways]
        return [name for name in names if all("error" not in self.rows.get((name, cell), NOT_ASKED) for cell in cells)]

    def column(self, names: Iterable[str], cell: str, what: str = "score") -> np.ndarray:
        """(n,) float64: what was noted of these questions in one cell."""
        return np.array([self.rows[name, cell][what] for name in names], dtype=float)

    def rescored(self, metric: Callable[[str, Sequence[str]], float]) -> AnswerStore:
        """The same answers, counted another way. metric: (said, true answers) → 0 to 1."""
        rows = {
            key: row if "said" not in row else {**row, "score": metric(row["said"], row["true"])}
            for key, row in self.rows.items()
        }
        return AnswerStore(rows=rows)
