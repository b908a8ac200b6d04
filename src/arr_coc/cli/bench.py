"""`arr-coc bench`: tables of what is measured, JSON beside them."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ..errors import InputError
from ..files import write_json

if TYPE_CHECKING:
    from ..bench.table import Table

app = typer.Typer(no_args_is_help=True)


@app.callback()
def bench() -> None:
    """Tables of what is measured, JSON beside them.

    \b
    Examples:
      arr-coc bench speed
      arr-coc bench speed --repeats 5 --out out/bench
      arr-coc bench speed --json | jq '.rows[] | select(.kept == false)'
    """


@app.command("speed")
def speed(
    repeats: Annotated[int, typer.Option(help="Of each median; whole commands are run five times at most.")] = 15,
    out: Annotated[Path | None, typer.Option(help="Folder for speed.json.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Sensing, allocating and whole commands on a CPU, each against the naive form of the same work.

    One picture of 1024², two threads, medians. Takes about a minute on a machine with nothing else to do; other work
    on it shows in the table, and the load is noted.
    """
    if repeats < 1:
        raise InputError(f"--repeats {repeats} measures nothing; give at least 1")
    from ..bench.speed import STEPS, speed_table

    with progress([step.name for step in STEPS], "measuring", hidden=as_json) as advance:
        table = speed_table(repeats, advance)
    report(table, out, "speed", as_json)


def report(table: Table, out: Path | None, name: str, as_json: bool) -> None:
    """Print a bench's table, or its JSON; write the JSON where a folder is given."""
    if out is not None:
        try:
            write_json(out / f"{name}.json", table.to_json())
        except OSError as error:
            raise InputError(
                f"cannot write to {out} ({error.strerror or error}); choose another folder with --out"
            ) from error
    if as_json:
        json.dump(table.to_json(), sys.stdout, ensure_ascii=False)
        sys.stdout.write("\n")
        return
    from rich.console import Console

    console = Console()
    console.print(table.to_rich())
    for key, value in table.facts.items():
        console.print(f"{key}: {value}", highlight=False, soft_wrap=True)
    verdicts = [row["kept"] for row in table.rows if isinstance(row.get("kept"), bool)]
    if verdicts:
        console.print(f"{sum(map(bool, verdicts))} of {len(verdicts)} bars kept", highlight=False)
    if out is not None:
        console.print(f"files: {out / f'{name}.json'}", highlight=False, soft_wrap=True)


@contextmanager
def progress(steps: list[str], verb: str, *, hidden: bool = False) -> Generator[Callable[[str], None]]:
    """A bar on the standard error, only where somebody watches; call the result with each step's name as it begins."""
    if hidden or not sys.stderr.isatty():
        yield lambda name: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(verb, total=len(steps))
        yield lambda name: bar.update(task, description=f"{verb} {name}", completed=steps.index(name))
