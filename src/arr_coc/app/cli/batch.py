"""`arr-coc batch`: many pictures, row by row, by processes of this machine or by Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ...core.errors import InputError
from ...core.values import JsonObject
from .console import INTERRUPTED, complain, print_json, progress, say, writing
from .options import AnsweringModel, Choices, OnlyJson, OutFolder, with_options

if TYPE_CHECKING:
    from ..batch.looker import LookerOptions

ENGINES = ("local", "ray")
# Rows that a worker takes at a time: what is done again where it dies.
AT_ONCE = 16
# Seconds after which finished rows are written; and between lines about the progress, where there is no terminal.
WRITE_EVERY, REPORT_EVERY = 20.0, 30.0


@dataclass(frozen=True, kw_only=True)
class BatchCommand(Choices):
    """What a run over many pictures is asked."""

    place: Annotated[
        str,
        typer.Argument(metavar="IN", help="A folder, a glob, or a table: jsonl or parquet of paths or pictures."),
    ]
    questions: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help='Lines like {"query": "…"}, with "path" for one picture only.'),
    ] = None
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="A question to every picture; may be repeated.")
    ] = None
    model: AnsweringModel = None
    out: OutFolder = Path("out")
    engine: Annotated[
        str, typer.Option(help="local: processes of this machine; ray: Ray Data, on RAY_ADDRESS where it is set.")
    ] = "local"
    workers: Annotated[int | None, typer.Option(min=1, help="[default: one for each core; with --model, one]")] = None
    as_json: OnlyJson = False


@with_options(BatchCommand)
def command(given: BatchCommand) -> int:
    """Look at many pictures, or with --model answer questions about them. Each picture and question is one row.

    Writes part-NNNNNN.jsonl and, where pyarrow is installed, part-NNNNNN.parquet: path, query, tokens, full, leaves,
    scores, text, uncertainty, seconds, source, error, scale, pages, unseen. A run that was stopped or killed resumes
    when the same line is run again. A picture that cannot be used is a row with an error. A document has one budget
    over all its pages.

    \b
    Examples:
      arr-coc batch photos -q "Where is the clock?" --out clocks
      arr-coc batch "scans/**/*.png" --questions questions.jsonl --budget 128 --out scans.out --workers 8
      arr-coc batch rows.jsonl --out answers --model Qwen/Qwen3-VL-2B-Instruct --set device=cuda
      RAY_ADDRESS=auto arr-coc batch "docvqa/*.parquet" --out docvqa.out --engine ray
      cat clocks/part-*.jsonl | jq -c 'select(.error == "") | [.path, .tokens]'
    """
    from ..batch.rows import Todo, read_questions
    from ..batch.store import Store
    from .inputs import SUFFIXES

    everywhere, own = read_questions(given.questions) if given.questions is not None else ((), {})
    todo = Todo(given.place, (*everywhere, *(given.query or ())), own, SUFFIXES)
    ways = looker_options(given)
    todo.check()
    with writing(given.out):
        store = Store(given.out, ways.settings(), seconds=WRITE_EVERY)
    started, total = perf_counter(), todo.count()
    hidden, stopped = given.as_json, False
    try:
        waiting = (row for row in todo.rows() if row.key not in store.keys)
        first = next(waiting, None)
        found: Iterator[JsonObject] = iter(())
        if first is not None and given.engine == "ray":
            from ..batch.on_ray import look_on_ray

            found = look_on_ray(todo, store.keys.array(), ways, given.workers, AT_ONCE)
        elif first is not None:
            from ..batch.local import look_locally

            crew = given.workers or (1 if ways.model else os.cpu_count() or 1)
            found = look_locally(chain([first], waiting), ways, crew, AT_ONCE)
        left = max(0, total - store.before)
        with progress(left, "looking", hidden=hidden) as advance:
            report = reporter(left, hidden)
            for columns in found:
                with writing(given.out):
                    new = store.add(columns)
                advance(done=new)
                report(new)
    except KeyboardInterrupt:
        stopped = True
        complain(f"interrupted; what is done is in {given.out}, rerun the same command to resume")
    finally:
        with writing(given.out):
            store.close()
    # Rows that are there twice are counted twice, so fewer than expected need not be too few.
    short = not stopped and len(store.keys) < total and any(row.key not in store.keys for row in todo.rows())
    summary = {
        **store.summary(), "seconds": round(perf_counter() - started, 3), "engine": given.engine,
        "out": str(given.out), "stopped": stopped,
    }  # fmt: skip
    if given.as_json:
        print_json(summary)
    else:
        print_summary(summary)
    if short:
        return complain(f"some rows of {given.place} are missing in {given.out}; rerun the same command")
    return INTERRUPTED if stopped else 0


def looker_options(given: BatchCommand) -> LookerOptions:
    """How rows are made; refuse what is wrong before any is made."""
    from ...attending.strategies import find_strategy
    from ...looking import check_relevance
    from ..batch.looker import LookerOptions
    from ..batch.on_ray import ray_missing
    from .inputs import check_model

    if given.engine not in ENGINES:
        raise InputError(f"unknown --engine {given.engine!r}; choose from {', '.join(ENGINES)}")
    if given.engine == "ray" and ray_missing():
        raise InputError(ray_missing())
    options, ask = given.options, given.model is not None
    if options.strategy is not None and not find_strategy(options.strategy).leaves:
        raise InputError(f"strategy={options.strategy} makes no leaves; choose another, such as overlay")
    check_relevance(options.relevance or "auto", ("pixels", "texture", *(("model", "words") if ask else ())))
    if given.model is not None:
        check_model(given.model)
    threads = max(1, (os.cpu_count() or 1) // (given.workers or 1)) if ask else 1
    return LookerOptions(given.model, options, threads)


def reporter(left: int, quiet: bool) -> Callable[[int], None]:
    """Print a line now and then where there is no terminal, with the time that is left at the speed so far."""
    done = first = 0
    began = last = 0.0

    def report(new: int) -> None:
        nonlocal last, done, began, first
        done, now = done + new, perf_counter()
        if not began:  # workers load before their first batch, which says nothing about the others
            began, last, first = now, now, new
        if quiet or sys.stderr.isatty() or now - last < REPORT_EVERY:
            return
        last, speed = now, (done - first) / (now - began)
        rest = f"{(left - done) / speed / 60:.0f} min" if speed else "unknown time"
        typer.echo(f"{done} of {left} rows, {speed:.1f} a second, {rest} left", err=True)

    return report


def print_summary(summary: JsonObject) -> None:
    before = f", {summary['before']} were there before" if summary["before"] else ""
    say(f"{summary['done']} rows in {summary['seconds']:.1f} s{before}; {summary['errors']} with an error")
    if summary["full"]:
        share = 100 * summary["tokens"] / summary["full"]
        say(f"tokens: {summary['tokens']} of {summary['full']} ({share:.1f} %)")
    if summary["unsure"]:
        say(f"unsure: {summary['unsure']} rows; the model itself thinks these answers are probably wrong")
    if summary["unseen"]:
        say(f"pages never looked at: {summary['unseen']}")
    say(f"files: {summary['out']}")
