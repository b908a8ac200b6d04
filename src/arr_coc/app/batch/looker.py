"""`Looker`: turn one picture and one question into one row of results; all engines use it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

from ...core.errors import InputError
from ...core.runs import torch_threads
from ...core.values import Allocation, DocumentAllocation, JsonObject
from ...options import Options

# Columns of a row, with their default values.
COLUMNS: JsonObject = {
    "path": "",
    "query": "",
    "tokens": 0,
    "full": 0,
    "leaves": (),
    "scores": (),
    "text": "",
    "uncertainty": None,
    "seconds": 0.0,
    "source": "",
    "error": "",
    "scale": 1.0,
    "pages": (),
    "unseen": 0,
}
DIGITS = 5


@dataclass(frozen=True)
class LookerOptions:
    """How all rows of a job are made. model: answers the questions; None: only look. threads: of each worker."""

    model: str | None = None
    options: Options = field(default_factory=Options)
    threads: int = 1

    def settings(self) -> JsonObject:
        """Return the settings that all rows of one folder share; the device is not among them."""
        return {"model": self.model, **replace(self.options, device="cpu").to_json()}


class Looker:
    """Make rows of results; the model is loaded once, on construction.

    Rows in: path, query, and data (bytes of the picture; empty to read the path). Rows out: `COLUMNS`. leaves:
    [row, column, level] of each token, on a grid of the picture resized by `scale`. pages: of a document, [number,
    tokens] of each page with tokens; their leaves are concatenated. unseen: pages without tokens. A picture that
    cannot be used becomes a row with an error.
    """

    def __init__(self, ways: LookerOptions) -> None:
        # Set before any import that starts a pool of threads.
        os.environ.setdefault("OMP_NUM_THREADS", str(ways.threads))
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        from ...looking import prepare

        self.ways, self._show = ways, prepare
        self._shown: tuple[str, Any] | None = None
        if ways.model is not None:
            from ...asking import loaded_or_light

            self._show = loaded_or_light(ways.model, ways.options.device).set_image

    def __call__(self, row: JsonObject) -> JsonObject:
        started = perf_counter()
        path, query, data = row["path"], row["query"], row.get("data", b"")
        result = failed(path, query, "")
        try:
            with torch_threads(self.ways.threads):
                result |= (self._look if self.ways.model is None else self._answer)(path, query, data)
        except InputError as error:
            result["error"] = str(error)
        except Exception as error:  # an error in one picture must not stop the others
            result["error"] = f"{type(error).__name__}: {' '.join(str(error).split())}"
        return result | {"seconds": round(perf_counter() - started, DIGITS)}

    def _prepared(self, path: str, data: bytes) -> Any:
        """Load a picture, or return it if the question before was about the same one."""
        if self._shown is None or self._shown[0] != path:
            self._shown = None
            self._shown = path, self._show(data or path)
        return self._shown[1]

    def _look(self, path: str, query: str, data: bytes) -> JsonObject:
        look = self._prepared(path, data).look(query, self.ways.options)
        laid = look.allocation
        if isinstance(laid, DocumentAllocation):
            pages = [(page.number, page.allocation) for page in laid.pages if page.allocation is not None]
            row = placed(pages, laid.of_pages)
        else:
            row = placed([(1, laid)])
        return row | {"tokens": laid.tokens, "full": laid.full, "source": source_of(look.notes, self.ways.options)}

    def _answer(self, path: str, query: str, data: bytes) -> JsonObject:
        answer = self._prepared(path, data).ask(query, options=self.ways.options)
        pages = list(zip(answer.pages, (step.allocation for step in answer.passes), strict=False))
        return placed(pages or [(1, answer.allocation)], answer.of_pages if pages else 0) | {
            "tokens": answer.tokens,
            "full": answer.full,
            "text": answer.text,
            "uncertainty": round(answer.uncertainty, DIGITS),
            "source": source_of(answer.notes, self.ways.options),
        }


def placed(pages: Sequence[tuple[int, Allocation]], of_pages: int = 0) -> JsonObject:
    """Return leaves and scores of a picture, or of the pages of a document concatenated, with their numbers."""
    laid = [allocation for _, allocation in pages]
    row = {
        "leaves": [leaf for one in laid for leaf in one.leaf_cells().tolist()],
        "scores": [score for one in laid for score in one.scores.astype(float).round(DIGITS).tolist()],
    }
    if not of_pages:
        return row | {"scale": round(laid[0].scale, DIGITS)}
    numbers = [[number, allocation.tokens] for number, allocation in pages]
    return row | {"pages": numbers, "unseen": of_pages - len({number for number, _ in pages})}


def failed(path: str, query: str, error: str) -> JsonObject:
    """Return a row with an error and default values."""
    return {**COLUMNS, "path": path, "query": query, "error": error}


def source_of(notes: Sequence[str], options: Options) -> str:
    """Return the source of relevance that the notes name, else the one in the options."""
    named = (re.match(r"relevance '([^']+)'", note) for note in notes)
    return next((match[1] for match in named if match), str(options.relevance or "auto"))
