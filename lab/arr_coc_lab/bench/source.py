"""`bench source`: the source's line as one call, against ours, and without each of its stages."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np

from arr_coc.answering.eye import Eye
from arr_coc.attending.request import Request
from arr_coc.core.alphabet import decode
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.core.unsure import comparable
from arr_coc.core.values import Answer, JsonObject
from arr_coc.pictures.load import load_picture

from ..classic.source_line import SourceLine, seen_levels, source_texture
from ..statistics import mean, paired, proportion
from ..train.allocations import target_cells
from ..train.evaluate import FAMILIES
from ..train.pictures import TrainingBatch, render_family
from ..train.run import door
from .options import SourceOptions
from .report import Quantity, Report, Table, TableCell, begun_document, read_document
from .run import BenchRun, program
from .suite import suite

SUITE = suite("source")
OURS, LINE = "ours", "source"
KINDS = ("small", "faint", "several")
percent = Quantity.percent


def rows_of() -> dict[str, SourceLine | None]:
    """Every row by name; None is ours: the scorer's map, an overlay, one look."""
    left_out = {f"without {stage}": SourceLine(frozenset({stage})) for stage in SUITE["without"]}
    return {OURS: None, LINE: SourceLine(), **left_out}


def measure(options: SourceOptions, run: BenchRun) -> Report:
    """Read what the record lacks, picture by picture, every family in turn."""
    plan = {"side": options.side, "keep": options.keep, "seed": options.seed}
    if options.saved is not None:
        record = read_document(options.saved, "source", "source")
    else:
        begun = begun_document(None if options.out is None else options.out / "source.json", plan, "plan")
        record = begun or {"schema": 1, "kind": "source", "plan": plan, "pictures": {}}
        every = [(family, number) for number in range(options.each) for family in FAMILIES]
        jobs = [job for job in every if "{} {}".format(*job) not in record["pictures"]]
        for (family, number), found in run.each(jobs, SourceReader(options), "reading", options.workers):
            record["pictures"][f"{family} {number}"] = found
            run.save(record)
            run.timed(f"{family} {number}")
    if not record["pictures"]:
        raise InputError("nothing was read; give --each 1 or more, or more --seconds")
    table = stage_table(record)
    return Report({**record, "table": table.to_json()}, (table,))


@cache
def source_eye(device: str) -> Eye:
    """Loaded once in every process."""
    return Eye.from_pretrained(MINI, device=device)


@dataclass(frozen=True)
class SourceReader:
    """Reads one picture by every row, in whatever process it is."""

    options: SourceOptions

    def __call__(self, job: tuple[str, int]) -> dict[str, object]:
        """job: family and number. What every row made of it, and of which kinds the picture is."""
        family, number = job
        size = (self.options.side, self.options.side)
        batch = render_family(family, 1, size, self.options.seed, number, "cpu", "hard", "test")
        picture = load_picture(batch.pictures[0].permute(1, 2, 0).contiguous().numpy())
        query, wanted = decode(batch.question_ids[0]), comparable(decode(batch.answer_ids[0]))
        truth = target_cells(batch, size[0] // 32, size[1] // 32)[0].numpy() > 0
        eye, request = source_eye(self.options.device).set_image(picture), Request.of(keep=self.options.keep, scale=1)
        texture = source_texture(eye, picture.pixels, query)
        read: dict[str, dict[str, float | None]] = {}
        for name, line in rows_of().items():
            if line is None:
                answer = eye.ask(query, keep=self.options.keep, scale=1)
            else:
                answer = line.ask(eye, picture, query, request, texture=texture)
            read[name] = {"right": comparable(answer.text) == wanted, **spent_on(answer, truth)}
        return {"kinds": kinds_of(batch), "rows": read}


def spent_on(answer: Answer, truth: np.ndarray) -> dict[str, float | None]:
    """Tokens of all looks; the share of the needed cells that some look shows in full, None where none is needed."""
    seen = np.logical_or.reduce([seen_levels(step.allocation) == 0 for step in answer.passes])
    return {"tokens": answer.tokens, "covered": float(seen[truth].mean()) if truth.any() else None}


def kinds_of(batch: TrainingBatch) -> dict[str, bool]:
    """small: a needed box of few pixels. faint: a needed box with little contrast. several: more than one is needed."""
    grey = batch.pictures[0].float().mean(0).numpy()
    height, width = grey.shape
    boxes = (batch.boxes[0][batch.box_mask[0]].numpy() * [width, height, width, height]).round().astype(int)
    cut = [grey[y0 : max(y1, y0 + 1), x0 : max(x1, x0 + 1)] for x0, y0, x1, y1 in boxes.tolist()]
    cut = [one for one in cut if one.size]
    return {
        "small": any(one.size < SUITE["small"] for one in cut),
        "faint": any(float(one.std()) < SUITE["faint"] for one in cut),
        "several": len(cut) > 1,
    }


def stage_table(record: JsonObject) -> Table:
    """A row for ours, for the line, and for the line without each stage."""
    pictures = list(record["pictures"].values())
    right = {name: np.array([one["rows"][name]["right"] for one in pictures], float) for name in rows_of()}
    rows: list[dict[str, TableCell]] = []
    for name, found in right.items():
        read = [one["rows"][name] for one in pictures]
        covered = np.array([one["covered"] for one in read if one["covered"] is not None])
        kinds = {kind: [place for place, one in enumerate(pictures) if one["kinds"][kind]] for kind in KINDS}
        rows.append(
            {
                "row": name,
                "tokens": round(float(np.mean([one["tokens"] for one in read])), 1),
                "accuracy": percent(proportion(found)),
                "difference": None if name in (OURS, LINE) else percent(paired(right[LINE], found)),
                "ours": None if name == OURS else percent(paired(right[OURS], found)),
                "covered": percent(mean(covered)),
                **{kind: percent(proportion(found[places])) if places else None for kind, places in kinds.items()},
            }
        )
    plan = record["plan"]
    counts = ", ".join(f"{sum(one['kinds'][kind] for one in pictures)} {kind}" for kind in KINDS)
    facts = {
        "pictures": f"{len(pictures)} of Needle World, hard, {plan['side']}×{plan['side']}, split test, seed "
        f"{plan['seed']}; {counts}",
        "tokens": f"at most {plan['keep']:g} of the full count in all looks, scale 1",
        "in full": "share of the cells that the question needs which are shown at full detail",
        "kinds": f"small: a needed box below {SUITE['small']} pixels; faint: one whose greys spread by less than "
        f"{SUITE['faint']}; several: more than one box is needed",
        "differences": "points, paired, 95 % intervals",
    }
    return Table("The source's line, and without each stage", SUITE["columns"], tuple(rows), facts)


if __name__ == "__main__":
    door(program("source"))
