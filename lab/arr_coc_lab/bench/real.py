"""`bench real`: how much of what a question needs is seen in full detail, on real pictures with known boxes.

No model answers here. For every record, source of relevance, strategy and budget the question is whether the allocation
shows the relevant box at level 0 (coverage), how many tokens that takes, and, where eyes were followed, whether
it looks where people looked. The pictures are read from a folder of records (`records.jsonl` and its pictures); of them
nothing is kept but the numbers.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple, TypeVar
from zlib import crc32

import numpy as np
from arr_coc.knowing.photos.source import photos_installed
from arr_coc.knowing.registry import check_relevance, relevance_for, source_names
from arr_coc.texture.channels import centre_map
from scipy.ndimage import gaussian_filter

from arr_coc.attending.allocate import allocate
from arr_coc.balancing.tension import sharpen
from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing, writing
from arr_coc.core.values import DEFAULT_CELL, Allocation, JsonObject
from arr_coc.draw.sheets import contact_sheet
from arr_coc.looking import Prepared, prepare
from arr_coc.packing.prices.counting import tokens_for

from ..statistics import Estimate, expected_calibration_error, mean, paired, proportion
from ..train.own_data import entries, file_of
from . import vqa
from .answers import AnswerStore
from .machine import machine_facts
from .options import RealOptions
from .report import SCHEMA, Quantity, Report, Table, TableCell, begun_document, written
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import CONTROLS as ANSWER_CONTROLS
from .workers import in_turn
from .worst import beside

# ----------------------------------------------------------------------------------------------------------------------
# What `bench real` counts: how much of the relevant boxes is seen, tokens to see it, and agreement with human gaze.

# Blur of the fixations' map, as a share of the picture's longer side: about a degree of sight.
FIXATION_BLUR = 0.04


def coverage(allocation: Allocation, boxes: np.ndarray, any_of: bool = False, level: int = 0) -> float:
    """Share of the relevant boxes (K, 4: x0, y0, x1, y1 in 0–1) that is seen at a level or finer; with any_of, of the
    best one. What leaves cover of a box adds up, those left out that lie under or on another one that counts. Several
    boxes count by their area."""
    scale = np.array([allocation.width, allocation.height] * 2, dtype=float)
    x0, y0, x1, y1 = (np.asarray(boxes, dtype=float).reshape(-1, 4) * scale).T[:, None]
    fine = allocation.boxes[_outermost(allocation, level)].astype(float)
    top, left, height, width = fine.T[:, :, None]
    down = np.clip(np.minimum(y1, top + height) - np.maximum(y0, top), 0, None)
    across = np.clip(np.minimum(x1, left + width) - np.maximum(x0, left), 0, None)
    seen = (down * across).sum(0)
    area = np.maximum(((x1 - x0) * (y1 - y0))[0], 1e-9)
    return float((seen / area).max()) if any_of else float(seen.sum() / area.sum())


def _outermost(allocation: Allocation, level: int) -> np.ndarray:
    """(N,) bool: leaves of a level or finer that lie in no other such leaf."""
    row, col, own = allocation.leaf_cells().T
    alone = own <= level
    for coarse in range(1, level + 1):
        name = ((row >> coarse) << 32) | (col >> coarse)
        alone &= ~((own < coarse) & np.isin(name, name[own == coarse]))
    return alone


def scanpath_hits(allocation: Allocation, scanpaths: list[list[list[float]]]) -> float:
    """Share of the fixations (x, y in 0–1) of people searching that fall where the picture is seen at level 0.

    The first fixation of each path is where the trial put the eyes: it does not count.
    """
    points = np.array([point[:2] for path in scanpaths for point in path[1:]], dtype=float).reshape(-1, 2)
    points = points[((points >= 0) & (points < 1)).all(1)]
    if not len(points):
        return float("nan")
    fine = allocation.boxes[allocation.levels == 0].astype(float)
    top, left, height, width = fine.T[:, :, None]
    x, y = (points * (allocation.width, allocation.height)).T
    inside = (x >= left) & (x < left + width) & (y >= top) & (y < top + height)
    return float(inside.any(0).mean())


def fixation_map(fixations: np.ndarray, size: tuple[int, int]) -> np.ndarray:
    """(F, 3) fixations x, y in 0–1 and milliseconds → (rows, cols): how long people looked there, blurred."""
    rows, cols = size
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    total, _, _ = np.histogram2d(
        known[:, 1] * rows, known[:, 0] * cols, bins=size, range=((0, rows), (0, cols)), weights=known[:, 2]
    )
    return gaussian_filter(total, FIXATION_BLUR * max(size), mode="constant")


def correlation(first: np.ndarray, second: np.ndarray) -> float:
    """Pearson's, over all places; not a number where one of them is flat."""
    a, b = first.ravel() - first.mean(), second.ravel() - second.mean()
    length = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / length if length > 1e-12 else float("nan")


