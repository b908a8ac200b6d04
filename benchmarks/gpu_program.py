"""The options that all parts of `gpu_tables` share."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

import torch


class GpuProgram(argparse.ArgumentParser):
    """A command line with --tiny, --seconds and --out. seconds: that a whole run takes where nobody says otherwise."""

    def __init__(self, description: str | None, seconds: float) -> None:
        super().__init__(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
        self.add_argument("--tiny", action="store_true", help="small shapes on the CPU: does it run?")
        self.add_argument("--seconds", type=float, default=seconds, help="of the run; what does not fit is left out")
        self.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", ".")))

    def read(self, arguments: Sequence[str] | None) -> tuple[argparse.Namespace, torch.device]:
        """The options, and where to run: the CPU for --tiny, else a GPU, which must be there."""
        options = self.parse_args(arguments)
        if not options.tiny and not torch.cuda.is_available():
            self.error("no CUDA device here; --tiny runs on the CPU")
        return options, torch.device("cpu" if options.tiny else "cuda")
