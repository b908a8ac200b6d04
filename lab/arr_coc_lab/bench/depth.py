"""What does it cost in answers, and save in blocks, to let leaves of little relevance leave the encoder early?

    python -m arr_coc_lab.bench.depth --number 70 --page docs/classic.md

`mini`, which was never trained to leave early, answers validation questions of Needle World from as many tokens with
and without `DepthRouting(early=True)`; the blocks of the vision tower count the patches that pass through them.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.eye.eye import Eye

from ..statistics import mean, paired, proportion
from ..train.evaluate import FAMILIES
from ..worlds.needle import render
from .hypotheses import percent
from .table import Cell, Table, fill_page

MARK = "depth"
SIZE, SEED, BUDGET, LONGEST = (512, 512), 612, 64, 33
COLUMNS = {
    "row": "encoder",
    "tokens": "tokens",
    "blocks": "of the blocks' work, %",
    "accuracy": "%",
    "points": "points",
    "n": "n",
}


def depth_table(number: int, model: str = "mini") -> Table:
    """One row without routing, one with; the same questions, `number` of them over all families."""
    eyes = {"all leaves through": Eye.from_pretrained(model), "early": Eye.from_pretrained(model, depth="early")}
    blocks = eyes["early"].model.model.visual.blocks
    passed: list[int] = []
    hooks = [block.register_forward_pre_hook(lambda _, given: passed.append(len(given[0]))) for block in blocks]
    right: dict[str, list[bool]] = {name: [] for name in eyes}
    work: list[float] = []
    try:
        for place in range(number):
            batch = render(FAMILIES[place % len(FAMILIES)], 1, SIZE, SEED, "validation", None, "cpu", place)
            pixels = batch.pictures[0].permute(1, 2, 0).numpy()
            for name, eye in eyes.items():
                passed.clear()
                answer = eye.set_image(pixels).ask(batch.questions[0], budget=BUDGET, max_new_tokens=LONGEST)
                right[name].append(answer.text == batch.answers[0])
                if name == "early":
                    work.append(sum(passed) / (len(blocks) * passed[0]))
    finally:
        for hook in hooks:
            hook.remove()
    found = {name: np.array(values, dtype=float) for name, values in right.items()}
    plain = found["all leaves through"]
    rows: list[dict[str, Cell]] = [
        {
            "row": name,
            "tokens": BUDGET,
            "blocks": 100.0 if values is plain else percent(mean(np.array(work))),
            "accuracy": percent(proportion(values)),
            "points": None if values is plain else percent(paired(values, plain)),
            "n": len(values),
        }
        for name, values in found.items()
    ]
    facts = {
        "pictures": f"Needle World, {SIZE[0]}×{SIZE[1]}, validation split, seed {SEED}, all families",
        "model": f"{model}, never trained to leave early; relevance: the scorer's, for all three depths",
    }
    return Table("Leaves that leave the encoder early", COLUMNS, tuple(rows), facts)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(prog="python -m arr_coc_lab.bench.depth", description=__doc__)
    parser.add_argument("--number", type=int, default=70, help="questions, all families together")
    parser.add_argument("--page", type=Path, help=f"a Markdown page with the marks {MARK}")
    given = parser.parse_args(arguments)
    if given.number < 1:
        raise InputError(f"--number {given.number} measures nothing; give at least 1")
    table = depth_table(given.number)
    print(table.section())
    if given.page is not None:
        fill_page(given.page, MARK, table)


if __name__ == "__main__":
    main()
