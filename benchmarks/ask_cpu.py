"""A warm `ask` on a processor: this tree, and perhaps another one, asked in turns.

    python benchmarks/ask_cpu.py                              # this tree
    python benchmarks/ask_cpu.py --against ../before/src      # and another: ratios from one run
    python benchmarks/ask_cpu.py --against ../before/src --answers 280      # what both answer, instead

Each tree has a process of its own, which waits while the other answers: a picture of 512², `mini`, from its pixels to
the answer. Medians, with the 95 % interval of the ratio (bootstrap over the rounds), on the clock and in time of the
processor, which threads that wait by spinning take as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

WORKER = """
import json, sys, time
from arr_coc import ask
from arr_coc_lab.bench.speed import QUESTION, made_picture
pixels = made_picture(512)
for line in sys.stdin:
    started, worked = time.perf_counter(), time.process_time()
    answer = ask(pixels, QUESTION, budget=int(line))
    taken = time.perf_counter() - started, time.process_time() - worked
    print(json.dumps([taken, answer.text, dict(answer.seconds)]), flush=True)
"""


# Pictures of Needle World's test split, so many of each family: right or wrong, and the leaves, for every budget.
READER = """
import json, sys
from arr_coc import ask
from arr_coc_lab.worlds import needle
for line in sys.stdin:
    each, budgets = json.loads(line)
    for family in needle.FAMILIES:
        for start in range(0, each, 10):
            batch = needle.render(family, min(10, each - start), (512, 512), seed=7, split="test", start=start)
            for picture, query, wanted in zip(batch.pictures, batch.questions, batch.answers):
                said = [ask(picture.permute(1, 2, 0).numpy(), query, budget=one) for one in budgets]
                leaves = [one.allocation.leaf_cells().tolist() for one in said]
                print(json.dumps([[one.text == wanted for one in said], leaves]), flush=True)
    print("null", flush=True)
"""
BUDGETS = (64, 16)


def worker(source: Path, program: str = WORKER) -> Any:
    environment = {**os.environ, "PYTHONPATH": str(source.resolve())}
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": environment}
    return subprocess.Popen([sys.executable, "-c", program], **pipes)


def compare_answers(places: dict[str, Path], number: int) -> None:
    """Two trees on the same pictures: how often each is right, the paired difference, and how many tokens moved."""
    from arr_coc_lab.statistics import mean
    from arr_coc_lab.worlds.needle import FAMILIES

    found = []
    for place in places.values():
        process = worker(place, READER)
        told, _ = process.communicate(json.dumps([-(-number // len(FAMILIES)), BUDGETS]) + "\n")
        found.append([json.loads(line) for line in told.splitlines()[:-1]])
    for column, budget in enumerate(BUDGETS):
        new, old = (np.array([right[column] for right, _ in one], dtype=float) for one in found)
        moved = [
            len({*map(tuple, one[column])} - {*map(tuple, other[column])})
            for (_, one), (_, other) in zip(*found, strict=True)
        ]
        told = ", ".join(
            f"{name} {100 * one.value:.1f} [{100 * one.low:.1f}, {100 * one.high:.1f}]"
            for name, one in (("now", mean(new)), ("before", mean(old)), ("difference", mean(new - old)))
        )
        print(f"{budget} tokens: {told} %, n = {len(new)}; {int((new != old).sum())} changed, {moved.count(0)} "
              f"allocations are the same, {np.mean(moved):.2f} tokens moved")  # fmt: skip


def asked(process: Any, budget: int) -> tuple[tuple[float, float], str, dict[str, float]]:
    """Seconds on the clock and of the processor, the answer, and the seconds of its stages."""
    process.stdin.write(f"{budget}\n")
    process.stdin.flush()
    return json.loads(process.stdout.readline())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--against", type=Path, help="the src folder of another tree")
    parser.add_argument("--rounds", type=int, default=25)
    parser.add_argument("--answers", type=int, metavar="N", help="with --against: compare N answers, not times")
    given = parser.parse_args()
    places = {"this tree": Path(__file__).parents[1] / "src"}
    if given.against:
        places["the other"] = given.against
    if given.answers and given.against:
        compare_answers(places, given.answers)
        return
    processes = {name: worker(place) for name, place in places.items()}
    for budget in BUDGETS:
        taken: dict[str, list[tuple[float, float]]] = {name: [] for name in processes}
        for number in range(given.rounds + 2):
            for name, process in processes.items():
                seconds, text, parts = asked(process, budget)
                if number > 1:
                    taken[name].append(seconds)
                elif number == 1:
                    stages = ", ".join(f"{key} {1e3 * one:.0f}" for key, one in parts.items())
                    print(f"{name}, {budget} tokens: {text!r}, {stages}")
        times = {name: 1e3 * np.array(one) for name, one in taken.items()}
        for name, one in times.items():
            middle, least = np.median(one, 0), one.min(0)
            print(f"{name}, {budget} tokens: median {middle[0]:.0f} ms, quickest {least[0]:.0f}; "
                  f"of the processor {middle[1]:.0f}, {least[1]:.0f}")  # fmt: skip
        for column, clock in enumerate(("clock", "processor") if given.against else ()):
            new, old = (one[:, column] for one in times.values())
            rows = np.random.default_rng(0).integers(0, len(new), (2000, len(new)))
            low, high = np.quantile(np.median(old[rows], 1) / np.median(new[rows], 1), (0.025, 0.975))
            ratio = np.median(old) / np.median(new)
            print(f"{budget} tokens, {clock}: {ratio:.2f}× [{low:.2f}, {high:.2f}], n = {len(new)}")
    for process in processes.values():
        process.stdin.close()
        process.wait()


if __name__ == "__main__":
    main()
