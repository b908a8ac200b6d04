"""`Looker`: columns of pictures and questions in, columns of results out. One class for every engine."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import torch_threads
from ...core.errors import InputError
from ...core.folders import MINI
from ...core.values import Allocation, DocumentAllocation, JsonObject
from ...options import Options

if TYPE_CHECKING:
    from ...answering.eye import Eye

COLUMNS = (
    *("path", "query", "tokens", "full", "leaves", "scores", "text", "uncertainty", "seconds", "source", "error"),
    *("scale", "pages", "unseen"),
)
Columns = JsonObject


@dataclass(frozen=True)
class LookerOptions:
    """How all rows of a job are looked at. model: also answers, where there is one. threads: of each worker."""

    model: str | None = None
    options: Options = field(default_factory=Options)
    threads: int = 1

    def settings(self) -> JsonObject:
        """What the rows of one folder of results have in common; where they were computed is not part of it."""
        return {"model": self.model, **replace(self.options, device="cpu").to_json()}


class Looker:
    """Loads when it is made, once in a process; then takes any number of batches.

    Columns in: path, query, and data (bytes of the picture; empty where its path is read). Columns out: `COLUMNS`,
    one row for each that came in. leaves: (N, 3) int16 in bytes: row, column and level of each token, on a grid of the
    picture `scale` times as large; scores: (N,) float32 in bytes. pages: of a document, (P, 2) int32 in bytes: the
    pages with tokens and how many, whose leaves follow one another. unseen: pages without tokens. A picture that
    cannot be used is a row with an error.
    """

    def __init__(self, ways: LookerOptions) -> None:
        # Before anything is imported that makes a pool of them.
        os.environ.setdefault("OMP_NUM_THREADS", str(ways.threads))
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        self.ways = ways
        self._shown: tuple[str, Any] | None = None
        if ways.model is not None:
            _ = self.eye

    @cached_property
    def eye(self) -> Eye:
        from ...answering.eye import Eye

        return Eye.from_pretrained(self.ways.model or MINI, device=self.ways.options.device)

    def __call__(self, columns: Mapping[str, Sequence[Any]]) -> Columns:
        data = columns["data"] if "data" in columns else [b""] * len(columns["path"])
        with torch_threads(self.ways.threads):
            rows = [
                self.row(str(path), str(query), bytes(held))
                for path, query, held in zip(columns["path"], columns["query"], data, strict=True)
            ]
        return as_columns(rows)

    def row(self, path: str, query: str, data: bytes = b"") -> JsonObject:
        started = perf_counter()
        row = failed(path, query, "")
        try:
            row |= (self._looked if self.ways.model is None else self._answered)(path, query, data)
        except InputError as error:
            row["error"] = str(error)
        except Exception as error:  # whatever one picture does, the others are looked at
            row["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return row | {"seconds": perf_counter() - started}

    def _looked(self, path: str, query: str, data: bytes) -> JsonObject:
        from ...looking import prepare

        if self._shown is None or self._shown[0] != path:  # several questions about a picture: it is sensed once
            self._shown = None
            self._shown = path, prepare(data or path)
        look = self._shown[1].look(query, self.ways.options)
        laid = look.allocation
        found = placed_pages(laid) if isinstance(laid, DocumentAllocation) else placed(laid)
        return found | {"source": source_of(look.notes, self.ways.options)}

    def _answered(self, path: str, query: str, data: bytes) -> JsonObject:
        if self._shown is None or self._shown[0] != path:
            self._shown = None
            self.eye.set_image(data or path)
            self._shown = path, None
        answer = self.eye.ask(query, options=self.ways.options)
        said = {"text": answer.text, "uncertainty": answer.uncertainty, "full": answer.full, "tokens": answer.tokens}
        said["source"] = source_of(answer.notes, self.ways.options)
        if not answer.pages:
            return placed(answer.allocation) | said
        looked = [(page, step.allocation) for page, step in zip(answer.pages, answer.passes, strict=True)]
        return joined_pages(looked) | said | {"unseen": answer.of_pages - len(set(answer.pages))}


def placed_pages(allocation: DocumentAllocation) -> JsonObject:
    """The row of a `DocumentAllocation`."""
    looked = [(page.number, page.allocation) for page in allocation.pages if page.allocation is not None]
    told = {"tokens": allocation.tokens, "full": allocation.full}
    return joined_pages(looked) | told | {"unseen": allocation.of_pages - len(looked)}


def joined_pages(looked: Sequence[tuple[int, Allocation]]) -> JsonObject:
    """Leaves and scores of several pages, one after another, and which pages these are."""
    rows = [placed(allocation) for _, allocation in looked]
    pages = np.array([(number, allocation.tokens) for number, allocation in looked], dtype="<i4")
    return {
        **{name: b"".join(row[name] for row in rows) for name in ("leaves", "scores")},
        "pages": pages.tobytes(),
    }


def placed(allocation: Allocation) -> JsonObject:
    return {
        "tokens": allocation.tokens,
        "full": allocation.full,
        "scale": allocation.scale * 2.0**-allocation.finest,
        "leaves": allocation.leaf_cells().astype("<i2").tobytes(),
        "scores": allocation.scores.astype("<f4").tobytes(),
    }


def failed(path: str, query: str, error: str) -> JsonObject:
    """A row about which nothing is known but what went wrong."""
    row: dict[str, object] = {"path": path, "query": query, "tokens": 0, "full": 0, "leaves": b"", "scores": b""}
    row |= {"text": "", "uncertainty": np.nan, "seconds": 0.0, "source": "", "error": error}
    return row | {"scale": 1.0, "pages": b"", "unseen": 0}


def source_of(notes: Sequence[str], options: Options) -> str:
    """Where the relevance came from, as the notes say; else what was asked for."""
    found = (re.match(r"relevance '([^']+)'", note) for note in notes)
    return next((match[1] for match in found if match), str(options.relevance or "auto"))


def as_columns(rows: Sequence[Mapping[str, object]]) -> Columns:
    return {name: column([row[name] for row in rows]) for name in COLUMNS}


def column(values: Sequence[object]) -> np.ndarray:
    """Numbers as numbers, everything else as objects, which is what a table of any engine takes."""
    if values and isinstance(values[0], int | float):
        return np.asarray(values)
    return np.fromiter(values, dtype=object, count=len(values))
