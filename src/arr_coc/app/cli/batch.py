"""`arr-coc batch`: folders of millions, row by row, by processes of this machine or by Ray."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ...core.errors import InputError
from ...core.folders import MINI
from ...core.unsure import check_sureness
from ...core.values import JsonObject
from .console import INTERRUPTED, complain, print_json, progress, say, writing
from .options import Hints, NewTokens, Ocr, Quiet, Readings, Scale, Seed, Share, Sureness, Tokens, with_options

ENGINES = ("local", "ray")
# Rows that a worker takes at a time: what is done again where it dies.
AT_ONCE = 16
# Seconds between lines about the progress, where nobody watches a bar.
TELL_EVERY = 30.0


@dataclass(frozen=True)
class BatchCommand:
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
    out: Annotated[Path, typer.Option(help="Folder of the results; what is in it is not done again.")] = Path("out")
    engine: Annotated[str, typer.Option(help="local: processes of this machine; ray: Ray Data.")] = "local"
    address: Annotated[
        str | None, typer.Option(help="Address of a running Ray, or auto; without it one is started.")
    ] = None
    ask: Annotated[bool, typer.Option("--ask", help="Also let a model answer.")] = False
    model: Annotated[str | None, typer.Option("--model", "-m", help="With --ask: mini, a folder, a name.")] = None
    budget: Tokens = None
    keep: Share = None
    relevance: Annotated[
        str | None, typer.Option(help="Who says where to look: auto, look, scorer, detail, … [default: auto]")
    ] = None
    strategy: Annotated[str | None, typer.Option(help="How the tokens are placed: overlay, quadtree, uniform, …")] = (
        None
    )
    workers: Annotated[int | None, typer.Option(help="[default: one for each core; with --ask 1]")] = None
    at_once: Annotated[int, typer.Option(help="Rows that a worker takes at a time.")] = AT_ONCE
    every: Annotated[float, typer.Option(metavar="SECONDS", help="Write finished rows this often.")] = 20.0
    scale: Scale = None
    readings: Readings = 1
    new_tokens: NewTokens = 64
    hints: Hints = True
    ocr: Ocr = True
    min_sureness: Sureness = 0.0
    seed: Seed = 0
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps; with Ray one GPU for each worker.")] = "cpu"
    quiet: Quiet = False
    as_json: Annotated[bool, typer.Option("--json", help="Print one line of JSON about the run and nothing else.")] = (
        False
    )


@with_options(BatchCommand)
def command(options: BatchCommand) -> int:
    """Look at many pictures, or with --ask answer questions about them. Each picture and question is one row.

    Writes part-NNNNNN.jsonl and, where pyarrow is installed, part-NNNNNN.parquet: path, query, tokens, full, leaves,
    scores, text, uncertainty, seconds, source, error, scale, pages, unseen. A run that was stopped or killed goes on
    when the same line is run again. A picture that cannot be used is a row with an error. A document has one budget
    over all its pages.

    \b
    Examples:
      arr-coc batch photos -q "Where is the clock?" --out clocks
      arr-coc batch "scans/**/*.png" --questions questions.jsonl --budget 128 --out scans.out --workers 8
      arr-coc batch rows.jsonl --out answers --ask --model Qwen/Qwen3-VL-2B-Instruct --device cuda
      arr-coc batch "docvqa/*.parquet" --out docvqa.out --engine ray --address auto
      cat clocks/part-*.jsonl | jq -c 'select(.error == "") | [.path, .tokens]'
    """
    from ..batch.local import look_locally
    from ..batch.looker import LookerOptions
    from ..batch.on_ray import look_on_ray
    from ..batch.store import Store
    from ..batch.todo import Todo, read_questions
    from .inputs import SUFFIXES

    check_numbers(workers=options.workers, at_once=options.at_once, new_tokens=options.new_tokens)
    if not options.every >= 0:
        raise InputError(f"--every {options.every} is no time; give seconds")
    everywhere, own = read_questions(options.questions) if options.questions is not None else ((), {})
    todo = Todo(options.place, (*everywhere, *(options.query or ())), own, SUFFIXES)
    made = checked(options)
    threads = max(1, (os.cpu_count() or 1) // (options.workers or 1)) if options.ask else 1
    ways = LookerOptions(
        options.ask, device=options.device, seed=options.seed, new_tokens=options.new_tokens, threads=threads, **made
    )
    todo.check()
    with writing(options.out):
        store = Store(options.out, ways.settings(), seconds=options.every)
    started, total = perf_counter(), todo.count()
    stopped = False
    try:
        waiting = (row for row in todo.rows() if row.key not in store.keys)
        first = next(waiting, None)
        found: Iterator[object] = iter(())
        if first is not None and options.engine == "ray":
            found = look_on_ray(todo, store.keys.array(), ways, options.workers, options.at_once, options.address)
        elif first is not None:
            crew = options.workers or (1 if options.ask else os.cpu_count() or 1)
            found = look_locally(chain([first], waiting), ways, crew, options.at_once)
        left = max(0, total - store.before)
        with progress(left, "looking", hidden=options.as_json or options.quiet) as advance:
            tell = telling(left, options.as_json or options.quiet)
            for columns in found:
                with writing(options.out):
                    new = store.add(columns)
                advance(done=new)
                tell(new)
    except KeyboardInterrupt:
        stopped = True
        complain(f"stopped; what is done is in {options.out}, and the same line goes on from there")
    finally:
        with writing(options.out):
            store.close()
    done = len(store.keys) - store.before
    # Rows that are there twice are counted twice, so fewer than expected need not be too few.
    short = not stopped and len(store.keys) < total and any(row.key not in store.keys for row in todo.rows())
    summary = {
        "rows": len(store.keys), "before": store.before, "done": done, "errors": store.errors, "tokens": store.tokens,
        "full": store.full, "seconds": round(perf_counter() - started, 3), "engine": options.engine,
        "out": str(options.out), "stopped": stopped, "unsure": store.unsure, "unseen": store.unseen,
    }  # fmt: skip
    if options.as_json:
        print_json(summary)
    elif not options.quiet:
        print_summary(summary)
    if short:
        return complain(f"some rows of {options.place} are missing in {options.out}; give the same line again")
    return INTERRUPTED if stopped else 0


def check_numbers(**given: int | None) -> None:
    for name, value in given.items():
        if value is not None and value < 1:
            raise InputError(f"--{name.replace('_', '-')} {value} does nothing; give at least 1")


def checked(options: BatchCommand) -> JsonObject:
    """What the rows are made with, told to be wrong before any is made."""
    from ...answering.readings import check_readings
    from ...attending.distance import check_scale
    from ...attending.request import check_amount, check_device
    from ...attending.strategies import find_strategy
    from ...knowing.registry import check_relevance
    from ..batch.on_ray import ray_missing
    from .inputs import check_model

    if options.engine not in ENGINES:
        raise InputError(f"unknown --engine {options.engine!r}; choose from {', '.join(ENGINES)}")
    if options.engine == "ray" and ray_missing():
        raise InputError(ray_missing())
    if options.address is not None and options.engine != "ray":
        raise InputError(f"--address {options.address} is of a Ray; add --engine ray")
    if options.model is not None and not options.ask:
        raise InputError(f"--model {options.model} answers nothing without --ask; add it, or leave out --model")
    if check_readings(options.readings) > 1 and not options.ask:
        raise InputError(f"--readings {options.readings} reads nothing without --ask; add it, or leave out --readings")
    if options.strategy is not None and not find_strategy(options.strategy).leaves:
        raise InputError(f"--strategy {options.strategy} makes no leaves; choose another, such as overlay")
    tokens, share = check_amount(options.budget, options.keep)
    if options.relevance is not None:
        offers = ("pixels", "texture", *(("model", "words") if options.ask else ()))
        check_relevance(options.relevance, offers)
    check_device(options.device)
    if options.ask:
        check_model(options.model or MINI)
    return {
        "budget": tokens,
        "keep": share,
        "relevance": options.relevance,
        "strategy": options.strategy,
        "model": options.model or MINI,
        "hints": options.hints,
        "ocr": options.ocr,
        "min_sureness": check_sureness(options.min_sureness),
        "scale": check_scale(options.scale),
        "readings": options.readings,
    }


def telling(left: int, quiet: bool) -> Callable[[int], None]:
    """Where nobody watches a bar, a line now and then, with the time that is left at the speed so far."""
    done = first = 0
    began = told = 0.0

    def tell(new: int) -> None:
        nonlocal told, done, began, first
        done, now = done + new, perf_counter()
        if not began:  # workers load before their first batch, which says nothing about the others
            began, told, first = now, now, new
        if quiet or sys.stderr.isatty() or now - told < TELL_EVERY:
            return
        told, speed = now, (done - first) / (now - began)
        rest = duration((left - done) / speed) if speed else "unknown time"
        typer.echo(f"{done} of {left} rows, {speed:.1f} a second, {rest} left", err=True)

    return tell


def duration(seconds: float) -> str:
    """ "3 h 20 min", "4 min", "12 s"."""
    minutes = int(max(0.0, seconds)) // 60
    if minutes >= 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return f"{minutes} min" if minutes else f"{max(0.0, seconds):.0f} s"


def print_summary(summary: JsonObject) -> None:
    done, seconds = summary["done"], summary["seconds"]
    before = f", {summary['before']} were there before" if summary["before"] else ""
    say(f"{done} rows in {seconds:.1f} s{before}; {summary['errors']} with an error")
    if summary["full"]:
        share = 100 * summary["tokens"] / summary["full"]
        say(f"tokens: {summary['tokens']} of {summary['full']} ({share:.1f} %)")
    if summary["unsure"]:
        say(f"unsure: {summary['unsure']} rows; the model itself thinks these answers are probably wrong")
    if summary["unseen"]:
        say(f"pages never looked at: {summary['unseen']}")
    say(f"files: {summary['out']}")
