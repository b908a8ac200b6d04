"""Tables on the screen; rich is imported when one is made, not before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from arr_coc.app.cli.console import console

if TYPE_CHECKING:
    from rich.table import Table
    from rich.text import Text


def show(*renderables: object) -> None:
    """Print tables and other renderables of rich."""
    screen = console()
    for one in renderables:
        screen.print(one)


def table(
    title: str,
    columns: Mapping[str, str],
    rows: Iterable[Sequence[str | Text]],
    *,
    sections: Iterable[int] = (),
    narrow: bool = False,
) -> Table:
    """columns: heading → "left", "right", or "fold" for long words. rows: texts, or rich's own where they have a style.

    sections: rows after which a line is drawn. narrow: no lines between columns, for terminals of 80 columns.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title, style="bold"), title_justify="left")
    if narrow:
        made.box, made.padding, made.pad_edge = SIMPLE_HEAD, (0, 1, 0, 0), False
    for heading, side in columns.items():
        made.add_column(
            heading,
            justify="right" if side == "right" else "left",
            overflow="fold" if side == "fold" else "ellipsis",
            no_wrap=narrow and side != "fold",
        )
    ends = set(sections)
    for number, row in enumerate(rows):
        made.add_row(*(Text(cell) if isinstance(cell, str) else cell for cell in row), end_section=number in ends)
    return made
