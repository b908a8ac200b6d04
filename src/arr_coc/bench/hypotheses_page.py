"""Tables inside a page of the docs: between two markers, made anew from JSON, the prose around them left alone."""

from __future__ import annotations

from pathlib import Path

from ..errors import InputError
from ..files import replacing
from .table import Table


def fill_page(path: Path, name: str, table: Table) -> None:
    """Put a table and its facts between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a Markdown page."""
    begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"cannot read {path} ({error.strerror or error}); give a page that has {begin}") from error
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(begin) > text.index(end):
        raise InputError(f"{path} needs one {begin} and after it one {end}, to know where the table goes")
    facts = "\n".join(f"- {key}: {value}" for key, value in table.facts.items())
    head, rest = text.split(begin)
    tail = rest.split(end)[1]
    with replacing(path) as temporary:
        Path(temporary).write_text(f"{head}{begin}\n{table.to_markdown()}\n\n{facts}\n{end}{tail}", encoding="utf-8")
