"""`arr-coc bench classic`: the line of the source, phase by phase, against what is shipped, at equal tokens."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Annotated, Any

import typer

from ...errors import InputError
from ...files import read_text, write_json
from .console import print_json, progress, say, show, wait_asleep, writing

RECORD = "classic.json"


def classic(
    each: Annotated[int, typer.Option(help="Pictures of each of the seven families. 147: 1029 in all.")] = 147,
    large: Annotated[
        int, typer.Option(help="Pictures of 2048×2048 of each family for the scale of 64 to 400 tokens a patch.")
    ] = 0,
    relevance: Annotated[
        list[str] | None,
        typer.Option(help="Only this source of the registry beside ours; may be repeated. [default: all phases]"),
    ] = None,
    seconds: Annotated[float | None, typer.Option(help="Begin no batch after so many.", show_default=False)] = None,
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    out: Annotated[
        Path | None, typer.Option(help=f"Folder for {RECORD}; a run goes on from what is there.", show_default=False)
    ] = None,
    saved: Annotated[
        Path | None, typer.Option("--from", help=f"Measure nothing: show a saved {RECORD}.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option("--markdown", help="A page whose tables are made anew.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Phase 1 (edges), Phase 2 (query-aware), Phase 3 (from outcomes) and the parts, against ours, at equal tokens.

    Sources that the registry lacks are left out with a line. About half an hour on two idle cores, minutes on a GPU; a
    run that was stopped goes on with the same --out.

    \b
    Examples:
      arr-coc bench classic --each 3
      arr-coc bench classic --out out/classic --markdown docs/classic.md
      arr-coc bench classic --each 0 --large 147 --seconds 600 --out out/classic
      arr-coc bench classic --relevance edge_lod --out out/classic
    """
    if each < 0 or large < 0 or each + large < 1:
        raise InputError(f"--each {each} --large {large} measures nothing; give at least 1 of one of them")
    from ...lab.bench.classic import ClassicPlan, Record
    from ...lab.bench.classic_report import tables
    from ...lab.bench.table import fill_page

    names, at_once = tuple(relevance or ()), 21 if device == "cpu" else 147
    plan = ClassicPlan(each=each, large=large, names=names, seconds=seconds, device=device, at_once=at_once)
    path = saved or (out and out / RECORD)
    record = (
        Record.of(_document(path), plan) if path is not None and os.path.isfile(path) else Record(plan=_plain(plan))
    )
    if saved is None:
        record = _measured(plan, record, out, as_json)
    elif not record.cells:
        raise InputError(f"there is nothing in {saved}; measure with --out first")
    made = tables(record)
    if page is not None:
        with writing(page):
            fill_page(page, "classic", *made)
    if as_json:
        print_json({"schema": 1, "tables": [table.to_json() for table in made]})
        return
    show(*(table.to_rich() for table in made))
    say(*dict.fromkeys(f"{key}: {value}" for table in made for key, value in table.facts.items()))


def _plain(plan: Any) -> dict[str, Any]:
    from dataclasses import asdict

    return json.loads(json.dumps(asdict(plan)))


def _document(path: Path) -> dict[str, Any]:
    try:
        return json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); give the {RECORD} of `bench classic`") from error


def _measured(plan: Any, record: Any, out: Path | None, quiet: bool) -> Any:
    wait_asleep()
    import torch

    from ...bundled import MINI, SCORER, load_scorer, part_folder
    from ...lab.bench.classic import fit_balancers, measure
    from ...lab.train.outcomes import load_reader
    from ...lab.train.rivals import Rivals
    from ...looking import check_device

    check_device(plan.device)
    model = load_reader(part_folder(MINI), torch.device(plan.device))
    rivals = Rivals.load(load_scorer(part_folder(SCORER), plan.device), device=plan.device)
    if plan.each:
        fit_balancers(rivals, plan, out and out / "balancers")

    def keep(found: Any) -> None:
        if out is not None:
            with writing(out):
                write_json(out / RECORD, found.to_json())

    steps = plan.steps()
    with progress(steps, "reading", hidden=quiet) as advance:
        return measure(model, rivals, plan, record, advance, keep)
