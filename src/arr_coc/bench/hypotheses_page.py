"""Tables inside a page of the docs, made anew from JSON."""

from __future__ import annotations

from pathlib import Path

from ..learning.page_parts import fill_part
from .table import Table


def fill_page(path: Path, name: str, table: Table) -> None:
    """Put a table and its facts between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a Markdown page."""
    facts = "\n".join(f"- {key}: {value}" for key, value in table.facts.items())
    fill_part(path, name, f"{table.to_markdown()}\n\n{facts}")
