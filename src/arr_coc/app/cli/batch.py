"""`arr-coc batch`: process many pictures, row by row, with local processes or with Ray."""

from __future__ import annotations

import os
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ...attending.strategies import find_strategy
from ...core.errors import InputError
from ...looking import check_relevance
from ..batch.engines import check_ray, look_locally, look_on_ray
from ..batch.looker import LookerOptions
from ..batch.rows import Store, Todo, key_of
from .console import INTERRUPTED, complain, print_json, progress, say, writing
from .inputs import check_model
from .options import AnsweringModel, Choices, OnlyJson, OutFolder, with_options

ENGINES = ("local", "ray")
# Rows that a worker takes at a time; they are repeated if it dies.
AT_ONCE = 16
# Seconds after which finished rows are written.
WRITE_EVERY = 20.0


@dataclass(frozen=True, kw_only=True)
class BatchCommand(Choices):
    """Arguments and options of `arr-coc batch`."""

    place: Annotated[
        str,
        typer.Argument(metavar="IN", help="A folder, a glob, or a .jsonl or .parquet table of paths or pictures."),
    ]
    query: Annotated[
        list[str] | None, typer.Option("--query", "-q", help="Question about every picture; may be repeated.")
    ] = None
    model: AnsweringModel = None
    out: OutFolder = Path("out")
    engine: Annotated[
        str, typer.Option(help="local: processes on this machine; ray: Ray Data, on RAY_ADDRESS if it is set.")
    ] = "local"
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: all cores; 1 with --model]")] = None
    as_json: OnlyJson = False


@with_options(BatchCommand)
def command(given: BatchCommand) -> int:
    """Look at many pictures, or with --model answer questions about them. Each picture and question is one row.

    Writes part-NNNNNN.jsonl with path, query, tokens, full, leaves, scores, text, uncertainty, seconds, source, error,
    scale, pages, unseen. A table may have a column query with a question for each picture. To resume a run that was
    stopped or killed, run the same command again. A picture that cannot be used becomes a row with an error. A
    document has one budget over all its pages.

    \b
    Examples:
      arr-coc batch photos -q "Where is the clock?" --out clocks
      arr-coc batch "scans/**/*.png" -q "What is the total?" --budget 128 --out scans.out --workers 8
      arr-coc batch rows.jsonl --out answers --model Qwen/Qwen3-VL-2B-Instruct --set device=cuda
      RAY_ADDRESS=auto arr-coc batch "docvqa/*.parquet" --out docvqa.out --engine ray
      cat clocks/part-*.jsonl | jq -c 'select(.error == "") | [.path, .tokens]'
    """
    todo, ways = Todo(given.place, tuple(given.query or ())), looker_options(given)
    todo.check()
    with writing(given.out):
        store = Store(given.out, ways.settings(), seconds=WRITE_EVERY)
    started, stopped = perf_counter(), False
    waiting = (row for row in todo.rows() if key_of(row.path, row.query) not in store.keys)
    if given.engine == "ray":
        found = look_on_ray(todo, store.keys, ways, given.workers, AT_ONCE)
    else:
        found = look_locally(waiting, ways, given.workers or (1 if ways.model else os.cpu_count() or 1), AT_ONCE)
    try:
        with progress(max(0, todo.count() - store.before), "looking", hidden=given.as_json) as advance, closing(found):
            for rows in found:
                with writing(given.out):
                    advance(done=store.add(rows))
    except KeyboardInterrupt:
        stopped = True
        complain(f"interrupted; finished rows are in {given.out}, rerun the same command to resume")
    finally:
        with writing(given.out):
            store.close()
    summary = store.summary() | {"seconds": round(perf_counter() - started, 3), "engine": given.engine}
    summary |= {"out": str(given.out), "stopped": stopped}
    if given.as_json:
        print_json(summary)
    else:
        say(
            "{done} rows in {seconds:.1f} s, {before} from earlier runs; {errors} with an error".format(**summary),
            "tokens: {tokens} of {full}; unsure answers: {unsure}; pages not looked at: {unseen}".format(**summary),
            f"files: {given.out}",
        )
    return INTERRUPTED if stopped else 0


def looker_options(given: BatchCommand) -> LookerOptions:
    """Return how rows are made; refuse wrong options before any row is made."""
    if given.engine not in ENGINES:
        raise InputError(f"unknown --engine {given.engine!r}; choose from {', '.join(ENGINES)}")
    if given.engine == "ray":
        check_ray()
    options, ask = given.options, given.model is not None
    if options.strategy is not None and not find_strategy(options.strategy).leaves:
        raise InputError(f"strategy={options.strategy} has no leaves to record; choose another, such as overlay")
    check_relevance(options.relevance or "auto", model=ask)
    if given.model is not None:
        check_model(given.model)
    threads = max(1, (os.cpu_count() or 1) // (given.workers or 1)) if ask else 1
    return LookerOptions(given.model, options, threads)
