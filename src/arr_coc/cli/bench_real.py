"""`arr-coc bench real`: coverage of the relevant boxes, and agreement with human gaze, on real pictures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..errors import InputError

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
    from .bench import progress, report

    if limit is not None and limit < 1:
        raise InputError(f"--limit {limit} leaves nothing to measure; give at least 1")
    if not data.exists():
        typer.echo(f"skipped: {data} does not exist; real pictures do not come with the library", err=True)
        return
    from ..bench.hypotheses_page import fill_page
    from ..bench.real import load_records, measure_real, real_table
    from ..bench.real_maps import bundled_scorer
    from ..knowing.photos import photos_installed

    records = load_records(data, QUICK if quick else limit, tuple(source or ()))
    facts = {
        "scorer": "not there: no row" if bundled_scorer(scorer) is None else "given" if scorer else "the bundled one",
        "photo map": "EfficientNet-Lite0 and WordLlama, a stand-in for an image-text encoder"
        if photos_installed()
        else "not installed (pip install 'arr-coc[photos]'): no row",
    }
    steps = list(dict.fromkeys(record.source for record in records))
    with progress(steps, "measuring", hidden=as_json) as advance:
        values = measure_real(records, scorer, advance)
    table = real_table(values, facts)
    if page is not None:
        fill_page(page, "real", table)
    report(table, out, "real", as_json)
