"""Output of commands: plain lines, JSON, one progress bar, and errors on one line."""

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
    """Print an error as one line on stderr; return the exit code for it."""
    print(f"arr-coc: {' '.join(line.split())}", file=sys.stderr, flush=True)
    return USAGE_ERROR


# ---- the standard output --------------------------------------------------------------------------------------------


def say(*lines: str) -> None:
    """Print lines unchanged."""
    for line in lines:
        print(line)


def print_json(document: object) -> None:
    """Print one line of JSON, in ASCII if the output is not UTF."""
    if sys.stdout is not None:
        ascii_only = "utf" not in (sys.stdout.encoding or "utf-8").lower()
        print(json.dumps(document, ensure_ascii=ascii_only), flush=True)


def plain_streams() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def unwritten(error: OSError) -> int:
    """Report a failed write and return the exit code; a closed pipe is not reported."""
    if error.filename is not None:
        return complain(f"cannot write {error.filename} ({error.strerror}); free some space or choose another place")
    # Python would try again at exit and print a traceback.
    with suppress(OSError, ValueError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    if isinstance(error, BrokenPipeError):
        return 1
    return complain(f"cannot write to the standard output ({error.strerror or error}); free some space")


def flush(code: int) -> int:
    """Flush the standard output; return `code`, or another exit code if that fails."""
    try:
        if sys.stdout is not None:  # it may have been closed before the start
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
    """Show a progress bar on stderr if that is a terminal.

    steps: their number; None: the bar only shows that work is going on. Call the result after each step, or with the
    number of steps done.
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
    """Let waiting OpenMP threads sleep instead of spin, unless the user set otherwise. Call before importing torch.

    Spinning gains a few milliseconds on an idle machine. With one other busy process on two cores, answers that take
    0.4 s were measured to take 3 to 13 s.
    """
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def save_png(image: Image, path: Path) -> None:
    """Save a PIL picture as PNG, under a temporary name first."""
    import numpy as np

    from ...core.folders import replacing
    from ...packing.packed import encode

    with replacing(path) as temporary:
        temporary.write_bytes(encode(np.asarray(image)))
