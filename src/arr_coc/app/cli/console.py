"""What commands print, and how: lines as they are, one progress bar, one way to complain, one JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from ...core.folders import writing as writing

if TYPE_CHECKING:
    from PIL.Image import Image

USAGE_ERROR = 2
INTERRUPTED = 130


def complain(line: str) -> int:
    """One line on stderr; returns the exit code that goes with it."""
    print(f"arr-coc: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return USAGE_ERROR


# ---- the standard output --------------------------------------------------------------------------------------------


def say(*lines: str) -> None:
    """Lines as they are."""
    for line in lines:
        print(line)


def print_json(document: object) -> None:
    """One line of JSON, in plain ASCII where the output takes nothing else."""
    if sys.stdout is not None:
        ascii_only = "utf" not in (sys.stdout.encoding or "utf-8").lower()
        print(json.dumps(document, ensure_ascii=ascii_only), flush=True)


def plain_streams() -> None:
    """A character that the terminal's encoding does not have is spelled out instead of ending the program."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def unwritten(error: OSError) -> int:
    """The exit code after a file or the standard output took no more; a reader who left gets no line."""
    if error.filename is not None:
        return complain(f"cannot write {error.filename} ({error.strerror}); free some space or choose another place")
    # Python itself would try again on its way out, and complain in lines of its own.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return complain(f"cannot write to the standard output ({error.strerror or error}); free some space")


def flush(code: int) -> int:
    """Empty what is printed; the exit code, another one where that fails."""
    try:
        if sys.stdout is not None:  # it may have been closed before we began
            sys.stdout.flush()
    except OSError as error:
        return unwritten(error)
    return code


def seconds_line(seconds: Mapping[str, float]) -> str:
    parts = [f"{stage} {value:.2f}" for stage, value in seconds.items()]
    return f"seconds: {', '.join([*parts, f'all {sum(seconds.values()):.2f}'])}"


# ---- bars and files --------------------------------------------------------------------------------------------------


@contextmanager
def progress(steps: int | None, verb: str, *, hidden: bool = False) -> Generator[Callable[..., None]]:
    """A bar on the standard error, only where somebody watches.

    steps: how many there are; None: the bar only shows that something is going on. The result is called for each step,
    or with how many were done.
    """
    if hidden or not sys.stderr.isatty():
        yield lambda done=1: None
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress, TimeElapsedColumn

    columns = (*Progress.get_default_columns(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(verb, total=steps)
        yield lambda done=1: bar.update(task, advance=done)


# ---- around the work ------------------------------------------------------------------------------------------------


def wait_asleep() -> None:
    """Let threads that wait for each other sleep instead of spin; only before torch is imported, and only by default.

    Spinning gains a few milliseconds on an idle machine. Beside one other busy process on two cores it was measured to
    turn an answer of 0.4 s into one of 3 to 13 s.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def save_png(image: Image, path: Path) -> None:
    """A picture of PIL under a temporary name first."""
    import numpy as np

    from ...core.folders import replacing
    from ...packing.packed import encode

    with replacing(path) as temporary:
        temporary.write_bytes(encode(np.asarray(image)))
