"""Shared parts of programs that process many pictures: thread limits, folders of results, and tables of rows."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .errors import InputError
from .folders import write_json


@contextmanager
def torch_threads(number: int) -> Generator[None]:
    """Limit torch to `number` threads inside the block, if it is loaded.

    Work on maps of a few hundred pixels a side takes a millisecond, less than waking threads.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        yield
        return
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


# ---- folders of results ----------------------------------------------------------------------------------------------


def check_folder(place: str | os.PathLike[str], option: str = "--out") -> None:
    """Check before any work that results can be written to a folder, which need not exist yet."""
    folder = Path(place)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        raise InputError(f"cannot write to {place} ({folder} is not a folder); choose another folder with {option}")


@contextmanager
def locked_folder(folder: str | os.PathLike[str], who: str) -> Generator[None]:
    """Allow one writer at a time in a folder. The lock ends with the process, however that ends.

    who: what writes there, for the error message.
    """
    fcntl = import_module("fcntl")
    place = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise InputError(f"another {who} writes into {folder}; wait for it or choose another --out") from error
    finally:
        os.close(place)


def same_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Write the settings of a run that can be resumed; refuse to resume one with other settings."""
    given = json.loads(json.dumps(dict(settings)))
    if not os.path.exists(path):
        write_json(path, given)
        return
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} is not the file of an earlier run ({error}); choose another --out") from error
    other = [f"{name} {before.get(name)}" for name in {**given, **before} if given.get(name) != before.get(name)]
    if other:
        raise InputError(f"{path.parent} holds results made with {', '.join(other)}; give the same or another --out")


# ---- tables of rows --------------------------------------------------------------------------------------------------

LINES, PARQUET = (".jsonl", ".ndjson"), ".parquet"
# (number, count): which of several readers of a file this is.
Share = tuple[int, int]
WHOLE: Share = (0, 1)


def is_table(path: Path) -> bool:
    return path.suffix.lower() in (*LINES, PARQUET)


def read_rows(path: Path, share: Share = WHOLE) -> Iterator[tuple[int, dict[str, object]]]:
    """Yield (number from 0, row) of a file of JSON lines or parquet. share: of the lines or row groups."""
    part, parts = share
    if path.suffix.lower() == PARQUET:
        file, first = _parquet(path), 0
        for group in range(file.num_row_groups):
            if group % parts == part:
                batches = file.iter_batches(64, row_groups=[group])
                yield from enumerate((row for batch in batches for row in batch.to_pylist()), first)
            first += file.metadata.row_group(group).num_rows
        return
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number % parts == part and line.strip():
                    yield number, _row(line, path, number)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path} ({reason}); give a file with a JSON object on each line") from error


def count_rows(path: Path) -> int:
    """Count the rows; blank lines count, too."""
    if path.suffix.lower() == PARQUET:
        return _parquet(path).metadata.num_rows
    try:
        with path.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error})") from error


def _row(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number + 1} of {path} is not JSON ({error}); correct or remove it") from error
    if not isinstance(row, dict):
        raise InputError(f"line {number + 1} of {path} is not a JSON object; write it like " + '{"path": "a.png"}')
    return row


def _parquet(path: Path) -> Any:
    if find_spec("pyarrow") is None:
        raise InputError("parquet needs pyarrow; pip install 'arr-coc[batch]'")
    try:
        return import_module("pyarrow.parquet").ParquetFile(path)
    except (OSError, ValueError) as error:  # ArrowInvalid, for a file that is not parquet, is a ValueError
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot read {path} as parquet ({reason}); download it again") from error


def first_of(row: Mapping[str, object], names: tuple[str, ...]) -> object:
    """Return the value of the first of these columns that is set; None if none is."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def image_of(value: object, folder: Path) -> Path | bytes | None:
    """Return the picture in a cell of a table: a path relative to it, bytes, or the hub's {"bytes", "path"}."""
    if isinstance(value, Mapping):
        data = value.get("bytes")
        value = data if data is not None else value.get("path")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return folder / value if isinstance(value, str) and value else None
