"""Write files atomically, write folders of files that belong together, find and verify folders of weights, and read
their graphs and tensors.

`SHA256SUMS` in a folder has the hash of every file when it was written, in the format of `sha256sum`, so that
`sha256sum -c SHA256SUMS` checks a folder without this library. A folder without that file is not checked.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import re
import sys
import tempfile
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import InputError

if TYPE_CHECKING:
    import numpy as np


@contextmanager
def replacing(path: str | os.PathLike[str]) -> Generator[Path]:
    """Yield a path of the same name in a temporary folder; on success that file replaces `path`, else it is removed."""
    target = Path(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=target.parent) as folder:
        yield Path(folder, target.name)
        os.replace(Path(folder, target.name), target)


@contextmanager
def writing(place: str | os.PathLike[str], option: str = "--out") -> Generator[None]:
    """Turn an `OSError`, such as of a full disk or a forbidden folder, into one line."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write to {place} ({reason}); choose another folder with {option}") from error


def read_text(path: str | os.PathLike[str], most: int = 1 << 26) -> str:
    return read_bytes(path, most).decode()


def read_bytes(path: str | os.PathLike[str], most: int) -> bytes:
    """Read a file that a user named; raise `OSError` for more than `most` bytes, which devices may have."""
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


# ---- folders of weights ----------------------------------------------------------------------------------------------

PACKAGE = Path(__file__).parents[1]
EXAMPLES = PACKAGE / "examples"
WEIGHTS = PACKAGE / "weights"
CLASSIC_WEIGHTS = WEIGHTS / "classic"
# The two bundled models: the one that answers, and the one that says where to look.
MINI, SCORER = "mini", "scorer"
# The weights of the chooser of words.
CHOOSER = "chooser.safetensors"
# Environment variable of the folder with measurements of other models.
HOME = "ARR_COC_HOME"


def part_folder(part: str, weights: Path | None = None) -> Path:
    """Return the folder of `mini` or `scorer` under `weights`, by default those of the package."""
    folder = (weights or WEIGHTS) / part
    if not os.path.isfile(folder / "config.json"):
        where = f"in {weights}" if weights else "with this installation"
        raise InputError(f"no {part} {where}: {folder} holds no config.json; install arr-coc again, or train it")
    return folder


def measured_path(name: str, kind: str) -> Path:
    """Return the path of the "glance" or "grip" of a model: in its own folder, or else in the user's."""
    if name == MINI:
        return WEIGHTS / MINI / f"{kind}.json"
    if name and os.path.isdir(name):
        return Path(name) / f"{kind}.json"
    home = os.environ.get(HOME) or Path.home() / ".arr-coc"
    return Path(home) / kind / (re.sub(r"[^\w.-]+", "--", name) + ".json")


MANIFEST = "SHA256SUMS"
LARGE = 8 << 20  # bytes that a graph reads: of half a page


def read_manifest(folder: Path) -> dict[str, str]:
    """Read file name → hash; empty if the folder has no manifest."""
    path = folder / MANIFEST
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
        return {name: found for found, name in (line.split("  ", 1) for line in lines)}
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError) as error:
        raise InputError(f"{path} is not a list of hashes and names ({error}); {_remedy(path)}") from error


def verify(folder: str | Path, names: Iterable[str] | None = None) -> None:
    """Check the files of a folder against its manifest: all that it lists, or `names`. A file is read once in a
    process, as long as its size and time stay the same. Raises `InputError` for the first that differs."""
    folder = Path(folder)
    listed, place = read_manifest(folder), os.path.realpath(folder)
    for name in listed if names is None else [name for name in names if name in listed]:
        path = os.path.join(folder, name)  # checked at every question, and strings are faster than Path
        try:
            about = os.stat(path)
            found = _hash(os.path.join(place, name), about.st_mtime_ns, about.st_size)
        except OSError as error:
            found = error.strerror
        if found != listed[name]:
            what = f"sha256 {listed[name]} expected, found: {found}"
            raise InputError(f"{path} is damaged, missing or was changed: {what}; {_remedy(Path(path))}")


@contextmanager
def whole_folder(folder: str | Path, always: bool = True) -> Generator[Path]:
    """Yield an empty folder for files that belong together; on success they move into `folder`.

    The manifest moves first, so that a process killed between two files leaves a folder that is refused, never a mix of
    this export and the last. Other files of `folder` stay. always: False to leave a folder without a manifest, such as
    another model's, without one.
    """
    folder = Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as temporary:
        made = Path(temporary)
        yield made
        new = {path.name: hash_of(path) for path in sorted(made.iterdir()) if path.name != MANIFEST}
        # Remove shards of an earlier export, which would be read together with the new ones.
        shards = folder.glob("model*.safetensors*") if any(made.glob("model*.safetensors*")) else ()
        stale = [path for path in shards if path.name not in new]
        before = read_manifest(folder)
        sums = {name: found for name, found in before.items() if (folder / name).is_file()} | new
        kept = sorted(sums.keys() - {path.name for path in stale})
        if before or always:
            write_text(folder / MANIFEST, "".join(f"{sums[name]}  {name}\n" for name in kept))
        for path in stale:
            path.unlink()
        for name in new:
            os.replace(made / name, folder / name)


def hash_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


@lru_cache(maxsize=256)
def _hash(path: str, changed: int, size: int) -> str:
    return hash_of(Path(path))


def _remedy(path: Path) -> str:
    if path.is_relative_to(PACKAGE):
        return "install arr-coc again (pip install --force-reinstall --no-deps arr-coc)"
    return f"copy or export the folder again, or delete its {MANIFEST} if you changed the file yourself"


def give_back() -> None:
    """Return freed memory to the operating system; glibc keeps it otherwise."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)


class Session:
    """An ONNX graph in onnxruntime; its weights may be in a file beside it."""

    def __init__(self, graph: Path) -> None:
        runtime: Any = import_module("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3
        # By default the runtime uses every core; several processes on one machine would slow each other down.
        threads = os.environ.get("OMP_NUM_THREADS", "")
        options.intra_op_num_threads = int(threads) if threads.isdecimal() else 0
        # Its threads spin while they wait, which is fast; stop spinning when a run ends, to free the cores.
        options.add_session_config_entry("session.force_spinning_stop", "1")
        options.enable_mem_pattern = options.enable_cpu_mem_arena = False  # else a session keeps its peak memory
        self.session = runtime.InferenceSession(str(graph), options, providers=["CPUExecutionProvider"])

    def run(self, names: Sequence[str] | None, values: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Return all results, or those of these names; a large run gives its memory back."""
        found = self.session.run(names, values)
        if sum(one.nbytes for one in values.values()) > LARGE:
            give_back()
        return found


def stored(folder: Path, *names: str) -> list[np.ndarray]:
    """Read tensors of the safetensors in a folder, in single precision."""
    from safetensors import SafetensorError, safe_open

    found: dict[str, np.ndarray] = {}
    try:
        for path in sorted(folder.glob("*.safetensors")):
            with safe_open(path, framework="np") as file:
                found |= {name: file.get_tensor(name).astype("float32") for name in set(names) & {*file.keys()}}
    except SafetensorError as error:
        raise ValueError(str(error)) from error
    return [found[name] for name in names]
