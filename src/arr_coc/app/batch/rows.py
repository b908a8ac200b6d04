"""What is to be looked at: pictures × questions, gone through one after another and never held all at once."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ...core.errors import InputError
from ...core.files import WHOLE, Share, count_rows, first_of, image_of, is_table, read_rows, table_files
from ...options import check_question

PATHS, QUERIES, IMAGES = ("path", "file"), ("query", "question"), ("image", "bytes")
# Newest keys that are held as a set before they are sorted in among the others.
RECENT = 1 << 16


class BatchRow(NamedTuple):
    """data: of a picture that lies in a table; empty where it is to be read from its path."""

    path: str
    query: str
    data: bytes = b""

    @property
    def key(self) -> int:
        return key_of(self.path, self.query)


def key_of(path: str, query: str) -> int:
    """64 bits for path and question: two of ten million rows share one with a chance of 3 in a million."""
    return int.from_bytes(blake2b(f"{path}\0{query}".encode("utf-8", "surrogatepass"), digest_size=8).digest())


class Keys:
    """A set of keys at eight bytes each, so that a million rows take eight megabytes."""

    def __init__(self, known: np.ndarray | None = None) -> None:
        self._known = np.unique(np.asarray([] if known is None else known, dtype=np.uint64))
        self._recent: set[int] = set()

    def __contains__(self, key: int) -> bool:
        place = np.searchsorted(self._known, np.uint64(key))
        return key in self._recent or bool(place < len(self._known) and self._known[place] == np.uint64(key))

    def __len__(self) -> int:
        return len(self._known) + len(self._recent)

    def add(self, key: int) -> None:
        if key not in self:
            self._recent.add(key)
        if len(self._recent) >= RECENT:
            self._known, self._recent = self.array(), set()

    def array(self) -> np.ndarray:
        """(n,) uint64, sorted."""
        return np.union1d(self._known, np.fromiter(self._recent, np.uint64, len(self._recent)))


@dataclass(frozen=True)
class Todo:
    """place: a folder of pictures, a pattern, one picture, or tables of rows. queries: asked of every picture that does
    not bring its own. own: further questions, by the name or the path of the picture they are about."""

    place: str
    queries: tuple[str, ...] = ()
    own: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    suffixes: frozenset[str] = frozenset()

    def check(self) -> None:
        """Is there anything to ask, of anything? Raises `InputError`."""
        for query in self.queries:
            check_question(query)
        first = next(self.rows(), None)
        if first is None:
            raise InputError(
                f"{self.place} holds no picture with a question; give --questions or --query, and pictures"
            )

    def rows(self, share: Share = WHOLE) -> Iterator[BatchRow]:
        """share: which of several readers this is; together they go through everything once."""
        tables = self._tables()
        if tables:
            for path in tables:
                yield from self._table(path, share)
            return
        part, parts = share
        for path in self._pictures():
            # By name, not by number: two machines may list a folder in two orders.
            if key_of(path, "") % parts == part:
                for query in self._asked(path, ()):
                    yield BatchRow(path, query)

    def count(self) -> int:
        """Rows, those that are there twice counted twice; tables by their lines, where each is one."""
        tables = self._tables()
        if tables and len(self.queries) <= 1 and not self.own:
            return sum(map(count_rows, tables))
        return sum(1 for _ in self.rows())

    def _tables(self) -> list[Path]:
        place = Path(self.place)
        if os.path.isdir(place) and next(self._inside(place), None) is not None:
            return []
        found = table_files(self.place)
        return found if found and all(map(is_table, found)) else []

    def _inside(self, folder: Path) -> Iterator[str]:
        # Not sorted: a sorted folder would be held whole.
        with os.scandir(folder) as entries:
            for entry in entries:
                if os.path.splitext(entry.name)[1].lower() in self.suffixes and entry.is_file():
                    yield entry.path

    def _pictures(self) -> Iterator[str]:
        place = Path(self.place)
        if os.path.isdir(place):
            yield from self._inside(place)
        elif not os.path.exists(place) and glob.has_magic(self.place):
            yield from (path for path in glob.iglob(self.place, recursive=True) if os.path.isfile(path))
        elif os.path.isfile(place):
            yield self.place
        else:
            raise InputError(
                f"{self.place} is neither a folder, a file nor a pattern; give pictures or a table of them"
            )

    def _asked(self, path: str, given: Sequence[str]) -> Sequence[str]:
        own = (*self.own.get(path, ()), *self.own.get(os.path.basename(path), ())) if self.own else ()
        return tuple(dict.fromkeys((*(given or self.queries), *own)))

    def _table(self, path: Path, share: Share) -> Iterator[BatchRow]:
        for number, row in read_rows(path, share):
            named, image = first_of(row, PATHS), image_of(first_of(row, IMAGES), path.parent)
            if isinstance(image, bytes):
                # The names inside the hub's pictures are not unique, so they are no names for rows.
                name, data = str(named or f"{path}#{number}"), image
            else:
                found = image_of(named, path.parent) or image
                if not isinstance(found, Path):
                    raise InputError(
                        f"row {number + 1} of {path} names no picture; give it a path or an image: {sorted(row)}"
                    )
                name, data = str(found), b""
            query = first_of(row, QUERIES)
            for asked in self._asked(name, (query,) if isinstance(query, str) and query.strip() else ()):
                yield BatchRow(name, asked, data)


def read_questions(path: Path) -> tuple[tuple[str, ...], dict[str, tuple[str, ...]]]:
    """(asked of every picture, asked of one by its path or name) from lines with `query` and perhaps `path`."""
    everywhere: list[str] = []
    own: dict[str, tuple[str, ...]] = {}
    for number, row in read_rows(path):
        query, name = first_of(row, QUERIES), first_of(row, (*PATHS, "image"))
        if not isinstance(query, str) or not query.strip():
            raise InputError(f"line {number + 1} of {path} has no query; write it like " + '{"query": "What is it?"}')
        if name is None:
            everywhere.append(query)
        else:
            own[str(name)] = (*own.get(str(name), ()), query)
    if not everywhere and not own:
        raise InputError(f"{path} holds no question; write one on each line, like " + '{"query": "What is it?"}')
    return tuple(dict.fromkeys(everywhere)), own
