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
from .options import AnsweringModel, Choices, MinSureness, NewTokens, OnlyJson, OutFolder, Quiet, with_options

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
    engine: Annotated[str, typer.Option(help="local: processes of this machine; ray: Ray Data.")] = "local"
    address: Annotated[
        str | None, typer.Option(help="Address of a running Ray, or auto; without it one is started.")
    ] = None
    workers: Annotated[int | None, typer.Option(min=1, help="[default: one for each core; with --model, one]")] = None
    new_tokens: NewTokens = 64
    min_sureness: MinSureness = 0.0
    quiet: Quiet = False
    as_json: OnlyJson = False


@with_options(BatchCommand)
def command(options: BatchCommand) -> int:
    """Look at many pictures, or with --model answer questions about them. Each picture and question is one row.

    Writes part-NNNNNN.jsonl and, where pyarrow is installed, part-NNNNNN.parquet: path, query, tokens, full, leaves,
    scores, text, uncertainty, seconds, source, error, scale, pages, unseen. A run that was stopped or killed resumes
    when the same line is run again. A picture that cannot be used is a row with an error. A document has one budget
    over all its pages.

    \b
    Examples:
      arr-coc batch photos -q "Where is the clock?" --out clocks
      arr-coc batch "scans/**/*.png" --questions questions.jsonl --budget 128 --out scans.out --workers 8
      arr-coc batch rows.jsonl --out answers --model Qwen/Qwen3-VL-2B-Instruct --device cuda
      arr-coc batch "docvqa/*.parquet" --out docvqa.out --engine ray --address auto
      cat clocks/part-*.jsonl | jq -c 'select(.error == "") | [.path, .tokens]'
    """
    from ..batch.rows import Todo, read_questions
    from ..batch.store import Store
    from .inputs import SUFFIXES

    everywhere, own = read_questions(options.questions) if options.questions is not None else ((), {})
    todo = Todo(options.place, (*everywhere, *(options.query or ())), own, SUFFIXES)
    ways = looker_options(options)
    todo.check()
    with writing(options.out):
        store = Store(options.out, ways.settings(), seconds=WRITE_EVERY)
    started, total = perf_counter(), todo.count()
    hidden, stopped = options.as_json or options.quiet, False
    try:
        waiting = (row for row in todo.rows() if row.key not in store.keys)
        first = next(waiting, None)
        found: Iterator[JsonObject] = iter(())
        if first is not None and options.engine == "ray":
            from ..batch.on_ray import look_on_ray

            found = look_on_ray(todo, store.keys.array(), ways, options.workers, AT_ONCE, options.address)
        elif first is not None:
            from ..batch.local import look_locally

            crew = options.workers or (1 if ways.ask else os.cpu_count() or 1)
            found = look_locally(chain([first], waiting), ways, crew, AT_ONCE)
        left = max(0, total - store.before)
        with progress(left, "looking", hidden=hidden) as advance:
            report = reporter(left, hidden)
            for columns in found:
                with writing(options.out):
                    new = store.add(columns)
                advance(done=new)
                report(new)
    except KeyboardInterrupt:
        stopped = True
        complain(f"interrupted; what is done is in {options.out}, rerun the same command to resume")
    finally:
        with writing(options.out):
            store.close()
    # Rows that are there twice are counted twice, so fewer than expected need not be too few.
    short = not stopped and len(store.keys) < total and any(row.key not in store.keys for row in todo.rows())
    summary = {
        **store.summary(), "seconds": round(perf_counter() - started, 3), "engine": options.engine,
        "out": str(options.out), "stopped": stopped,
    }  # fmt: skip
    if options.as_json:
        print_json(summary)
    elif not options.quiet:
        print_summary(summary)
    if short:
        return complain(f"some rows of {options.place} are missing in {options.out}; rerun the same command")
    return INTERRUPTED if stopped else 0


def looker_options(options: BatchCommand) -> LookerOptions:
    """How rows are made; refuse what is wrong before any is made."""
    from ...attending.strategies import find_strategy
    from ...core.folders import MINI
    from ...core.unsure import check_sureness
    from ...looking import check_relevance
    from ..batch.looker import LookerOptions
    from ..batch.on_ray import ray_missing
    from .inputs import check_model

    if options.engine not in ENGINES:
        raise InputError(f"unknown --engine {options.engine!r}; choose from {', '.join(ENGINES)}")
    if options.engine == "ray" and ray_missing():
        raise InputError(ray_missing())
    if options.address is not None and options.engine != "ray":
        raise InputError(f"--address {options.address} is of a Ray; add --engine ray")
    if options.new_tokens < 1:
        raise InputError(f"--new-tokens {options.new_tokens} leaves no room for an answer; give at least 1")
    if options.strategy is not None and not find_strategy(options.strategy).leaves:
        raise InputError(f"--strategy {options.strategy} makes no leaves; choose another, such as overlay")
    tokens, share = options.amount
    how, ask = options.how, options.model is not None
    check_relevance(options.relevance, ("pixels", "texture", *(("model", "words") if ask else ())))
    if options.model is not None:
        check_model(options.model)
    threads = max(1, (os.cpu_count() or 1) // (options.workers or 1)) if ask else 1
    return LookerOptions(
        ask,
        options.model or MINI,
        options.device,
        tokens,
        share,
        relevance=None if options.relevance == "auto" else options.relevance,
        new_tokens=options.new_tokens,
        min_sureness=check_sureness(options.min_sureness),
        threads=threads,
        **how,
    )


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
