"""Does looking again pay where the first look is as good as it gets? Overlay, the shipped scorer, equal totals.

    python -m arr_coc_lab.bench.esper_gain --keep 0.03125 --number 420 --page docs/esper.md
    python -m arr_coc_lab.bench.esper_gain --pack "val/packs/*.bin" --number 420 --page docs/esper.md

`bench esper` blurs the scorer on purpose, so that the first look is often wrong. Here nothing is damaged: plain Needle
World, validation pictures, or with `--pack` crops of drawn pages (`arr-coc pages --split val --pack`), every preset
against one look that gets as many tokens as its passes spent together.

    python -m arr_coc_lab.bench.esper_gain --explore --tempering FOLDER --number 512 --page docs/classic.md

Explore against exploit, where looking again is needed: hard validation pictures, the scorer blurred, what each later
pass explores held at 0 or at .5, by the rule, as shipped, and as the policy of a folder says.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from arr_coc.core.alphabet import decode
from arr_coc.core.errors import InputError
from arr_coc.core.files import write_json
from arr_coc.core.folders import WEIGHTS
from arr_coc.eye.pass_settings import FOUR_PASS, TWO_PASS, EsperSettings
from arr_coc.relevance.look.tempering import BLEND_ABOVE, TemperingPolicy

from ..train.evaluate import FAMILIES
from ..worlds.needle import render
from .esper_rows import COLUMNS, Row, accuracy_row, one_pass
from .esper_runs import (
    BLUR_SEED,
    FIRST,
    LATER,
    LONGEST_ANSWER,
    SIZE,
    VALIDATION_SEED,
    Models,
    QuestionSheet,
    Scenes,
    hard_scenes,
    join_scenes,
    run,
    scenes_of,
    scorer_maps,
)
from .page_reading import book_of
from .table import Quantity, Table, fill_page

PRESETS = {"two_pass": TWO_PASS, "four_pass": FOUR_PASS}
MARK = "esper-gain"
SHIPPED = WEIGHTS / "esper"


def needle_scenes(number: int, device: torch.device) -> Scenes:
    """`number` pictures of Needle World's validation split, all families together."""
    each = -(-number // len(FAMILIES))
    return join_scenes(
        [scenes_of(render(one, each, SIZE, VALIDATION_SEED, "validation", None, device, 0)) for one in FAMILIES]
    )


def page_scenes(number: int, device: torch.device, pattern: str, at_once: int = 16) -> Scenes:
    """Crops of drawn pages around `number` of their questions, at the size at which they were drawn."""
    book = book_of(pattern, str(device))
    short = np.flatnonzero((book.asked.answers > 0).sum(1).cpu().numpy() < LONGEST_ANSWER)
    chosen = np.random.default_rng(VALIDATION_SEED).permutation(short)[:number]
    parts = []
    for start in range(0, len(chosen), at_once):
        which = torch.from_numpy(chosen[start : start + at_once]).to(device)
        batch = book.render(len(which), SIZE, start, which, as_drawn=True)
        questions, answers = batch.questions[:, 0].long(), book.asked.answers[which]
        texts = ([decode(row) for row in rows] for rows in (questions, answers))
        parts.append(Scenes(batch.pictures, *texts, questions))
    return join_scenes(parts)


def gain_rows(models: Models, keep: float, scenes: Scenes) -> Iterator[Row]:
    """One row for each preset and one for its single look."""
    sheet = QuestionSheet.of(models, scenes, scorer_maps(models))
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


class Always(nn.Module):
    """Explores so much, whatever it is told."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, number: Tensor, uncertainty: Tensor, trend: Tensor) -> Tensor:
        return torch.full_like(uncertainty, self.value)


def explore_table(models: Models, number: int, folder: Path | None = None) -> Table:
    """Right after all passes, none stopped early; differences to exploiting, picture by picture."""
    settings = EsperSettings.load(SHIPPED)
    policies: dict[str, Any] = {"exploit (0)": Always(0.0), "explore (.5)": Always(0.5), "rule": TemperingPolicy()}
    policies["shipped"] = TemperingPolicy.from_pretrained(SHIPPED)
    if folder is not None:
        policies["trained"] = TemperingPolicy.from_pretrained(folder)
    scenes = hard_scenes(number, VALIDATION_SEED, "validation", models.device)
    sheet = QuestionSheet.of(models, scenes, scorer_maps(models, BLUR_SEED + 1))
    found = {name: run(models, sheet, (FIRST, LATER), settings, policy) for name, policy in policies.items()}
    exploit = found["exploit (0)"].right[:, -1]
    rows = [
        {
            **accuracy_row(name, "hard, blurred", one.right[:, -1], one.tokens.sum(1), against),
            "second": float(100 * one.right[:, 1].float().mean()),
            "says": Quantity(float(one.exploration[:, 1:].mean()), "", *_range(one.exploration[:, 1:])),
        }
        for (name, one), against in zip(found.items(), [None, *[exploit] * len(found)], strict=False)
    ]
    columns = {"what": "tempering", "says": "explores, mean [least, most]", "second": "right after 2, %"}
    columns |= {"measured": f"after {settings.passes}, %", "against": "points"}
    facts = {
        "pictures": f"{rows[0]['n']}, cards, forms, signs and zoo, hard, validation split, scorer blurred on purpose",
        "points": "after all passes, − exploit on the same pictures, 95 % interval",
        "blending starts": f"above {BLEND_ABOVE:g}",
    }
    return Table("Explore against exploit", columns, tuple(rows), facts)


def _range(values: Tensor) -> tuple[float, float]:
    return float(values.min()), float(values.max())


def gain_table(models: Models, keep: float, scenes: Scenes, about: str) -> Table:
    rows = tuple(gain_rows(models, keep, scenes))
    facts = {
        "pictures": f"{rows[0]['n']} {about}",
        "relevance": "the scorer as it is; the first look is an overlay",
        "points": "the preset − one look of the same total, paired, 95 % interval",
    }
    columns = {name: heading for name, heading in COLUMNS.items() if name != "kept"}
    return Table(f"Looking again at 1/{round(1 / keep)} of the tokens, {about.split(',')[0]}", columns, rows, facts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.esper_gain", description=__doc__)
    parser.add_argument(
        "--keep", type=float, nargs="+", default=[1 / 32], help="shares of the tokens, all passes together"
    )
    parser.add_argument("--number", type=int, default=420, help="pictures")
    parser.add_argument("--explore", action="store_true", help="explore against exploit, on hard pictures")
    parser.add_argument("--tempering", type=Path, help="a trained policy, beside the shipped one")
    parser.add_argument("--pack", help="packs of drawn pages, instead of Needle World")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--out", type=Path, help="folder for esper_gain.json")
    parser.add_argument("--page", type=Path, help=f"a Markdown page with the marks {MARK}")
    given = parser.parse_args(arguments)
    if given.number < 1 or not all(0 < keep <= 1 for keep in given.keep):
        raise InputError("--number must be at least 1 and every --keep above 0 and up to 1")
    models = Models.load(device=given.device)
    mark = "explore" if given.explore else f"{MARK}-pages" if given.pack else MARK
    if given.explore:
        scenes, about = None, ""
    elif given.pack:
        scenes, about = page_scenes(given.number, models.device, given.pack), "crops of drawn pages, 512×512, split val"
    else:
        scenes = needle_scenes(given.number, models.device)
        about = "pictures of Needle World, 512×512, validation split, all families"
    if scenes is None:
        tables = [explore_table(models, given.number, given.tempering)]
    else:
        tables = [gain_table(models, keep, scenes, about) for keep in given.keep]
    for table in tables:
        print(table.section())
    if given.out is not None:
        write_json(given.out / f"{mark.replace('-', '_')}.json", {"tables": [table.to_json() for table in tables]})
    if given.page is not None:
        fill_page(given.page, mark, *tables)


if __name__ == "__main__":
    main()
