"""`arr-coc mine`: one's own hardest cases, with their pictures."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import print_json, progress, say, show, table, wait_asleep, writing
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI


def command(
    data: Annotated[Path, typer.Option(help="Your records: a folder with records.jsonl, a .jsonl or a .parquet file.")],
    n: Annotated[int, typer.Option("--n", help="How many cases.")] = 20,
    relevance: Annotated[
        str, typer.Option(help="A source of relevance by name, or the folder of a scorer.")
    ] = "scorer",
    keep: Annotated[str, typer.Option(metavar="SHARE", help="Share of the full tokens to spend.")] = "1/8",
    ask: Annotated[bool, typer.Option("--ask", help="Let a model answer: the hardest are those it has wrong.")] = False,
    model: Annotated[str, typer.Option("--model", "-m", help="With --ask: mini, a folder, a name on the hub.")] = MINI,
    device: Annotated[str, typer.Option(help="cpu, cuda, cuda:1, mps.")] = "cpu",
    strict: Annotated[bool, typer.Option("--strict", help="Refuse the data where a record cannot be used.")] = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder for index.html, a picture of each, hardest.json and hardest.jsonl.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Your own hardest cases: of which the least is seen where the answer stands; or, with --ask, answered wrong.

    hardest.jsonl holds their records: `arr-coc train scorer --data` takes it.

    \b
    Examples:
      arr-coc mine --data invoices --out hard
      arr-coc mine --data invoices --relevance my-scorer --keep 1/16 --n 50 --json
      arr-coc mine --data answers.jsonl --ask --model mini --out hard
    """
    from arr_coc.allocation.request import check_device
    from arr_coc.app.cli.inputs import check_model
    from arr_coc.relevance.registry import check_relevance

    wait_asleep()
    if not os.path.exists(data):
        raise InputError(f"--data {data} does not exist; give a folder with records.jsonl, a .jsonl or a .parquet file")
    if n < 1:
        raise InputError(f"--n {n} lists nothing; give at least 1")
    try:
        share = float(Fraction(keep))
    except (ValueError, ZeroDivisionError) as error:
        raise InputError(f"--keep {keep} is no share; give for example 1/8") from error
    if not 0 < share <= 1:
        raise InputError(f"--keep {keep} must be above 0 and at most 1")
    check_device(device)
    check_relevance(relevance, ("pixels", "texture", *(("model",) if ask else ())))
    if ask:
        check_model(model)
    from arr_coc.eye.eye import Eye

    from ..bench.mining import hardest, write_cases
    from ..train.own_data import read_own

    records = read_own(data, "outcomes" if ask else "boxes", strict=strict).records
    eye = Eye.from_pretrained(model, device=device) if ask else None
    with progress(len(records), "looking", hidden=as_json) as advance:
        cases = hardest(records, n, keep=share, relevance=relevance, eye=eye, advance=advance)
    facts = {"records": len(records), "keep": share, "relevance": relevance, **({"model": model} if ask else {})}
    files = []
    if out is not None:
        with writing(out):
            files = write_cases(out, cases, facts)
    if as_json:
        print_json({**facts, "cases": [case.to_json() for case in cases], "files": [str(path) for path in files]})
        return
    rows = []
    for case in cases:
        seen = "–" if case.seen is None else f"{100 * case.seen:.0f} %"
        said = [] if case.said is None else [case.said]
        rows.append([str(case.record.line), case.record.query, case.record.answer, seen, *said])
    columns = {"line": "right", "question": "left", "answer": "left", "seen": "right"} | (
        {"said": "left"} if ask else {}
    )
    show(table("hardest cases", columns, rows))
    if files:
        say(f"files: {', '.join(map(str, files))}")
