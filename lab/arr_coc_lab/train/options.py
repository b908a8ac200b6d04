"""What every training is asked, beside its own options; the mechanism is `arr_coc_lab.options`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from ..options import option as option
from ..options import parse as parse
from ..options import plain as plain


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """What every training is asked. total: of the whole training, over which the learning rate falls; a run that is
    stopped and begun again goes on until `total` or `steps`, whichever is given."""

    seconds: float = option(480.0, "how long this run may train")
    total: float = option(0.0, "seconds of the whole training, all runs together; 0: those of this run")
    steps: int = option(0, "end after so many steps, all runs together, and be exactly repeatable; 0: by the time")
    seed: int = option(0, "of every random choice")
    device: str = option("", "cpu, cuda, cuda:1; empty: a GPU where there is one")
    folder: Path = option(Path("runs/train"), "where the checkpoint and the curve are kept")
    out: Path | None = option(None, "where what was trained is written [$OUT, else export in the folder]")
    checkpoint_every: float = option(120.0, "seconds between checkpoints; 0: after every step")
    judge_every: float = option(60.0, "seconds between judgements on pictures set aside, where there are any")
    say_every: float = option(10.0, "seconds between points of the curve; with --steps every step is one")
    log: tuple[str, ...] = option(
        (), "also write the curve to tensorboard, wandb or both", choices=("tensorboard", "wandb")
    )

    @property
    def whole(self) -> float:
        """Seconds of the whole training."""
        return self.total or self.seconds

    @property
    def target(self) -> Path:
        """Where the export goes."""
        return self.out or Path(os.environ.get("OUT") or self.folder / "export")
