"""Load questions about pictures from records and public data sets."""

from __future__ import annotations

import glob
import os
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from zlib import crc32

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.runs import first_of, image_of, is_table, read_rows

from ..train.own_data import entries, file_of, parse_record

# Column names of the same field in different public sets.
QUESTIONS = ("question", "query", "text")
IDS = ("questionId", "question_id", "id")
IMAGES = ("image", "path")
ANSWERS = ("answers", "answer", "label", "multiple_choice_answer")


@dataclass(frozen=True)
class Question:
    """One question about one picture.

    Attributes:
        name: Name of the question in its data.
        group: The source of the record.
        image: A path, or the bytes of a picture.
        answers: The right answers.
        boxes: (K, 4) x0, y0, x1, y1 in 0–1: regions that the question needs.
        any_of: Whether one of the boxes is enough.
        words: Words of the picture if they are known, in any form that `as_words` takes.
        scene: Name of the scene; questions about one scene are no independent samples.
    """

    name: str
    group: str
    image: bytes | Path
    text: str
    answers: tuple[str, ...] = ()
    boxes: np.ndarray = field(default_factory=lambda: np.zeros((0, 4)))
    any_of: bool = False
    words: Any = None
    scene: str = ""

    @property
    def bare(self) -> str:
        return bare_question(self.text)


def bare_question(text: str) -> str:
    """Return the question without choices and instructions: the part that decides where tokens go."""
    return re.split(r"\n|\(A\)", text.strip())[0].strip() or text


def load_questions(
    data: str, limits: Mapping[str, int] | None = None, sources: Sequence[str] = (), seed: int = 0
) -> list[Question]:
    """Load the questions of a folder of records, or of tables in the layout of the hub.

    Args:
        data: A folder, a file or a pattern.
        limits: Maximum number by group, "" for all others. A larger limit adds questions to those of a smaller one,
            whatever the other groups are.
        sources: Only these groups.
        seed: Seed of the draw.
    """
    found: dict[str, list[Question]] = defaultdict(list)
    for question in _every(data):
        found[question.group].append(question)
    limits = limits or {}
    unknown = [name for name in (*sources, *filter(None, limits)) if name not in found]
    if unknown or not found:
        of = f" of {unknown[0]}; choose from {', '.join(found)}" if unknown and found else ""
        raise InputError(f"{data} holds no record{of}")
    wanted = {group: several for group, several in found.items() if not sources or group in sources}
    return drawn(wanted, limits, seed)


def drawn(found: Mapping[str, Sequence[Question]], limits: Mapping[str, int], seed: int) -> list[Question]:
    """Draw questions within the limits; each group by itself, in its order."""
    chosen: list[Question] = []
    for group, several in found.items():
        order = np.random.default_rng([seed, crc32(group.encode())]).permutation(len(several))
        number = limits.get(group, limits.get("", len(several)))
        chosen += [several[place] for place in sorted(order[:number])]
    return chosen


def parse_limits(given: Iterable[str]) -> dict[str, int]:
    """Parse limits: N for every group, GROUP=N for one; return them by group, "" for the others."""
    limits = {}
    for one in given:
        group, _, number = one.rpartition("=")
        if not number.isdecimal() or int(number) < 1:
            raise InputError(f"--limit {one} leaves nothing to measure; give at least 1, or SOURCE=N")
        limits[group] = int(number)
    return limits


def _every(data: str) -> Iterator[Question]:
    pattern = f"{glob.escape(data)}/*" if os.path.isdir(data) else glob.escape(data) if os.path.exists(data) else data
    files = sorted(map(Path, glob.glob(pattern, recursive=True)))
    records = os.path.exists(Path(data) / "records.jsonl")
    files = [] if records else [path for path in files if is_table(path)]
    if files and not (len(files) == 1 and _is_records(files[0])):
        return (question for path in files for question in table_questions(path))
    return record_questions(Path(data))


def _is_records(path: Path) -> bool:
    """Tell whether a table holds records, which have boxes."""
    return any("boxes" in row for _, row in zip(range(1), (row for _, row in read_rows(path)), strict=False))


def record_questions(folder: Path) -> Iterator[Question]:
    """Yield records of `records.jsonl`, a .jsonl or a .parquet: image, query, boxes, answer, source."""
    file = file_of(folder)
    for number, entry in entries(file):
        try:
            one = parse_record(number, entry, file.parent)
        except InputError as error:
            raise InputError(f"line {number} of {file} is not a record ({error})") from error
        yield Question(
            name=f"{one.source} {number}",
            group=one.source,
            image=one.image,
            text=one.query,
            answers=(one.answer,) if one.answer else (),
            boxes=one.boxes,
            any_of=bool(entry.get("any_of")),
            words=one.words,
            scene=entry.get("video") or (one.image.name if isinstance(one.image, Path) else str(number)),
        )


def table_questions(path: Path) -> Iterator[Question]:
    """Yield rows of a public set: image ({bytes, path}, bytes or a path), question, answers."""
    for number, row in read_rows(path):
        where = f"row {number + 1} of {path}"
        text, image = first_of(row, QUESTIONS), image_of(first_of(row, IMAGES), path.parent)
        if not isinstance(text, str) or not text.strip() or image is None:
            raise InputError(f"{where} needs a question and an image; it has {', '.join(sorted(row))}")
        answers = answers_of(first_of(row, ANSWERS))
        if not answers:
            raise InputError(f"{where} has no true answer; take the validation split, not the test split")
        named = first_of(row, IDS)
        yield Question(f"{path.name}#{number}" if named is None else str(named), "", image, text, answers)


def answers_of(value: Any) -> tuple[str, ...]:
    """Return answers as texts: one, several, or the ten of VQAv2, which are mappings."""
    if isinstance(value, dict):
        value = value.get("answer")
    if isinstance(value, str | int | float):
        return (str(value),)
    return tuple(answer for one in value or () for answer in answers_of(one))


def by_picture(questions: Sequence[Question]) -> Iterator[list[Question]]:
    """Group questions by group and picture, in the order of their first appearance."""
    grouped: dict[tuple[str, bytes | Path], list[Question]] = defaultdict(list)
    for question in questions:
        grouped[question.group, question.image].append(question)
    order = {group: place for place, group in enumerate(dict.fromkeys(one.group for one in questions))}
    for key in sorted(grouped, key=lambda one: order[one[0]]):
        yield grouped[key]
