"""`arr-coc mine`: one's own hardest cases, with their pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, table, wait_asleep, writing
from arr_coc.app.cli.options import Device, OnlyJson, with_options
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI


@dataclass(frozen=True)
class MineCommand:
    """What cases are looked for."""

    data: Annotated[Path, typer.Option(help="Your records: a folder with records.jsonl, a .jsonl or a .parquet file.")]
    n: Annotated[int, typer.Option("--n", help="How many cases.")] = 20
    relevance: Annotated[str, typer.Option(help="A source of relevance by name, or the folder of a scorer.")] = "scorer"
    keep: Annotated[str, typer.Option(metavar="SHARE", help="Share of the full tokens to spend.")] = "1/8"
    ask: Annotated[
        bool, typer.Option("--ask", help="Let a model answer; then the hardest are those that it answers wrong.")
    ] = False
    model: Annotated[str, typer.Option("--model", "-m", help="With --ask: mini, a folder, a name on the hub.")] = MINI
    device: Device = "cpu"
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the data where a record cannot be used.")] = False
    out: Annotated[
        Path | None, typer.Option(help="Folder for index.html, a picture of each, hardest.json and hardest.jsonl.")
    ] = None
    as_json: OnlyJson = False


@with_options(MineCommand)
def command(options: MineCommand) -> None:
    """Find the questions of your own data that go wrong most.

    Those are the ones whose answer is least seen in detail; with --ask, those that a model answers wrong.
    hardest.jsonl holds their records, for `arr-coc train scorer --data`.

    \b
    Examples:
      arr-coc mine --data invoices --out hard
      arr-coc mine --data invoices --relevance my-scorer --keep 1/16 --n 50 --json
      arr-coc mine --data answers.jsonl --ask --model mini --out hard
    """
    from arr_coc.knowing.registry import check_relevance

    from arr_coc.app.cli.inputs import check_model
    from arr_coc.attending.request import check_device

    wait_asleep()
    if not os.path.exists(options.data):
        raise InputError(
            f"--data {options.data} does not exist; give a folder with records.jsonl, a .jsonl or a .parquet file"
        )
    if options.n < 1:
        raise InputError(f"--n {options.n} lists nothing; give at least 1")
    try:
        share = float(Fraction(options.keep))
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"--keep {options.keep} is no share; give for example 1/8") from error
    if not 0 < share <= 1:
        raise InputError(f"--keep {options.keep} must be above 0 and at most 1")
    check_device(options.device)
    check_relevance(options.relevance, ("pixels", "texture", *(("model",) if options.ask else ())))
    if options.ask:
        check_model(options.model)
    from arr_coc.answering.eye import Eye

    from ..bench.mining import hardest, write_cases
    from ..train.own_data import read_own

    records = read_own(options.data, "outcomes" if options.ask else "boxes", strict=options.strict).records
    eye = Eye.from_pretrained(options.model, device=options.device) if options.ask else None
    with progress(len(records), "looking", hidden=options.as_json) as advance:
        cases = hardest(records, options.n, keep=share, relevance=options.relevance, eye=eye, advance=advance)
    facts = {
        "records": len(records),
        "keep": share,
        "relevance": options.relevance,
        **({"model": options.model} if options.ask else {}),
    }
    files = []
    if options.out is not None:
        with writing(options.out):
            files = write_cases(options.out, cases, facts)
    if options.as_json:
        print_json({**facts, "cases": [case.to_json() for case in cases], "files": [str(path) for path in files]})
        return
    rows = []
    for case in cases:
        seen = "–" if case.seen is None else f"{100 * case.seen:.0f} %"
        said = [] if case.said is None else [case.said]
        rows.append([str(case.record.line), case.record.query, case.record.answer, seen, *said])
    columns = {"line": "right", "question": "left", "answer": "left", "seen": "right"} | (
        {"said": "left"} if options.ask else {}
    )
    show(table("hardest cases", columns, rows))
    if files:
        say(f"files: {', '.join(map(str, files))}")
