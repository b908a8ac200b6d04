"""`bench real --ask`: score the answers of an attached model with all tokens, with ours, and with controls."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.options import Options
from arr_coc.pictures.load import load_picture

from . import scores
from .questions import Question
from .report import Report, Score, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan, in_turn
from .suite import RealOptions, parse_shares

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

FULL, OURS, BOXES, SMALLER = "full", "ours", "around the true boxes", "smaller picture"
AS_NEEDED, MOST = "budget auto", 1 / 4  # as many tokens as a question needs, a quarter at most
CONTROLS = ("uniform", "random", "shuffled")
KEEPS = "1/2 1/4 1/8"
SHORT = "\nAnswer the question using a single word or phrase."


class Task(NamedTuple):
    """A public set. metric: from `scores`. prompt: text after each question. new_tokens: maximum for an answer."""

    metric: str
    title: str
    prompt: str
    new_tokens: int


TASKS = {
    "": Task("anls", "ANLS", "", 48),
    "docvqa": Task("anls", "ANLS", SHORT, 32),
    "infovqa": Task("anls", "ANLS", SHORT, 32),
    "chartqa": Task("relaxed_accuracy", "Relaxed accuracy", "\nAnswer the question with a single word.", 16),
}


class Said(NamedTuple):
    """An answer. full: the visual tokens of the whole picture."""

    text: str
    tokens: int
    full: int
    uncertainty: float | None = None


def plan(options: RealOptions, every: Sequence[Question]) -> Plan:
    """Plan every question whose answer must be read, with every system."""
    shares = parse_shares(options.keeps or KEEPS)
    if shares[0] >= 1:
        raise InputError("--keeps: all tokens are always measured; give shares below 1")
    if len(options.relevance) > 1:
        raise InputError("--ask uses one source of relevance; give --relevance once")
    questions = [one for one in every if one.answers and (options.task or not held(one))]
    if not questions:
        raise InputError(f"{options.data} has no question with a text as answer; --ask needs at least one")
    work = AskWork(
        options.model,
        options.device,
        (options.relevance or ("auto",))[0],
        options.strategy,
        options.seed,
        options.task,
    )
    work.check()
    systems = work.systems(questions)
    cells = [(FULL, 1.0), (AS_NEEDED, MOST), *((system, keep) for keep in shares for system in systems)]
    if options.ways and not (cells := [one for one in cells if any(way in one[0] for way in options.ways)]):
        raise InputError(f"no way of --ask is named like {', '.join(options.ways)}")
    groups = dict.fromkeys(one.group for one in questions)
    # In turns, so that an interrupted run has equally many of each source.
    ordered = in_turn([one for one in questions if one.group == group] for group in groups)
    jobs = [Job(one, tuple(Key(one.name, *cell) for cell in cells)) for one in ordered]
    task, ours = TASKS[options.task], systems[0]
    kinds = [Score("exact", "Exact match", baseline=ours), Score(task.metric, task.title, baseline=ours)]
    facts = {"model": options.model, "relevance": work.relevance, "seed": str(options.seed)}
    facts |= machine_facts(("torch", "transformers"))
    settings = {**vars(work), "data": options.data}
    del settings["device"]

    def report(rows: list[BenchRow]) -> Report:
        full = {row.question: row for row in rows if row.system == FULL}
        lost = [
            replace(row, scores={"lost": row.scores[task.metric] - full[row.question].scores[task.metric]})
            for row in rows
            if row.system != FULL and row.question in full
        ]
        every = [*kinds, Score("lost", f"{task.title}: each − full", share=False)]
        own = Report.of([*rows, *lost], every, facts, ("source", "way"))
        return replace(own, rows=rows)

    return Plan(jobs, work, report, settings, "real_ask")


def held(question: Question) -> bool:
    """Tell whether a question contains its answer, such as "Where is the dog?": nothing must be read."""
    return question.answers[0].lower() in question.text.lower()


@dataclass(frozen=True)
class AskWork:
    """Answer one question with the systems still missing, in any process."""

    model: str
    device: str
    relevance: str
    strategy: str
    seed: int
    task: str

    def check(self) -> None:
        """Refuse wrong options before anything is read."""
        from arr_coc.app.cli.inputs import check_model
        from arr_coc.knowing.registry import check_relevance

        if self.task not in TASKS:
            raise InputError(f"unknown --task {self.task!r}; choose from {', '.join(filter(None, TASKS))}")
        check_relevance(self.relevance, model=True)
        check_model(self.model)

    def systems(self, questions: Sequence[Question]) -> list[str]:
        """Return the systems to compare, ours first; boxes only if all questions have them."""
        boxes = [BOXES] if all(len(one.boxes) for one in questions) else []
        return [OURS, *boxes, *CONTROLS, SMALLER]

    def __call__(self, question: Question, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        task = TASKS[self.task]
        prompt = "" if self.model == MINI or task.prompt.strip() in question.text else task.prompt
        try:
            ask = AttachedQuestion(self, question, prompt)
            full = ask.full
        except InputError as error:
            if "tiles or views" in str(error):
                raise  # notes about every picture, not about this one
            yield from (BenchRow("real", *key, {}, question.group, extras={"error": str(error)}) for key in wanted)
            return
        for key in wanted:
            started = perf_counter()
            said = ask(key.system, max(1, math.floor(key.keep * full + 1e-9)))
            metrics = {"exact": scores.exact, task.metric: getattr(scores, task.metric)}
            found = {name: round(metric(said.text, question.answers), 5) for name, metric in metrics.items()}
            extras: dict[str, object] = {"said": said.text, "true": list(dict.fromkeys(question.answers)), "full": full}
            if said.uncertainty is not None:
                extras["uncertainty"] = round(said.uncertainty, 5)
            seconds = round(perf_counter() - started, 4)
            yield BenchRow("real", *key, found, question.group, said.tokens, seconds, extras)


@cache
def eye_of(model: str, device: str, relevance: str = "auto") -> Eye:
    """Load the model, once in every process."""
    from arr_coc.answering.eye import Eye

    return Eye.from_pretrained(model, device=device, relevance=relevance)


class AttachedQuestion:
    """Ask an attached model one question with any system."""

    def __init__(self, work: AskWork, question: Question, prompt: str) -> None:
        self.work, self.question, self.prompt = work, question, prompt
        self.eye = eye_of(work.model, work.device, work.relevance).set_image(question.image)
        self.full = full_tokens(self.eye, question.bare)

    def __call__(self, system: str, budget: int) -> Said:
        question, eye = self.question, self.eye
        asked = question.text + self.prompt
        fixed = {FULL: 1.0, SMALLER: 1.0, AS_NEEDED: "auto"}
        how: dict[str, Any] = {"budget": fixed.get(system, budget)}
        if system == BOXES:
            how["relevance"] = scores.box_map(*question.boxes)
        if system in CONTROLS:
            how |= {"strategy": system, "seed": crc32(f"{self.work.seed} {question.name}".encode())}
        elif system not in (FULL, SMALLER):
            how["strategy"] = self.work.strategy
        try:
            if system == SMALLER:
                show_smaller(eye, question, budget)
            looked = eye.prepare(asked, Options(**how), look_for=question.bare)
            answer = eye.answer(looked, TASKS[self.work.task].new_tokens)
        finally:
            if system == SMALLER:
                eye.set_image(question.image)
        return Said(answer.text, answer.tokens, self.full, answer.uncertainty)


def full_tokens(eye: Eye, text: str) -> int:
    """Count the visual tokens of the untouched prompt about the eye's picture."""
    return eye.prepare(text, Options(budget=1.0)).full


def show_smaller(eye: Eye, question: Question, budget: int) -> None:
    """Reduce the picture until the stock model needs no more than the budget: the way without this library."""
    from PIL import Image

    pixels = Image.fromarray(load_picture(question.image).pixels)
    scale = min(1.0, math.sqrt(budget / full_tokens(eye, "?")))
    while True:
        size = max(1, round(pixels.width * scale)), max(1, round(pixels.height * scale))
        eye.set_image(pixels.resize(size, Image.Resampling.LANCZOS))
        if full_tokens(eye, "?") <= budget or max(size) <= 8:
            return
        scale *= 0.97
