"""`arr-coc bench`: tables of what is measured, JSON beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Annotated, Any

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json

from .bench_classic import classic
from .bench_esper import esper
from .bench_hypotheses import hypotheses
from .bench_peers import peers
from .bench_real import parse_shares, real
from .bench_video import command as video
from .bench_vqa import vqa

if TYPE_CHECKING:
    from ..bench.table import Table

app = typer.Typer(no_args_is_help=True)
app.command("hypotheses")(hypotheses)
app.command("real")(real)
app.command("peers")(peers)
app.command("esper")(esper)
app.command("classic")(classic)
app.command("video")(video)
app.command("vqa")(vqa)


@app.callback()
def bench() -> None:
    """Tables of what is measured, JSON beside them.

    \b
    Examples:
      arr-coc bench speed
      arr-coc bench speed --repeats 5 --out out/bench
      arr-coc bench speed --json | jq '.rows[] | select(.kept == false)'
      arr-coc bench needle --quick
      arr-coc bench needle --device cuda --out out/bench
      arr-coc bench hypotheses --quick
      arr-coc bench real --data DIR
      arr-coc bench pages --pack "val/packs/*.bin"
      arr-coc bench peers --quick
      arr-coc bench vqa --data signs --task needle
      arr-coc bench classic --each 3
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


