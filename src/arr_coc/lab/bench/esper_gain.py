"""Does looking again pay where the first look is as good as it gets? Overlay, the shipped scorer, equal totals.

    python -m arr_coc.lab.bench.esper_gain --keep 0.03125 --number 420 --page docs/esper.md

`bench esper` blurs the scorer on purpose, so that the first look is often wrong. Here nothing is damaged: plain Needle
World, validation pictures, every preset against one look that gets as many tokens as its passes spent together.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path

import torch

from ...errors import InputError
from ...esper.settings import FOUR_PASS, TWO_PASS, EsperSettings
from ...files import write_json
from ..needle import render
from ..train.evaluate import FAMILIES
from .esper_rows import COLUMNS, Row, accuracy_row, one_pass
from .esper_runs import SIZE, VALIDATION_SEED, Models, QuestionSheet, join_scenes, run, scenes_of, scorer_maps
from .table import Table, fill_page

PRESETS = {"two_pass": TWO_PASS, "four_pass": FOUR_PASS}
MARK = "esper-gain"


def gain_rows(models: Models, keep: float, number: int) -> Iterator[Row]:
    """One row for each preset and one for its single look. number: pictures, all families together."""
    each = -(-number // len(FAMILIES))
    parts = [
        scenes_of(render(one, each, SIZE, VALIDATION_SEED, "validation", None, models.device, 0)) for one in FAMILIES
    ]
    sheet = QuestionSheet.of(models, join_scenes(parts), scorer_maps(models))
    full = models.tree.full
    total = max(2, round(keep * full))
    for name, settings in PRESETS.items():
        yield from _against_one_look(models, sheet, name, settings, total, full)


def _against_one_look(
    models: Models, sheet: QuestionSheet, name: str, settings: EsperSettings, total: int, full: int
) -> Iterator[Row]:
    passes = run(models, sheet, settings.shares(total), settings)
    right, tokens, _ = passes.stopped(settings)
    # As many tokens as these passes spent, picture by picture; an overlay meets every budget.
    single = one_pass(models, sheet, tokens.to(torch.int64) - 2, settings).at(0)
    where = f"at {total} of {full} tokens"
    yield accuracy_row(f"one look for {name}", f"{where}, the total that {name} spent", *single[:2])
    yield accuracy_row(name, f"{where}, until sure", right, tokens, single[0])


def gain_table(models: Models, keep: float, number: int) -> Table:
    rows = tuple(gain_rows(models, keep, number))
    facts = {
        "pictures": f"{rows[0]['n']} of Needle World's validation split, {SIZE[0]}×{SIZE[1]}, all families",
        "relevance": "the scorer as it is; the first look is an overlay",
        "points": "the preset − one look of the same total, paired, 95 % interval",
    }
    columns = {name: heading for name, heading in COLUMNS.items() if name != "kept"}
    return Table(f"Looking again at 1/{round(1 / keep)} of the tokens", columns, rows, facts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m arr_coc.lab.bench.esper_gain", description=__doc__)
    parser.add_argument(
        "--keep", type=float, nargs="+", default=[1 / 32], help="shares of the tokens, all passes together"
    )
    parser.add_argument("--number", type=int, default=420, help="pictures")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="folder for esper_gain.json")
    parser.add_argument("--page", type=Path, help=f"a Markdown page with the marks {MARK}")
    given = parser.parse_args(arguments)
    if given.number < 1 or not all(0 < keep <= 1 for keep in given.keep):
        raise InputError("--number must be at least 1 and every --keep above 0 and up to 1")
    models = Models.load(device=given.device)
    tables = [gain_table(models, keep, given.number) for keep in given.keep]
    for table in tables:
        print(table.section())
    if given.out is not None:
        write_json(given.out / "esper_gain.json", {"tables": [table.to_json() for table in tables]})
    if given.page is not None:
        fill_page(given.page, MARK, *tables)


if __name__ == "__main__":
    main()
