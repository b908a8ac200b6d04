"""What `bench vqa` shows: a table with paired intervals, the worst pictures, and one page of both."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, write_text
from arr_coc.draw.layout import resize
from arr_coc.draw.panes import overlay
from arr_coc.draw.sheets import contact_sheet
from arr_coc.pictures.load import load_picture

from ..statistics import Estimate, mean, paired, proportion
from .table import Quantity, Table, fill_page
from .vqa import FULL, OURS, Answers, Asking, Cell, Question

if TYPE_CHECKING:
    from arr_coc.eye.eye import Eye

WORST, PANE = 12, 480
COLUMNS = {
    "way": "way",
    "share": "of tokens",
    "tokens": "tokens",
    "score": "score",
    "lost": "minus full",
    "ours": "ours minus it",
}
PAGE = """# {title}

Every way answers the same questions; brackets are 95 % intervals, those of differences paired question by question.
`full`: the untouched model. `ours`: fine tokens where the question needs them. `uniform`: as many tokens spread evenly.
`smaller picture`: the picture itself reduced until the stock model takes no more. `random`, `shuffled`: the same
regions elsewhere.

<!-- vqa: begin -->
<!-- vqa: end -->
"""


def scores_of(answers: Answers, names: Sequence[str], cells: Sequence[Cell]) -> dict[Cell, np.ndarray]:
    """(n,) for each cell, of the questions that all of them answered."""
    whole = answered(answers, names, cells)
    if not whole:
        raise InputError("no question was answered by every way; look at the errors in answers.jsonl")
    return {cell: np.array([answers.rows[name, cell.name]["score"] for name in whole]) for cell in cells}


def answered(answers: Answers, names: Iterable[str], cells: Sequence[Cell]) -> list[str]:
    return [name for name in names if all("score" in answers.rows.get((name, cell.name), {}) for cell in cells)]


def score_table(
    title: str, answers: Answers, names: Sequence[str], cells: Sequence[Cell], facts: Mapping[str, str]
) -> Table:
    scores, whole = scores_of(answers, names, cells), answered(answers, names, cells)
    full = next(cell for cell in cells if cell.way == FULL)
    rows = []
    for cell in cells:
        own, ours = scores[cell], scores.get(Cell(OURS, cell.keep))
        found = [answers.rows[name, cell.name] for name in whole]
        spent = np.array([[row["tokens"], row["full"], row["seconds"]] for row in found])
        rows.append(
            {
                "way": cell.way,
                "share": f"{100 * spent[:, 0].sum() / spent[:, 1].sum():.1f} %",
                "tokens": float(spent[:, 0].mean()),
                "score": percent(proportion(own) if np.isin(own, (0, 1)).all() else mean(own)),
                "lost": None if cell == full else percent(paired(own, scores[full])),
                "ours": None if cell.way in (FULL, OURS) or ours is None else percent(paired(ours, own)),
                "seconds": Quantity(float(spent[:, 2].mean()), "s"),
            }
        )
    left = len(names) - len(whole)
    facts = {"questions": f"{len(whole)}" + (f", and {left} whose picture cannot be used" if left else ""), **facts}
    return Table(title, COLUMNS, tuple(rows), facts)


def narrow(table: Table) -> Table:
    """For terminals of 80 columns."""
    return replace(table, columns={key: heading for key, heading in COLUMNS.items() if key != "share"})


def percent(found: Estimate) -> Quantity:
    return Quantity(100 * found.value, "", 100 * found.low, 100 * found.high)


def verdict(answers: Answers, names: Sequence[str], cells: Sequence[Cell], way: str = "uniform") -> dict[str, str]:
    """Share → whether ours is better than the other way there: holds, fails, undecided."""
    scores = scores_of(answers, names, cells)
    return {
        f"{cell.keep:g}": paired(scores[Cell(OURS, cell.keep)], scores[cell]).above()
        for cell in cells
        if cell.way == way
    }


def worst_of(answers: Answers, names: Sequence[str], cells: Sequence[Cell], number: int = WORST) -> list[str]:
    """Questions that lost most against the untouched model at the smallest budget; none that lost nothing."""
    full, ours = (cell for cell in (cells[0], min((one for one in cells if one.way == OURS), key=lambda one: one.keep)))
    lost = {
        name: answers.rows[name, ours.name]["score"] - answers.rows[name, full.name]["score"]
        for name in answered(answers, names, cells)
    }
    return sorted((name for name in lost if lost[name] < 0), key=lambda name: lost[name])[:number]


def worst_sheet(
    path: Path, eye: Callable[[], Eye], questions: Iterable[Question], asking: Asking, cell: Cell, answers: Answers
) -> None:
    """The picture and beside it where the tokens went; what was said, what full said and what is true."""
    tiles, captions = [], []
    for question in questions:
        model = eye().set_image(question.image)
        row = answers.rows[question.name, cell.name]
        seen = asking.ask(model, question, cell, row["tokens"])
        picture = load_picture(question.image)
        scale = PANE / max(picture.size)
        size = (max(1, round(scale * picture.height)), max(1, round(scale * picture.width)))
        pixels = np.ascontiguousarray(resize(picture.pixels, size))
        tiles.append(np.concatenate([pixels, overlay(pixels, seen.allocation)], 1))
        captions.append(f"{row['said']!r}, true {row['true'][0]!r}: {row['asked']}")
    with replacing(path) as temporary:
        contact_sheet(tiles, captions, columns=2, width=1600, shape=0.5).save(temporary)


def write_page(path: Path, table: Table, sheet: Path | None) -> None:
    """One page: the table, its facts, and the worst pictures; prose of somebody's own in it is left alone."""
    if not os.path.exists(path):
        write_text(path, PAGE.format(title=table.title))
    worst = (
        []
        if sheet is None
        else [f"### What was lost\n\n![Questions that full answers and ours does not]({sheet.name})"]
    )
    fill_page(path, "vqa", table.section(titled=False), *worst)
