"""Tables inside a page of the docs, made anew from JSON."""

from __future__ import annotations

from pathlib import Path

from ..train.page_parts import fill_part
from .table import Table


def fill_page(path: Path, name: str, *tables: Table) -> None:
    """Put tables and their facts between `<!-- NAME: begin -->` and `<!-- NAME: end -->` of a Markdown page; several
    get their titles as headings."""
    sections = []
    for table in tables:
        facts = "\n".join(f"- {key}: {value}" for key, value in table.facts.items())
        title = f"### {table.title}\n\n" if len(tables) > 1 else ""
        sections.append(f"{title}{table.to_markdown()}\n\n{facts}")
    fill_part(path, name, "\n\n".join(sections))
