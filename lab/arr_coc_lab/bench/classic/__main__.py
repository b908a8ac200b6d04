"""`python -m arr_coc_lab.bench.classic`: the line of the source against ours, without typer or rich.

`arr-coc bench classic` is the same. What was read stands in --out after every batch; the same command goes on there.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from time import perf_counter
from typing import Any

from arr_coc.core.errors import InputError
from arr_coc.core.files import read_text, write_json, writing

from ..table import Table, fill_page
from .plan import ClassicPlan, Record, plain
from .report import tables

RECORD = "classic.json"
# Pictures in memory: by the kind of device, those of 512² and the large ones.
AT_ONCE = {"cpu": (21, 1), "cuda": (49, 7)}


# Training pictures of each family on which tensions are learned.
BALANCING = 24


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.classic", description=__doc__)
    made.add_argument("--each", type=int, default=147, help="pictures of each of seven families [147: 1029 in all]")
    made.add_argument("--large", type=int, default=0, help="pictures of 2048² of each family for the classic scale")
    made.add_argument("--relevance", nargs="+", metavar="NAME", help="only these sources of the registry beside ours")
    made.add_argument("--rivals", type=Path, help="folder of train_hypotheses whose parts are read as well")
    made.add_argument("--seconds", type=float, help="begin no batch after so many")
    made.add_argument("--device", default="cpu", help="cpu, cuda, cuda:1")
    made.add_argument("--out", type=Path, help=f"folder for {RECORD}; a run goes on from what is there")
    made.add_argument("--from", dest="saved", type=Path, help=f"measure nothing: show a saved {RECORD}")
    made.add_argument("--page", type=Path, help="fill the part `classic` of this Markdown page")
    return made


def finish(given: Mapping[str, Any], tell: Callable[[str], None] = lambda line: None) -> list[Table]:
    """Measure, or show what was saved, by the options of `parser`; fill the page where one is given."""
    began, wanted = perf_counter(), {name: value for name, value in given.items() if value is not None}
    each, large, device = wanted.get("each", 147), wanted.get("large", 0), wanted.get("device", "cpu")
    if each < 0 or large < 0 or each + large < 1:
        raise InputError(f"--each {each} --large {large} measures nothing; give at least 1 of one of them")
    at_once, large_at_once = AT_ONCE["cpu" if device == "cpu" else "cuda"]
    plan = ClassicPlan(
        each=each,
        large=large,
        names=tuple(wanted.get("relevance", ())),
        seconds=wanted.get("seconds"),
        device=device,
        at_once=at_once,
        large_at_once=large_at_once,
    )
    saved, out = wanted.get("saved"), wanted.get("out")
    if saved is not None:
        record = Record.read(_document(saved))
    else:
        record = Record(plan=plain(asdict(plan)))
        if out is not None and (out / RECORD).is_file():
            record = Record.of(_document(out / RECORD), plan)
        record = measured(plan, record, out, wanted.get("rivals"), began, tell)
    if not record.cells:
        raise InputError("nothing was read; give more --seconds, or a record that is not empty")
    made = tables(record)
    if "page" in wanted:
        with writing(wanted["page"]):
            fill_page(wanted["page"], "classic", *made)
    return made


def _document(path: Path) -> dict[str, Any]:
    try:
        return json.loads(read_text(path))
    except (OSError, ValueError) as error:
        raise InputError(f"cannot read {path} ({error}); give the {RECORD} of `bench classic`") from error


def measured(
    plan: ClassicPlan, record: Record, out: Path | None, folder: Path | None, began: float, tell: Callable[[str], None]
) -> Record:
    """Load the reader, the scorer and its rivals, and read what the record lacks. folder: further rivals."""
    import torch

    from arr_coc.core.folders import MINI, SCORER, part_folder
    from arr_coc.looking import check_device
    from arr_coc.relevance.scorer.source import load_scorer

    from ...train.outcomes import load_reader
    from ...train.rivals import Rivals
    from .maps import fit_balancers
    from .measure import measure

    check_device(plan.device)
    model = load_reader(part_folder(MINI), torch.device(plan.device))
    rivals = Rivals.load(load_scorer(part_folder(SCORER), plan.device), device=plan.device)
    if folder is not None:
        more = Rivals.load(rivals.scorer, folder, plan.device).parts
        if not more:
            raise InputError(f"there are no rivals in {folder}; give the --out of train_hypotheses")
        rivals.parts |= more
    if plan.each:
        tell("learning tensions")
        few = plan.each < BALANCING  # to see that it runs: nothing to keep
        fit_balancers(rivals, plan, out and (None if few else out / "balancers"), max(2, min(plan.each, BALANCING)))

    def keep(found: Record) -> None:
        if out is not None:
            with writing(out):
                write_json(out / RECORD, found.to_json())

    if plan.seconds is not None:
        plan = replace(plan, seconds=plan.seconds - (perf_counter() - began))
    return measure(model, rivals, plan, record, lambda step: tell(f"{perf_counter() - began:.0f} s: {step}"), keep)


def main(arguments: Sequence[str] | None = None) -> int:
    given = parser().parse_args(arguments)
    try:
        for table in finish(vars(given), tell=lambda line: print(line, file=sys.stderr, flush=True)):
            print(f"{table.section()}\n")
    except InputError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