def scanpath_saliency(relevance: np.ndarray, fixations: np.ndarray) -> float:
    """Normalised scanpath saliency: the map in standard deviations above its mean, at the fixated places."""
    rows, cols = relevance.shape
    known = fixations[((fixations[:, :2] >= 0) & (fixations[:, :2] < 1)).all(1)]
    spread = float(relevance.std())
    if spread < 1e-9 or not len(known):
        return float("nan")
    place = (known[:, 1] * rows).astype(int), (known[:, 0] * cols).astype(int)
    return float(((relevance[place] - relevance.mean()) / spread).mean())


def tokens_to_reach(seen: Callable[[int], float], full: int, share: float) -> int:
    """A budget that shows the share where one token less does not, found by halving: seen(budget) is asked
    log2(full) times. It is the smallest such where more tokens never show less; an overlay's overview grows in steps,
    so there it can be one of a few. The whole picture counts as reaching it."""
    short, enough = 0, full
    while enough - short > 1:
        middle = (short + enough) // 2
        short, enough = (short, middle) if seen(middle) >= share else (middle, enough)
    return enough


def same_map(first: np.ndarray, second: np.ndarray) -> bool:
    """Do two questions get the same map, but for rounding?"""
    return first.shape == second.shape and bool(np.abs(first - second).max() <= 1e-4)


def center_map(size: tuple[int, int], side: int = 64) -> np.ndarray:
    """Closeness to the middle: the control that human gaze is hard to beat with."""
    scale = side / max(size)
    return centre_map((max(1, round(size[0] * scale)), max(1, round(size[1] * scale)))).astype(np.float32)


# ----------------------------------------------------------------------------------------------------------------------

Item = TypeVar("Item")
SUITE = suite("real")
KEEPS = SUITE.shares("keeps")
KEPT_EVERY = 25
COVERAGES: Mapping[str, int] = SUITE["coverages"]
NOTES: Mapping[str, str] = SUITE["notes"]
CONTROLS: tuple[str, ...] = tuple(SUITE["controls"])
RELEVANCE: tuple[str, ...] = tuple(SUITE["relevance"])
SHAPES: tuple[str, ...] = tuple(SUITE["strategies"])
UNIFORM = "uniform"
# As `look` has it: with words by OCR, where that is installed and pays. `auto` alone is measured without.
WITH_OCR = "auto+ocr"
REACHED = 0.9
TOKENS, TOKEN_SHARE = "tokens to 90 %", "share of tokens to 90 %"
SAME = "same map"
HITS, CORRELATION, SALIENCY = "scanpath hits", "correlation with fixations", "normalised scanpath saliency"
MAP_SIDE = 256
WORST, WORST_KEEP = 24, 1 / 8
PANE = 480


def measure(options: RealOptions, run: BenchRun) -> Report:
    """Measure what the folder lacks, with a table after every `KEPT_EVERY` pictures; with --ask a model reads."""
    limits = parse_limits([str(SUITE["quick"])] if options.quick else options.limit)
    if options.ask:
        return measure_reading(options, limits, run)
    shares = KEEPS if options.keeps is None else parse_shares(options.keeps)
    if len(shares) < 2:
        raise InputError(f"--keeps {options.keeps!r} needs two or more shares above 0 and at most 1")
    systems = systems_of(options.relevance or RELEVANCE, options.strategy or SHAPES[:1])
    records = load_records(options.data, limits, options.source, options.seed)
    kept = None if options.out is None else options.out / "real_questions.json"
    measured = QuestionMeasures.begun(kept, options.data, shares, options.seed)
    drawn_of = ", ".join(f"at most {number} of {name or 'each source'}" for name, number in limits.items())
    facts = {"drawn": f"{drawn_of}; seed {options.seed}"} if limits else {}
    there = photos_installed()
    facts["photo map"] = f"{'' if there else 'not '}there: `auto` and `look` {'use' if there else 'are without'} it"

    def keep(done: int, total: int) -> list[Table]:
        # A long run that is stopped leaves what it has measured, and says how much of it.
        so_far = {"so far": f"{done} of {total} pictures"} if done < total else {}
        tables = real_tables(measured, records, systems, {**facts, **so_far})
        run.save({"settings": measured.settings, "questions": measured.questions}, "real_questions")
        run.save(document(tables))
        return tables

    jobs = measured.jobs(records, systems)
    for number, (_, found) in enumerate(run.each(jobs, PictureWork.done, "measuring", options.workers), 1):
        measured.add(found)
        if number % KEPT_EVERY == 0 and number < len(jobs):
            keep(number, len(jobs))
    tables = keep(1, 1)
    pages: list[Path] = []
    if options.worst is not None:
        with writing(options.worst):
            pages = write_worst(options.worst, measured, records, systems)
    return Report(document(tables), [narrow_table(table) for table in tables], page=tables, files=pages)


