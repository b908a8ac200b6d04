"""`arr-coc bench real`: coverage of the relevant boxes, and agreement with human gaze, on real pictures."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from fractions import Fraction
from pathlib import Path
from time import perf_counter
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, writing
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import MINI

QUICK = 12
KEEPS = "1/4 1/8 1/16 1/32"


def real(
    data: Annotated[Path, typer.Option(help="Folder with records.jsonl, a .jsonl or a .parquet file.")],
    relevance: Annotated[
        list[str] | None,
        typer.Option(
            help="A source by name, the folder of a scorer, or a control: centre, uniform, random, saliency, "
            "text regions; may be repeated. [default: auto, look, scorer and the first four]"
        ),
    ] = None,
    strategy: Annotated[
        list[str] | None, typer.Option(help="overlay or quadtree; may be repeated. [default: overlay]")
    ] = None,
    source: Annotated[list[str] | None, typer.Option(help="Only these records; may be repeated.")] = None,
    limit: Annotated[
        list[str] | None,
        typer.Option(metavar="N|SOURCE=N", help="At most so many of each source, drawn by the seed; may be repeated."),
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help=f"At most {QUICK} questions of each source.")] = False,
    keeps: Annotated[str, typer.Option(help="Shares of the full tokens.")] = KEEPS,
    seed: Annotated[int, typer.Option(help="Of the drawn questions and of the control random.")] = 0,
    workers: Annotated[int, typer.Option(help="Processes, each on one thread.")] = 1,
    worst: Annotated[
        Path | None, typer.Option(help="Folder for pages of the questions of which least is seen.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder for real.json and real_questions.json; goes on where it stopped.", show_default=False
        ),
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose tables are made anew.", show_default=False)
    ] = None,
    ask: Annotated[
        bool, typer.Option("--ask", help="Let a model answer what must be read: exact match and ANLS, at 1/2 1/4 1/8.")
    ] = False,
    model: Annotated[
        str, typer.Option("--model", "-m", help="For --ask: mini, a folder, or a name on the hub.")
    ] = MINI,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """How much of what a question needs is seen in full detail, and how many tokens that takes; no model answers unless
    --ask is given.

    The pictures do not come with the library: any folder will do whose records.jsonl has, on each line, image, query
    and boxes (x0, y0, x1, y1 in 0–1), and the source of the record where there are several.

    \b
    Examples:
      arr-coc bench real --data DIR --quick
      arr-coc bench real --data DIR --relevance scorer --relevance words --limit 100 --limit forms=400
      arr-coc bench real --data my-scorer/held_out.jsonl --relevance scorer --relevance my-scorer
      arr-coc bench real --data DIR --workers 2 --out out/real --worst out/real --page docs/real.md
      arr-coc bench real --data DIR --ask --source funsd --source chartqa --limit 100 --out out/ask
    """
    if workers < 1:
        raise InputError(f"--workers {workers} measures nothing; give at least 1")
    limits = parse_limits([str(QUICK)] if quick else limit or [])
    if ask:
        from .bench_real_ask import ask_real

        asked_at = parse_shares("1/2 1/4 1/8" if keeps == KEEPS else keeps)
        ask_real(data, model, asked_at, tuple(source or ()), limits, seed, out or Path("out/ask"), page, as_json)
        return
    shares = parse_keeps(keeps)
    from arr_coc.relevance.photos.source import photos_installed

    from ..bench.real import RELEVANCE, SHAPES, Measured, load_records, measure_real, systems_of
    from ..bench.real_report import document, narrow_table, real_tables, write_worst
    from ..bench.table import fill_page

    systems = systems_of(relevance or RELEVANCE, strategy or SHAPES[:1])
    records = load_records(data, limits, tuple(source or ()), seed)
    kept = None if out is None else out / "real_questions.json"
    measured = Measured.begun(kept, data, shares, seed)
    drawn = ", ".join(f"at most {number} of {name or 'each source'}" for name, number in limits.items())
    facts = {"drawn": f"{drawn}; seed {seed}"} if limits else {}
    facts |= {
        "photo map": "there: `auto` and `look` use it"
        if photos_installed()
        else "not there: `auto` and `look` are without it"
    }

    def keep(done: int, total: int) -> None:
        # A long run that is stopped leaves what it has measured, and says how much of it.
        if out is not None and kept is not None:
            so_far = {"so far": f"{done} of {total} pictures"} if done < total else {}
            with writing(out):
                write_json(kept, {"settings": measured.settings, "questions": measured.questions})
                write_json(out / "real.json", document(real_tables(measured, records, systems, {**facts, **so_far})))

    pictures = len({(record.source, record.image) for record in records})
    with progress(pictures, "measuring", hidden=as_json) as advance:
        measure_real(records, systems, measured, workers=workers, advance=telling(advance, as_json), keep=keep)
    keep(1, 1)
    tables = real_tables(measured, records, systems, facts)
    if worst is not None:
        with writing(worst):
            pages = write_worst(worst, measured, records, systems)
    if page is not None:
        fill_page(page, "real", *tables)
    if as_json:
        print_json(document(tables))
        return
    show(*(narrow_table(table).to_rich() for table in tables))
    say(*(f"{key}: {value}" for table in tables for key, value in table.facts.items()))
    files = [*([] if out is None else [out / "real.json"]), *([] if worst is None else pages)]
    if files:
        say(f"files: {', '.join(map(str, files))}")


def parse_keeps(text: str) -> tuple[float, ...]:
    """Two shares or more, largest first."""
    shares = parse_shares(text)
    if len(shares) < 2:
        raise InputError(f"--keeps {text!r} needs two or more shares above 0 and at most 1")
    return shares


def parse_shares(text: str) -> tuple[float, ...]:
    """ "1/4 1/8" or "0.25,0.125" → shares, largest first."""
    try:
        shares = {float(Fraction(one)) for one in text.replace(",", " ").split()}
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f'--keeps {text!r} is no list of shares; give for example "1/4 1/8"') from error
    if not shares or not all(0 < share <= 1 for share in shares):
        raise InputError(f"--keeps {text!r} needs shares above 0 and at most 1")
    return tuple(sorted(shares, reverse=True))


def parse_limits(given: Sequence[str]) -> dict[str, int]:
    """N for every source, SOURCE=N for one → by source, "" for the others."""
    limits = {}
    for one in given:
        source, _, number = one.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit {one} leaves nothing to measure; give at least 1, or SOURCE=N")
        limits[source] = int(number)
    return limits


def telling(advance: Callable[..., None], quiet: bool) -> Callable[[str], None]:
    """Where nobody watches a bar, a line for every 25 pictures of a source, with the seconds so far."""
    began, told = perf_counter(), 0

    def tell(step: str) -> None:
        nonlocal told
        advance()
        if told % 25 == 0 and not quiet and not sys.stderr.isatty():
            typer.echo(f"{perf_counter() - began:.0f} s: {step}", err=True)
        told += 1

    return tell
