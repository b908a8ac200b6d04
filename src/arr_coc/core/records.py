"""Rows of JSON lines and of parquet (pyarrow, extra `[batch]`), one after another: a file may have any length."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from .errors import InputError

if TYPE_CHECKING:
    from pyarrow.parquet import ParquetFile

LINES, PARQUET = (".jsonl", ".ndjson"), ".parquet"
AT_ONCE = 64
# Every `part` of how many: what one of several readers takes of a file.
Share = tuple[int, int]
WHOLE: Share = (0, 1)


def is_table(path: Path) -> bool:
    return path.suffix.lower() in (*LINES, PARQUET)


def has_parquet() -> bool:
    return find_spec("pyarrow") is not None


def arrow(module: str = "pyarrow") -> ModuleType:
    """pyarrow, or one of its modules; or one clear line."""
    if not has_parquet():
        raise InputError("parquet needs pyarrow; pip install 'arr-coc[batch]'")
    return import_module(module)


def table_files(text: str) -> list[Path]:
    """A file of rows, those of a folder, or those that a pattern matches; by name."""
    place = Path(text)
    if os.path.isdir(place):
        found = [path for path in place.iterdir() if is_table(path)]
    elif not os.path.exists(place) and glob.has_magic(text):
        found = [Path(match) for match in glob.glob(text, recursive=True) if is_table(Path(match))]
    else:
        found = [place]
    return sorted(found)


def read_rows(path: Path, share: Share = WHOLE) -> Iterator[tuple[int, dict[str, object]]]:
    """(number from 0, row) of a file. share: every so-many-th line, or group of rows of a parquet."""
    return _parquet_rows(path, share) if path.suffix.lower() == PARQUET else _line_rows(path, share)


def count_rows(path: Path) -> int:
    """How many rows; of lines also those that are blank."""
    if path.suffix.lower() == PARQUET:
        return _opened(path).metadata.num_rows
    try:
        with path.open("rb") as lines:
            return sum(1 for _ in lines)
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error})") from error


def _line_rows(path: Path, share: Share) -> Iterator[tuple[int, dict[str, object]]]:
    part, parts = share
    try:
        with path.open(encoding="utf-8") as lines:
            for number, line in enumerate(lines):
                if number % parts == part and line.strip():
                    yield number, _row(line, path, number)
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InputError(f"cannot read {path} ({reason}); give a file with a JSON object on each line") from error


def _row(line: str, path: Path, number: int) -> dict[str, object]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise InputError(f"line {number + 1} of {path} is not JSON ({error}); mend or remove it") from error
    if not isinstance(row, dict):
        raise InputError(f"line {number + 1} of {path} is not an object of JSON; write it like " + '{"path": "a.png"}')
    return row


def _opened(path: Path) -> ParquetFile:
    parquet = arrow("pyarrow.parquet")
    try:
        return parquet.ParquetFile(path)
    except (OSError, ValueError) as error:  # what is no parquet is an ArrowInvalid, which is a ValueError
        reason = str(error).splitlines()[0]
        raise InputError(f"cannot read {path} as parquet ({reason}); download it again") from error


def _parquet_rows(path: Path, share: Share) -> Iterator[tuple[int, dict[str, object]]]:
    part, parts = share
    file, number = _opened(path), 0
    for group in range(file.metadata.num_row_groups):
        rows = file.metadata.row_group(group).num_rows
        if group % parts == part:
            within = number
            for batch in file.iter_batches(AT_ONCE, row_groups=[group]):
                for row in batch.to_pylist():
                    yield within, row
                    within += 1
        number += rows


def first_of(row: Mapping[str, object], names: tuple[str, ...]) -> object:
    """The first of these columns that the row has a value in; None where it has none."""
    return next((row[name] for name in names if row.get(name) is not None), None)


def image_of(value: object, folder: Path) -> Path | bytes | None:
    """A picture as tables have it: a path beside the table, bytes, or the hub's {"bytes", "path"}."""
    if isinstance(value, Mapping):
        data = value.get("bytes")
        value = data if data is not None else value.get("path")
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    return folder / value if isinstance(value, str) and value else None
