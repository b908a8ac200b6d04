"""`bench depth`: what it costs in answers, and saves in blocks, to let leaves of little relevance leave early."""

from __future__ import annotations

import numpy as np

from arr_coc.answering.eye import Eye

from ..statistics import mean
from ..train.evaluate import FAMILIES
from ..train.run import door
from ..worlds.needle import render
from .options import DepthOptions
from .report import Quantity, Report, Table, accuracy_rows
from .run import BenchRun, program
from .suite import suite

SIZE, SEED, BUDGET, LONGEST = (512, 512), 612, 64, 33


def measure(options: DepthOptions, run: BenchRun) -> Report:
    return Report.of(depth_table(options.number, options.model))


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
    blocked = Quantity.percent(mean(np.array(work)))
    more = {name: {"tokens": BUDGET, "blocks": blocked if name == "early" else 100.0} for name in right}
    rows = accuracy_rows(right, "all leaves through", more)
    facts = {
        "pictures": f"Needle World, {SIZE[0]}×{SIZE[1]}, validation split, seed {SEED}, all families",
        "model": f"{model}, never trained to leave early; relevance: the scorer's, for all three depths",
    }
    return Table("Leaves that leave the encoder early", suite("depth")["columns"], rows, facts)


if __name__ == "__main__":
    door(program("depth"))
