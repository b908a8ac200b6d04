"""The tables that commands print."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from ...draw.legend import level_rows
from ...looking import Look
from .batch import Report


def print_report(report: Report) -> None:
    console = Console()
    if report.pictures == 1:
        for path, look, files in report.looks:
            print_look(console, path, look, files)
    elif report.looks:
        print_summary(console, report)
    for page in report.pages[:3]:
        console.print(f"side by side: {escape(page)}", soft_wrap=True)


def print_look(console: Console, path: Path, look: Look, files: Mapping[str, str]) -> None:
    """Tokens by level with their share of the area, then the sums and the seconds."""
    allocation = look.allocation
    table = Table(title=f"{path.name}: {escape(look.relevance.query)}", title_justify="left", title_style="bold")
    for heading in ("level", "region", "tokens", "of tokens", "of area"):
        table.add_column(heading, justify="right")
    for row in level_rows(allocation):
        share = row.tokens / max(allocation.tokens, 1)
        side = f"{row.side}×{row.side} px"
        table.add_row(str(row.level), side, str(row.tokens), f"{100 * share:.1f} %", f"{100 * row.area:.1f} %")
    table.add_section()
    table.add_row("all", "", str(allocation.tokens), "100.0 %", "")
    console.print(table)
    console.print(
        f"{allocation.strategy}: {allocation.tokens} tokens of {allocation.full} ({100 * allocation.keep:.1f} %), "
        f"budget {allocation.budget}",
        highlight=False,
    )
    console.print(f"seconds: {seconds_line(look.seconds)}", highlight=False)
    for note in look.notes:
        console.print(f"note: {escape(note)}", highlight=False, soft_wrap=True)
    console.print(f"files: {escape(', '.join(files.values()))}", highlight=False, soft_wrap=True)


def print_summary(console: Console, report: Report) -> None:
    """One row for each picture, question and strategy."""
    several = len({look.relevance.query for _, look, _ in report.looks}) > 1
    table = Table(title=f"{report.pictures} pictures", title_justify="left", title_style="bold")
    table.add_column("picture", overflow="fold")
    if several:
        table.add_column("question")
    table.add_column("strategy")
    for heading in ("tokens", "of full", "finest", "area finest", "seconds"):
        table.add_column(heading, justify="right")
    for path, look, _ in report.looks:
        finest = level_rows(look.allocation)[0]
        table.add_row(
            escape(path.name),
            *([escape(look.relevance.query)] if several else []),
            look.allocation.strategy,
            str(look.allocation.tokens),
            f"{100 * look.allocation.keep:.1f} %",
            f"level {finest.level}",
            f"{100 * finest.area:.1f} %",
            f"{sum(look.seconds.values()):.2f}",
        )
    console.print(table)
    if report.looks:
        console.print(f"files: {escape(str(Path(report.looks[0][2]['homunculus']).parent))}", soft_wrap=True)
    if report.errors:
        console.print(
            f"{len(report.errors)} of {report.pictures} pictures could not be used; see above", highlight=False
        )


def seconds_line(seconds: Mapping[str, float]) -> str:
    parts = [f"{stage} {value:.2f}" for stage, value in seconds.items()]
    return ", ".join([*parts, f"all {sum(seconds.values()):.2f}"])
