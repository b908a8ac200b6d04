"""`bench real --ask`: what a model answers from all tokens, from ours, and from controls at as many.

--door attach: the model itself is attached. --door pack: the bundled model by its stock class is shown packed pictures.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.folders import MINI
from arr_coc.looking import prepare
from arr_coc.options import Options
from arr_coc.packing.pack import pack
from arr_coc.packing.prices.tables import table_for
from arr_coc.pictures.load import load_picture

from . import scores
from .questions import Question
from .report import Report, Score, machine_facts
from .rows import BenchRow, Key
from .run import Job, Plan, in_turn
from .suite import RealOptions, parse_shares

if TYPE_CHECKING:
    from arr_coc.answering.eye import Eye

FULL, OURS, WORDS, BOXES, SMALLER = "full", "ours", "by its words", "around the true boxes", "smaller picture"
PACK = "pack"
CONTROLS = ("uniform", "random", "shuffled")
KEEPS = "1/2 1/4 1/8"
SHORT = "\nAnswer the question using a single word or phrase."


class Task(NamedTuple):
    """A public set. metric: of `scores`. prompt: what follows each question. new_tokens: of the longest answer."""

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
    """Every question whose answer must be read, by every system of the door."""
    shares = parse_shares(options.keeps or KEEPS)
    if shares[0] >= 1:
        raise InputError("--keeps: all tokens are asked anyway; give shares below 1")
    if len(options.relevance) > 1:
        raise InputError("--ask looks by one source; give --relevance once")
    # "Where is the dog?" needs no reading: the question holds its answer.
    questions = [one for one in every if one.answers and (options.task or not _held(one))]
    if not questions:
        raise InputError(f"{options.data} has no question whose answer is a text; --ask needs some")
    work = AskWork(
        options.model,
        options.device,
        (options.relevance or ("auto",))[0],
        options.strategy,
        options.seed,
        options.task,
        options.door,
    )
    work.check()
    systems = work.systems(questions)
    cells = [(FULL, 1.0), *((system, keep) for keep in shares for system in systems)]
    groups = dict.fromkeys(one.group for one in questions)
    # In turns, so that a run that was stopped has as many of each source.
    ordered = in_turn([one for one in questions if one.group == group] for group in groups)
    jobs = [Job(one, tuple(Key(one.name, *cell) for cell in cells)) for one in ordered]
    task, ours = TASKS[options.task], systems[0]
    kinds = [Score("exact", "Exact match", baseline=ours), Score(task.metric, task.title, baseline=ours)]
    facts = {"model": options.model, "door": options.door, "relevance": work.relevance, "seed": str(options.seed)}
    facts |= machine_facts(("torch", "transformers"))
    settings = {**vars(work), "data": options.data}
    del settings["device"]

    def report(rows: list[BenchRow]) -> Report:
        full = {row.question: row for row in rows if row.system == FULL}
        lost = [
            replace(row, scores={"lost": row.scores[task.metric] - full[row.question].scores[task.metric]})
            for row in rows
            if row.system != FULL
        ]
        every = [*kinds, Score("lost", f"{task.title}: each − full", share=False)]
        own = Report.of([*rows, *lost], every, facts, ("source", "way"))
        return replace(own, rows=rows)

    return Plan(jobs, work, report, settings, f"real_{options.door}")


def _held(question: Question) -> bool:
    return question.answers[0].lower() in question.text.lower()


@dataclass(frozen=True)
class AskWork:
    """Asks one question by the systems that it lacks, in any process."""

    model: str
    device: str
    relevance: str
    strategy: str
    seed: int
    task: str
    door: str

    def check(self) -> None:
        """Refuse what cannot be asked before anything is read."""
        from arr_coc.app.cli.inputs import check_model
        from arr_coc.balancing.choosing import check_relevance

        if self.task not in TASKS:
            raise InputError(f"unknown --task {self.task!r}; choose from {', '.join(filter(None, TASKS))}")
        check_relevance(self.relevance, ("pixels", "texture", "model", "words", "scorer"))
        if self.door == "attach":
            check_model(self.model)
        elif self.model != MINI:
            raise InputError(f"--door pack asks the bundled model, not {self.model}; use --door attach")

    def systems(self, questions: Sequence[Question]) -> list[str]:
        """What is compared, ours first; words and boxes where all pictures have them."""
        if self.door == "attach":
            words = [WORDS] if all(one.words is not None for one in questions) else []
            boxes = [BOXES] if all(len(one.boxes) for one in questions) else []
            return [OURS, *words, *boxes, *CONTROLS, SMALLER]
        return [PACK, SMALLER]

    def __call__(self, question: Question, wanted: tuple[Key, ...]) -> Iterator[BenchRow]:
        task = TASKS[self.task]
        prompt = "" if self.model == MINI or task.prompt.strip() in question.text else task.prompt
        try:
            kind = AttachedQuestion if self.door == "attach" else PackedQuestion
            ask = kind(self, question, prompt)
            full = ask.full
        except InputError as error:
            if "tiles or views" in str(error):
                raise  # of every picture, not of this one
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


# ---- an attached model -----------------------------------------------------------------------------------------------


@cache
def eye_of(model: str, device: str, relevance: str = "auto") -> Eye:
    """The model, loaded once in every process."""
    from arr_coc.answering.eye import Eye

    return Eye.from_pretrained(model, device=device, relevance=relevance)


class AttachedQuestion:
    """Asks one question of an attached model by any system."""

    def __init__(self, work: AskWork, question: Question, prompt: str) -> None:
        self.work, self.question, self.prompt = work, question, prompt
        self.eye = eye_of(work.model, work.device, work.relevance).set_image(question.image)
        self.full = full_tokens(self.eye, question.bare)

    def __call__(self, system: str, budget: int) -> Said:
        question, eye = self.question, self.eye
        asked = question.text + self.prompt
        how: dict[str, Any] = {"budget": 1.0 if system in (FULL, SMALLER) else budget}
        if system == BOXES:
            how["relevance"] = scores.box_map(*question.boxes)
        elif system == WORDS:
            how |= {"words": question.words, "relevance": "words"}
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
    """Visual tokens of the untouched prompt about the eye's picture."""
    return eye.prepare(text, Options(budget=1.0)).full


