"""SHA256SUMS in a folder of weights: what every file was when it was written, asked for before one of them is used.

The form is that of `sha256sum`, so `sha256sum -c SHA256SUMS` checks a folder without this library; a folder without the
file is taken as it is. `python -m arr_coc.core.manifest FOLDER` writes it anew for a folder and those below it.
"""

from __future__ import annotations

import hashlib
import os
import re
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from .errors import InputError
from .files import write_text
from .folders import PACKAGE

MANIFEST, RECORD = "SHA256SUMS", "record.json"
WEIGHTS = (".safetensors", ".onnx", ".npz")
LINE = re.compile(r"([0-9a-f]{64}) [ *]([^/\0]+)")


def read_manifest(folder: Path) -> dict[str, str]:
    """File name → hash; empty where the folder has no manifest."""
    path = folder / MANIFEST
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read ({error}); {_remedy(path)}") from error
    found = [LINE.fullmatch(line) for line in lines]
    if not all(found):
        raise InputError(f"{path} is damaged: not every line is a hash and a name; {_remedy(path)}")
    return {match[2]: match[1] for match in found if match}


def verify(folder: str | Path, names: Iterable[str] | None = None) -> None:
    """Hold the files of a folder against its manifest: all that it lists, or `names`; one line for the first that is
    not what it was. Each file is read once in a process, as long as its size and time stay."""
    folder = Path(folder)
    listed, place = read_manifest(folder), os.path.realpath(folder)
    for name in listed if names is None else [name for name in names if name in listed]:
        path = os.path.join(folder, name)  # asked at every question: paths as objects would take longer than all else
        try:
            about = os.stat(path)
            found = _hash(os.path.join(place, name), about.st_mtime_ns, about.st_size)
        except OSError as error:
            reason = "missing" if isinstance(error, FileNotFoundError) else f"unreadable ({error.strerror or error})"
            raise InputError(f"{path} is {reason}, sha256 {listed[name]} is wanted; {_remedy(Path(path))}") from error
        if found != listed[name]:
            raise InputError(
                f"{path} is damaged or was changed: sha256 {listed[name]} is wanted, {found} was found; "
                f"{_remedy(Path(path))}"
            )


@contextmanager
def whole_folder(folder: str | Path) -> Generator[Path]:
    """Yield an empty folder to write files into that belong together; on success they move into `folder`.

    The manifest moves first: a process that is killed between two files leaves a folder that is refused, never one that
    is half of this export and half of the last. Files of `folder` that are not written anew stay.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as temporary:
        made = Path(temporary)
        yield made
        new = {path.name: hash_of(path) for path in sorted(made.iterdir()) if path.name != MANIFEST}
        # Shards of an earlier export of another size would be read along with the new ones.
        stale = [path for path in folder.glob("model*.safetensors*") if path.name not in new]
        kept = {name: found for name, found in read_manifest(folder).items() if (folder / name).is_file()}
        for path in stale:
            kept.pop(path.name, None)
        _write(folder, kept | new)
        for path in stale:
            path.unlink()
        for name in new:
            os.replace(made / name, folder / name)


@contextmanager
def changing(path: str | Path) -> Generator[None]:
    """Around writing one file of a folder anew: the manifest forgets it before and knows it after."""
    path = Path(path)
    before = read_manifest(path.parent)
    others = {name: found for name, found in before.items() if name != path.name}
    if others != before:
        _write(path.parent, others)
    yield
    if before:
        _write(path.parent, others | {path.name: hash_of(path)})


def write_manifests(folder: Path) -> list[Path]:
    """A manifest for every folder at or below this one that holds weights, of all but the record of the training;
    returns those folders."""
    holders = sorted({path.parent for path in folder.rglob("*") if path.suffix in WEIGHTS})
    for holder in holders:
        files = sorted(path for path in holder.iterdir() if path.is_file() and not path.name.startswith("."))
        _write(holder, {path.name: hash_of(path) for path in files if path.name not in (MANIFEST, RECORD)})
    return holders


def hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=256)
def _hash(path: str, changed: int, size: int) -> str:
    return hash_of(Path(path))


def _write(folder: Path, sums: Mapping[str, str]) -> None:
    write_text(folder / MANIFEST, "".join(f"{sums[name]}  {name}\n" for name in sorted(sums)))


def _remedy(path: Path) -> str:
    if path.is_relative_to(PACKAGE):
        return "install arr-coc again (pip install --force-reinstall --no-deps arr-coc)"
    return f"copy or export the folder again, or delete its {MANIFEST} if you changed the file yourself"


if __name__ == "__main__":
    for given in sys.argv[1:]:
        print("\n".join(str(folder / MANIFEST) for folder in write_manifests(Path(given))))
