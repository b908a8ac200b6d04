"""What commands print, and how: one console, one progress bar, one kind of table, one way to complain, one JSON.

What a user named (files, questions, answers) is printed as it is, never read as markup: lines go through `say`, tables
are made by `table`. rich is imported when something is printed, not before.
"""

from __future__ import annotations

import gc
import json
import os
import sys
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.files import writing as writing

if TYPE_CHECKING:
    from PIL.Image import Image
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

USAGE_ERROR = 2
INTERRUPTED = 130


def complain(line: str) -> int:
    """One line on stderr; returns the exit code that goes with it."""
    print(f"arr-coc: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return USAGE_ERROR


# ---- the standard output --------------------------------------------------------------------------------------------


def console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, highlight=False)


def say(*lines: str) -> None:
    """Lines as they are, however wide; words in brackets stay in them."""
    screen = console()
    for line in lines:
        screen.print(line, markup=False, soft_wrap=True)


def show(*renderables: object) -> None:
    """Tables and other renderables of rich."""
    screen = console()
    for one in renderables:
        screen.print(one)


def print_json(document: object) -> None:
    """One line of JSON, in plain ASCII where the output takes nothing else."""
    if sys.stdout is None:
        return
    text = json.dumps(document, ensure_ascii=False)
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        text = json.dumps(document)
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def plain_streams() -> None:
    """A character that the terminal's encoding does not have is spelled out instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def unwritten(error: OSError) -> int:
    """The exit code after the standard output took no more; a full disk gets a line, a reader who left does not."""
    # Python itself would try again on its way out, and complain in lines of its own.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return complain(f"cannot write to the standard output ({error.strerror or error}); free some space")


def flush(code: int) -> int:
    """Empty what is printed; the exit code, another one where that fails."""
    if sys.stdout is None:  # it was closed before we began
        return code
    try:
        sys.stdout.flush()
    except OSError as error:
        return unwritten(error)
    return code


# ---- tables and bars ------------------------------------------------------------------------------------------------


def table(
    title: str,
    columns: Mapping[str, str],
    rows: Iterable[Sequence[str | Text]],
    *,
    sections: Iterable[int] = (),
    headings: bool = True,
    narrow: bool = False,
) -> Table:
    """columns: heading → "left", "right", or "fold" for long words. rows: texts, or rich's own where they have a style.

    sections: rows after which a line is drawn. narrow: no lines between columns, for terminals of 80 columns.
    """
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    made = Table(title=Text(title, style="bold"), title_justify="left", show_header=headings)
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


def seconds_line(seconds: Mapping[str, float]) -> str:
    parts = [f"{stage} {value:.2f}" for stage, value in seconds.items()]
    return ", ".join([*parts, f"all {sum(seconds.values()):.2f}"])


@contextmanager
def progress(steps: Sequence[str] | int | None, verb: str, *, hidden: bool = False) -> Generator[Callable[..., None]]:
    """A bar on the standard error, only where somebody watches.

    steps: their names, and the result is called with each as it begins; or how many there are, and it is called
    without a name after each, or with how many were done. None or no names: the bar only shows that something is going
    on.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda name="", done=1: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    names = [] if steps is None or isinstance(steps, int) else list(steps)
    total = steps if isinstance(steps, int) else len(names) or None
    left = [TextColumn("left"), TimeRemainingColumn()] if isinstance(steps, int) else []
    columns = [TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()]
    with Progress(*columns, *left, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(verb, total=total)

        def advance(name: str = "", done: int = 1) -> None:
            if name:
                place = names.index(name) if name in names else None
                bar.update(task, description=f"{verb} {name}".strip(), completed=place)
            else:
                bar.advance(task, done)

        yield advance


# ---- around the work ------------------------------------------------------------------------------------------------


def wait_asleep() -> None:
    """Let threads that wait for each other sleep instead of spin; only before torch is imported, and only by default.

    Spinning gains a few milliseconds on an idle machine. Beside one other busy process on two cores it was measured to
    turn an answer of 0.4 s into one of 3 to 13 s.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@contextmanager
def uncollected() -> Generator[None]:
    """No garbage collection meanwhile: importing makes a great many objects, all of which stay."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def save_png(image: Image, path: Path) -> None:
    """A picture of PIL under a temporary name first."""
    from zlib import Z_RLE

    from ...core.files import replacing

    with replacing(path) as temporary:
        # Run lengths at level 1 take a fraction of the default's time, and the file is hardly larger.
        image.save(temporary, compress_level=1, compress_type=Z_RLE)
