"""`bench classic`: the line of the source, phase by phase, against what is shipped, at equal tokens.

What was read is kept picture by picture, so that a run goes on where it stopped, also with rows that were not there
before.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field, replace
from time import perf_counter
from typing import TYPE_CHECKING

import numpy as np
import torch
from arr_coc.knowing.registry import BUILT_IN, find_source, source_names
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.source import load_scorer
from arr_coc.realizing.qwen3_vl.encode import dense_vision_attention
from arr_coc.realizing.tokens.patches import as_boxes
from torch import Tensor

from arr_coc.attending.allocate_batch import allocate_batch
from arr_coc.attending.frame import Frame, to_cells, tokens_of
from arr_coc.attending.overlay import overlay
from arr_coc.core.alphabet import decode
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.core.values import Allocation, JsonObject

from ..classic.phases import ROWS, picture_maps
from ..statistics import paired, proportion
from ..train.allocations import target_cells
from ..train.evaluate import FAMILIES
from ..train.outcomes import judge, load_reader
from ..train.pictures import TrainingBatch, family_batches, render_family
from ..train.rivals import BalancerPlan, Rivals, best_power, fit_balancers, sharpened, three_ways
from ..train.run import door
from .options import ClassicBenchOptions
from .report import Quantity, Report, Table, TableCell, read_document
from .run import BenchRun, program
from .suite import suite

if TYPE_CHECKING:
    from _typeshed import DataclassInstance
    from transformers import PreTrainedModel

SUITE = suite("classic")
# The phases of the source, by the names that the registry gives their parts.
PHASES: Mapping[str, str] = ROWS
TRAINED: Mapping[str, str] = SUITE["trained"]
CONTROLS: Sequence[str] = SUITE["controls"]
SCALES: Sequence[str] = SUITE["scales"]
LAYOUTS: Mapping[str, str] = SUITE["layouts"]
OURS = "scorer"
# Validation pictures of each family on which powers are chosen; fewer where fewer are read.
POWER_PICTURES = 10
UNTRAINED = "not among the rivals; train them (python -m arr_coc_lab.train.train_hypotheses) and give --rivals FOLDER"
percent = Quantity.percent


def measure(options: ClassicBenchOptions, run: BenchRun) -> Report:
    """Read what the record lacks, or show what was saved."""
    if options.each < 0 or options.large < 0 or options.each + options.large < 1:
        given = f"--each {options.each} --large {options.large}"
        raise InputError(f"{given} measures nothing; give at least 1 of one of them")
    at_once, large_at_once = SUITE["at_once"]["cpu" if options.device == "cpu" else "cuda"]
    plan = ClassicPlan(
        each=options.each,
        large=options.large,
        names=options.relevance,
        seconds=options.seconds,
        device=options.device,
        at_once=at_once,
        large_at_once=large_at_once,
    )
    if options.saved is not None:
        record = ClassicRecord.read(read_document(options.saved, "classic", "classic"))
    else:
        record = ClassicRecord(plan=plain(plan))
        path = None if options.out is None else options.out / "classic.json"
        if path is not None and path.is_file():
            record = ClassicRecord.of(read_document(path, "classic", "classic"), plan)
        record = measured(plan, record, options, run)
    if not record.cells:
        raise InputError("nothing was read; give more --seconds, or a record that is not empty")
    made = tables(record)
    return Report({"schema": 1, "tables": [table.to_json() for table in made]}, made, keep=False)


def measured(plan: ClassicPlan, record: ClassicRecord, options: ClassicBenchOptions, run: BenchRun) -> ClassicRecord:
    """Load the reader, the scorer and its rivals, and read what the record lacks."""
    model = load_reader(part_folder(MINI), torch.device(plan.device))
    rivals = Rivals.load(load_scorer(part_folder(SCORER), plan.device), device=plan.device)
    if options.rivals is not None:
        more = Rivals.load(rivals.scorer, options.rivals, plan.device).parts
        if not more:
            raise InputError(f"there are no rivals in {options.rivals}; give the --out of train_hypotheses")
        rivals.parts |= more
    most: int = SUITE["balancing"]
    if plan.each >= most:
        run.tell("learning tensions")
        learning = BalancerPlan(plan.size, plan.seed, plan.device, plan.families, most)
        fit_balancers(rivals, learning, None if options.out is None else options.out / "balancers")
    elif plan.each:  # to see that it runs: those of the package, which belong to an earlier scorer
        run.tell(f"tensions are those of the package; they are learned from --each {most} on")
    if plan.seconds is not None:
        plan = replace(plan, seconds=plan.seconds - (perf_counter() - run.began))
    return read_classic(model, rivals, plan, record, run.timed, lambda found: run.save(found.to_json()))


# ---- what is read, and the record of what was read -------------------------------------------------------------------


@dataclass(frozen=True)
class ClassicPlan:
    """each: pictures of every family. keeps: shares of the tokens. at_once: pictures in memory. large: pictures of
    every family for the classic scale, of size `large_size`, `large_at_once` of them, at `large_budgets` tokens.
    seconds: no further batch is begun after them. names: only these rows of the registry, beside ours and the controls;
    all phases where empty."""

    each: int = 147
    keeps: tuple[float, ...] = (1 / 4,)
    size: tuple[int, int] = (512, 512)
    large: int = 0
    large_size: tuple[int, int] = (2048, 2048)
    large_budgets: tuple[int, ...] = (1024,)
    families: tuple[str, ...] = FAMILIES
    seed: int = 21
    split: str = "test"
    at_once: int = 21
    large_at_once: int = 1
    seconds: float | None = None
    names: tuple[str, ...] = ()
    device: str = "cpu"

    def batches(self) -> Iterator[tuple[bool, str, int, int]]:
        """(large, family, first picture, how many): every family in turn, so that what is done is balanced."""
        for start in range(0, self.each, self.at_once):
            for family in self.families:
                yield False, family, start, min(self.at_once, self.each - start)
        for start in range(0, self.large, self.large_at_once):
            for family in self.families:
                yield True, family, start, min(self.large_at_once, self.large - start)

    def steps(self) -> list[str]:
        return [step_name(*one[:3]) for one in self.batches()]


def step_name(large: bool, family: str, start: int) -> str:
    return f"{'large ' if large else ''}{family} from {start}"


@dataclass
class ClassicRecord:
    """What was read so far. cells: "NAME@TOKENS" → family → number of the first picture of a batch → "0110…"."""

    powers: dict[str, tuple[float, bool]] = field(default_factory=dict)
    cells: dict[str, dict[str, dict[str, str]]] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)
    plan: JsonObject = field(default_factory=dict)

    @classmethod
    def of(cls, document: JsonObject, plan: ClassicPlan) -> ClassicRecord:
        """Of a file of an earlier run, which must have read the same pictures."""
        found = cls.read(document)
        same = ("size", "seed", "split", "at_once", "large_at_once", "large_size")
        differing = [name for name in same if document["plan"].get(name) != plain(plan)[name]]
        if differing:
            raise InputError(f"the record was made with another {differing[0]}; give another folder with --out")
        found.plan = plain(plan)
        return found

    @classmethod
    def read(cls, document: JsonObject) -> ClassicRecord:
        """Of a file, with the plan that it was made by."""
        if document.get("kind") != "classic":
            raise InputError("this is no record of `bench classic`; give another folder with --out")
        powers = {name: (float(power), bool(odds)) for name, (power, odds) in document["powers"].items()}
        return cls(powers, document["cells"], dict(document.get("missing", {})), dict(document["plan"]))

    def to_json(self) -> dict[str, object]:
        return {"schema": 1, "kind": "classic", **plain(self)}

    def has(self, cell: str, family: str, start: int) -> bool:
        return str(start) in self.cells.get(cell, {}).get(family, {})

    def add(self, cell: str, family: str, start: int, right: Tensor) -> None:
        text = "".join("01"[int(one)] for one in right.tolist())
        self.cells.setdefault(cell, {}).setdefault(family, {})[str(start)] = text

    def pictures(self, cells: Sequence[str]) -> list[tuple[str, str, int]]:
        """(family, batch, place in it) of every picture that all these cells have read."""
        places = [
            {
                (family, start, place)
                for family, batches in self.cells.get(cell, {}).items()
                for start, text in batches.items()
                for place in range(len(text))
            }
            for cell in cells
        ]
        return sorted(set.intersection(*places)) if places else []

    def right(self, cell: str, pictures: Sequence[tuple[str, str, int]]) -> np.ndarray:
        return np.array([self.cells[cell][family][start][place] == "1" for family, start, place in pictures], float)


def plain(value: DataclassInstance) -> JsonObject:
    """As JSON has it."""
    return json.loads(json.dumps(asdict(value)))


# ---- maps: of the registry, of `train_hypotheses`, and tensions learned on the spot ----------------------------------


def wanted_names(names: Sequence[str]) -> tuple[dict[str, str], dict[str, str]]:
    """Registry names that can be used here with what they are, and those that cannot with the reason in one line."""
    usable, missing = {}, {}
    for name in names or PHASES:
        if name.partition(":")[0] not in source_names():
            missing[name] = "not in the registry"
            continue
        source = find_source(name)
        line = source.missing(("pixels", "texture"))
        if line is None:
            usable[name] = PHASES.get(name, source.summary)
        else:
            missing[name] = line
    return usable, missing


def registry_maps(names: Sequence[str], batch: TrainingBatch) -> dict[str, Tensor]:
    """(B, rows, cols) of sources of relevance, on level-0 cells: the selectors of `classic` as one batch on its
    device, any other picture by picture on all cores."""
    frame = Frame((batch.pictures.shape[2], batch.pictures.shape[3]))
    questions = [decode(ids) for ids in batch.question_ids.cpu()]
    found = picture_maps(names, batch.pictures, questions)
    others = [name for name in names if name not in found]
    if others:
        scenes = [Scene(one.permute(1, 2, 0).contiguous().numpy()) for one in batch.pictures.cpu()]
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for name in others:
                source = find_source(name)
                one_by_one = pool.map(lambda *asked, by=source: by.maps(*([one] for one in asked)), scenes, questions)
                maps = [np.array(getattr(one.relevance[0], "map", one.relevance[0]), np.float32) for one in one_by_one]
                found[name] = torch.from_numpy(np.stack(maps)).to(batch.pictures.device)
    return {name: to_cells(one, frame).clamp(0, 1) for name, one in found.items()}


def maps_of(batch: TrainingBatch, rivals: Rivals, names: Sequence[str]) -> dict[str, Tensor]:
    """Every map (B, rows, cols) that is asked for, as it is."""
    ways, makers = three_ways(batch, rivals.scorer), rivals.makers()
    ours = {name for name in names if name == OURS or (name in makers and name not in BUILT_IN)}
    found = registry_maps([name for name in names if name not in ours], batch)
    return {name: makers[name](batch, ways) if name in ours else found[name] for name in names}


def laid_out(name: str, maps: Tensor, batch: TrainingBatch, budget: int) -> list[Allocation]:
    """Our maps by another strategy, which may want more of each picture than its relevance."""
    scenes = [Scene(one.permute(1, 2, 0).contiguous().numpy()) for one in batch.pictures.cpu()]
    return [
        allocate_batch(one, budget, strategy=name, **scene.strategy_inputs(name, {})[0])[0]
        for one, scene in zip(maps, scenes, strict=True)
    ]


def choose_powers(
    record: ClassicRecord, rivals: Rivals, plan: ClassicPlan, names: Sequence[str], each: int = POWER_PICTURES
) -> None:
    """Powers of names that have none yet, by validation pictures of every family."""
    lacking = [name for name in names if name not in record.powers]
    if not lacking:
        return
    budget = round(plan.keeps[0] * (plan.size[0] // 32) * (plan.size[1] // 32))
    parts: dict[str, list[Tensor]] = {}
    truth = []
    for _, batch in family_batches(
        each, plan.size, plan.seed, "validation", device=plan.device, families=plan.families
    ):
        for name, one in maps_of(batch, rivals, lacking).items():
            parts.setdefault(name, []).append(one)
        truth.append(target_cells(batch, plan.size[0] // 32, plan.size[1] // 32))
    for name, maps in parts.items():
        record.powers[name] = best_power(
            torch.cat(maps), torch.cat(truth), lambda one: overlay(one, [budget] * len(one)).cells
        )


# ---- reading ---------------------------------------------------------------------------------------------------------


@torch.no_grad()
def read_classic(
    model: PreTrainedModel,
    rivals: Rivals,
    plan: ClassicPlan,
    record: ClassicRecord,
    advance: Callable[[str], None] = lambda step: None,
    keep: Callable[[ClassicRecord], None] = lambda record: None,
) -> ClassicRecord:
    """Read what the record lacks. keep: called after every batch."""
    usable, record.missing = wanted_names(plan.names)
    trained = [name for name in TRAINED if name in rivals.makers()]
    if not plan.names:
        record.missing |= {name: UNTRAINED for name in TRAINED if name not in trained}
    names = [OURS, *usable, *trained]
    began = perf_counter()
    if plan.each:
        choose_powers(record, rivals, plan, names, min(POWER_PICTURES, max(1, plan.each)))
    reader = ClassicReader(model, rivals, plan, record, names)
    with dense_vision_attention(model):
        for large, family, start, count in plan.batches():
            if plan.seconds is not None and perf_counter() - began > plan.seconds:
                break
            advance(step_name(large, family, start))
            if (reader.read_large if large else reader.read)(family, start, count):
                keep(record)
    return record


@dataclass(frozen=True)
class ClassicReader:
    """Reads one batch of one family after the other into the record. names: of the maps."""

    model: PreTrainedModel
    rivals: Rivals
    plan: ClassicPlan
    record: ClassicRecord
    names: Sequence[str]

    def read(self, family: str, start: int, count: int) -> bool:
        """One batch of one family by every row that has not read it; False where none is left."""
        plan = self.plan
        rows, cols = plan.size[0] // 32, plan.size[1] // 32
        budgets = [max(1, round(keep * rows * cols)) for keep in plan.keeps]
        wanted = {
            budget: [
                name
                for name in (*self.names, *CONTROLS[:-1], *LAYOUTS)
                if not self.record.has(f"{name}@{budget}", family, start)
            ]
            for budget in budgets
        }
        full = not self.record.has(f"full@{rows * cols}", family, start)
        if not full and not any(wanted.values()):
            return False
        batch = render_family(family, count, plan.size, plan.seed, start, plan.device, None, plan.split)
        asked = {name for lacking in wanted.values() for name in lacking}
        asked = [name for name in self.names if name in asked or (name == OURS and asked & {"shuffled", *LAYOUTS})]
        maps = {
            name: sharpened(one, *self.record.powers[name]) for name, one in maps_of(batch, self.rivals, asked).items()
        }
        for budget, lacking in wanted.items():
            made = {name: maps[name] for name in lacking if name in maps}
            leaves = {name: overlay(one, [budget] * count).cells for name, one in made.items()}
            flat = torch.ones(count, rows, cols, device=plan.device)
            seed = plan.seed + start + 7919 * plan.families.index(family)
            for name in (one for one in lacking if one in CONTROLS or one in LAYOUTS):
                if name in LAYOUTS:
                    given = laid_out(name, maps[OURS], batch, budget)
                else:
                    given = allocate_batch(maps[OURS] if name == "shuffled" else flat, budget, strategy=name, seed=seed)
                leaves[name] = torch.from_numpy(np.stack([tokens_of(one) for one in given])).to(plan.device)
            if leaves:
                right = judge(self.model, batch, torch.stack(list(leaves.values()), dim=1)).right
                for place, name in enumerate(leaves):
                    self.record.add(f"{name}@{budget}", family, start, right[:, place])
        if full:
            every = overlay(torch.ones(count, rows, cols, device=plan.device), [rows * cols] * count).cells
            self.record.add(f"full@{rows * cols}", family, start, judge(self.model, batch, every[:, None]).right[:, 0])
        return True

    def read_large(self, family: str, start: int, count: int) -> bool:
        """A few large pictures by the classic scale, by the overlay and by shrinking them, with our map."""
        plan = self.plan
        lacking = {
            budget: [name for name in SCALES if not self.record.has(f"{name} scale@{budget}", family, start)]
            for budget in plan.large_budgets
        }
        if not any(lacking.values()):
            return False
        batch = render_family(family, count, plan.large_size, plan.seed, start, plan.device, None, plan.split)
        scores = self.rivals.scorer.score(batch.pictures, batch.question_ids)
        for budget, scales in lacking.items():
            for scale in scales:
                given = [tokens_of(one) for one in allocate_batch(scores, budget, strategy=scale)]
                found = np.stack([as_boxes(one) for one in given] if scale == "classic" else given)
                tokens = torch.from_numpy(found).to(plan.device)[:, None]
                self.record.add(f"{scale} scale@{budget}", family, start, judge(self.model, batch, tokens).right[:, 0])
        return True


# ---- tables ----------------------------------------------------------------------------------------------------------


def tables(record: ClassicRecord) -> list[Table]:
    """Phases and controls against ours; the claims; the classic scale on large pictures. Empty ones are left out."""
    plan = record.plan
    rows, cols = plan["size"][0] // 32, plan["size"][1] // 32
    facts = {
        "pictures": f"Needle World, {plan['size'][0]}×{plan['size'][1]}, split {plan['split']}, seed {plan['seed']}, "
        f"families {', '.join(plan['families'])}",
        "layout": SUITE["layout"],
        "read by": SUITE["read_by"],
        **{f"left out: {name}": line for name, line in record.missing.items()},
    }
    wanted = plan["each"] * len(plan["families"])
    first = f"{OURS}@{max(1, round(plan['keeps'][0] * rows * cols))}"
    done = len(record.pictures([first])) if first in record.cells else 0
    if done < wanted:
        facts["read so far"] = f"{done} of {wanted} pictures; the same command with the same --out goes on"
    found = [
        table
        for keep in plan["keeps"]
        if (table := _phases(record, max(1, round(keep * rows * cols)), rows * cols, facts)) is not None
    ]
    budget = max(1, round(plan["keeps"][0] * rows * cols))
    claims = [row for one in SUITE["decided"] if (row := _claim(record, budget, *one)) is not None]
    if claims:
        facts = {"tokens": str(budget), "claims": SUITE["claims"]}
        found.append(Table("H2, H3, H5 and stakes, decided again", SUITE["columns"]["claims"], tuple(claims), facts))
    return [*found, *_scales(record)]


def _phases(record: ClassicRecord, budget: int, full: int, facts: Mapping[str, str]) -> Table | None:
    ours = f"{OURS}@{budget}"
    if ours not in record.cells:
        return None
    names = {OURS: "ours: the learned scorer", **PHASES, **TRAINED, **dict.fromkeys(CONTROLS, "control"), **LAYOUTS}
    extra = {cell.partition("@")[0] for cell in record.cells if " scale@" not in cell} - names.keys()
    rows: list[dict[str, TableCell]] = []
    for name, what in {**names, **dict.fromkeys(sorted(extra), "of the registry")}.items():
        cell = f"{name}@{full if name == 'full' else budget}"
        if cell not in record.cells:
            continue
        shared = record.pictures([cell, ours])
        right, best = record.right(cell, shared), record.right(ours, shared)
        rows.append(
            {
                "row": name,
                "what": what,
                "tokens": full if name == "full" else budget,
                "accuracy": percent(proportion(right)),
                "difference": None if name == OURS else percent(paired(best, right)),
                "n": len(shared),
            }
        )
    return Table(f"The line of the source at {budget} of {full} tokens", SUITE["columns"]["phases"], tuple(rows), facts)


def _claim(record: ClassicRecord, budget: int, number: str, claim: str, system: str, other: str) -> JsonObject | None:
    cells = [f"{name}@{budget}" for name in (system, other)]
    if not all(cell in record.cells for cell in cells):
        return None
    shared = record.pictures(cells)
    first, second = (record.right(cell, shared) for cell in cells)
    difference = paired(first, second)
    return {
        "id": number,
        "claim": f"{system} > {other}",
        "words": claim,
        "accuracy": percent(proportion(first)),
        "other": percent(proportion(second)),
        "difference": percent(difference),
        "n": len(shared),
        "verdict": difference.above(),
    }


def _scales(record: ClassicRecord) -> list[Table]:
    found = []
    for budget in record.plan["large_budgets"]:
        cells = {scale: f"{scale} scale@{budget}" for scale in SCALES}
        if not all(cell in record.cells for cell in cells.values()):
            continue
        shared = record.pictures(list(cells.values()))
        right = {scale: record.right(cell, shared) for scale, cell in cells.items()}
        rows: list[dict[str, TableCell]] = [
            {
                "row": scale,
                "tokens": budget,
                "accuracy": percent(proportion(one)),
                "difference": None if scale == "overlay" else percent(paired(right["overlay"], one)),
                "n": len(shared),
            }
            for scale, one in right.items()
        ]
        height, width = record.plan["large_size"]
        title = f"The classic scale on pictures of {height}×{width}, {budget} of {height // 32 * (width // 32)} tokens"
        found.append(
            Table(title, SUITE["columns"]["scales"], tuple(rows), {"relevance": "the scorer; uniform has none"})
        )
    return found


if __name__ == "__main__":
    door(program("classic"))
