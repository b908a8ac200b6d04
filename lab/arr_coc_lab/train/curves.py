"""The curve of a training: lines or a bar while it runs, and a picture at its end (matplotlib, extra `[train]`)."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arr_coc.core.errors import InputError
from arr_coc.core.files import replacing
from arr_coc.core.values import JsonObject

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class Lines:
    """Print one line of JSON for every point, for logs and pipes; the first as soon as the run begins."""

    def __init__(self, title: str = "") -> None:
        self.head = {"phase": title} if title else {}

    def begin(self) -> None:
        print(json.dumps({**self.head, "step": 0, "doing": "drawing and loading"}), flush=True)

    def add(self, point: JsonObject, progress: float) -> None:
        print(json.dumps({**self.head, **point}), flush=True)

    def close(self) -> None: ...


class Bar:
    """Show a progress bar with the latest numbers beside it."""

    def __init__(self, title: str = "") -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self.progress = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[latest]}"))
        self.task = self.progress.add_task(title or "training", total=1.0, latest="drawing and loading")

    def begin(self) -> None:
        self.progress.start()

    def add(self, point: JsonObject, progress: float) -> None:
        numbers = [f"{name} {value:.4g}" for name, value in point.items() if isinstance(value, float)]
        self.progress.update(self.task, completed=progress, latest="  ".join([f"step {point['step']}", *numbers[1:5]]))

    def close(self) -> None:
        self.progress.stop()


def has_terminal() -> bool:
    """Whether the output is a terminal, and rich is there to draw on it."""
    return sys.stdout.isatty() and find_spec("rich") is not None


def numbers_of(point: Mapping[str, object]) -> dict[str, float]:
    """What can be drawn of a point."""
    return {
        name: float(value)
        for name, value in point.items()
        if name not in ("step", "seconds") and isinstance(value, int | float) and not isinstance(value, bool)
    }


def new_figure(**how: Any) -> Figure:
    """Return a figure of its own: no global state, no window. One clear line where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("plots need matplotlib; install the extra: pip install 'arr-coc-lab[train]'") from error
    return Figure(**how)


def plot_curve(curve: Sequence[JsonObject], path: Path) -> None:
    """Draw every number of a curve over the steps, one pane each; nothing where there is no curve or no matplotlib."""
    names = list(dict.fromkeys(name for point in curve for name in numbers_of(point)))
    lines = {name: [(point["step"], point[name]) for point in curve if name in point] for name in names}
    lines = {name: line for name, line in lines.items() if len(line) > 1}
    if not lines or find_spec("matplotlib") is None:
        return
    rows = -(-len(lines) // 3)
    figure = new_figure(figsize=(12, 2.6 * rows), layout="constrained")
    panes = figure.subplots(rows, 3, squeeze=False).ravel()
    for axes, (name, line) in zip(panes, lines.items(), strict=False):
        axes.plot(*zip(*line, strict=True))
        axes.set_title(name, loc="left", fontsize=9)
    for axes in panes[len(lines) :]:
        axes.set_axis_off()
    with replacing(path) as temporary:
        figure.savefig(temporary, dpi=110, format="png")
