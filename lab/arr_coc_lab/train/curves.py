"""The learning curve of a training, drawn from its record.json (matplotlib, of the extra `[train]`)."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from arr_coc.core.errors import InputError
from arr_coc.core.files import read_text, replacing
from arr_coc.core.values import JsonObject

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, RULE, PAPER = "#1c1e24", "#6c7078", "#e4e2dc", "#faf9f6"
# Small canvases pale, large ones dark; ways to allocate apart in hue, also for colour-blind readers.
CANVASES = ("#9db4d6", "#7f9ecb", "#5f86bb", "#3a67a0", "#204a80", "#0f2f5c")
ALLOCATIONS = {
    "full": "#1c1e24",
    "scorer": "#c45a14",
    "oracle": "#d99a2b",
    "uniform": "#1868a8",
    "random": "#7a8a99",
    "shuffled": "#a3adb8",
}
Line = tuple[np.ndarray, np.ndarray]


def plot_record(record: Path, out: Path | None = None) -> Path:
    """Draw curve.png beside a record.json (or into `out`); returns where it is."""
    path = record / "record.json" if os.path.isdir(record) else record
    try:
        curve = json.loads(read_text(path))["curve"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is not the record of a training ({error}); give the folder of --out") from error
    if len(curve) < 2:
        raise InputError(f"{path} holds {len(curve)} points; a curve needs at least two")
    target = out or path.with_name("curve.png")
    figure = draw_curve(curve)
    with replacing(target) as temporary:
        figure.savefig(temporary, dpi=150, facecolor=PAPER)
    return target


def series(curve: Sequence[Mapping[str, float]], name: str) -> Line:
    """Seconds and values of one name, where it was noted."""
    found = [(point["seconds"], point[name]) for point in curve if name in point]
    return np.array([x for x, _ in found], dtype=float), np.array([y for _, y in found], dtype=float)


def named(curve: Sequence[Mapping[str, float]], pattern: str) -> dict[str, Line]:
    """Series whose names match, by the pattern's first group, numbers in order of size."""
    names = {name for point in curve for name in point}
    found = {match[1]: name for name in names if (match := re.fullmatch(pattern, name))}
    order = sorted(found, key=lambda key: (int(key), "") if key.isdecimal() else (0, key))
    return {key: series(curve, found[key]) for key in order}


def stage_changes(curve: Sequence[Mapping[str, float]]) -> list[float]:
    """Seconds at which a new stage of the curriculum began."""
    staged = [point for point in curve if "stage" in point]
    return [float(after["seconds"]) for before, after in pairwise(staged) if after["stage"] != before["stage"]]


def new_figure(**how: Any) -> Figure:
    """A figure of its own: no global state, no window. One clear line where matplotlib is missing."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise InputError("plots need matplotlib; install the extra: pip install 'arr-coc[train]'") from error
    return Figure(**how)


def draw_curve(curve: Sequence[Mapping[str, float]]) -> Figure:
    """A figure of four panes: glyphs read, exact match by canvas, exact match by allocation, losses."""
    figure = new_figure(figsize=(11.5, 7.6))
    panes = figure.subplots(2, 2)
    glyphs, full = named(curve, r"glyph (\d+)"), named(curve, r"right (\d+) full")
    main = _main_canvas(curve)
    ways = named(curve, rf"right {main} (\w+)")
    losses = named(curve, r"answer (\d+)")
    scorer = series(curve, "scorer")
    shown = _shades(losses)
    if len(scorer[0]):
        shown["scorer"] = (ALLOCATIONS["scorer"], *scorer)
    coloured = {name: (ALLOCATIONS.get(name, MUTED), *line) for name, line in ways.items()}
    lines = (
        ("Characters read, by canvas", _shades(glyphs), 100.0),
        ("Exact match with all tokens, by canvas", _shades(full), 100.0),
        (f"Exact match on {main} px, by allocation", coloured, 100.0),
        ("Loss: answers by canvas, and the scorer", shown, None),
    )
    changes = stage_changes(curve)
    end = max(float(point["seconds"]) for point in curve)
    for axes, (title, drawn, whole) in zip(panes.flat, lines, strict=True):
        _pane(axes, title, drawn, whole, changes, end)
    figure.subplots_adjust(left=0.06, right=0.93, top=0.93, bottom=0.07, wspace=0.32, hspace=0.32)
    return figure


def _main_canvas(curve: Sequence[Mapping[str, float]]) -> str:
    """The canvas on which most ways to allocate were practised last."""
    names = [name for point in curve[len(curve) // 2 :] for name in point]
    sides = [match[1] for name in names if (match := re.fullmatch(r"right (\d+) \w+", name))]
    return max(sorted(set(sides), key=int), key=sides.count) if sides else "0"


def _shades(lines: Mapping[str, Line]) -> dict[str, tuple[str, np.ndarray, np.ndarray]]:
    step = (len(CANVASES) - 1) / max(len(lines) - 1, 1)
    return {name: (CANVASES[round(number * step)], *line) for number, (name, line) in enumerate(lines.items())}


def _pane(
    axes: Axes,
    title: str,
    lines: Mapping[str, tuple[str, np.ndarray, np.ndarray]],
    whole: float | None,
    changes: Sequence[float],
    end: float,
) -> None:
    """One pane; whole: the value of 1, where shares are drawn as percentages."""
    axes.set_facecolor(PAPER)
    axes.set_title(title, loc="left", fontsize=11, color=INK, fontweight="bold", pad=10)
    for second in changes:
        axes.axvline(second, color=MUTED, linewidth=0.8, linestyle=(0, (1, 3)))
    ends = []
    for name, (colour, x, y) in lines.items():
        values = y * (whole or 1.0)
        axes.plot(x, values, color=colour, linewidth=1.8, marker="o" if len(x) == 1 else None, markersize=3)
        ends.append((name, colour, float(values[-1])))
    axes.set_xlim(0, end)
    if whole:
        axes.set_ylim(0, whole * 1.02)
    else:
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(lambda value, _: f"{value:g}" if f"{value:.0e}"[0] in "25" else "")
    _name_lines(axes, ends)
    axes.set_xlabel("seconds of training", fontsize=9, color=MUTED)
    axes.set_ylabel("%" if whole else "nats", fontsize=9, color=MUTED, rotation=0, labelpad=10)
    axes.grid(axis="y", color=RULE, linewidth=0.8)
    axes.tick_params(colors=MUTED, labelsize=8, length=0, which="both")
    for side in ("top", "right", "left"):
        axes.spines[side].set_visible(False)
    axes.spines["bottom"].set_color(MUTED)


def _name_lines(axes: Axes, ends: Sequence[tuple[str, str, float]], apart: float = 0.062) -> None:
    """Names at the lines' ends, pushed apart where they would cover each other. Heights are shares of the pane."""
    to_pane = axes.transLimits
    if axes.get_yscale() == "log":
        low, high = np.log10(axes.get_ylim())
        heights = [(np.log10(value) - low) / (high - low) for *_, value in ends]
    else:
        heights = [to_pane.transform((0, value))[1] for *_, value in ends]
    order = np.argsort(heights)
    placed = np.clip(np.array(heights)[order], 0, 1)
    for _ in range(200):  # two that are too close each give way by half; the stack settles around where it was
        missing = np.clip(apart - np.diff(placed), 0, None) / 2
        placed[:-1] -= missing
        placed[1:] += missing
    for height, index in zip(placed, order, strict=True):
        name, colour, _ = ends[index]
        label = f"{name} px" if name.isdecimal() else name
        axes.text(
            1.015, height, label, transform=axes.transAxes, fontsize=8.5, color=colour, va="center", clip_on=False
        )


