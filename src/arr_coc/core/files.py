"""Writing files so that a reader never sees half of one: a temporary name first, then a rename."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

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
