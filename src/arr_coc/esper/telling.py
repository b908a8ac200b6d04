"""The story in words: one table for the terminal, one row for each pass; and the files that go with it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..files import replacing, write_json
from .convergence import convergence_plot
from .story import Story
from .strip import strip

if TYPE_CHECKING:
    from rich.table import Table


def place_words(story: Story, point: tuple[int, int] | None) -> str:
    """Where a fixation lies, in the words a person would use: "top left", "center"."""
    if point is None:
        return "by the map"
    down = min(2, 3 * point[0] // max(story.picture.height, 1))
    across = min(2, 3 * point[1] // max(story.picture.width, 1))
    words = [("top", "", "bottom")[down], ("left", "", "right")[across]]
    return " ".join(word for word in words if word) or "center"


def story_table(story: Story, truth: str | None = None) -> Table:
    """One row for each pass: where it looked, what it cost, how much was exploration, what it said and how unsure."""
    from rich.box import SIMPLE_HEAD
    from rich.markup import escape
    from rich.table import Table

    # Few lines and little padding: the story should fit a terminal of 80 columns.
    table = Table(
        title=escape(story.query), title_justify="left", title_style="bold", box=SIMPLE_HEAD, padding=(0, 1, 0, 0)
    )
    table.add_column("pass", justify="right", no_wrap=True)
    table.add_column("looked")
    for heading in ("tokens", "explored"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("mood")
    table.add_column("said", overflow="fold")
    for heading in ("unsure", "ms"):
        table.add_column(heading, justify="right", no_wrap=True)
    for number, note in enumerate(story.passes, start=1):
        step = note.step
        table.add_row(
            str(number),
            place_words(story, note.point),
            f"{step.tokens}" if number == 1 else f"+{step.tokens}",
            f"{100 * step.exploration:.0f} %",
            note.mood,
            escape(step.text) or "(nothing)",
            f"{step.uncertainty or 0.0:.2f}",
            f"{1000 * sum(note.seconds.values()):.0f}",
        )
    table.add_section()
    answer = story.answer
    spent = f"{answer.tokens}/{answer.full}"
    table.add_row(
        "all", story.ended, spent, "", "", f"[bold]{escape(answer.text)}[/bold]", f"{answer.uncertainty:.2f}", ""
    )
    if truth is not None:
        table.add_row("", "the truth", "", "", "", f"{escape(truth)} ({'right' if answer.text == truth else 'wrong'})")
    return table


def tell(story: Story, out: Path | None = None, truth: str | None = None) -> dict[str, str]:
    """Print the table; with a folder, write the files and name them. What `ask --passes 4 --explain` does."""
    from rich.console import Console

    console = Console()
    console.print(story_table(story, truth))
    files = write_story(story, out) if out is not None else {}
    if files:
        console.print(f"files: {', '.join(files.values())}", highlight=False, soft_wrap=True)
    return files


def write_story(story: Story, out: Path) -> dict[str, str]:
    """Write strip.png, convergence.png and story.json into a folder; returns their paths by name."""
    paths = {name: out / name for name in ("strip.png", "convergence.png", "story.json")}
    for name, picture in (("strip.png", strip(story)), ("convergence.png", convergence_plot(story))):
        with replacing(paths[name]) as temporary:
            picture.save(temporary)
    write_json(paths["story.json"], story.to_json())
    return {name: str(path) for name, path in paths.items()}