def show_smaller(eye: Eye, question: Question, budget: int) -> None:
    """The picture itself, reduced until the stock model takes no more than the budget: what one does without us."""
    from PIL import Image

    pixels = Image.fromarray(load_picture(question.image).pixels)
    scale = min(1.0, math.sqrt(budget / full_tokens(eye, "?")))
    while True:
        size = max(1, round(pixels.width * scale)), max(1, round(pixels.height * scale))
        eye.set_image(pixels.resize(size, Image.Resampling.LANCZOS))
        if full_tokens(eye, "?") <= budget or max(size) <= 8:
            return
        scale *= 0.97


# ---- an unchanged model, by packed pictures --------------------------------------------------------------------------


class PackedQuestion:
    """Asks one question of an unchanged model, with the pictures that a system shows."""

    def __init__(self, work: AskWork, question: Question, prompt: str) -> None:
        self.work, self.question, self.asked = work, question, question.text + prompt
        self.table = table_for(work.model)
        self.picture = load_picture(question.image)
        self.full = self.table.tokens(self.picture.size)

    def __call__(self, system: str, budget: int) -> Said:
        work, pictures = self.work, [self.picture.pixels]
        if system != FULL:
            # The small model was trained on questions alone, without marks or text: it gets the map of a look.
            how = Options(budget=0.25, relevance=work.relevance, device=work.device)
            seen = None if system == SMALLER else prepare(self.picture).look(self.question.bare, how).relevance.map
            found = pack(
                self.picture,
                self.question.bare,
                budget,
                model=self.table,
                layout="overview" if system == SMALLER else "auto",
                marks=False,
                options=Options(relevance=seen),
            )
            pictures = [one.pixels for one in found.pictures]
        tokens = sum(self.table.tokens((one.shape[0], one.shape[1])) for one in pictures)
        said = stock_reader(work.device).say(pictures, self.asked, TASKS[work.task].new_tokens)
        return Said(said, tokens, self.full)


@cache
def stock_reader(device: str) -> StockReader:
    """Loaded once in every process."""
    return StockReader(device)


class StockReader:
    """The bundled model by its own class: pictures and a question in, a text out. Nothing of ours is attached."""

    def __init__(self, device: str = "cpu") -> None:
        import torch
        from transformers import Qwen3VLForConditionalGeneration
        from transformers.utils import logging

        from arr_coc.core.folders import part_folder
        from arr_coc.realizing.base import load_processor
        from arr_coc.realizing.bundled import model_folder

        logging.disable_progress_bar()
        folder = model_folder(part_folder(MINI))
        model = Qwen3VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32)
        self.model, self.processor = model.to(device).eval(), load_processor(folder)

    def say(self, pictures: Sequence[np.ndarray], question: str, new_tokens: int) -> str:
        import torch

        from ..calibrate.pointing import chat_inputs

        inputs = chat_inputs(self.processor, [pictures], [question]).to(self.model.device)
        with torch.inference_mode():
            said = self.model.generate(**inputs, max_new_tokens=new_tokens, do_sample=False)
        ids = said[:, inputs["input_ids"].shape[1] :]
        return self.processor.tokenizer.batch_decode(ids, skip_special_tokens=True)[0].strip()
