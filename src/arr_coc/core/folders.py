"""Where the package's own files lie: its weights and its example pictures."""

from __future__ import annotations

import os
import re
from pathlib import Path

from .errors import InputError

PACKAGE = Path(__file__).parents[1]
EXAMPLES = PACKAGE / "examples"
WEIGHTS = PACKAGE / "weights"
# The parts of the source material that looking takes: learned mips, tensions by the words of a question.
CLASSIC_WEIGHTS = WEIGHTS / "classic"
# The two parts that come with the library: what answers, and what says where to look.
MINI, SCORER = "mini", "scorer"
# Where what was measured of other models is kept.
HOME = "ARR_COC_HOME"


def part_folder(part: str, weights: Path | None = None) -> Path:
    """The folder of `mini` or `scorer` under `weights` (those of the package by default)."""
    folder = (weights or WEIGHTS) / part
    if not os.path.isfile(folder / "config.json"):
        where = f"in {weights}" if weights else "with this installation"
        raise InputError(f"no {part} {where}: {folder} holds no config.json; install arr-coc again, or train it")
    return folder


def measured_path(name: str, kind: str) -> Path:
    """Where what was measured of a model lies that is known by this name, "glance" or "grip": in its own folder, or
    else in the user's."""
    if name == MINI:
        return WEIGHTS / MINI / f"{kind}.json"
    if name and os.path.isdir(name):
        return Path(name) / f"{kind}.json"
    home = os.environ.get(HOME) or Path.home() / ".arr-coc"
    return Path(home) / kind / (re.sub(r"[^\w.-]+", "--", name) + ".json")
