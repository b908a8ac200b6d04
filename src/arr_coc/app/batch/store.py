"""The folder of results: parts that are whole or not there, and what is written already.

Only the driver writes, whichever engine works: a worker that dies takes nothing with it, and a row that is done twice
is written once. A part's JSON lines are what counts: its parquet is written before them and is nothing without them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from time import monotonic

import numpy as np

from ...core.files import arrow, has_parquet, locked_folder, replacing, same_settings, write_text
from ...core.values import JsonObject, is_unsure
from .looker import COLUMNS
from .rows import Keys, key_of

SETTINGS, KEYS = "batch.json", ".keys"
# Rows of a part, at most about.
ROWS = 1000
DIGITS = 5


class Store:
    """settings: how rows are made; a folder with rows that were made otherwise is refused. rows, seconds: a part is
    written when it has so many rows, or when its first row is so old."""

    def __init__(self, folder: Path, settings: Mapping[str, object], *, rows: int = ROWS, seconds: float = 0.0) -> None:
        self.folder, self.rows, self.seconds = folder, rows, seconds
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = ExitStack()
        self._lock.enter_context(locked_folder(folder, "batch"))
        same_settings(folder / SETTINGS, settings)
        self.keys = Keys(self._written())
        self.before = len(self.keys)
        self.errors = self.tokens = self.full = self.unsure = self.unseen = 0
        self._waiting: list[dict[str, object]] = []
        self._since = 0.0
        self._next = 1 + max((int(path.stem.split("-")[1]) for path in folder.glob("part-*.jsonl")), default=0)

    def _written(self) -> np.ndarray:
        """(n,) uint64: keys of all parts; what a driver that was killed has left unfinished is removed."""
        for path in self.folder.glob(".part-*"):
            path.unlink()
        for path in self.folder.glob("part-*.parquet"):
            if not path.with_suffix(".jsonl").exists():
                path.unlink()
        parts = sorted(self.folder.glob("part-*.jsonl"))
        return np.concatenate([np.zeros(0, np.uint64), *map(self._keys_of, parts)])

    def _keys_of(self, part: Path) -> np.ndarray:
        beside = self.folder / KEYS / part.stem
        if beside.exists():  # lines are long, and reading those of a million rows takes minutes
            return np.fromfile(beside, np.uint64)
        rows = (json.loads(line) for line in part.read_text(encoding="utf-8").splitlines())
        return np.array([key_of(row["path"], row["query"]) for row in rows], np.uint64)

    def add(self, columns: Mapping[str, Sequence[object]]) -> int:
        """Rows that are not written yet; how many they are."""
        new = 0
        for values in zip(*(columns[name] for name in COLUMNS), strict=True):
            row = dict(zip(COLUMNS, values, strict=True))
            key = key_of(str(row["path"]), str(row["query"]))
            if key in self.keys:
                continue
            if not self._waiting:
                self._since = monotonic()
            self.keys.add(key)
            self._waiting.append(row)
            self.errors += bool(row["error"])
            self.tokens += int(row["tokens"])
            self.full += int(row["full"])
            self.unsure += is_unsure(float(row["uncertainty"]))
            self.unseen += int(row["unseen"])
            new += 1
        if len(self._waiting) >= self.rows or (self._waiting and monotonic() - self._since >= self.seconds):
            self.flush()
        return new

    def summary(self) -> JsonObject:
        """Rows of the folder, those of before, and what the new ones cost."""
        counts = {name: getattr(self, name) for name in ("errors", "tokens", "full", "unsure", "unseen")}
        return {"rows": len(self.keys), "before": self.before, "done": len(self.keys) - self.before, **counts}

    def flush(self) -> None:
        if not self._waiting:
            return
        name = f"part-{self._next:06d}"
        rows, self._waiting = self._waiting, []
        if has_parquet():
            write_parquet(self.folder / f"{name}.parquet", rows)
        text = "".join(json_line(plain(row)) for row in rows)
        write_text(self.folder / f"{name}.jsonl", text)
        (self.folder / KEYS).mkdir(exist_ok=True)
        with replacing(self.folder / KEYS / name) as temporary:
            np.array([key_of(str(row["path"]), str(row["query"])) for row in rows], np.uint64).tofile(temporary)
        self._next += 1

    def close(self) -> None:
        try:
            self.flush()
        finally:
            self._lock.close()


def plain(row: JsonObject) -> JsonObject:
    """A row for JSON: leaves as [row, column, level], scores as numbers."""
    leaves = np.frombuffer(row["leaves"], "<i2").reshape(-1, 3).tolist()
    scores = np.frombuffer(row["scores"], "<f4").astype(float).round(DIGITS).tolist()
    uncertainty = float(row["uncertainty"])
    numbers = {"tokens": int(row["tokens"]), "full": int(row["full"]), "seconds": round(float(row["seconds"]), DIGITS)}
    numbers["scale"] = round(float(row["scale"]), DIGITS)
    known = {"uncertainty": None if np.isnan(uncertainty) else round(uncertainty, DIGITS)}
    texts = {name: str(row[name]) for name in ("path", "query", "text", "source", "error")}
    pages = np.frombuffer(row["pages"], "<i4").reshape(-1, 2).tolist()
    made = {**texts, **numbers, **known, "leaves": leaves, "scores": scores}
    made |= {"pages": pages, "unseen": int(row["unseen"])}
    return {name: made[name] for name in COLUMNS}


def json_line(row: Mapping[str, object]) -> str:
    """Names of files may hold bytes that are no text, and questions half a character: JSON can escape them."""
    line = json.dumps(row, ensure_ascii=False) + "\n"
    return line if line == encodable(line) else json.dumps(row) + "\n"


def encodable(value: object) -> object:
    """A text without what UTF-8 cannot hold; anything else as it is."""
    return value.encode(errors="replace").decode() if isinstance(value, str) else value


def write_parquet(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    pa, parquet = arrow(), arrow("pyarrow.parquet")
    kinds = {"leaves": pa.binary(), "scores": pa.binary(), "tokens": pa.int32(), "full": pa.int32()}
    kinds |= {"pages": pa.binary(), "unseen": pa.int32()}
    kinds |= {"uncertainty": pa.float32(), "seconds": pa.float32(), "scale": pa.float32()}
    columns = {
        name: pa.array([encodable(row[name]) for row in rows], kinds.get(name, pa.string()), from_pandas=True)
        for name in COLUMNS
    }
    with replacing(path) as temporary:
        parquet.write_table(pa.table(columns), temporary)
