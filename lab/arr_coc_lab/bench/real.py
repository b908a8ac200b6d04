"""`bench real`: measure how much of the relevant boxes is seen in full detail; with --ask, score a model's answers.

Without --ask no model answers: for every question, source of relevance and share of the tokens, coverage is the share
of the relevant box at level 0. Only numbers are stored, no pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path
from zlib import crc32

import numpy as np

from arr_coc.attending.allocate import allocate
from arr_coc.balancing.choosing import relevance_for
from arr_coc.balancing.tensions import sharpen
from arr_coc.core.errors import InputError
from arr_coc.core.values import DEFAULT_CELL, Allocation
from arr_coc.knowing.photos.source import find_files
from arr_coc.knowing.registry import check_relevance, source_names
from arr_coc.looking import Prepared, prepare
from arr_coc.packing.prices.tables import tokens_for
from arr_coc.pictures.words import as_words
from arr_coc.texture.channels import centre_map

from . import asking, documents
from .questions import Question, by_picture, load_questions, parse_limits
from .report import Report, Score, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan
from .scores import coverage
from .suite import RealOptions, parse_shares

KEEPS = "1/4 1/8 1/16 1/32"
UNIFORM = "uniform"
# Maps that do not depend on the question; every other name is a source of relevance of the library or of the user.
CONTROLS = ("centre", UNIFORM, "random", "saliency")
RELEVANCE = ("auto", "look", "scorer", *CONTROLS)
# Like `look`: with words by OCR if it is installed and worth its time. `auto` alone is measured without.
WITH_OCR = "auto+ocr"
MAP_SIDE, CENTRE_SIDE = 256, 64
SCORES = {
    "coverage": "Share of the relevant boxes seen at level 0",
    "coverage at half size": "The same, seen at level 1 or 0",
}


def plan(options: RealOptions) -> Plan:
    limits = parse_limits(options.limit)
    if options.data.split(":")[0] in documents.KINDS:
        return documents.plan(options, limits.get("", documents.NUMBER))
    questions = load_questions(options.data, limits, options.source, options.seed)
    if options.ask:
        return asking.plan(options, questions)
    keeps = parse_shares(options.keeps or KEEPS)
    systems = options.relevance or RELEVANCE
    check_systems(systems)
    jobs = []
    for several in by_picture(questions):
        cells = [(system, keep) for system in systems for keep in keeps]
        jobs.append(Job(several, tuple(Key(one.name, *cell) for one in several for cell in cells)))
    there = find_files()
    facts = {
        "seed": str(options.seed),
        "strategy": options.strategy,
        "photo map": f"{'' if there else 'not '}there: `auto` and `look` {'use' if there else 'are without'} it",
        "intervals": "95 %, over pictures; frames of one clip count as one picture",
        **machine_facts(("torch",)),
    }
    settings = {"data": data_name(options.data), "seed": options.seed, "strategy": options.strategy}
    work = CoverageWork(options.seed, options.strategy)
    return Plan(jobs, work, lambda rows: report_of(rows, systems[0], facts), settings, whole=False)


def data_name(data: str) -> str:
    """Return the name of the data: as given, with a digest of the records if they are one file."""
    records = Path(data) / "records.jsonl"
    return f"{data} {sha256(records.read_bytes()).hexdigest()[:16]}" if records.is_file() else data


def check_systems(relevance: Sequence[str]) -> None:
    """Refuse unknown names before any picture is read."""
    for name in relevance:
        if name == WITH_OCR:
            check_relevance("words")
        elif name not in CONTROLS:
            if name not in source_names() and not Path(name).is_dir():
                known = ", ".join((*source_names(), WITH_OCR, *CONTROLS))
                raise InputError(f"unknown relevance {name!r}; choose from {known}, or give the folder of a scorer")
            check_relevance(name)


def report_of(rows: Sequence[BenchRow], first: str, facts: Mapping[str, str]) -> Report:
    scores = [Score(name, title, baseline=first if name == "coverage" else "") for name, title in SCORES.items()]
    return Report.of(rows, scores, facts, ("source", "relevance"))


@dataclass(frozen=True)
class CoverageWork:
    """Measure all questions about one picture, which share its sensing, in any process."""

    seed: int
    strategy: str

    def __call__(self, several: list[Question], wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        first, asked = several[0], {one.name: one for one in several}
        prepared = prepare(first.image)
        if first.words is not None:
            prepared = replace(prepared, words=as_words(first.words, prepared.picture.size))
        views = Views(prepared, self.seed, self.strategy)
        for key in wanted:
            question = asked[key.question]
            shown = views.seen(question.text, key.system, max(1, math.floor(key.keep * views.full + 1e-9)))
            scores = budget_scores(question, shown)
            known = {name: round(value, 5) for name, value in scores.items() if not math.isnan(value)}
            yield BenchRow("real", *key, known, question.group, shown.tokens, None, {"scene": question.scene})


def budget_scores(question: Question, shown: Allocation) -> dict[str, float]:
    """Score one allocation."""
    scores = {}
    if len(question.boxes):
        for level, name in enumerate(("coverage", "coverage at half size")):
            scores[name] = coverage(shown, question.boxes, question.any_of, level)
    return scores


class Views:
    """The maps (h, w) in [0, 1] and allocations of a picture; maps that ignore the question are made once."""

    def __init__(self, prepared: Prepared, seed: int = 0, strategy: str = "overlay") -> None:
        self.scene = replace(prepared.scene, words=prepared.words)
        self.size, self.strategy = prepared.picture.size, strategy
        self.full = tokens_for(self.size)
        self.seed = [seed, crc32(prepared.picture.name.encode())]
        self._maps: dict[tuple[str, str], np.ndarray] = {}
        self._allocations: dict[tuple[str, str, int], Allocation] = {}

    def map(self, relevance: str, query: str) -> np.ndarray:
        key = relevance, "" if relevance in CONTROLS else query
        if key not in self._maps:
            self._maps[key] = self._made(*key)
        return self._maps[key]

    def _made(self, relevance: str, query: str) -> np.ndarray:
        """Return a map: sources of the library as in `look`; saliency sharpened as `look` does it."""
        if relevance == WITH_OCR:
            return np.asarray(relevance_for("auto", replace(self.scene, ocr=True), query).map)
        if relevance not in CONTROLS:
            return np.asarray(relevance_for(relevance, self.scene, query).map)
        if relevance == UNIFORM:
            return np.ones((8, 8), np.float32)
        if relevance == "centre":
            scale = CENTRE_SIDE / max(self.size)
            rows, cols = (max(1, round(side * scale)) for side in self.size)
            return centre_map((rows, cols)).astype(np.float32)
        if relevance == "random":
            rows, cols = (-(-side // DEFAULT_CELL) for side in self.size)
            return np.random.default_rng(self.seed).random((rows, cols)).astype(np.float32)
        texture = self.scene.sensed
        plane = np.asarray(texture[relevance])
        scale = min(1.0, MAP_SIDE / max(plane.shape))
        shape = (max(1, round(plane.shape[0] * scale)), max(1, round(plane.shape[1] * scale)))
        return sharpen(np.asarray(texture.ops.shrink(plane, shape)))

    def seen(self, query: str, relevance: str, budget: int) -> Allocation:
        key = relevance, "" if relevance in CONTROLS else query, budget
        if key not in self._allocations:
            # Uniform, the whole picture evenly reduced, is a strategy of its own.
            strategy = UNIFORM if relevance == UNIFORM else self.strategy
            found = self.map(relevance, query)
            self._allocations[key] = allocate(found, budget, strategy=strategy, image_size=self.size)
        return self._allocations[key]