def parse_limits(given: Sequence[str]) -> dict[str, int]:
    """N for every source, SOURCE=N for one → by source, "" for the others."""
    limits = {}
    for one in given:
        source, _, number = one.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit {one} leaves nothing to measure; give at least 1, or SOURCE=N")
        limits[source] = int(number)
    return limits


# ---- records ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Record:
    """One question about one picture, as `records.jsonl` has it. name: of the question. scene: of the clip whose frame
    the picture is, else of the picture: what is told of one scene is no independent sample."""

    source: str
    image: Path
    query: str
    boxes: np.ndarray
    any_of: bool = False
    fixations: np.ndarray | None = None
    scanpaths: list[list[list[float]]] | None = None
    name: str = ""
    scene: str = ""


def load_records(
    folder: Path, limit: int | Mapping[str, int] | None = None, sources: Sequence[str] = (), seed: int = 0
) -> list[Record]:
    """The records of a folder or of a file (`own_data`); limit: at most so many of each source, or by source ("" for
    the others), drawn by the seed: a larger limit draws the same ones and more, whatever the other sources are."""
    found: dict[str, list[Record]] = defaultdict(list)
    file = file_of(folder)
    for number, entry in entries(file):
        try:
            if isinstance(entry, ValueError):
                raise entry
            gaze, image = entry.get("fixations"), file.parent / entry["image"]
            source = entry.get("source") or "own"
            record = Record(
                source=source,
                image=image,
                query=entry["query"],
                boxes=np.array(entry.get("boxes") or [], dtype=float).reshape(-1, 4),
                any_of=bool(entry.get("any_of")),
                fixations=np.array(gaze, dtype=float).reshape(-1, 3) if gaze else None,
                scanpaths=entry.get("scanpaths"),
                name=f"{source} {number}",
                scene=entry.get("video") or image.name,
            )
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            where = f"line {number} of {file}"
            raise InputError(f"{where} is not a record ({type(error).__name__}: {error})") from error
        found[record.source].append(record)
    named = [name for name in limit if name] if isinstance(limit, Mapping) else []
    unknown = [name for name in (*sources, *named) if name not in found]
    if unknown or not found:
        of = f" of {unknown[0]}; choose from {', '.join(found)}" if unknown and found else ""
        raise InputError(f"{file} holds no record{of}")
    wanted = {source: several for source, several in found.items() if not sources or source in sources}
    return drawn(wanted, limit, seed)


def drawn(found: Mapping[str, Sequence[Item]], limit: int | Mapping[str, int] | None, seed: int) -> list[Item]:
    """At most so many of every source, as `load_records` says it; each source by itself, in its order."""
    limits = limit if isinstance(limit, Mapping) else {} if limit is None else {"": limit}
    chosen: list[Item] = []
    for source, several in found.items():
        order = np.random.default_rng([seed, crc32(source.encode())]).permutation(len(several))
        number = limits.get(source, limits.get("", len(several)))
        chosen += [several[place] for place in sorted(order[:number])]
    return chosen


def by_picture(records: Sequence[Record]) -> Iterator[tuple[Path, list[Record]]]:
    """Records grouped by source and picture, in the order of their first appearance."""
    grouped: dict[tuple[str, Path], list[Record]] = defaultdict(list)
    for record in records:
        grouped[record.source, record.image].append(record)
    order = {source: place for place, source in enumerate(dict.fromkeys(record.source for record in records))}
    for source, image in sorted(grouped, key=lambda key: order[key[0]]):
        yield image, grouped[source, image]


# ---- the systems, and what each shows of a picture -------------------------------------------------------------------


class System(NamedTuple):
    """A source of relevance and the strategy that lays it out. `uniform` is both: the whole picture, evenly reduced."""

    relevance: str
    strategy: str

    @property
    def name(self) -> str:
        return " ".join(dict.fromkeys(self))


