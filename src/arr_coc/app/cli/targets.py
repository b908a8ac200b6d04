"""Which pictures a command line names, and what their results are called."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

from ...errors import InputError

SUFFIXES = frozenset(
    (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".pgm", ".jp2", ".avif")
)


def expand(inputs: Sequence[str]) -> list[Path]:
    """Files, folders (their pictures, by name) and globs (`**` goes into sub-folders) → paths, each once, in order.

    A name that is neither an existing path nor a pattern is kept: reading it later says what is wrong with it.
    """
    found: dict[Path, None] = {}
    for text in inputs:
        path = Path(text)
        if path.is_dir():
            inside = sorted(entry for entry in path.iterdir() if entry.suffix.lower() in SUFFIXES and entry.is_file())
            if not inside:
                raise InputError(f"{text} is a folder without pictures; give one with PNG, JPEG or WebP files")
            found.update(dict.fromkeys(inside))
        elif not path.exists() and glob.has_magic(text):
            matches = sorted(Path(match) for match in glob.glob(text, recursive=True))
            matches = [match for match in matches if match.is_file()]
            if not matches:
                raise InputError(f"no file matches {text}; check the pattern")
            found.update(dict.fromkeys(matches))
        else:
            found[path] = None
    return list(found)


@contextmanager
def writing(place: Path) -> Generator[None]:
    """A full disk or a forbidden folder is the user's to mend, so it gets a line, not a traceback."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or error
        raise InputError(f"cannot write to {place} ({reason}); choose another folder with --out") from error


def result_names(paths: Sequence[Path]) -> list[str]:
    """A name for each picture's results: its stem, or its whole name and a number where that would not be unique."""
    stems = Counter(path.stem for path in paths)
    names, seen = [], Counter[str]()
    for path in paths:
        name = path.stem if stems[path.stem] == 1 else path.name
        seen[name] += 1
        names.append(name if seen[name] == 1 else f"{name}.{seen[name]}")
    return names