# ----------------------------------------------------------------------------------------------------------------------
# Where a training's curve goes while it runs: the terminal, and TensorBoard or Weights & Biases where asked.

Point = JsonObject


class Writer(Protocol):
    def add(self, point: Point, progress: float) -> None:
        """A point of the curve, `step` and `seconds` among its values; progress: share of the training that is over."""

    def close(self) -> None: ...


class Lines:
    """One line of JSON for every point, for logs and pipes."""

    def __init__(self, title: str = "") -> None:
        self.head = {"phase": title} if title else {}

    def add(self, point: Point, progress: float) -> None:
        print(json.dumps({**self.head, **point}), flush=True)

    def close(self) -> None:
        pass


class Bar:
    """A progress bar with the latest numbers under it."""

    def __init__(self, title: str = "") -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
        self.progress = Progress(*columns, TimeElapsedColumn(), TextColumn("{task.fields[latest]}"))
        self.task = self.progress.add_task(title or "training", total=1.0, latest="")
        self.progress.start()

    def add(self, point: Point, progress: float) -> None:
        numbers = [f"{name} {value:.4g}" for name, value in point.items() if isinstance(value, float)]
        self.progress.update(self.task, completed=progress, latest="  ".join([f"step {point['step']}", *numbers[1:5]]))

    def close(self) -> None:
        self.progress.stop()


class TensorBoard:
    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError as error:
            raise InputError("--log tensorboard needs it: pip install tensorboard") from error
        self.writer = SummaryWriter(str(folder / "tensorboard"))

    def add(self, point: Point, progress: float) -> None:
        for name, value in numbers_of(point).items():
            self.writer.add_scalar(name, value, point["step"])

    def close(self) -> None:
        self.writer.close()


class WeightsAndBiases:
    def __init__(self, folder: Path, title: str, options: Mapping[str, object]) -> None:
        try:
            wandb = import_module("wandb")
        except ImportError as error:
            raise InputError("--log wandb needs it: pip install wandb") from error
        folder.mkdir(parents=True, exist_ok=True)
        # A run that goes on keeps its page: the folder is its name.
        self.run = wandb.init(
            project="arr-coc",
            name=title or folder.name,
            id=folder.name,
            resume="allow",
            dir=str(folder),
            config=options,
        )

    def add(self, point: Point, progress: float) -> None:
        self.run.log(numbers_of(point), step=int(point["step"]))

    def close(self) -> None:
        self.run.finish()


def numbers_of(point: Point) -> dict[str, float]:
    """What can be drawn of a point."""
    return {
        name: float(value)
        for name, value in point.items()
        if name != "step" and isinstance(value, int | float) and not isinstance(value, bool)
    }


def writers_of(
    names: Sequence[str], folder: Path, title: str, options: Mapping[str, object], aloud: bool = True
) -> list[Writer]:
    """The terminal's writer first, then those that were asked for."""
    writers: list[Writer] = []
    if aloud:
        writers.append(Bar(title) if has_terminal() else Lines(title))
    if "tensorboard" in names:
        writers.append(TensorBoard(folder))
    if "wandb" in names:
        writers.append(WeightsAndBiases(folder, title, options))
    return writers


def has_terminal() -> bool:
    """Whether somebody looks on, and rich is there to show it."""
    return sys.stdout.isatty() and find_spec("rich") is not None
