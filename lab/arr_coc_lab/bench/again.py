"""`bench again`: many questions about one picture, asked anew and with what was made of it before.

Every way is asked the same questions in the same order. The map of a question is made by every way where its cost is
told, and once for all of them elsewhere; it is the same either way. Operations are counted by the formulas of the
peers, the scorer's by torch's own counter.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from time import perf_counter, process_time
from types import SimpleNamespace
from typing import Any

import numpy as np
from arr_coc.knowing.registry import relevance_for
from arr_coc.knowing.scene import Scene
from arr_coc.knowing.scorer.reduced import reading_size

from arr_coc.answering.again import LEAVES, PARTS
from arr_coc.attending.frame import leaves_of
from arr_coc.attending.overlay import OVERVIEW_FIRST, RASTER, overview_of
from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI, SCORER, part_folder
from arr_coc.core.kept import ByteStore
from arr_coc.core.values import Answer, JsonObject
from arr_coc.pictures.load import load_picture

from ..statistics import paired, proportion, resampled
from .again_many import check_many, measure_many
from .again_screens import measure_screens
from .answers import AnswerStore
from .machine import machine_facts
from .options import AgainOptions
from .peers.cost import language_operations, tower_operations
from .real import reading_questions
from .report import Quantity, Report, Table
from .run import BenchRun
from .suite import parse_shares, suite
from .vqa import Question, anls, exact

SUITE = suite("again")
TODAY, ANEW, AGAIN, SINGLE, FULL, CACHED = SUITE["ways"]
NEW_TOKENS = 32
# Tokens of the prompt around the picture and the question, as the small model's template has them.
AROUND = 12


@dataclass(frozen=True)
class AgainWay:
    """How a way asks. order: of leaves. keeps: whether anything is kept. reuse: as for `Eye`. all: of the tokens."""

    order: str
    keeps: bool
    reuse: str = PARTS
    all: bool = False


WAYS = {
    TODAY: AgainWay(RASTER, False),
    ANEW: AgainWay(OVERVIEW_FIRST, False),
    AGAIN: AgainWay(OVERVIEW_FIRST, True),
    SINGLE: AgainWay(OVERVIEW_FIRST, True, LEAVES),
    FULL: AgainWay(RASTER, False, all=True),
    CACHED: AgainWay(OVERVIEW_FIRST, True, all=True),
}
# Ways whose answers are the same to the last digit, so that accuracy needs one of them only.
SAME = {ANEW: AGAIN, FULL: CACHED}


class AgainEyes:
    """The model of each way: without torch where `ask` does it so, by its stock class for all tokens and on a GPU."""

    def __init__(self, device: str, weights: Path | None) -> None:
        from arr_coc.answering.eye import Eye, beside
        from arr_coc.answering.light import LightEngine

        folder = part_folder(MINI, weights)
        self.device = device
        self.stock = Eye.from_pretrained(str(folder) if weights else MINI, device=device)
        self.light = self.stock if device != "cpu" else Eye(LightEngine(folder), **beside(folder))
        for eye in (self.stock, self.light):  # what is loaded and compiled when first needed is no question's cost
            copy(eye).set_image(np.zeros((256, 256, 3), np.uint8)).ask("?", 16, max_new_tokens=2)

    def of(self, way: AgainWay) -> Any:
        """An eye that has seen nothing yet."""
        eye = self.of_bytes(1 << 30 if way.keeps else 0, way.all)
        eye.engine.reuse = way.reuse
        return eye

    def of_bytes(self, most: int, stock: bool = False) -> Any:
        """An eye that has seen nothing yet, and may keep so many bytes. stock: by its stock class."""
        eye = copy(self.stock if stock else self.light)
        eye.engine = copy(eye.engine)
        eye.memory = ByteStore(most)
        return eye

    def clock(self) -> float:
        """Seconds of the processor, or of the clock where a GPU works."""
        if self.device == "cpu":
            return process_time()
        import torch

        torch.cuda.synchronize()
        return perf_counter()


# ---- operations ------------------------------------------------------------------------------------------------------


@cache
def scorer_operations(folder: Path, size: tuple[int, int], letters: int) -> tuple[float, float]:
    """GFLOP of what the scorer reads of a picture, and of a question of so many letters, by torch's counter."""
    import torch
    from arr_coc.knowing.scorer.source import load_scorer
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    scorer = load_scorer(folder)
    found = []
    with torch.no_grad(), sdpa_kernel(SDPBackend.MATH):
        with FlopCounterMode(display=False) as counter:
            features = scorer.see(scorer.padded(torch.zeros(1, 3, *size)))
        found.append(counter.get_total_flops() / 1e9)
        with FlopCounterMode(display=False) as counter:
            scorer.find(features, torch.ones(1, letters, dtype=torch.int64))
        found.append(counter.get_total_flops() / 1e9)
    return found[0], found[1]


