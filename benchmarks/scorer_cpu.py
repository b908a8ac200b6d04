"""The scorer on a processor: products in whole numbers against single precision and against torch.

    python benchmarks/scorer_cpu.py --n 308

Coverage: the share of the answer's boxes that an overlay by the map shows at level 0, pictures of Needle World's
validation split, 512², every family. Times take turns, so that whatever else the machine does hits all alike.
"""

from __future__ import annotations

import argparse

import numpy as np
import torch
from arr_coc.knowing.scorer.onnx_scorer import OnnxScorer, canvas_of, question_of
from arr_coc.knowing.scorer.source import load_scorer, question_ids

from arr_coc.attending.allocate import allocate
from arr_coc.core.folders import part_folder
from arr_coc_lab.bench.machine import time_in_turns
from arr_coc_lab.bench.real import coverage
from arr_coc_lab.statistics import mean
from arr_coc_lab.worlds import needle

SIDE, BUDGETS = 512, (64, 32, 16)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=308)
    parser.add_argument("--repeats", type=int, default=15)
    given = parser.parse_args()
    folder = part_folder("scorer")
    quick, exact, stock = (
        OnnxScorer.from_folder(folder),
        OnnxScorer.from_folder(folder, exact=True),
        load_scorer(folder),
    )
    found: dict[int, list[tuple[float, float]]] = {budget: [] for budget in BUDGETS}
    apart = []
    each = -(-given.n // len(needle.FAMILIES))
    for family in needle.FAMILIES:
        for start in range(0, each, 10):
            batch = needle.render(family, min(10, each - start), (SIDE, SIDE), seed=5, split="validation", start=start)
            for row, query in enumerate(batch.questions):
                canvas = canvas_of(batch.pictures[row].permute(1, 2, 0).numpy())
                maps = [1 / (1 + np.exp(-scorer(canvas, question_of(query)))) for scorer in (quick, exact)]
                apart.append(float(np.abs(maps[0] - maps[1]).max()))
                boxes = batch.boxes[row][batch.box_mask[row]].numpy()
                if not len(boxes):  # "none" is an answer too, and stands nowhere
                    continue
                for budget in BUDGETS:
                    laid = [allocate(one, budget, image_size=(SIDE, SIDE)) for one in maps]
                    found[budget].append((coverage(laid[0], boxes), coverage(laid[1], boxes)))
    print(f"{len(apart)} pictures; maps differ by {np.mean(apart):.4f} on average, {max(apart):.3f} at most")
    for budget, pairs in found.items():
        values = np.array(pairs)
        columns = {
            "whole numbers": values[:, 0],
            "single precision": values[:, 1],
            "difference": values[:, 0] - values[:, 1],
        }
        told = (
            f"{name} {100 * found.value:.2f} [{100 * found.low:.2f}, {100 * found.high:.2f}]"
            for name, found in ((name, mean(column)) for name, column in columns.items())
        )
        print(f"{budget} tokens: {', '.join(told)} %")
    canvas, ids = canvas_of(np.zeros((SIDE, SIDE, 3), np.uint8)), question_of("What does the red sign say?")
    pictures, letters = (torch.from_numpy(canvas) + 1) / 2, question_ids("what does the red sign say?")
    calls = [lambda: quick(canvas, ids), lambda: exact(canvas, ids), lambda: stock.score(pictures, letters)]
    names = ("whole numbers", "single precision", "torch")
    for name, taken in zip(names, time_in_turns(calls, given.repeats), strict=True):
        print(f"{name}: {1e3 * taken.median:.0f} ms")


if __name__ == "__main__":
    main()
