"""`arr-coc bench esper`: does looking again pay, at the same total of tokens?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arr_coc.core.errors import InputError


def esper(
    quick: Annotated[bool, typer.Option(help="Few pictures, no ablations: only to see that it runs.")] = False,
    number: Annotated[int, typer.Option(help="Hard pictures of the test split.")] = 1024,
    weights: Annotated[
        Path | None, typer.Option(help="Folder with mini and scorer. [default: those of the package]")
    ] = None,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    only_small: Annotated[
        bool, typer.Option("--only-small", help="Only what a pass costs, and arousal; writes esper_small.json.")
    ] = False,
    saved: Annotated[
        list[Path] | None, typer.Option("--from", help="Measure nothing: show a saved table; may be repeated.")
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose tables are made anew.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for esper.json.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Several passes against one at the same total of tokens, early stopping, the zoo, arousal, and what a pass costs.

    Needle World's hard pictures with a scorer that is blurred on purpose, so that the first look is often wrong. Made
    for a GPU; on two cores take --quick. Settings are chosen and tempering is trained by
    python -m arr_coc_lab.bench.esper.

    \b
    Examples:
      arr-coc bench esper --quick
      arr-coc bench esper --device cuda --out out/bench
      arr-coc bench esper --only-small --out out/bench
      arr-coc bench esper --from out/bench/esper.json --from out/bench/esper_small.json --page docs/esper.md
    """
    if number < 1:
        raise InputError(f"--number {number} measures nothing; give at least 1")
    from arr_coc.app.cli.console import progress
    from arr_coc.looking import check_device

    from ..bench.esper import Models, esper_table, load_table, small_table
    from ..bench.table import fill_page
    from .bench import report

    if saved:
        tables = [load_table(path) for path in saved]
        for path, table in zip(saved, tables, strict=True):
            report(table, out, path.stem, as_json)
    else:
        check_device(device)
        models = Models.load(weights, device)
        with progress([], "measuring", hidden=as_json) as advance:
            table = (
                small_table(models) if only_small else esper_table(models, number=number, quick=quick, advance=advance)
            )
        report(table, out, "esper_small" if only_small else "esper", as_json)
        tables = [table]
    if page is not None:
        fill_page(page, "esper", *tables)