@dataclass
class AskedCost:
    """GFLOP of the questions about one picture, one after the other; it remembers what a way keeps."""

    config: Any
    scorer: Path
    size: tuple[int, int]
    way: AgainWay

    def __post_init__(self) -> None:
        self.parts: set[bytes] = set()
        self.leaves: set[tuple[int, ...]] = set()
        self.begun = self.seen = False

    def of(self, answer: Answer, question: str) -> float:
        """GFLOP of a question and its answer."""
        allocation, keeps = answer.allocation, self.way.keeps
        leaves, overview = leaves_of(allocation), allocation.overview
        total, vision = 0.0, self.config.vision_config
        if not self.way.all:
            see, find = scorer_operations(self.scorer, self.size, -(-max(1, len(question)) // 8) * 8)
            total += find + (0.0 if self.seen else see)
            self.seen = keeps
        for part in (leaves[:overview], leaves[overview:]):
            new = self._new(part)
            if new:
                patches = [new * vision.spatial_merge_size**2] * (vision.depth + 1)
                total += tower_operations(vision, patches) / 1e9
        text = self.config.text_config
        length, said = len(leaves) + AROUND + len(question), len(answer.text) + 1
        before = AROUND // 2 + overview if keeps and overview and self.begun else 0
        read = [length - before] * text.num_hidden_layers
        total += language_operations(text, read, before) / 1e9
        total += said * language_operations(text, [1] * text.num_hidden_layers, length) / 1e9
        self.begun = True
        return total

    def _new(self, part: np.ndarray) -> int:
        """Leaves of a part that must be encoded."""
        if not self.way.keeps:
            return len(part)
        if self.way.reuse == LEAVES:
            new = [leaf for leaf in map(tuple, part.tolist()) if leaf not in self.leaves]
            self.leaves.update(new)
            return len(new)
        known = part.tobytes() in self.parts
        self.parts.add(part.tobytes())
        return 0 if known else len(part)


# ---- the run ---------------------------------------------------------------------------------------------------------


def measure(options: AgainOptions, run: BenchRun) -> Report:
    """Ask pictures that are not asked yet; accuracy, costs, bars, and where all tokens with a cache win."""
    (keep,) = parse_shares(options.keep)
    if options.screens is not None:
        return measure_screens(options, run, keep)
    if options.many:
        check_many(options.many)
        return measure_many(
            options, run, keep, by_picture(options), again_eyes(options.device, options.weights).of_bytes
        )
    ways = [name for name in WAYS if not options.way or name in options.way]
    asked = by_picture(options)
    settings = {"seed": options.seed, "keep": keep, "device": options.device}
    with run.answers("again_", "out/again", settings) as answers:
        jobs = [(questions, waiting_ways(answers, questions, ways)) for questions in asked]
        work = partial(ask_picture, options.device, options.weights, keep, tuple(ways))
        answers.fill(run.each([job for job in jobs if job[1]], work, "asking", options.workers))
    if not answered(answers, asked, [way for way in ways if way not in SAME or SAME[way] not in ways]):
        raise InputError("no question was answered in every way; give the run more --seconds")
    facts = {
        "model": "mini, not trained for an overview that stands first",
        "pictures": str(len(asked)),
        "questions": str(sum(map(len, asked))),
        "of tokens": options.keep,
        "seed": str(options.seed),
        "device": options.device if options.workers == 1 else f"{options.device}, {options.workers} processes at once",
        **machine_facts(("torch", "transformers", "onnxruntime")),
    }
    tables = [accuracy_table(answers, asked, ways, facts), cost_table(answers, asked, ways, facts)]
    tables.append(shapes_table(keep))
    lines = list(told(answers, asked, ways))
    document = {"schema": 1, "tables": [table.to_json() for table in tables], "lines": lines}
    page = [*tables, "\n".join(f"- {line}" for line in lines)]
    return Report(document, tables, facts, lines=lines, page=page, name="again")


def ask_picture(
    device: str,
    weights: Path | None,
    keep: float,
    every: Sequence[str],
    job: tuple[Sequence[Question], Sequence[str]],
) -> list[dict[str, object]]:
    """Asks the questions of one picture in some of the ways, in whatever process it is. every: all ways of the run."""
    return list(rows_of(again_eyes(device, weights), *job, keep, weights, every))


@cache
def again_eyes(device: str, weights: Path | None) -> AgainEyes:
    """Loaded once in every process."""
    return AgainEyes(device, weights)


def waiting_ways(answers: AnswerStore, questions: Sequence[Question], ways: Sequence[str]) -> list[str]:
    """The ways that have not answered all that they are asked about a picture."""
    return [
        way
        for way in ways
        if any((questions[number - 1].name, way) not in answers.rows for number in numbers_of(way, ways, questions))
    ]


def by_picture(options: AgainOptions) -> list[list[Question]]:
    """The questions of each picture, pictures with most of them first."""
    found: dict[object, list[Question]] = {}
    for folder in options.data:
        several = reading_questions(folder, None, (), options.seed)
        wanted = {one.source for one in several} & set(options.source) or {one.source for one in several}
        for one in several:
            if one.source in wanted:
                found.setdefault(one.question.image, []).append(one.question)
    rng = np.random.default_rng(options.seed)
    mixed = [[several[place] for place in rng.permutation(len(several))] for several in found.values()]
    if not mixed:
        raise InputError("--data names no folder with records.jsonl; make one with arr-coc pages --out DIR")
    ordered = sorted(mixed, key=lambda several: -min(len(several), options.questions))
    return [several[: options.questions] for several in ordered[: options.pictures]]


def costly_of(questions: Sequence[Question]) -> list[int]:
    """The questions whose cost is told."""
    return [number for number in SUITE["numbers"] if number <= len(questions)]


def numbers_of(way: str, ways: Sequence[str], questions: Sequence[Question]) -> Sequence[int]:
    """The questions that a way is asked: what answers as another does is asked only where its cost is told."""
    return costly_of(questions)[:2] if SAME.get(way) in ways else range(1, len(questions) + 1)


def rows_of(
    eyes: AgainEyes,
    questions: Sequence[Question],
    ways: Sequence[str],
    keep: float,
    weights: Path | None,
    every: Sequence[str],
) -> Iterator[dict[str, object]]:
    """One row for each question and way; cost and seconds where they are told. every: all ways of the run."""
    picture, scorer = load_picture(questions[0].image), part_folder(SCORER, weights)
    mapping = eyes.light.view(picture.pixels)
    # As the model sees it, so that its letters are measured before the first way is asked, and for all of them.
    shown = mapping.tensors.get("canvas", mapping.picture.pixels)
    scene = Scene(shown, scorer=eyes.light.scorer, device=eyes.device, kept=mapping.kept)
    config = eyes.stock.model.config
    maps = {one.name: relevance_for("auto", scene, one.text) for one in questions}
    costly = costly_of(questions)
    for name in ways:
        way = WAYS[name]
        only = numbers_of(name, every, questions)
        eye = eyes.of(way).set_image(picture.pixels)
        cost = AskedCost(config, scorer, reading_size(picture.pixels), way)
        for number, question in enumerate(questions, 1):
            if number not in only:
                continue
            timed = number in costly
            own: dict[str, object] = {} if timed else {"relevance": maps[question.name]}
            started = eyes.clock()
            answer = eye.ask(
                question.text,
                keep=1.0 if way.all else keep,
                order=way.order,
                hints="none",
                scale=1,
                max_new_tokens=NEW_TOKENS,
                **own,
            )
            took = eyes.clock() - started
            yield {
                "question": question.name,
                "cell": name,
                "number": number,
                "said": answer.text,
                "true": list(question.answers),
                "exact": exact(answer.text, question.answers),
                "anls": round(anls(answer.text, question.answers), 5),
                "uncertainty": answer.uncertainty,
                "tokens": answer.tokens,
                "full": answer.full,
                "GFLOP": round(cost.of(answer, question.text), 4),
                "ms": round(1000 * took, 2) if timed else None,
            }


# ---- what is told ----------------------------------------------------------------------------------------------------


def answered(answers: AnswerStore, asked: Sequence[Sequence[Question]], ways: Sequence[str]) -> list[str]:
    """The questions that all of the ways have answered."""
    return answers.whole([one.name for several in asked for one in several], ways)


def accuracy_table(
    answers: AnswerStore, asked: Sequence[Sequence[Question]], ways: Sequence[str], facts: Mapping[str, str]
) -> Table:
    ways = [way for way in ways if way not in SAME or SAME[way] not in ways]
    names = answered(answers, asked, ways)
    values = partial(answers.column, names)
    rows = []
    for way in ways:
        other = way != TODAY and TODAY in ways
        rows.append(
            {
                "way": way,
                "tokens": float(values(way, "tokens").mean()),
                "exact": Quantity.percent(proportion(values(way, "exact"))),
                "anls": Quantity.percent(resampled(values(way, "anls"))),
                "minus": Quantity.percent(paired(values(way, "exact"), values(TODAY, "exact"))) if other else None,
            }
        )
    return Table("What is answered", SUITE["columns"], tuple(rows), {**facts, "answered by all": str(len(names))})


def numbered(answers: AnswerStore, asked: Sequence[Sequence[Question]], way: str, number: int, what: str) -> np.ndarray:
    """GFLOP or ms of the questions of one number; where a way never changes, of the first ones."""
    found = [answers.rows.get((several[number - 1].name, way)) for several in asked if len(several) >= number]
    values = [row[what] for row in found if row is not None and row[what] is not None]
    if not values and not WAYS[way].keeps and number > 1:
        return numbered(answers, asked, way, 2 if number > 2 else 1, what)
    return np.array(values, dtype=float)


def cost_table(
    answers: AnswerStore, asked: Sequence[Sequence[Question]], ways: Sequence[str], facts: Mapping[str, str]
) -> Table:
    rows = []
    for what in ("GFLOP", "ms"):
        for way in ways:
            means = {number: numbered(answers, asked, way, number, what) for number in SUITE["numbers"]}
            row: JsonObject = {"way": way, "what": what}
            row |= {f"q{number}": float(found.mean()) for number, found in means.items() if len(found)}
            if len(means[1]) and len(means[2]):
                row["second"] = float(means[2].mean() / means[1].mean())
            if what == "GFLOP" and (sums := cumulative(answers, asked, way)):
                row["all"] = sums[-1]
            rows.append(row)
    return Table("What a question costs", SUITE["costs"], tuple(rows), facts)


def cumulative(answers: AnswerStore, asked: Sequence[Sequence[Question]], way: str) -> list[float]:
    """GFLOP of the first questions together, mean over pictures with all of them."""
    longest = max(map(len, asked), default=0)
    several = [one for one in asked if len(one) == longest]
    costs = [numbered(answers, several, way, number, "GFLOP") for number in range(1, longest + 1)]
    return np.cumsum([found.mean() for found in costs]).tolist() if all(map(len, costs)) else []


def shapes_table(keep: float) -> Table:
    """What the same ways would cost with a large model's shapes: computed, not measured."""
    shapes = {name: SimpleNamespace(**SUITE["shapes"][name]) for name in ("vision", "text")}
    rows, cols, letters = (SUITE["shapes"][name] for name in ("rows", "cols", "words"))
    full = rows * cols
    budget = int(keep * full)
    overview = int(np.prod([-(-side >> overview_of(rows, cols, budget).level) for side in (rows, cols)]))
    see, find = scorer_operations(part_folder(SCORER), (1024, 1280), 48)

    def tower(leaves: int) -> float:
        return tower_operations(shapes["vision"], [4 * leaves] * (shapes["vision"].depth + 1)) / 1e9 if leaves else 0.0

    def language(read: int, before: int = 0) -> float:
        return language_operations(shapes["text"], [read] * shapes["text"].num_hidden_layers, before) / 1e9

    again = find + tower(budget - overview) + language(budget - overview + letters, overview)
    first = see + again + tower(overview) + language(overview)
    costs = {
        TODAY: [see + find + tower(budget) + language(budget + letters)] * 2,
        AGAIN: [first, again],
        FULL: [tower(full) + language(full + letters)] * 2,
        CACHED: [tower(full) + language(full + letters), language(letters, full)],
    }
    wins = 1 + (costs[CACHED][0] - first) / (again - costs[CACHED][1])
    lines = tuple(
        {"way": way, "what": "GFLOP", "q1": one, "q2": two, "second": two / one} for way, (one, two) in costs.items()
    )
    columns = {name: title for name, title in SUITE["costs"].items() if name in ("way", "q1", "q2", "second")}
    found = f"all tokens with a prefix cache cost less in sum from question {int(np.ceil(wins + 1e-9))} on"
    facts = {"shapes": SUITE["shapes"]["name"], "tokens": f"{budget} of {full}, {overview} of them the overview"}
    facts["computed, not measured"] = found
    return Table("The shapes of a large model", columns, lines, facts)


def told(answers: AnswerStore, asked: Sequence[Sequence[Question]], ways: Sequence[str]) -> Iterator[str]:
    """The bars, whether what is used again is the same, and from how many questions on a cache of all tokens wins."""
    bars = SUITE["bars"]
    for what, bar in (("ms", bars["milliseconds"]), ("GFLOP", bars["operations"])):
        first, second = (numbered(answers, asked, AGAIN, number, what) for number in (1, 2))
        if AGAIN in ways and len(first) and len(second):
            share = second.mean() / first.mean()
            kept = f"promised {bar:g}: {'kept' if share <= bar else 'missed'} (n = {len(second)})"
            yield f"the second question costs {share:.3f} of the first in {what}, {kept}"
    for fresh, used in SAME.items():
        both = answered(answers, asked, [fresh, used]) if {fresh, used} <= {*ways} else []
        if both:
            alike = sum(answers.rows[name, fresh]["said"] == answers.rows[name, used]["said"] for name in both)
            worst = max(
                abs(answers.rows[name, fresh]["uncertainty"] - answers.rows[name, used]["uncertainty"]) for name in both
            )
            yield f"“{used}” says what “{fresh}” says in {alike} of {len(both)}, uncertainty within {worst:.0e}"
    if {AGAIN, CACHED} <= {*ways}:
        ours, cached = (cumulative(answers, asked, way) for way in (AGAIN, CACHED))
        wins = next((n for n, (one, other) in enumerate(zip(ours, cached, strict=False), 1) if other < one), None)
        if ours and cached:
            tail = f"from question {wins} on" if wins else f"not within {len(ours)} questions"
            yield f"all tokens with a prefix cache cost less GFLOP in sum {tail}"
