"""`bench source`: compare the pipeline of the original project with ours, and with each of its stages left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from arr_coc.core.answer import comparable
from arr_coc.core.folders import MINI
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture
from arr_coc_lab.worlds.needle.batch import decode

from ..classic.source_line import STAGES, SourceLine, seen_levels, source_texture
from ..train.allocations import target_cells
from ..train.evaluate import FAMILIES
from ..worlds.needle import render
from .asking import eye_of
from .report import Report, Score, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan
from .suite import SourceOptions

OURS, LINE = "ours", "source"
WITHOUT = "without "
# Stages that are left out in turn.
LEFT_OUT = tuple(stage for stage in STAGES if stage != "mips")
SCORES = (Score("right", "Exact match", baseline=LINE), Score("in full", "Needed cells shown in full", baseline=LINE))


def plan(options: SourceOptions) -> Plan:
    systems = (OURS, LINE, *(WITHOUT + stage for stage in LEFT_OUT))
    every = [(family, number) for number in range(options.each) for family in FAMILIES]
    jobs = [Job(one, tuple(Key(f"{one[0]} {one[1]}", name, options.keep) for name in systems)) for one in every]
    settings = {"side": options.side, "seed": options.seed}
    facts = {
        "pictures": f"Needle World, hard, {options.side}×{options.side}, split test, seed {options.seed}",
        "tokens": f"at most {options.keep:g} of the full count in all looks, scale 1",
        **machine_facts(("torch",)),
    }
    work = SourceWork(options.side, options.seed, options.device)
    return Plan(jobs, work, lambda rows: report_of(rows, facts), settings)


def report_of(rows: Sequence[BenchRow], facts: Mapping[str, str]) -> Report:
    return Report.of(rows, SCORES, facts, ("family", "line"), compact=True)


@dataclass(frozen=True)
class SourceWork:
    """Read one picture with every system still missing, in any process."""

    side: int
    seed: int
    device: str

    def __call__(self, what: tuple[str, int], wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        family, number = what
        size = (self.side, self.side)
        batch = render(family, 1, size, self.seed, "test", "hard", start=number)
        picture = load_picture(batch.pictures[0].permute(1, 2, 0).contiguous().numpy())
        query, true = decode(batch.question_ids[0]), comparable(decode(batch.answer_ids[0]))
        needed = target_cells(batch, size[0] // 32, size[1] // 32)[0].numpy() > 0
        eye = eye_of(MINI, self.device).set_image(picture)
        texture = source_texture(eye, picture.pixels, query)
        for key in wanted:
            if key.system == OURS:
                answer = eye.ask(query, budget=key.keep, options=Options(scale=1))
            else:
                stages = frozenset({key.system.removeprefix(WITHOUT)} - {LINE})
                request = Options(budget=float(key.keep), scale=1)
                answer = SourceLine(stages).ask(eye, picture, query, request, texture=texture)
            seen = np.logical_or.reduce([seen_levels(step.allocation) == 0 for step in answer.passes])
            scores = {"right": float(comparable(answer.text) == true)}
            scores |= {"in full": float(seen[needed].mean())} if needed.any() else {}
            yield BenchRow("source", *key, scores, family, answer.tokens)
