"""Parts of a page that a command makes anew, between two markers; the prose around them is left alone."""

from __future__ import annotations

from pathlib import Path

from ...errors import InputError
from ...files import write_text


def fill_part(path: Path, name: str, content: str) -> None:
    """Put Markdown between `<!-- NAME: begin -->` and `<!-- NAME: end -->`."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); give a page that has {begin}") from error
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise InputError(f"{path} needs one {begin} and after it one {end}, to know where the part goes")
    head, rest = text.split(begin)
    write_text(path, f"{head}{begin}\n{content}\n{end}{rest.split(end)[1]}")