@app.command("pages")
def pages(
    pack: Annotated[str, typer.Option(help="Packs of pages, like val/packs/*.bin (arr-coc pages --split val --pack).")],
    n: Annotated[int | None, typer.Option("--n", help="So many questions, drawn by the seed. [default: all]")] = None,
    keeps: Annotated[str, typer.Option(help="Shares of the full tokens, beside all of them.")] = "1/2 1/4 1/8 1/16",
    weights: Annotated[
        Path | None, typer.Option(help="Folder with mini and scorer. [default: those of the package]")
    ] = None,
    seed: Annotated[int, typer.Option(help="Of the drawn questions and of the controls.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help="Folder for pages.json, written every minute.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Exact match of mini on drawn pages: all tokens, ours and the controls at equal tokens.

    \b
    Examples:
      arr-coc pages --n 320 --seed 17 --split val --pack --out val
      arr-coc bench pages --pack "val/packs/*.bin" --n 500 --out out/pages
      arr-coc bench pages --pack "val/packs/*.bin" --n 100 --keeps 1/8
    """
    if n is not None and n < 1:
        raise InputError(f"--n {n} measures nothing; give at least 1")
    from arr_coc.looking import check_device

    from ..bench.needle import Weights
    from ..bench.page_reading import book_of, cells_at, measure_pages, table_of

    cells = cells_at(parse_shares(keeps))
    wait_asleep()
    check_device(device)
    book = book_of(pack, device)
    saved_at = monotonic()

    def save(found: dict[str, Any]) -> None:
        if out is not None:
            with writing(out):
                write_json(out / "pages.json", found)

    with progress(min(n or len(book), len(book)), "reading", hidden=as_json) as advance:

        def went_on(done: int, so_far: Callable[[], dict[str, Any]]) -> None:
            nonlocal saved_at
            advance(done=done)
            if monotonic() - saved_at > 60:  # what was read is not lost when the run is stopped
                save(so_far())
                saved_at = monotonic()

        found = measure_pages(Weights.load(weights, device), book, n, seed, cells, went_on)
    save(found)
    if as_json:
        print_json(found)
        return
    say(*table_of(found).splitlines(), *([] if out is None else [f"files: {out / 'pages.json'}"]))


@app.command("needle")
def needle(
    n: Annotated[int | None, typer.Option("--n", help="Questions for each cell. [default: 2048]")] = None,
    quick: Annotated[bool, typer.Option(help="20 questions for each cell: under 3 minutes on 2 cores.")] = False,
    family: Annotated[list[str] | None, typer.Option(help="Only this family; may be repeated.")] = None,
    weights: Annotated[
        Path | None, typer.Option(help="Folder with mini and scorer. [default: those of the package]")
    ] = None,
    size: Annotated[
        str, typer.Option(metavar="HEIGHTxWIDTH", help="Of the pictures; what was promised is promised for 512x512.")
    ] = "512x512",
    seed: Annotated[int, typer.Option(help="Of the test pictures.")] = 1,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1.")] = "cpu",
    saved: Annotated[
        Path | None, typer.Option("--from", help="Measure nothing: show a saved needle.json.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--markdown", help="Also write the tables as a page.", show_default=False)
    ] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for needle.json.", show_default=False)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Exact match of mini on Needle World: families × allocations × budgets, against what was promised.

    Full, uniform, random, shuffled, scorer and oracle at 1/4, 1/8 and 1/16 of the tokens, pictures of the test split
    (held-out seeds and typefaces), 95 % intervals, and the calibration of the uncertainty.

    \b
    Examples:
      arr-coc bench needle --quick
      arr-coc bench needle --device cuda --out out/bench
      arr-coc bench needle --device cuda --n 512 --size 768x1024
      arr-coc bench needle --from out/bench/needle.json --markdown docs/results.md
    """
    from arr_coc.core.files import write_text

    from ..bench.needle_report import hand_written, markdown, read_document

    document = (
        measure_needle(n, quick, family, weights, size, seed, device, as_json)
        if saved is None
        else read_document(saved)
    )
    if out is not None:
        with writing(out):
            write_json(out / "needle.json", document)
    if page is not None:
        with writing(page):
            write_text(page, markdown(document, hand_written(page)))
    if as_json:
        print_json(document)
        return
    print_needle(document, [path for path in (out and out / "needle.json", page) if path])


def measure_needle(
    n: int | None,
    quick: bool,
    family: list[str] | None,
    weights: Path | None,
    size: str,
    seed: int,
    device: str,
    quiet: bool,
) -> dict[str, Any]:
    from arr_coc.looking import check_device

    from .needle import parse_size

    wait_asleep()
    if n is not None and n < 1:
        raise InputError(f"--n {n} measures nothing; give at least 1")
    families, height_and_width = chosen_families(family), parse_size(size)
    check_device(device)
    from ..bench.needle import NUMBER, QUICK_NUMBER, Weights, measure

    number = n or (QUICK_NUMBER if quick else NUMBER)
    loaded = Weights.load(weights, device)
    with progress(families, "asking about", hidden=quiet) as advance:
        return measure(loaded, number=number, families=families, size=height_and_width, seed=seed, advance=advance)


def chosen_families(wanted: list[str] | None) -> list[str]:
    """All families of Needle World, or those that were named, in the order of the tables."""
    from ..train.evaluate import FAMILIES

    unknown = sorted(set(wanted or ()) - set(FAMILIES))
    if unknown:
        raise InputError(f"unknown family {', '.join(unknown)}; choose from {', '.join(FAMILIES)}")
    return [name for name in FAMILIES if not wanted or name in wanted]


def print_needle(document: dict[str, Any], files: list[Path]) -> None:
    from ..bench.needle_report import tables

    show(*(table.to_rich() for table in tables(document)))
    say(*(f"{key}: {value}" for key, value in document["facts"].items()))
    verdicts = [row["kept"] for row in document["bars"] if row["kept"] is not None]
    say(f"{sum(verdicts)} of {len(verdicts)} bars kept")
    if files:
        say(f"files: {', '.join(map(str, files))}")


def report(table: Table, out: Path | None, name: str, as_json: bool, shown: Table | None = None) -> None:
    """Print a bench's table, or its JSON; write the JSON where a folder is given. shown: what is printed instead."""
    if out is not None:
        with writing(out):
            write_json(out / f"{name}.json", table.to_json())
    if as_json:
        print_json(table.to_json())
        return
    show((shown or table).to_rich())
    say(*(f"{key}: {value}" for key, value in table.facts.items()))
    verdicts = [row["kept"] for row in table.rows if isinstance(row.get("kept"), bool)]
    if verdicts:
        say(f"{sum(map(bool, verdicts))} of {len(verdicts)} bars kept")
    if out is not None:
        say(f"files: {out / f'{name}.json'}")
