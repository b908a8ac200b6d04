"""`bench vqa`: a model's answers on a public set as it lies on the hub: all tokens, ours, and the controls at as many.

Every way sees the very same questions, so that differences are taken question by question. Answers are appended to a
file as they come, and a run that was stopped goes on behind them.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.records import count_rows, first_of, image_of, is_table, read_rows, table_files
from arr_coc.pictures.load import load_picture, magnified

from . import vqa_metrics as metrics

if TYPE_CHECKING:
    from arr_coc.core.values import Answer
    from arr_coc.eye.eye import Eye

FULL, OURS, WORDS, SMALLER = "full", "ours", "by its words", "smaller picture"
# Ours on the picture, read larger: as many tokens, of less ground.
CLOSER, TIMES = "ours, read larger", 1.5
# Way → the strategy that it lays out with; None is the model's own.
CONTROLS = {"uniform": "uniform", "random": "random", "shuffled": "shuffled"}
WAYS = (OURS, "uniform", SMALLER, "random", "shuffled")
SHORT = "\nAnswer the question using a single word or phrase."
WORD = "\nAnswer the question with a single word."
LETTER = "\nAnswer with the option's letter from the given choices directly."
# Columns under which the public sets have the same thing.
QUESTIONS, NAMES, IMAGES = ("question", "query", "text"), ("questionId", "question_id", "id"), ("image", "path")
ANSWERS = ("answers", "answer", "label", "multiple_choice_answer")


@dataclass(frozen=True)
class Task:
    """metric: (said, true answers) → 0 to 1. prompt: what follows the question. new_tokens: of the longest answer."""

    measure: str
    metric: Callable[[str, Sequence[str]], float]
    prompt: str
    new_tokens: int = 32


TASKS = {
    "docvqa": Task("ANLS", metrics.anls, SHORT),
    "infovqa": Task("ANLS", metrics.anls, SHORT),
    "chartqa": Task("relaxed accuracy", metrics.relaxed_accuracy, WORD, 16),
    "textvqa": Task("VQA accuracy", metrics.textvqa_accuracy, SHORT),
    "vqav2": Task("VQA accuracy", metrics.vqa_accuracy, SHORT, 16),
    "vstar": Task("accuracy", metrics.choice, LETTER, 16),
    "needle": Task("exact match", metrics.exact, ""),
}


class Question(NamedTuple):
    """name: of the question in its set. image: bytes or a path. answers: the true ones. words: of the picture, where
    they are known: the way `by its words` takes them."""

    name: str
    image: bytes | Path
    text: str
    answers: tuple[str, ...]
    words: Any = None

    @property
    def bare(self) -> str:
        """What is asked, without choices and instructions: what tokens are spent on."""
        return re.split(r"\n|\(A\)", self.text.strip())[0].strip() or self.text


def questions_of(data: str, limit: int | None = None, seed: int = 0) -> Iterator[Question]:
    """The questions of tables as they lie on the hub. limit: so many, drawn by the seed; a larger one draws the same
    and more. Pictures are read one after another."""
    files = table_files(data)
    if not files or not all(is_table(path) for path in files) or not all(os.path.exists(path) for path in files):
        raise InputError(f"--data {data} is no parquet or jsonl, and no folder or pattern of them")
    counts = [count_rows(path) for path in files]
    order = np.random.default_rng(seed).permutation(sum(counts))
    chosen = None if limit is None or limit >= len(order) else set(order[:limit].tolist())
    first = 0
    for path, count in zip(files, counts, strict=True):
        for number, row in read_rows(path):
            if chosen is None or first + number in chosen:
                yield question_of(row, path, number)
        first += count


def question_of(row: dict[str, Any], path: Path, number: int) -> Question:
    where = f"row {number + 1} of {path}"
    text, image = first_of(row, QUESTIONS), image_of(first_of(row, IMAGES), path.parent)
    if not isinstance(text, str) or not text.strip() or image is None:
        raise InputError(f"{where} needs a question and an image; it has {', '.join(sorted(row))}")
    answers = answers_of(first_of(row, ANSWERS))
    if not answers:
        raise InputError(f"{where} has no true answer; take the validation split, not the test split")
    named = first_of(row, NAMES)
    return Question(f"{path.name}#{number}" if named is None else str(named), image, text, answers)


def answers_of(value: Any) -> tuple[str, ...]:
    """One answer, several, or the ten of VQAv2, each with its own name."""
    if isinstance(value, dict):
        value = value.get("answer")
    if isinstance(value, str | int | float):
        return (str(value),)
    return tuple(answer for one in value or () for answer in answers_of(one))


# ---- answers ---------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """A way to spend tokens, and the share of the full count that it may spend."""

    way: str
    keep: float

    @property
    def name(self) -> str:
        return self.way if self.way == FULL else f"{self.way} {self.keep:g}"


def cells_of(keeps: Sequence[float]) -> list[Cell]:
    return [Cell(FULL, 1.0), *(Cell(way, keep) for keep in keeps for way in WAYS)]


@dataclass(frozen=True)
class Asking:
    """How all questions are asked. prompt: what follows each of them. strategy: instead of the eye's own."""

    task: Task
    prompt: str
    strategy: str | None = None
    seed: int = 0

    def ask(self, eye: Eye, question: Question, cell: Cell, budget: int) -> Answer:
        """The eye has the picture; for a smaller one it is shown that, and afterwards the picture again."""
        asked, bare = question.text, question.bare
        if self.prompt.strip() and self.prompt.strip() not in asked:
            asked += self.prompt
        how: dict[str, Any] = {"max_new_tokens": self.task.new_tokens, "look_for": bare}
        if cell.way == FULL:
            return eye.ask(asked, keep=1.0, **how)
        if cell.way == SMALLER:
            try:
                show_smaller(eye, question.image, budget)
                return eye.ask(asked, keep=1.0, **how)
            finally:
                eye.set_image(question.image)
        if cell.way == CLOSER:
            try:
                eye.set_image(magnified(load_picture(question.image), TIMES))
                return eye.ask(asked, budget, strategy=self.strategy or eye.strategy, **how)
            finally:
                eye.set_image(question.image)
        if cell.way == WORDS:
            how |= {"words": question.words, "relevance": "words"}
        strategy = self.strategy or eye.strategy
        if cell.way in CONTROLS:
            # Controls are laid out like what they control.
            shaped = strategy in ("overlay", "quadtree") and cell.way != "uniform"
            how |= {"strategy": CONTROLS[cell.way], **({"shape": strategy} if shaped else {})}
            how["seed"] = crc32(f"{self.seed} {question.name}".encode())
        else:
            how["strategy"] = strategy
        return eye.ask(asked, budget, **how)


