"""Write files so that a reader never sees half of one, and read tables of rows: JSON lines and parquet."""

from __future__ import annotations

import glob
import json
import os
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

from .errors import InputError


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a temporary path beside `path`; on success it takes `path`'s place, on failure it is removed.

    The temporary name keeps the suffix, because image and video writers choose their format by it.
    """
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(prefix=f".{target.stem}-", suffix=target.suffix, dir=target.parent)
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        # mkstemp makes files private; a result is meant to be read like any other new file.
        mask = os.umask(0)
        os.umask(mask)
        temporary.chmod(0o666 & ~mask)
        os.replace(temporary, target)
    finally:
        temporary.unlink(missing_ok=True)


def check_folder(place: str | os.PathLike[str], option: str = "--out") -> None:
    """Could results be written there? Told before any work; the folder itself may still be missing."""
    folder = Path(place)
    while not os.path.lexists(folder) and folder != folder.parent:
        folder = folder.parent
    if not os.path.isdir(folder):
        raise InputError(f"cannot write to {place} ({folder} is not a folder); choose another folder with {option}")


@contextmanager
def writing(place: str | os.PathLike[str], option: str = "--out") -> Generator[None]:
    """A full disk or a forbidden folder is the user's to mend, so it gets a line, not a traceback."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write to {place} ({reason}); choose another folder with {option}") from error


@contextmanager
def locked_folder(folder: str | os.PathLike[str], who: str) -> Generator[None]:
    """One writer at a time in a folder: two would do everything twice. The lock goes with the process, however it ends.

    who: what the second one is told that the first is. Where the system has no such locks, there is none.
    """
    if find_spec("fcntl") is None:
        yield
        return
    fcntl = import_module("fcntl")
    place = os.open(folder, os.O_RDONLY)
    try:
        try:
            fcntl.flock(place, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise InputError(f"another {who} writes into {folder}; wait for it or choose another --out") from error
        yield
    finally:
        os.close(place)


def read_text(path: str | os.PathLike[str], most: int = 1 << 26) -> str:
    """The text of a file that a user named; `OSError` where it is longer than `most` bytes, as a device may be."""
    return read_bytes(path, most).decode()


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    with Path(path).open("rb") as file:
        data = file.read(most + 1)
    if len(data) > most:
        raise OSError(f"larger than {most // 1_000_000} MB")
    return data


def write_text(path: str | os.PathLike[str], text: str) -> None:
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def write_json(path: str | os.PathLike[str], value: object) -> None:
    write_text(path, json.dumps(value, indent=1, ensure_ascii=False) + "\n")


def same_settings(path: Path, settings: Mapping[str, object]) -> None:
    """Write how a run that can be stopped makes its results; where a run before it made them otherwise, refuse."""
    given = json.loads(json.dumps(dict(settings)))
    if not os.path.exists(path):
        write_json(path, given)
        return
    try:
        before = dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise InputError(f"{path} is not what a run left ({error}); choose another --out") from error
    other = [f"{name} {before.get(name)}" for name in {**given, **before} if given.get(name) != before.get(name)]
    if other:
        raise InputError(f"{path.parent} holds results made with {', '.join(other)}; give the same or another --out")


LINES, PARQUET = (".jsonl", ".ndjson"), ".parquet"
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


def _opened(path: Path) -> Any:
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
            for batch in file.iter_batches(64, row_groups=[group]):
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