def systems_of(relevance: Sequence[str] = RELEVANCE, strategies: Sequence[str] = SHAPES[:1]) -> list[System]:
    """All pairs, checked before any picture is read."""
    for strategy in strategies:
        if strategy not in SHAPES:
            raise InputError(f"unknown strategy {strategy!r}; choose from {', '.join(SHAPES)}")
    for name in relevance:
        if name == WITH_OCR:
            check_relevance("words")
        elif name not in CONTROLS:
            if name.partition(":")[0] not in source_names() and not Path(name).is_dir():
                known = ", ".join((*source_names(), WITH_OCR, *CONTROLS))
                raise InputError(f"unknown relevance {name!r}; choose from {known}, or give the folder of a scorer")
            check_relevance(name)
    pairs = [System(one, UNIFORM if one == UNIFORM else how) for how in strategies for one in relevance]
    return list(dict.fromkeys(pairs))


class Views:
    """One picture's maps (h, w) in [0, 1] and allocations; what does not depend on the question is made once."""

    def __init__(self, prepared: Prepared, seed: int = 0) -> None:
        self.prepared, self.size = prepared, prepared.picture.size
        self.full = tokens_for(self.size)
        self.seed = [seed, crc32(prepared.picture.name.encode())]
        self._maps: dict[tuple[str, str], np.ndarray] = {}
        self._allocations: dict[tuple[System, str, int], Allocation] = {}

    def map(self, relevance: str, query: str) -> np.ndarray:
        key = relevance, "" if relevance in CONTROLS else query
        if key not in self._maps:
            self._maps[key] = self._made(*key)
        return self._maps[key]

    def _made(self, relevance: str, query: str) -> np.ndarray:
        """The library's own are as `look` has them, the controls of the senses sharpened as it does it."""
        if relevance == WITH_OCR:
            return np.asarray(relevance_for("auto", self.prepared.scene.varied(ocr=True), query).map)
        if relevance not in CONTROLS:
            return np.asarray(relevance_for(relevance, self.prepared.scene, query).map)
        if relevance == "centre":
            return center_map(self.size)
        if relevance == "random":
            rows, cols = (-(-side // DEFAULT_CELL) for side in self.size)
            return np.random.default_rng(self.seed).random((rows, cols)).astype(np.float32)
        texture = self.prepared.scene.texture
        plane = np.asarray(texture[relevance.replace(" ", "_")])
        scale = min(1.0, MAP_SIDE / max(plane.shape))
        shape = (max(1, round(plane.shape[0] * scale)), max(1, round(plane.shape[1] * scale)))
        return sharpen(np.asarray(texture.ops.shrink(plane, shape)))

    def seen(self, record: Record, system: System, budget: int) -> Allocation:
        key = system, "" if system.relevance in CONTROLS else record.query, budget
        if key not in self._allocations:
            flat = system.relevance == UNIFORM
            relevance = np.ones((8, 8), np.float32) if flat else self.map(system.relevance, record.query)
            self._allocations[key] = allocate(relevance, budget, strategy=system.strategy, image_size=self.size)
        return self._allocations[key]

    def measure(
        self, record: Record, system: System, keeps: Sequence[float], queries: Sequence[str] = ()
    ) -> dict[str, list[float]]:
        """Measure → a value for each budget, or one alone: all that the record allows. queries: all about this
        picture."""
        found: dict[str, list[float]] = {}
        others = [query for query in dict.fromkeys(queries) if query != record.query]
        if others and system.relevance not in CONTROLS:
            own = self.map(system.relevance, record.query)
            found[SAME] = [float(np.mean([same_map(own, self.map(system.relevance, query)) for query in others]))]
        shown = [self.seen(record, system, max(1, math.floor(keep * self.full + 1e-9))) for keep in keeps]
        if len(record.boxes):
            for measure, level in COVERAGES.items():
                found[measure] = [coverage(one, record.boxes, record.any_of, level) for one in shown]
            tokens = tokens_to_reach(
                lambda budget: coverage(self.seen(record, system, budget), record.boxes, record.any_of),
                self.full,
                REACHED,
            )
            found |= {TOKENS: [tokens], TOKEN_SHARE: [tokens / self.full]}
        if record.scanpaths:
            found[HITS] = [scanpath_hits(one, record.scanpaths) for one in shown]
        if record.fixations is not None and system.relevance != UNIFORM:
            relevance = self.map(system.relevance, record.query)
            looked = fixation_map(record.fixations, (relevance.shape[0], relevance.shape[1]))
            found[CORRELATION] = [correlation(relevance, looked)]
            found[SALIENCY] = [scanpath_saliency(relevance, record.fixations)]
        known = {name: values for name, values in found.items() if not any(map(math.isnan, values))}
        return {name: [round(value, 5) for value in values] for name, values in known.items()}


# ---- all records, on any number of processes -------------------------------------------------------------------------


@dataclass
class QuestionMeasures:
    """questions: question's name → system's name → measure → values. settings: what all of them were measured with."""

    settings: JsonObject
    questions: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    @classmethod
    def begun(cls, path: Path | None, folder: Path, keeps: Sequence[float], seed: int) -> QuestionMeasures:
        """What a run that was stopped has left, or nothing yet; refused where it measured something else."""
        digest = sha256(file_of(folder).read_bytes()).hexdigest()[:16]
        settings = {"records": digest, "keeps": list(keeps), "reached": REACHED, "seed": seed}
        return cls(**(begun_document(path, settings, "settings") or {"settings": settings}))

    def jobs(self, records: Sequence[Record], systems: Sequence[System]) -> list[PictureWork]:
        """What is not measured yet; records of one picture share its sensing."""
        jobs = []
        for picture, several in by_picture(records):
            asked = []
            for record in several:
                known = self.questions.get(record.name, {})
                asked.append((record, [system for system in systems if system.name not in known]))
            queries = tuple(record.query for record in several)
            work = [pair for pair in asked if pair[1]]
            jobs.append(PictureWork(picture, work, tuple(self.settings["keeps"]), self.settings["seed"], queries))
        return [job for job in jobs if job.asked]

    def add(self, found: Mapping[str, dict[str, dict[str, list[float]]]]) -> None:
        """What a job found."""
        for question, values in found.items():
            self.questions.setdefault(question, {}).update(values)


class PictureWork(NamedTuple):
    """The questions of one picture, each with the systems that it waits for."""

    picture: Path
    asked: list[tuple[Record, list[System]]]
    keeps: tuple[float, ...]
    seed: int
    queries: tuple[str, ...] = ()

    def done(self) -> dict[str, dict[str, dict[str, list[float]]]]:
        """Question's name → system's name → measures."""
        views = Views(prepare(self.picture), self.seed)
        return {
            record.name: {system.name: views.measure(record, system, self.keeps, self.queries) for system in systems}
            for record, systems in self.asked
        }


# ---- tables, with intervals over pictures ----------------------------------------------------------------------------


@dataclass
class MeasuredValues:
    """Values by (source, measure, system, budget), each with the picture it came from."""

    found: dict[tuple[str, str, str, float], list[tuple[str, float]]] = field(default_factory=lambda: defaultdict(list))

    def add(self, source: str, measure: str, system: str, keep: float, picture: str, value: float) -> None:
        if not math.isnan(value):
            self.found[source, measure, system, keep].append((picture, value))

    def by_picture(self, key: tuple[str, str, str, float]) -> dict[str, float]:
        """Picture → the mean of its questions, which are no independent sample."""
        pictures: dict[str, list[float]] = defaultdict(list)
        for picture, value in self.found.get(key, ()):
            pictures[picture].append(value)
        return {picture: float(np.mean(values)) for picture, values in pictures.items()}

    def estimate(self, key: tuple[str, str, str, float]) -> tuple[Estimate, int, int] | None:
        """Mean and interval over pictures, and the counts of questions and pictures."""
        means = self.by_picture(key)
        return (mean(np.array([*means.values()])), len(self.found[key]), len(means)) if means else None

    def difference(self, source: str, first: str, second: str, keep: float) -> Estimate | None:
        """Coverage of the first less that of the second, over the pictures that both have."""
        ours, theirs = (self.by_picture((source, "coverage", name, keep)) for name in (first, second))
        both = [picture for picture in ours if picture in theirs]
        if not both:
            return None
        return paired(np.array([ours[picture] for picture in both]), np.array([theirs[picture] for picture in both]))


def values_of(measured: QuestionMeasures, records: Sequence[Record], systems: Sequence[System]) -> MeasuredValues:
    """What is measured of these records and systems so far; a measure without budgets has the budget 1."""
    values, keeps = MeasuredValues(), measured.settings["keeps"]
    for record in records:
        known = measured.questions.get(record.name, {})
        for system in systems:
            for measure, several in known.get(system.name, {}).items():
                for keep, value in zip(keeps if len(several) > 1 else (1.0,), several, strict=True):
                    values.add(record.source, measure, system.name, keep, record.scene, value)
    return values


def real_tables(
    measured: QuestionMeasures,
    records: Sequence[Record],
    systems: Sequence[System],
    facts: Mapping[str, str] | None = None,
) -> list[Table]:
    """Systems down by source, budgets across; one table for each measure that the records allow, then differences."""
    values = values_of(measured, records, systems)
    keeps = {f"keep_{Fraction(keep).limit_denominator(9999).denominator}": keep for keep in measured.settings["keeps"]}
    budgets = {name: str(Fraction(keep).limit_denominator(9999)) for name, keep in keeps.items()}
    tables = []
    for title in (*COVERAGES, HITS):
        cells = {name: (title, keep, 100.0, "%") for name, keep in keeps.items()}
        tables.append(_table(title, values, systems, budgets, cells))
    tokens = {"tokens": (TOKENS, 1.0, 1.0, ""), "share": (TOKEN_SHARE, 1.0, 100.0, "%")}
    tables.insert(2, _table(TOKENS, values, systems, {"tokens": "tokens", "share": "of full"}, tokens))
    gaze = {"correlation": (CORRELATION, 1.0, 1.0, ""), "saliency": (SALIENCY, 1.0, 1.0, "")}
    maps = list({system.relevance: system for system in reversed(systems)}.values())[::-1]  # whatever the strategy
    same = {"share": (SAME, 1.0, 100.0, "%")}
    tables.append(_table(SAME, values, maps, {"share": "of other questions"}, same))
    tables.append(_table("gaze", values, maps, {"correlation": "correlation", "saliency": "saliency"}, gaze))
    tables.append(_differences(values, systems, keeps, budgets))
    tables = [table for table in tables if table.rows]
    if tables:
        shared = {"intervals": SUITE["intervals"], "tuned": SUITE["tuned"]}
        tables[-1] = replace(tables[-1], facts={**tables[-1].facts, **shared, **(facts or {})})
    return tables


def _table(
    title: str,
    values: MeasuredValues,
    systems: Sequence[System],
    headings: Mapping[str, str],
    cells: Mapping[str, tuple[str, float, float, str]],
) -> Table:
    """cells: column → measure, budget, factor, unit."""
    rows: list[dict[str, TableCell]] = []
    for source in dict.fromkeys(key[0] for key in values.found):
        for system in systems:
            strategy = "–" if system.relevance == UNIFORM else system.strategy
            row: dict[str, TableCell] = {"source": source, "relevance": system.relevance, "strategy": strategy}
            for column, (measure, keep, factor, unit) in cells.items():
                found = values.estimate((source, measure, system.name, keep))
                if found is not None:
                    estimate, row["n"], row["pictures"] = found
                    row[column] = _quantity(estimate, factor, unit, (0, 100) if unit == "%" else None)
            if "n" in row:
                rows.append(row)
    columns = {"source": "source", "relevance": "relevance", "strategy": "strategy", **headings}
    return Table(title, {**columns, "n": "questions", "pictures": "pictures"}, tuple(rows), {title: NOTES[title]})


def _quantity(estimate: Estimate, factor: float, unit: str, within: tuple[float, float] | None = None) -> Quantity:
    bounds = factor * np.array([estimate.low, estimate.high])
    if not np.isfinite(bounds).all():
        return Quantity(factor * estimate.value, unit)
    low, high = np.clip(bounds, *within) if within else bounds
    return Quantity(factor * estimate.value, unit, float(low), float(high))


def pairs_of(systems: Sequence[System]) -> Iterator[tuple[System, System]]:
    """What is compared: every system with the first of its relevance, or, where it is that, with the first of all."""
    for system in systems[1:]:
        alike = next(one for one in systems if one.relevance == system.relevance)
        yield system, systems[0] if alike == system else alike


def _differences(
    values: MeasuredValues, systems: Sequence[System], keeps: Mapping[str, float], budgets: Mapping[str, str]
) -> Table:
    rows: list[dict[str, TableCell]] = []
    for source in dict.fromkeys(key[0] for key in values.found if key[1] == "coverage"):
        for first, second in pairs_of(systems):
            row: dict[str, TableCell] = {"source": source, "difference": f"{first.name} − {second.name}"}
            for column, keep in keeps.items():
                found = values.difference(source, first.name, second.name, keep)
                if found is not None:
                    row[column] = _quantity(found, 100.0, "")
            if len(row) > 2:
                rows.append(row)
    columns = {"source": "source", "difference": "difference", **budgets}
    return Table("differences", columns, tuple(rows), {"differences": NOTES["differences"]})


def narrow_table(table: Table) -> Table:
    """The same for a terminal of 80 columns: intervals stand below their values."""
    words = ("source", "relevance", "strategy", "difference", "n", "pictures")
    numbers = {name: heading for name, heading in table.columns.items() if name not in words}
    rows: list[dict[str, TableCell]] = []
    for row in table.rows:
        what = str(row.get("difference") or f"{row['relevance']}\n{row['strategy']}").replace(" − ", "\n− ")
        shown: dict[str, TableCell] = {
            "where": f"{row['source']}" + (f"\nn {row['n']}" if "n" in row else ""),
            "what": what,
        }
        for name in numbers:
            value, _, interval = written(row.get(name)).partition(" [")
            shown[name] = f"{value}\n[{interval.removesuffix(' %')}" if interval else value
        rows.append(shown)
    return Table(table.title, {"where": "source", "what": "system", **numbers}, tuple(rows), table.facts)


def document(tables: Sequence[Table]) -> dict[str, object]:
    """What real.json holds."""
    return {"schema": SCHEMA, "title": "real pictures", "tables": [table.to_json() for table in tables]}


# ---- the worst -------------------------------------------------------------------------------------------------------


def worst_of(measured: QuestionMeasures, records: Sequence[Record], system: System) -> list[Record]:
    """The questions of which least is seen at an eighth (or the budget nearest to it), then at half size, then those
    that would take the largest share of the tokens."""
    keeps = measured.settings["keeps"]
    place = int(np.argmin([abs(math.log(keep / WORST_KEEP)) for keep in keeps]))

    def seen(record: Record) -> tuple[float, ...]:
        found = measured.questions[record.name][system.name]
        return (*(found[measure][place] for measure in COVERAGES), -found[TOKEN_SHARE][0])

    asked = [one for one in records if "coverage" in measured.questions.get(one.name, {}).get(system.name, {})]
    return sorted(asked, key=seen)[:WORST]


def write_worst(
    folder: Path, measured: QuestionMeasures, records: Sequence[Record], systems: Sequence[System]
) -> list[Path]:
    """One page for each system that is no control: the picture with its boxes, and beside it where the tokens go."""
    paths = []
    for system in systems:
        worst = [] if system.relevance in CONTROLS else worst_of(measured, records, system)
        if not worst:
            continue
        tiles: dict[str, tuple[np.ndarray, str]] = {}
        for picture, several in by_picture(worst):
            views = Views(prepare(picture), measured.settings["seed"])
            for record in several:
                tiles[record.name] = _tile(views, record, system)
        shown = [tiles[record.name] for record in worst]
        path = folder / f"worst {Path(system.relevance).name} {system.strategy}.png"
        with replacing(path) as temporary:
            contact_sheet(
                [tile for tile, _ in shown], [words for _, words in shown], columns=3, width=1920, shape=0.66
            ).save(temporary)
        paths.append(path)
    return paths


def _tile(views: Views, record: Record, system: System) -> tuple[np.ndarray, str]:
    """(H, W, 3) uint8 and its caption."""
    found = views.measure(record, system, (WORST_KEEP,))
    allocation = views.seen(record, system, max(1, math.floor(WORST_KEEP * views.full + 1e-9)))
    pane = beside(views.prepared.picture, allocation, PANE, record.boxes)
    said = f"{record.source}: {100 * found['coverage'][0]:.0f} %, {found[TOKENS][0]:.0f} of {views.full} to 90 %"
    return pane, f"{said}: {record.query}"


# ----------------------------------------------------------------------------------------------------------------------
# `bench real --ask`: what a model reads off real pictures, from all tokens and from few: exact match and ANLS.
#
# Questions are the records of `bench real` whose answer is a text on the picture: there is one, and the question does
# not hold it already ("Where is the dog?" needs nobody who reads). Asked and counted as `bench vqa` does it.

READING = vqa.VqaTask("ANLS", vqa.anls, "", 48)
SURENESS, SURE = "exact match among the surest answers", 0.9
SURE_SHARES = (1.0, 0.75, 0.5, 0.25)


def measure_reading(options: RealOptions, limits: dict[str, int], run: BenchRun) -> Report:
    """Exact match and ANLS of every source, question by question; goes on where it stopped."""
    from arr_coc.app.cli.inputs import check_model

    shares = suite("real").shares("ask_keeps") if options.keeps is None else parse_shares(options.keeps)
    if shares[0] >= 1:
        raise InputError("--keeps: all tokens are asked anyway; give shares below 1")
    if len(options.relevance) > 1:
        raise InputError("--ask looks by one source; give --relevance once")
    (relevance,) = options.relevance or ("auto",)
    check_model(options.model)
    asked = reading_questions(options.data, limits, options.source, options.seed)
    # By their words and around their boxes where all pictures bring them.
    ways = [vqa.WORDS] if all(one.question.words is not None for one in asked) else []
    ways += [vqa.BOXES] if all(len(one.question.boxes) for one in asked) else []
    conditions = vqa.conditions_at(shares, (vqa.OURS, *ways, *ANSWER_CONTROLS))
    settings = {"model": options.model, "data": str(options.data), "seed": options.seed, "relevance": relevance}
    with run.answers("real_", "out/ask", settings) as answers:
        # In turns, so that a run that was stopped has as many of each source.
        sources = [[one.question for one in asked if one.source == name] for name in {one.source: 1 for one in asked}]
        work = partial(read_question, options.model, options.device, relevance, options.seed)
        jobs = answers.waiting(in_turn(sources), conditions)
        answers.fill(run.each(jobs, work, "asking", options.workers))
    if not answers.whole([one.name for one in asked], conditions):
        raise InputError("no question was answered in every way; give the run more --seconds")
    facts = {"model": options.model, "relevance": relevance, "seed": str(options.seed)}
    tables = tables_of(asked, answers, conditions, {**facts, **machine_facts(("torch",))})
    document = {"schema": 1, "tables": [table.to_json() for table in tables]}
    shown = [table if table.title.endswith(SURENESS) else vqa.narrow(table) for table in tables]
    return Report(document, shown, tables[0].facts, page=tables, name="real_ask", mark="ask")


def read_question(
    model: str, device: str, relevance: str, seed: int, job: tuple[vqa.Question, Sequence[vqa.Condition]]
) -> list[dict[str, object]]:
    """Asks one question in some ways, in whatever process it is."""
    return list(vqa.asked_of(vqa.eye_of(model, device, relevance)(), *job, vqa.AskingStyle(READING, "", None, seed)))


@dataclass(frozen=True)
class SourceQuestion:
    """One question of one source."""

    source: str
    question: vqa.Question

    @property
    def name(self) -> str:
        return self.question.name


def reading_questions(
    folder: Path, limit: int | dict[str, int] | None = None, sources: Sequence[str] = (), seed: int = 0
) -> list[SourceQuestion]:
    """The questions whose answer must be read, drawn as `load_records` draws."""
    rows = {number: entry for number, entry in entries(file_of(folder)) if isinstance(entry, dict)}
    found: dict[str, list[SourceQuestion]] = {}
    for record in load_records(folder, None, sources, seed):
        entry = rows[int(record.name.rsplit(" ", 1)[1])]
        answer = str(entry.get("answer") or "").strip()
        if answer and answer.lower() not in record.query.lower():
            question = vqa.Question(
                record.name, record.image, record.query, (answer,), entry.get("words"), record.boxes
            )
            found.setdefault(record.source, []).append(SourceQuestion(record.source, question))
    if not found:
        raise InputError(f"{folder} has no record whose answer is a text to be read; --ask needs some")
    return drawn(found, limit, seed)


def tables_of(
    asked: Sequence[SourceQuestion],
    answers: AnswerStore,
    conditions: Sequence[vqa.Condition],
    facts: dict[str, str],
) -> list[Table]:
    """ANLS and exact match of each source."""
    tables = []
    for source in dict.fromkeys(one.source for one in asked):
        names = [one.name for one in asked if one.source == source]
        if not answers.whole(names, conditions):
            continue
        near, exact = answers.rescored(vqa.anls), answers.rescored(vqa.exact)
        for measure, counted in (("ANLS", near), ("exact match", exact)):
            tables.append(vqa.score_table(f"{source}: {measure}", counted, names, conditions, facts))
        tables.append(sureness_table(source, exact, names, conditions, facts))
    return tables


def sureness_table(
    source: str,
    answers: AnswerStore,
    names: Sequence[str],
    conditions: Sequence[vqa.Condition],
    facts: dict[str, str],
) -> Table:
    """How many answers are right among the surest, and how far sureness is from being right (ECE), of full and ours."""
    rows: list[dict[str, TableCell]] = []
    whole = answers.whole(names, conditions)
    for condition in (one for one in conditions if one.way in (vqa.FULL, vqa.OURS)):
        right = answers.column(whole, condition.name)
        sure = 1 - answers.column(whole, condition.name, "uncertainty")
        order = np.argsort(-sure, kind="stable")
        row: dict[str, TableCell] = {"way": condition.name}
        for share in SURE_SHARES:
            first = right[order[: max(1, round(share * len(right)))]]
            row[f"of_{round(100 * share)}"] = Quantity.percent(proportion(first))
        kept = right[sure >= SURE]
        row |= {"sure": Quantity.percent(proportion(kept)) if len(kept) else None, "sure_n": len(kept)}
        row["ece"] = Quantity(100 * expected_calibration_error(sure, right), "%")
        rows.append(row)
    return Table(f"{source}: {SURENESS}", suite("real")["sureness_columns"], tuple(rows), facts)
