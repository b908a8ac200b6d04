"""`bench esper-gain`: does looking again pay where the first look is as good as it gets?"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from arr_coc.answering.pass_settings import FOUR_PASS, SACCADES, TWO_PASS, EsperSettings
from arr_coc.balancing.tempering import BLEND_ABOVE, TemperingPolicy
from arr_coc.core.alphabet import decode
from arr_coc.core.errors import InputError
from arr_coc.core.folders import WEIGHTS

from ..train.evaluate import FAMILIES
from ..train.run import door
from ..worlds.needle import render
from . import esper_runs
from .esper import COLUMNS, Row, accuracy_row, one_pass
from .options import EsperGainOptions
from .page_reading import book_of
from .report import Quantity, Report, Table
from .run import BenchRun, program

PRESETS = {"two_pass": TWO_PASS, "four_pass": FOUR_PASS, "saccades": SACCADES}
MARK = "esper-gain"
SHIPPED = WEIGHTS / "esper"
COUNTED = ("right", "tokens", "single", "spent")
PART = 64  # pictures after which what was found is kept


def measure(options: EsperGainOptions, bench: BenchRun) -> Report:
    """A table for each share, or the one of exploring; a run that was stopped goes on from what is in --out."""
    if not all(0 < keep <= 1 for keep in options.keep):
        raise InputError("every --keep must be above 0 and up to 1")
    models = esper_runs.EsperModels.load(device=options.device)
    if options.explore:
        table = explore_table(models, options.number, options.tempering)
        return Report({"tables": [table.to_json()]}, [table], name="explore", mark="explore")
    if options.pack:
        scenes = page_scenes(options.number, models.device, options.pack)
        mark, about = f"{MARK}-pages", "crops of drawn pages, 512×512, split val"
    else:
        scenes = needle_scenes(options.number, models.device)
        mark, about = MARK, "pictures of Needle World, 512×512, validation split, all families"
    with bench.answers(f"{mark}_", f"out/{mark}") as store:
        cells = [(keep, name) for keep in options.keep for name in PRESETS]
        parts = [slice(start, min(start + PART, len(scenes))) for start in range(0, len(scenes), PART)]
        # Part by part through all cells, so that a run that is stopped has as many pictures of each.
        jobs = [
            (part, cell) for part in parts for cell in cells if (part_name(part), cell_name(*cell)) not in store.rows
        ]

        def work(job: tuple[slice, tuple[float, str]]) -> list[dict[str, object]]:
            part, (keep, name) = job
            found = against_one_look(models, scenes.part(part.start, part.stop), keep, PRESETS[name])
            return [{"question": part_name(part), "cell": cell_name(keep, name), **found}]

        store.fill(bench.each(jobs, work, "looking"))
    whole = store.whole(map(part_name, parts), [cell_name(*cell) for cell in cells])
    if not whole:
        raise InputError("no part was looked at in every way; give the run more --seconds")
    tables = []
    for keep in options.keep:
        found = {}
        for name in PRESETS:
            rows = [store.rows[part, cell_name(keep, name)] for part in whole]
            found[name] = {what: torch.tensor([one for row in rows for one in row[what]]) for what in COUNTED}
        tables.append(gain_table(keep, found, models.tree.full, about))
    document = {"tables": [table.to_json() for table in tables]}
    return Report(document, tables, name=mark.replace("-", "_"), mark=mark)


def part_name(part: slice) -> str:
    return f"{part.start}-{part.stop}"


def cell_name(keep: float, name: str) -> str:
    return f"{name} {keep:g}"


def needle_scenes(number: int, device: torch.device) -> esper_runs.Scenes:
    """`number` pictures of Needle World's validation split, the families in turn."""
    each, seed = -(-number // len(FAMILIES)), esper_runs.VALIDATION_SEED
    batches = [render(one, each, esper_runs.SIZE, seed, "validation", None, device, 0) for one in FAMILIES]
    scenes = esper_runs.join_scenes([esper_runs.scenes_of(batch) for batch in batches])
    return scenes.chosen(np.arange(len(scenes)).reshape(len(FAMILIES), each).T.ravel().tolist())


def page_scenes(number: int, device: torch.device, pattern: str, at_once: int = 16) -> esper_runs.Scenes:
    """Crops of drawn pages around `number` of their questions, at the size at which they were drawn."""
    book = book_of(pattern, str(device))
    short = np.flatnonzero((book.asked.answers > 0).sum(1).cpu().numpy() < esper_runs.LONGEST_ANSWER)
    chosen = np.random.default_rng(esper_runs.VALIDATION_SEED).permutation(short)[:number]
    parts = []
    for start in range(0, len(chosen), at_once):
        which = torch.from_numpy(chosen[start : start + at_once]).to(device)
        batch = book.render(len(which), esper_runs.SIZE, start, which, as_drawn=True)
        questions, answers = batch.questions[:, 0].long(), book.asked.answers[which]
        texts = ([decode(row) for row in rows] for rows in (questions, answers))
        parts.append(esper_runs.Scenes(batch.pictures, *texts, questions))
    return esper_runs.join_scenes(parts)


def against_one_look(
    models: esper_runs.EsperModels, scenes: esper_runs.Scenes, keep: float, settings: EsperSettings
) -> dict[str, list[float]]:
    """right, tokens: of a preset, until it is sure; single, spent: of one look of as many. One number a picture."""
    sheet = esper_runs.QuestionSheet.of(models, scenes, esper_runs.scorer_maps(models))
    total = max(2, round(keep * models.tree.full))
    passes = esper_runs.run(models, sheet, settings.shares(total), settings)
    right, tokens, _ = passes.stopped(settings)
    # As many tokens as these passes spent, picture by picture; an overlay meets every budget.
    single, spent, _ = one_pass(models, sheet, tokens.to(torch.int64), settings).at(0)
    found = (right, tokens, single, spent)
    return {name: values.float().tolist() for name, values in zip(COUNTED, found, strict=True)}


class Always(nn.Module):
    """Explores so much, whatever it is told."""

    def __init__(self, value: float) -> None:
        super().__init__()
        self.value = value

    def forward(self, number: Tensor, uncertainty: Tensor, trend: Tensor) -> Tensor:
        return torch.full_like(uncertainty, self.value)


def explore_table(models: esper_runs.EsperModels, number: int, folder: Path | None = None) -> Table:
    """Right after all passes, none stopped early; differences to exploiting, picture by picture."""
    settings = EsperSettings.load(SHIPPED)
    policies: dict[str, Any] = {"exploit (0)": Always(0.0), "explore (.5)": Always(0.5), "rule": TemperingPolicy()}
    policies["shipped"] = TemperingPolicy.from_pretrained(SHIPPED)
    if folder is not None:
        policies["trained"] = TemperingPolicy.from_pretrained(folder)
    sheet = esper_runs.hard_sheet(models, number, "validation")
    found = {
        name: esper_runs.run(models, sheet, (esper_runs.FIRST, esper_runs.LATER), settings, policy)
        for name, policy in policies.items()
    }
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


def gain_table(keep: float, found: Mapping[str, Mapping[str, Tensor]], full: int, about: str) -> Table:
    """One row for each preset and one for its single look. found: by preset, as `against_one_look` tells it."""
    where = f"at {max(2, round(keep * full))} of {full} tokens"
    rows: list[Row] = []
    for name, own in found.items():
        single, right = own["single"] > 0, own["right"] > 0
        rows.append(accuracy_row(f"one look for {name}", f"{where}, the total that {name} spent", single, own["spent"]))
        rows.append(accuracy_row(name, f"{where}, until sure", right, own["tokens"], single))
    facts = {
        "pictures": f"{rows[0]['n']} {about}",
        "relevance": "the scorer as it is; the first look is an overlay",
        "points": "the preset − one look of the same total, paired, 95 % interval",
    }
    columns = {name: heading for name, heading in COLUMNS.items() if name != "kept"}
    return Table(
        f"Looking again at 1/{round(1 / keep)} of the tokens, {about.split(',')[0]}", columns, tuple(rows), facts
    )


if __name__ == "__main__":
    door(program("esper-gain"))
