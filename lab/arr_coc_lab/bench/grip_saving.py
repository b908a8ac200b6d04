"""`bench grip --saving`: how many tokens read a page printed at 300 dpi, with its distance chosen and without.

A4 pages in faces that were held out, worn as scans are, with type of 6 to 15 points. Each is asked one question on
every step of a ladder of budgets, by `scale="auto"` and as it is given; what is told is the smallest budget that keeps
95 % of the best accuracy that any of them has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from arr_coc.core.errors import InputError

from ..statistics import mean, paired
from .answers import AnswerStore
from .grip_constants import PAGES, SizedQuestion, asked_of_page, scored_by
from .machine import machine_facts
from .options import GripOptions
from .report import Quantity, Report, Table, TableCell
from .run import BenchRun
from .suite import suite

SAVING = suite("grip")["saving"]
SCALES: Mapping[str, float | str] = {"auto": "auto", "×1": 1.0}
DRAWS = 2000
Eyes = Callable[[str, str], Any]


@dataclass(frozen=True)
class SavingWork:
    """Draws a page by its number and reads it on every step of the ladder, in whatever process it is."""

    model: str
    device: str
    atlas: Path | None
    seed: int
    budgets: tuple[int, ...]
    eye: Eyes

    def __call__(self, number: int) -> list[dict[str, Any]]:
        """One row for each scale and budget."""
        one = self.question(number)
        eye = self.eye(self.model, self.device)
        eye.set_image(one.pixels)
        scored = scored_by(eye, one.pixels, one.text)
        rows = []
        for name, scale in SCALES.items():
            for budget in self.budgets:
                answer = eye.ask(one.text, budget, relevance=scored, scale=scale, max_new_tokens=48)
                row = {"question": one.name, "cell": f"{name} {budget}", "said": answer.text, "true": one.answer}
                row |= {"score": round(one.score(answer.text), 5), "tokens": answer.tokens, "full": answer.full}
                rows.append({**row, "scale": answer.allocation.scale, "uncertainty": round(answer.uncertainty, 5)})
        return rows

    def question(self, number: int) -> SizedQuestion:
        """One question about page `number`."""
        high, wide = SAVING["page"]
        return asked_of_page(page_world(self.atlas, self.device, self.seed), number, (high, wide))


@cache
def page_world(atlas: Path | None, device: str, seed: int) -> Any:
    """Pages whose smallest type is 6 points at 300 dpi; the same on every device."""
    from ..train.print_world import PrintWorld

    return PrintWorld(atlas, device, seed, split="val", smallest=SAVING["smallest"])


def measure(options: GripOptions, run: BenchRun, eye: Eyes) -> Report:
    """Read what is not read yet; accuracy by budget, and what grip saves. eye: the reader of a model on a device."""
    budgets = tuple(sorted(set(options.budgets or SAVING["budgets"])))
    if len(budgets) < 2 or budgets[0] < 1:
        raise InputError("--budgets needs two or more numbers of tokens above 0, such as --budgets 64 --budgets 256")
    drawn = {"seed": options.seed, "atlas": None if options.atlas is None else options.atlas.name}
    cells = [f"{name} {budget}" for name in SCALES for budget in budgets]
    names = [f"{PAGES} {number}" for number in range(options.n)]
    with run.answers("saving_", "out/grip-saving", {"model": options.model, **drawn}) as answers:
        known = answers.whole(names, cells)
        waiting = [number for number, name in enumerate(names) if name not in known]
        work = SavingWork(options.model, options.device, options.atlas, options.seed, budgets, eye)
        answers.fill(run.each(waiting, work, "reading", options.workers))
    whole = answers.whole(names, cells)
    if not whole:
        raise InputError("no page was read on every step; give the run more --seconds")
    facts = {"model": f"{options.model} on {options.device}", "seed": str(options.seed), **machine_facts(("torch",))}
    return report_of(answers, whole, budgets, facts)


def report_of(answers: AnswerStore, names: Sequence[str], budgets: Sequence[int], facts: Mapping[str, str]) -> Report:
    """Accuracy by budget and scale, and the smallest budgets that are enough."""
    scores = {
        name: np.stack([answers.column(names, f"{name} {budget}") for budget in budgets], axis=1) for name in SCALES
    }
    rows: list[dict[str, TableCell]] = []
    for place, budget in enumerate(budgets):
        own = {name: found[:, place] for name, found in scores.items()}
        rows.append(
            {
                "budget": budget,
                **{name: Quantity.percent(mean(found)) for name, found in own.items()},
                "minus": Quantity.percent(paired(own["auto"], own["×1"])),
                "scale": float(np.median(answers.column(names, f"auto {budget}", "scale"))),
            }
        )
    full = float(answers.column(names, f"auto {budgets[0]}", "full").mean())
    high, wide = SAVING["page"]
    about = {"pages": f"{len(names)}, A4 at 300 dpi ({high}×{wide}), {full:.0f} tokens in full", **facts}
    table = Table("a page printed at 300 dpi, by its tokens", SAVING["columns"], tuple(rows), about)
    found = {name: enough(scores, name, budgets) for name in SCALES}
    lines = [f"{name}: {told(one, budgets)} (n = {len(names)})" for name, one in found.items()]
    auto, given = (found[name][0] for name in ("auto", "×1"))
    if auto and given:
        lines.append(f"with grip a page takes {auto / given:.2f} of the tokens that it takes as it is given")
    document = {**table.to_json(), "enough": found, "n": len(names), "lines": lines}
    return Report(document, (table,), lines=lines, mark="grip-saving", name="grip_saving")


def enough(
    scores: Mapping[str, np.ndarray], name: str, budgets: Sequence[int]
) -> tuple[int | None, int | None, int | None]:
    """The smallest budget at which a way keeps 95 % of the best mean of all, and where it lies in 95 % of the draws of
    as many questions; None: at none of them."""
    several = np.stack([*scores.values()])
    order = np.random.default_rng(0).integers(0, several.shape[1], (DRAWS, several.shape[1]))
    way = [*scores].index(name)

    def first(means: np.ndarray) -> np.ndarray:
        """(…, ways, budgets) → (…) the place of the first that is enough, as many as there are where none is."""
        good = means[..., way, :] >= SAVING["share"] * means.max((-2, -1))[..., None] - 1e-9
        return np.where(good.any(-1), good.argmax(-1), len(budgets))

    drawn = np.stack([first(several[:, one].mean(1)) for one in order])
    low, high = np.sort(drawn)[[int(0.025 * DRAWS), int(0.975 * DRAWS)]].tolist()
    steps: list[int | None] = [*budgets, None]
    return steps[int(first(several.mean(1)))], steps[low], steps[high]


def told(found: Sequence[int | None], budgets: Sequence[int]) -> str:
    """In words."""
    middle, low, high = (f"above {budgets[-1]}" if one is None else str(one) for one in found)
    return f"{middle} tokens [{low}, {high}] keep {100 * SAVING['share']:g} % of the best accuracy"