def full_tokens(eye: Eye, text: str) -> int:
    """Visual tokens of the untouched prompt about the eye's picture."""
    return eye.visual_tokens(eye.prepare(text, keep=1.0).inputs)


def show_smaller(eye: Eye, image: bytes | Path, budget: int) -> None:
    """The picture itself, reduced until the stock model takes no more than the budget: what one does without us."""
    from PIL import Image

    pixels = Image.fromarray(load_picture(image).pixels)
    scale = min(1.0, math.sqrt(budget / full_tokens(eye, "?")))
    while True:
        size = max(1, round(pixels.width * scale)), max(1, round(pixels.height * scale))
        eye.set_image(pixels.resize(size, Image.Resampling.LANCZOS))
        if full_tokens(eye, "?") <= budget or max(size) <= 8:
            return
        scale *= 0.97


class Answers:
    """Answers by question and cell, appended to a file as they come. A last line that was torn off is asked again."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[tuple[str, str], dict[str, Any]] = {}
        whole = b""
        if os.path.exists(path):
            for line in path.read_bytes().splitlines(keepends=True):
                try:
                    row = json.loads(line)
                    self.rows[row["question"], row["cell"]] = row
                except (ValueError, KeyError, TypeError):
                    break
                whole += line if line.endswith(b"\n") else line + b"\n"
            if whole != path.read_bytes():
                path.write_bytes(whole)
        path.parent.mkdir(parents=True, exist_ok=True)

    def add(self, row: dict[str, Any]) -> None:
        self.rows[row["question"], row["cell"]] = row
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row, ensure_ascii=False) + "\n")


def measure_vqa(
    eye: Callable[[], Eye],
    questions: Iterator[Question],
    cells: Sequence[Cell],
    asking: Asking,
    answers: Answers,
    advance: Callable[[], None] = lambda: None,
) -> list[str]:
    """Ask what is not answered yet; the names of all questions. eye: gives the model, loaded when first needed."""
    names: list[str] = []
    for question in questions:
        names.append(question.name)
        waiting = [cell for cell in cells if (question.name, cell.name) not in answers.rows]
        if waiting:
            for row in asked_of(eye(), question, waiting, asking):
                answers.add(row)
        advance()
    if len(set(names)) < len(names):
        raise InputError("two questions have the same name; give each an id of its own")
    return names


def asked_of(eye: Eye, question: Question, cells: Sequence[Cell], asking: Asking) -> Iterator[dict[str, Any]]:
    """One row for each cell. A picture that cannot be used is one for all, without a score."""
    try:
        eye.set_image(question.image)
        full = full_tokens(eye, question.bare)
    except InputError as error:
        if "tiles or views" in str(error):
            raise  # of every picture, not of this one
        yield from ({"question": question.name, "cell": cell.name, "error": str(error)} for cell in cells)
        return
    for cell in cells:
        answer = asking.ask(eye, question, cell, max(1, math.floor(cell.keep * full + 1e-9)))
        yield {
            "question": question.name,
            "cell": cell.name,
            "asked": question.bare,
            "said": answer.text,
            "true": list(dict.fromkeys(question.answers)),
            "score": round(asking.task.metric(answer.text, question.answers), 5),
            "tokens": answer.tokens,
            "full": full,
            "uncertainty": round(answer.uncertainty, 5),
            "seconds": round(sum(answer.seconds.values()), 4),
        }
