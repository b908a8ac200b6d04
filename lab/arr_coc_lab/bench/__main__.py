"""`python -m arr_coc_lab.bench NAME …`: every benchmark without typer and rich."""

from __future__ import annotations

import sys

from arr_coc.core.errors import InputError

from ..train.run import door
from .run import program
from .suite import suites


def main() -> None:
    names = [one.name for one in suites()]
    if len(sys.argv) < 2 or sys.argv[1] not in names:
        raise InputError(f"name a benchmark: {', '.join(names)}")
    program(sys.argv[1])(sys.argv[2:])


if __name__ == "__main__":
    door(main)
