"""`arr-coc bench hypotheses`: H1–H6, query-awareness, stakes and outcomes, each a row with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from arr_coc.app.cli.console import writing
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import WEIGHTS

QUICK, QUICK_ALSO = 42, 7


def hypotheses(
    quick: Annotated[bool, typer.Option("--quick", help=f"Only {QUICK} pictures: wide intervals.")] = False,
    number: Annotated[int, typer.Option(help="Test pictures, all families together.")] = 2100,
    measured: Annotated[
        Path | None, typer.Option(help="Make the table of a measured.json instead of measuring.", show_default=False)
    ] = None,
    reader: Annotated[Path, typer.Option(help="Folder of the reader.", show_default=False)] = WEIGHTS / "mini",
    scorer: Annotated[Path, typer.Option(help="Folder of the scorer.", show_default=False)] = WEIGHTS / "scorer",
    trained: Annotated[Path, typer.Option(help="Folder of `train_hypotheses`.", show_default=False)] = WEIGHTS
    / "hypotheses",
    device: Annotated[str, typer.Option(help="cpu or cuda.")] = "cpu",
    seconds: Annotated[
        float | None, typer.Option(help="Begin no round that would end later.", show_default=False)
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder for hypotheses.json and measured.json.", show_default=False)
    ] = None,
    page: Annotated[
        Path | None, typer.Option(help="A Markdown page whose table is made anew.", show_default=False)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Only JSON on the standard output.")] = False,
) -> None:
    """Each claim of the design against its rival at equal tokens, with a verdict that could have been another.

    Reads pictures of Needle World's test split with the bundled reader, through every rival's allocation. Made for a
    GPU; on two cores take --quick. What was not trained is left out.
    """
    from arr_coc.app.cli.console import progress

    from .bench import report

    if number < 1:
        raise InputError(f"--number {number} measures nothing; give at least 1")
    from ..bench.hypotheses import Measured, hypotheses_table, narrow_table
    from ..bench.table import fill_page

    if measured is not None:
        table = hypotheses_table(Measured.load(measured))
        if page is not None:
            fill_page(page, "hypotheses", table)
        report(table, out, "hypotheses", as_json, narrow_table(table))
        return
    import torch

    from arr_coc.looking import check_device
    from arr_coc.relevance.scorer.source import load_scorer

    from ..train.measure import Measuring, Round, document_of, measure, steps_of
    from ..train.outcomes import load_reader
    from ..train.rivals import Rivals

    check_device(device)
    model = load_reader(reader, torch.device(device))
    rivals = Rivals.load(load_scorer(scorer, device), trained, device)
    plan = Measuring(
        number=QUICK if quick else number,
        also=QUICK_ALSO if quick else None,
        at_once=7 if device == "cpu" else 75,
        seconds=seconds,
    )

    def keep(rounds: list[Round]) -> None:
        # After every round: whoever stops it early keeps what there is, balanced over the families.
        if out is not None:
            with writing(out):
                write_json(out / "measured.json", document_of(plan, rivals, rounds))

    with progress(steps_of(plan), "measuring", hidden=as_json) as advance:
        document = measure(model, rivals, plan, advance, keep)
    facts = {"quick": f"{QUICK} pictures only: most intervals are too wide to decide"} if quick else {}
    table = hypotheses_table(Measured(document), facts)
    if page is not None:
        fill_page(page, "hypotheses", table)
    report(table, out, "hypotheses", as_json, narrow_table(table))
