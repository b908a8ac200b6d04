"""`python -m arr_coc_lab.bench.peers`: the comparison without typer or rich. `arr-coc bench peers` is the same."""

from __future__ import annotations

from ...train.run import door
from ..run import program

if __name__ == "__main__":
    door(program("peers"))
