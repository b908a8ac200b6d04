"""Where a training's curve goes while it runs: the terminal, and TensorBoard or Weights & Biases where asked."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ...errors import InputError

Point = Mapping[str, Any]


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
    def __init__(self, folder: Path, title: str, options: Mapping[str, Any]) -> None:
        try:
            wandb: Any = import_module("wandb")
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
    names: Sequence[str], folder: Path, title: str, options: Mapping[str, Any], aloud: bool = True
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
