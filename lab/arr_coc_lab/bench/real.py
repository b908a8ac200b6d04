"""`bench real`: how much of what a question needs is seen in full detail, on real pictures with known boxes.

No model answers here. For every record, source of relevance, strategy and budget the question is whether the allocation
shows the relevant box at level 0 (coverage), how many tokens that takes, and, where eyes were followed, whether
it looks where people looked. The pictures are read from a folder of records (`records.jsonl` and its pictures); of them
nothing is kept but the numbers.
"""

from __future__ import annotations

import json
import math
import multiprocessing
import os
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from zlib import crc32

import numpy as np

from arr_coc.allocation.allocate import allocate
from arr_coc.allocation.tree import tokens_for
from arr_coc.core.errors import InputError
from arr_coc.core.values import DEFAULT_CELL, Allocation
from arr_coc.looking import Prepared, prepare
from arr_coc.relevance.look.tension import sharpen
from arr_coc.relevance.registry import check_relevance, relevance_for, source_names

from ..train.own_data import entries, file_of
from .real_measures import (
    center_map,
    correlation,
    coverage,
    fixation_map,
    same_map,
    scanpath_hits,
    scanpath_saliency,
    tokens_to_reach,
)

Item = TypeVar("Item")
KEEPS = (1 / 4, 1 / 8, 1 / 16, 1 / 32)
KEPT_EVERY = 25
# Measure → the coarsest level that counts as seen. Uniform shows nothing at level 0 and, at a quarter, all at level 1.
COVERAGES = {"coverage": 0, "coverage at half size": 1}
REACHED = 0.9
TOKENS, TOKEN_SHARE = "tokens to 90 %", "share of tokens to 90 %"
SAME = "same map"
HITS, CORRELATION, SALIENCY = "scanpath hits", "correlation with fixations", "normalised scanpath saliency"
# Maps that no question changes, made here; every other name is a source of relevance of the library or of the user.
UNIFORM = "uniform"
CONTROLS = ("centre", UNIFORM, "random", "saliency", "text regions")
RELEVANCE = ("auto", "look", "scorer", "centre", UNIFORM, "random", "saliency")
SHAPES = ("overlay", "quadtree")
MAP_SIDE = 256


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
    scanpaths: list[Any] | None = None
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
        if name not in CONTROLS:
            if name.partition(":")[0] not in source_names() and not Path(name).is_dir():
                known = ", ".join((*source_names(), *CONTROLS))
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
class Measured:
    """questions: question's name → system's name → measure → values. settings: what all of them were measured with."""

    settings: dict[str, Any]
    questions: dict[str, dict[str, dict[str, list[float]]]] = field(default_factory=dict)

    @classmethod
    def begun(cls, path: Path | None, folder: Path, keeps: Sequence[float], seed: int) -> Measured:
        """What a run that was stopped has left, or nothing yet; refused where it measured something else."""
        digest = sha256(file_of(folder).read_bytes()).hexdigest()[:16]
        settings = {"records": digest, "keeps": list(keeps), "reached": REACHED, "seed": seed}
        if path is None or not path.exists():
            return cls(settings)
        try:
            saved = json.loads(path.read_text(encoding="utf-8"))
            begun = cls(saved["settings"], saved["questions"])
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(
                f"{path} is not what `bench real` left ({error}); remove it or choose another --out"
            ) from error
        other = [name for name, value in settings.items() if begun.settings.get(name) != value]
        if other:
            raise InputError(f"{path} was measured with other {', '.join(other)}; remove it or choose another --out")
        return begun

    def waiting(self, record: Record, systems: Sequence[System]) -> list[System]:
        known = self.questions.get(record.name, {})
        return [system for system in systems if system.name not in known]


class Job(NamedTuple):
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


def measure_real(
    records: Sequence[Record],
    systems: Sequence[System],
    measured: Measured,
    *,
    workers: int = 1,
    advance: Callable[[str], None] = lambda step: None,
    keep: Callable[[int, int], None] = lambda done, total: None,
) -> Measured:
    """Every record that is not measured yet, into `measured`; records of one picture share its sensing.

    advance: called with each picture's step as it is done. keep: called with the pictures done and their number, every
    `KEPT_EVERY` pictures.
    """
    keeps, seed = tuple(measured.settings["keeps"]), measured.settings["seed"]
    jobs = []
    for picture, several in by_picture(records):
        asked = [(record, measured.waiting(record, systems)) for record in several]
        if any(waiting for _, waiting in asked):
            queries = tuple(record.query for record in several)
            jobs.append(Job(picture, [pair for pair in asked if pair[1]], keeps, seed, queries))
    totals = Counter(job.asked[0][0].source for job in jobs)
    seen: Counter[str] = Counter()
    for number, (job, found) in enumerate(_results(jobs, workers), 1):
        for question, values in found.items():
            measured.questions.setdefault(question, {}).update(values)
        source = job.asked[0][0].source
        seen[source] += 1
        advance(f"{source}, picture {seen[source]} of {totals[source]}")
        if number % KEPT_EVERY == 0 and number < len(jobs):
            keep(number, len(jobs))
    return measured


def _results(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, dict[str, Any]]]:
    if workers == 1 or len(jobs) < 2:
        yield from ((job, job.done()) for job in jobs)
        return
    # A fresh interpreter each, on one thread: pools of threads that share the cores only wait for one another.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _one_thread) as pool:
        sent = {pool.submit(job.done): job for job in jobs}
        try:
            for finished in as_completed(sent):
                yield sent[finished], finished.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _one_thread() -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
