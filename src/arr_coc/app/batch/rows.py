"""The rows of a batch, pictures × questions, and the folder of finished rows.

Neither is held in memory as a whole. Only the driver writes, whichever engine works, so that a worker that dies loses
nothing that is written, and a row made twice is written once.
"""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from hashlib import blake2b
from pathlib import Path
from time import monotonic
from typing import NamedTuple

from ...core.answer import is_unsure
from ...core.errors import InputError
from ...core.folders import write_text
from ...core.runs import WHOLE, Share, count_rows, first_of, image_of, is_table, locked_folder, read_rows, same_settings
from ...core.values import JsonObject
from ...options import check_question
from ...pictures.document import READABLE

PATHS, QUERIES, IMAGES = ("path", "file"), ("query", "question"), ("image", "bytes")
SETTINGS = "batch.json"
# Approximate maximum number of rows in a part.
ROWS = 1000


class BatchRow(NamedTuple):
    """One picture and question. data: bytes of a picture inside a table; empty to read it from its path."""

    path: str
    query: str
    data: bytes = b""


def key_of(path: str, query: str) -> int:
    """Hash path and question to 64 bits: among ten million rows, the chance of any collision is 3 in a million."""
    return int.from_bytes(blake2b(f"{path}\0{query}".encode("utf-8", "surrogatepass"), digest_size=8).digest())


@dataclass(frozen=True)
class Todo:
    """The rows to make. place: a folder of pictures, a pattern, one picture, or a table of rows. queries: for every
    picture without a question of its own."""

    place: str
    queries: tuple[str, ...] = ()

    def check(self) -> None:
        """Refuse a place without pictures, and pictures without questions."""
        for query in self.queries:
            check_question(query)
        if next(self.rows(), None) is None:
            raise InputError(f"{self.place} has no picture with a question; give pictures, and --query")

    def rows(self, share: Share = WHOLE) -> Iterator[BatchRow]:
        """Yield the rows of one of several readers. share: its number and their count; together they read all once."""
        part, parts = share
        for path in self._files():
            if is_table(Path(path)):
                yield from self._table(Path(path), share)
            # By name, not by position: two machines may list a folder in different orders.
            elif key_of(path, "") % parts == part:
                yield from (BatchRow(path, query) for query in dict.fromkeys(self.queries))

    def count(self) -> int:
        """Count the rows; duplicates count each time."""
        queries = len(set(self.queries))
        return sum(count_rows(Path(path)) if is_table(Path(path)) else queries for path in self._files())

    def _files(self) -> Iterator[str]:
        if os.path.isdir(self.place):
            with os.scandir(self.place) as entries:  # not sorted: sorting would hold all names in memory
                for entry in entries:
                    if READABLE.fullmatch(entry.name) and entry.is_file():
                        yield entry.path
        elif os.path.isfile(self.place):
            yield self.place
        elif glob.has_magic(self.place):
            yield from (path for path in glob.iglob(self.place, recursive=True) if os.path.isfile(path))
        else:
            raise InputError(f"{self.place} is neither a folder, a file nor a pattern; give pictures or a table")

    def _table(self, path: Path, share: Share) -> Iterator[BatchRow]:
        for number, row in read_rows(path, share):
            named, image = first_of(row, PATHS), image_of(first_of(row, IMAGES), path.parent)
            # Names inside the picture columns of hub datasets are not unique, so they cannot name rows.
            place = named or f"{path}#{number}" if isinstance(image, bytes) else image_of(named, path.parent) or image
            if place is None or isinstance(place, bytes):
                raise InputError(
                    f"row {number + 1} of {path} has no picture, only {sorted(row)}; add a column path or image"
                )
            query = first_of(row, QUERIES)
            for asked in (query,) if isinstance(query, str) and query.strip() else dict.fromkeys(self.queries):
                yield BatchRow(str(place), asked, image if isinstance(image, bytes) else b"")


class Store:
    """A folder of parts, each complete or absent, and the keys of its rows.

    settings: how rows are made; a folder with rows made by other settings is refused. rows, seconds: a part is written
    when it has this number of rows, or when its first row has this age.
    """

    def __init__(self, folder: Path, settings: Mapping[str, object], *, rows: int = ROWS, seconds: float = 0.0) -> None:
        self.folder, self.rows, self.seconds, self._made = folder, rows, seconds, not folder.exists()
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = ExitStack()
        self._lock.enter_context(locked_folder(folder, "batch"))
        same_settings(folder / SETTINGS, settings)
        self.keys = set(self._written())
        self.before = len(self.keys)
        self.counts = dict.fromkeys(("errors", "tokens", "full", "unsure", "unseen"), 0)
        self._waiting: list[JsonObject] = []
        self._since = 0.0
        self._next = 1 + max((int(path.stem.split("-")[1]) for path in folder.glob("part-*.jsonl")), default=0)

    def _written(self) -> Iterator[int]:
        """Yield the keys of all rows; first remove unfinished parts of a driver that was killed."""
        for path in self.folder.glob(".part-*"):
            path.unlink()
        for part in self.folder.glob("part-*.jsonl"):
            with part.open(encoding="utf-8") as lines:
                for line in lines:  # lines are long: parse only their beginning, path and query
                    row = json.loads(line.partition(', "tokens": ')[0] + "}")
                    yield key_of(row["path"], row["query"])

    def add(self, rows: Sequence[JsonObject]) -> int:
        """Add rows that are not written yet; return their number."""
        before = len(self.keys)
        for row in rows:
            key = key_of(row["path"], row["query"])
            if key in self.keys:
                continue
            if not self._waiting:
                self._since = monotonic()
            self.keys.add(key)
            self._waiting.append(row)
            self.counts["errors"] += bool(row["error"])
            self.counts["unsure"] += is_unsure(row["uncertainty"] or 0.0)
            for name in ("tokens", "full", "unseen"):
                self.counts[name] += row[name]
        if len(self._waiting) >= self.rows or (self._waiting and monotonic() - self._since >= self.seconds):
            self.flush()
        return len(self.keys) - before

    def summary(self) -> JsonObject:
        """Return the number of rows, of those from earlier runs, and the totals of the new ones."""
        return {"rows": len(self.keys), "before": self.before, "done": len(self.keys) - self.before, **self.counts}

    def flush(self) -> None:
        if self._waiting:
            rows, self._waiting = self._waiting, []
            # ASCII: file names may contain bytes that are not valid text; JSON escapes them.
            text = "".join(json.dumps(row) + "\n" for row in rows)
            write_text(self.folder / f"part-{self._next:06d}.jsonl", text)
            self._next += 1

    def close(self) -> None:
        try:
            self.flush()
            if self._made and not self.keys:  # no rows were written: remove the new folder
                (self.folder / SETTINGS).unlink()
                self.folder.rmdir()
        finally:
            self._lock.close()
