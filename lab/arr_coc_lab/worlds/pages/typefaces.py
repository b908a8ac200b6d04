"""Typefaces by manner, those for training and those kept aside (`data/typefaces.toml`)."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

from arr_coc.knowing.language.tables import read_table

DATA = Path(__file__).with_name("data")

_TABLE = read_table(DATA / "typefaces.toml")
TRAIN: dict[str, list[str]] = _TABLE["train"]
HELD: dict[str, list[str]] = _TABLE["held"]
PACKAGES = " ".join(_TABLE["packages"])


def typefaces(split: str, manner: str) -> list[str]:
    """Families of one manner (sans, serif, mono, hand, display) for "train" or "val"; the two share none."""
    return (TRAIN if split == "train" else HELD)[manner]


@cache
def missing() -> tuple[str, ...]:
    """Typefaces of both lists that fontconfig does not know here."""
    try:
        listed = subprocess.run(["fc-list", ":", "family"], capture_output=True, text=True, check=True).stdout
    except (OSError, subprocess.CalledProcessError):
        listed = ""
    known = {name.strip().replace("\\-", "-") for line in listed.splitlines() for name in line.split(",")}
    wanted = [name for split in ("train", "val") for manner in TRAIN for name in typefaces(split, manner)]
    return tuple(name for name in wanted if name not in known)
