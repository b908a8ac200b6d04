"""Spoilt tables: records that trainings read (`--data`), and rows that `arr-coc batch` goes through."""

from __future__ import annotations

import json
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from batch_runs import written
from fuzzing import Case
from hunt_files import LISTED, coloured
from PIL import Image
from spoiling import TEXTS, spoil_bytes, spoil_json

from arr_coc.app.batch.looker import Looker, LookerOptions
from arr_coc.app.batch.rows import Todo, read_questions
from arr_coc.app.batch.store import Store
from arr_coc_lab.train.own_data import OwnRecord, read_own, split_by_picture, write_records

Draw = Callable[[random.Random], Case]


def pictures_in(folder: Path) -> list[str]:
    for number in range(3):
        Image.fromarray(coloured(64, 96, number)).save(folder / f"{number}.png")
    (folder / "damaged.png").write_bytes(spoil_bytes(random.Random(1), (folder / "0.png").read_bytes()))
    return ["0.png", "1.png", "2.png", "damaged.png"]


def table_of(chance: random.Random, rows: list[Any]) -> bytes:
    """Rows as lines of JSON, each perhaps spoilt, and then perhaps the file."""
    lines = [spoil_json(chance, row) if chance.random() < 0.7 else row for row in rows]
    data = "".join(json.dumps(line) + "\n" for line in lines).encode()
    return spoil_bytes(chance, data) if chance.random() < 0.3 else data


def records(folder: Path) -> Draw:
    """Records are read, split and written again; judgements among them."""
    names = pictures_in(folder)

    def draw(chance: random.Random) -> Case:
        rows: list[Any] = []
        for number in range(chance.choice((1, 3, 5))):
            row = {"image": chance.choice(names), "query": "the total?", "answer": "12.50", "words": LISTED}
            row |= {"boxes": [[0.1, 0.1, 0.4, 0.5]], "ctx_boxes": [], "id": str(number), "judged": None}
            rows.append({name: row[name] for name in row if name not in ("id", "judged") or chance.random() < 0.3})
            if chance.random() < 0.3:
                rows.append({"judges": str(number), "judged": "better", "boxes": [[0, 0, 0.5, 0.5]]})
        data, source = table_of(chance, rows), chance.choice(("boxes", "outcomes") * 5 + ("words",))
        strict = chance.random() < 0.2

        def call() -> None:
            path = folder / "records.jsonl"
            path.write_bytes(data)
            told: list[str] = []
            found = read_own(path, source, strict=strict, say=told.append)
            assert all("\n" not in line for line in told), told
            assert len(told) >= min(len(found.bad), 1)
            for record in found.records:
                assert record.load().pixels.ndim == 3
            write_records(folder / "again" / "records.jsonl", found.records)
            if source == "boxes":
                again = read_own(folder / "again" / "records.jsonl", source, say=told.append).records
                assert [known(one) for one in again] == [known(one) for one in found.records]
            learned, held_out = split_by_picture(found.records)
            assert not {one.picture for one in learned} & {one.picture for one in held_out}

        return f"{source} {data!r}", call

    return draw


def known(record: OwnRecord) -> tuple[Any, ...]:
    return record.query, record.answer, record.boxes.round(5).tolist(), record.picture


def batch(folder: Path) -> Draw:
    """Tables of pictures and questions, looked at and stored; a row is a result or one line, and none is lost."""
    names, looker = pictures_in(folder), Looker(LookerOptions(budget=4, relevance="look"))

    def draw(chance: random.Random) -> Case:
        rows = []
        for _ in range(chance.choice((1, 2, 4))):
            named, asked = chance.choice(("path", "image", "file")), chance.choice(("query", "question"))
            rows.append({named: chance.choice(names), asked: chance.choice(("red", *TEXTS))})
        table, questions = (
            table_of(chance, rows),
            table_of(chance, [{"query": "what?"}, {"path": "0.png", "query": "x"}]),
        )
        place = chance.choice(("rows.jsonl", "rows.jsonl", "*.png", ".", "nowhere", *TEXTS))

        def call() -> None:
            shutil.rmtree(folder / "out", ignore_errors=True)
            (folder / "rows.jsonl").write_bytes(table)
            (folder / "questions.jsonl").write_bytes(questions)
            queries, own = read_questions(folder / "questions.jsonl")
            todo = Todo(place if place in TEXTS else str(folder / place), queries, own, frozenset({".png"}))
            todo.check()
            wanted = list(todo.rows())[:12]
            store = Store(folder / "out", {"budget": 4}, rows=3)
            for row in wanted:
                found = looker({"path": [row.path], "query": [row.query], "data": [row.data]})
                error = str(found["error"][0])
                assert "\n" not in error, error
                assert not re.match(r"\w+(Error|Exception): ", error), error
                store.add(found)
            store.close()
            stored = [(row["path"], row["query"]) for row in written(folder / "out")]
            assert sorted(stored) == sorted({(row.path, row.query) for row in wanted})

        return f"{place!r} {table!r} {questions!r}", call

    return draw
