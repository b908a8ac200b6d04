"""`bench real --ask`: what a model reads off real pictures, from all tokens and from few: exact match and ANLS.

Questions are the records of `bench real` whose answer is a text on the picture: there is one, and the question does not
hold it already ("Where is the dog?" needs nobody who reads). Asked and counted as `bench vqa` does it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from arr_coc.core.errors import InputError
from arr_coc.core.files import same_settings, writing

from ..train.own_data import entries, file_of
from .machine import machine_facts
from .options import RealOptions
from .real import drawn, load_records
from .report import Report, Table
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import (
    CLOSER,
    CONTROLS,
    OURS,
    WORDS,
    AnswerStore,
    AskingStyle,
    Condition,
    Question,
    VqaTask,
    conditions_at,
    eye_of,
    measure_vqa,
    narrow,
    score_table,
)
from .vqa_metrics import anls, exact

READING = VqaTask("ANLS", anls, "", 48)


def measure_reading(options: RealOptions, limits: dict[str, int], run: BenchRun) -> Report:
    """Exact match and ANLS of every source, question by question; goes on where it stopped."""
    from arr_coc.app.cli.inputs import check_model

    shares = suite("real").shares("ask_keeps") if options.keeps is None else parse_shares(options.keeps)
    if shares[0] >= 1:
        raise InputError("--keeps: all tokens are asked anyway; give shares below 1")
    check_model(options.model)
    asked = reading_questions(options.data, limits, options.source, options.seed)
    # By their words where all pictures bring them.
    by_words = [WORDS] if all(one.question.words is not None for one in asked) else []
    conditions = conditions_at(shares, (OURS, CLOSER, *by_words, *CONTROLS))
    run.out = out = options.out or Path("out/ask")
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
        settings = {"model": options.model, "data": str(options.data), "seed": options.seed}
        same_settings(out / "ask_settings.json", settings)
        answers = AnswerStore(out / "real_answers.jsonl")
        eye, questions = eye_of(options.model, "cpu", "scorer"), (one.question for one in asked)
        with run.progress(len(asked), "asking") as advance:
            measure_vqa(eye, questions, conditions, AskingStyle(READING, "", None, options.seed), answers, advance)
    facts = {"model": options.model, "relevance": "the scorer's", "seed": str(options.seed)}
    tables = tables_of(asked, answers, conditions, {**facts, **machine_facts(("torch",))})
    document = {"schema": 1, "tables": [table.to_json() for table in tables]}
    shown = [narrow(table) for table in tables]
    return Report(document, shown, tables[0].facts, page=tables, name="real_ask", mark="ask")


@dataclass(frozen=True)
class SourceQuestion:
    """One question of one source."""

    source: str
    question: Question


def reading_questions(
    folder: Path, limit: int | dict[str, int] | None = None, sources: Sequence[str] = (), seed: int = 0
) -> list[SourceQuestion]:
    """The questions whose answer must be read, drawn as `load_records` draws."""
    rows = {number: entry for number, entry in entries(file_of(folder)) if isinstance(entry, dict)}
    found: dict[str, list[SourceQuestion]] = {}
    for record in load_records(folder, None, sources, seed):
        entry = rows[int(record.name.rsplit(" ", 1)[1])]
        answer = str(entry.get("answer") or "").strip()
        if answer and answer.lower() not in record.query.lower():
            question = Question(record.name, record.image, record.query, (answer,), entry.get("words"))
            found.setdefault(record.source, []).append(SourceQuestion(record.source, question))
    if not found:
        raise InputError(f"{folder} has no record whose answer is a text to be read; --ask needs some")
    return drawn(found, limit, seed)


def tables_of(
    asked: Sequence[SourceQuestion], answers: AnswerStore, conditions: Sequence[Condition], facts: dict[str, str]
) -> list[Table]:
    """ANLS and exact match of each source."""
    tables = []
    for source in dict.fromkeys(one.source for one in asked):
        names = [one.question.name for one in asked if one.source == source]
        for measure, metric in (("ANLS", anls), ("exact match", exact)):
            tables.append(score_table(f"{source}: {measure}", rescored(answers, metric), names, conditions, facts))
    return tables


def rescored(answers: AnswerStore, metric: Callable[[str, Sequence[str]], float]) -> AnswerStore:
    """The same answers, counted another way."""
    made = object.__new__(AnswerStore)
    made.path = answers.path
    made.rows = {
        key: row if "said" not in row else {**row, "score": metric(row["said"], row["true"])}
        for key, row in answers.rows.items()
    }
    return made
