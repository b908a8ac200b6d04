"""`bench real --ask`: what a model reads off real pictures, from all tokens and from few: exact match and ANLS.

Questions are the records of `bench real` whose answer is a text on the picture: there is one, and the question does not
hold it already ("Where is the dog?" needs nobody who reads). Asked and counted as `bench vqa` does it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arr_coc.core.errors import InputError

from ..train.own_data import entries, file_of
from .real import drawn, load_records
from .table import Table
from .vqa import CLOSER, FULL, OURS, WORDS, Answers, Cell, Question, Task
from .vqa_metrics import anls, exact
from .vqa_report import score_table

KEEPS = (1 / 2, 1 / 4, 1 / 8)
CONTROLS = ("uniform", "random", "shuffled")
READING = Task("ANLS", anls, "", 48)


@dataclass(frozen=True)
class Asked:
    """One question of one source."""

    source: str
    question: Question


def reading_questions(
    folder: Path, limit: int | dict[str, int] | None = None, sources: Sequence[str] = (), seed: int = 0
) -> list[Asked]:
    """The questions whose answer must be read, drawn as `load_records` draws."""
    rows = {number: entry for number, entry in entries(file_of(folder)) if isinstance(entry, dict)}
    found: dict[str, list[Asked]] = {}
    for record in load_records(folder, None, sources, seed):
        entry = rows[int(record.name.rsplit(" ", 1)[1])]
        answer = str(entry.get("answer") or "").strip()
        if answer and answer.lower() not in record.query.lower():
            question = Question(record.name, record.image, record.query, (answer,), entry.get("words"))
            found.setdefault(record.source, []).append(Asked(record.source, question))
    if not found:
        raise InputError(f"{folder} has no record whose answer is a text to be read; --ask needs some")
    return drawn(found, limit, seed)


def cells_for(keeps: Sequence[float], words: bool) -> list[Cell]:
    """Full, ours and the controls at every share; by their words where all pictures bring them."""
    ways = (OURS, CLOSER, *([WORDS] if words else []), *CONTROLS)
    return [Cell(FULL, 1.0), *(Cell(way, keep) for keep in keeps for way in ways)]


def tables_of(asked: Sequence[Asked], answers: Answers, cells: Sequence[Cell], facts: dict[str, str]) -> list[Table]:
    """ANLS and exact match of each source."""
    tables = []
    for source in dict.fromkeys(one.source for one in asked):
        names = [one.question.name for one in asked if one.source == source]
        for measure, metric in (("ANLS", anls), ("exact match", exact)):
            tables.append(score_table(f"{source}: {measure}", rescored(answers, metric), names, cells, facts))
    return tables


def rescored(answers: Answers, metric: Any) -> Answers:
    """The same answers, counted another way."""
    made = object.__new__(Answers)
    made.path = answers.path
    made.rows = {
        key: row if "said" not in row else {**row, "score": metric(row["said"], row["true"])}
        for key, row in answers.rows.items()
    }
    return made


def words_known(asked: Sequence[Asked]) -> bool:
    return all(one.question.words is not None for one in asked)
