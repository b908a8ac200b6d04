"""`bench again --many N`: memory over many questions about many pictures, with what may be kept limited in bytes.

Pictures and questions come in an order that is drawn, as users would bring them, to one eye; a sample is asked an eye
that keeps nothing, too, and must be answered alike.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from arr_coc.attending.overlay import OVERVIEW_FIRST
from arr_coc.core.errors import InputError
from arr_coc.core.kept import ByteStore
from arr_coc.pictures.load import load_picture

from .machine import machine_facts
from .options import AgainOptions
from .report import Report, Table, TableCell
from .run import BenchRun
from .suite import suite

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye
    from arr_coc.core.values import Answer

    from .vqa import Question

ROWS, SAMPLE, NEW_TOKENS = 10, 50, 32
MEGABYTE = 1 << 20


def resident() -> float:
    """Megabytes that this process holds in memory now."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / MEGABYTE


def on_gpu(device: str) -> float | None:
    """Megabytes of tensors on the device now; None on a processor."""
    if device == "cpu":
        return None
    import torch

    return torch.cuda.memory_allocated(device) / MEGABYTE


def measure_many(
    options: AgainOptions, run: BenchRun, keep: float, asked: Sequence[Sequence[Question]], eye: Callable[[int], Eye]
) -> Report:
    """Ask, with a row at every tenth of the questions; a run that is stopped tells what it has.

    Args:
        options: Of the bench.
        run: Its run.
        keep: The share of the tokens.
        asked: The questions of each picture.
        eye: Makes one whose store has so many bytes.
    """
    kept, fresh = (eye(size) for size in (options.megabytes * MEGABYTE, 0))
    rng = np.random.default_rng(options.seed)
    rows, alike = [row_of(0, kept.memory, options.device)], list[tuple[bool, float]]()
    facts = {"pictures": str(len(asked)), "may be kept": f"{options.megabytes} MB", "of tokens": options.keep}
    facts |= {"device": options.device, **machine_facts(("torch", "onnxruntime"))}

    def one_more(number: int) -> None:
        several = asked[int(rng.integers(len(asked)))]
        question = several[int(rng.integers(len(several)))]
        said = answer_of(kept, question, keep)
        if number % max(1, options.many // SAMPLE) == 0:
            anew = answer_of(fresh, question, keep)
            alike.append((said.text == anew.text, abs(said.uncertainty - anew.uncertainty)))

    done = 0
    for done, _ in run.each(range(1, options.many + 1), one_more, "asking"):
        if done * ROWS // options.many > (done - 1) * ROWS // options.many:
            rows.append(row_of(done, kept.memory, options.device))
            run.timed(", ".join(f"{name} {value}" for name, value in rows[-1].items()))
            run.save(report_of(rows, alike, facts).document, "again_many")
    if done != rows[-1]["asked"]:
        rows.append(row_of(done, kept.memory, options.device))
    return report_of(rows, alike, facts)


def check_many(many: int) -> None:
    if many < ROWS:
        raise InputError(f"--many {many} has no tenths; give at least {ROWS}")


def answer_of(eye: Eye, question: Question, keep: float) -> Answer:
    ask = partial(eye.set_image(load_picture(question.image)).ask, max_new_tokens=NEW_TOKENS)
    return ask(question.text, keep=keep, order=OVERVIEW_FIRST, hints="none", scale=1)


def row_of(asked: int, store: ByteStore, device: str) -> dict[str, TableCell]:
    """What is held after so many questions."""
    gpu = on_gpu(device)
    return {
        "asked": asked,
        "resident": round(resident(), 1),
        "gpu": None if gpu is None else round(gpu, 1),
        "store": round(store.size / MEGABYTE, 1),
        "hits": round(100 * store.hits / max(1, store.hits + store.misses), 1),
    }


def report_of(rows: list[dict[str, TableCell]], alike: list[tuple[bool, float]], facts: dict[str, str]) -> Report:
    """The table, how memory grew once the store was full, and whether the sample was answered alike."""
    table = Table("Memory over many questions", suite("again")["many"], tuple(rows), facts)
    lines = []
    limit = float(facts["may be kept"].split()[0])
    settled = [row for row in rows if row["asked"] and float(str(row["store"])) >= 0.9 * limit]
    for name, where in (("resident", "memory"), ("gpu", "GPU memory")):
        points = [(float(str(row["asked"])), float(str(row[name]))) for row in settled if row[name] is not None]
        if len(points) > 2:
            asked, held = np.array(points).T
            slope = float(np.polyfit(asked, held, 1)[0])
            lines.append(
                f"{where}, once the store is full: {points[0][1]:.0f} MB after {points[0][0]:.0f} questions, "
                f"{points[-1][1]:.0f} MB after {points[-1][0]:.0f}: {1000 * slope:+.2f} MB in 1000 questions"
            )
    if alike:
        same, worst = sum(one for one, _ in alike), max(apart for _, apart in alike)
        lines.append(f"answered as without anything kept: {same} of {len(alike)}, uncertainty within {worst:.0e}")
    document = {"schema": 1, "tables": [table.to_json()], "lines": lines}
    page = [table, "\n".join(f"- {line}" for line in lines)]
    return Report(document, [table], facts, lines=lines, page=page, name="again_many", mark="again-many")
